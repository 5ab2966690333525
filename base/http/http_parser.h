// HTTP/1.1 requests out of a stream of bytes, in bounded memory. Pure: bytes in, requests out.
//
//   HttpParser parser;
//   parser.Feed(bytes);
//   switch (parser.Parse()) {
//     case HttpParser::State::kRequest: Answer(parser.TakeRequest()); break;
//     case HttpParser::State::kError:   Refuse(parser.error_status(), parser.error()); break;
//     case HttpParser::State::kNeedMore: break;
//   }
//
// It takes the small, strict part of RFC 9112 that our callers use: CRLF line ends, origin-form
// targets ("/status?after=7"), bodies by Content-Length. Chunked bodies, folded lines, two
// Content-Lengths and anything else that two readers could read differently are refused.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_PARSER_H_
#define LOCKSTEP_BASE_HTTP_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

struct HttpRequest {
  std::string method;                                        // "GET"
  std::string path;                                          // "/status"
  std::vector<std::pair<std::string, std::string>> query;    // decoded, in order
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  bool keep_alive = true;

  // The first of that name; null when there is none.
  const std::string* Query(std::string_view name) const;
  const std::string* Header(std::string_view lower_case_name) const;
};

class HttpParser {
 public:
  enum class State : uint8_t { kNeedMore, kRequest, kError };

  static constexpr size_t kMaxHead = size_t{64} << 10;  // browsers send 9 KiB of cookies
  static constexpr size_t kMaxBody = size_t{64} << 10;  // where nothing else is said

  explicit HttpParser(size_t max_body = kMaxBody) : max_body_(max_body) {}

  // Bytes beyond one whole request stay for the next one.
  void Feed(std::string_view bytes) { buffer_.append(bytes); }
  State Parse();
  HttpRequest TakeRequest();

  int error_status() const { return error_status_; }  // 400, 405, 413, 431, 501, 505
  const std::string& error() const { return error_; }
  // Nothing of a further request has come yet.
  bool idle() const { return buffer_.empty() && !body_size_ && state_ == State::kNeedMore; }
  size_t buffered() const { return buffer_.size(); }

 private:
  State Fail(int status, std::string message);
  State ParseHead(std::string_view head);
  State ParseRequestLine(std::string_view line);
  State ParseHeaderLine(std::string_view line);
  State ParseTarget(std::string_view target);
  State FinishHead();

  size_t max_body_;
  std::string buffer_;
  HttpRequest request_;
  std::optional<size_t> body_size_;  // once the head is read
  State state_ = State::kNeedMore;
  int error_status_ = 0;
  std::string error_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_PARSER_H_
