#include "base/http/http_answer.h"

#include <algorithm>

#include "base/text/ascii.h"

namespace lockstep {

Result<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, size_t most_body,
                                                  size_t* used, bool* keep_alive) {
  size_t head_end = bytes.substr(0, kMaxAnswerHead).find("\r\n\r\n");
  if (head_end == std::string_view::npos) {
    if (bytes.size() > kMaxAnswerHead) return Error::TooLarge("the answer's head is over 8 KiB");
    return std::optional<HttpAnswer>();
  }
  std::string_view head = bytes.substr(0, head_end);
  size_t line_end = std::min(head.find("\r\n"), head.size());
  std::string_view line = head.substr(0, line_end);
  HttpAnswer answer;
  const bool is_http = line.starts_with("HTTP/1.1 ") && line.size() >= 12;
  const auto status = is_http ? ParseNumber<int>(line.substr(9, 3)) : std::nullopt;
  if (!status) return Error::Invalid("the answer is not HTTP/1.1");
  answer.status = *status;
  std::optional<size_t> length;
  *keep_alive = true;
  while (line_end < head.size()) {
    head.remove_prefix(line_end + 2);
    line_end = std::min(head.find("\r\n"), head.size());
    line = head.substr(0, line_end);
    size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Error::Invalid("a header without a colon");
    const std::string name = ToLower(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1), " \t");
    if (name == "content-length") {
      const bool again = length.has_value();
      length = ParseNumber<size_t>(value);
      if (again || !length) return Error::Invalid("a bad Content-Length");
    } else if (name == "connection") {
      *keep_alive = ToLower(value) != "close";
    } else if (name == "transfer-encoding") {
      return Error::Invalid("an answer without Content-Length");
    }
  }
  if (!length) return Error::Invalid("an answer without Content-Length");
  if (*length > most_body) {
    return Error::TooLarge("an answer over " + std::to_string(most_body >> 20) + " MiB");
  }
  size_t body = head_end + 4;
  if (bytes.size() - body < *length) return std::optional<HttpAnswer>();
  answer.body = bytes.substr(body, *length);
  *used = body + *length;
  return std::optional<HttpAnswer>(std::move(answer));
}

}  // namespace lockstep
