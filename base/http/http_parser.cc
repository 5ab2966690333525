#include "base/http/http_parser.h"

#include <algorithm>
#include <charconv>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

constexpr size_t kMaxHeaders = 64;

const std::string* Find(const std::vector<std::pair<std::string, std::string>>& pairs,
                        std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool IsTokenChar(char c) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOther.find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

// Visible ASCII, space, tab and bytes above 127: no control character can be smuggled in.
bool IsFieldText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

}  // namespace

const std::string* HttpRequest::Query(std::string_view name) const { return Find(query, name); }
const std::string* HttpRequest::Header(std::string_view name) const { return Find(headers, name); }

HttpParser::State HttpParser::Fail(int status, std::string message) {
  error_status_ = status;
  error_ = std::move(message);
  buffer_.clear();
  return state_ = State::kError;
}

HttpParser::State HttpParser::Parse() {
  if (state_ != State::kNeedMore) return state_;
  if (!body_size_) {
    const size_t end = buffer_.find("\r\n\r\n");
    if (std::min(end, buffer_.size()) > kMaxHead) {
      return Fail(431, "the request's head has more than 64 KiB");
    }
    if (end == std::string::npos) {
      // Told at once, not when the head is whole: what is not HTTP may never end a line.
      if (!buffer_.empty() && !IsTokenChar(buffer_.front())) return Fail(400, "not HTTP");
      return state_;
    }
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    if (ParseHead(head) == State::kError) return state_;
  }
  if (buffer_.size() < *body_size_) return state_;
  request_.body = buffer_.substr(0, *body_size_);
  buffer_.erase(0, *body_size_);
  return state_ = State::kRequest;
}

HttpRequest HttpParser::TakeRequest() {
  HttpRequest request = std::move(request_);
  request_ = {};
  body_size_.reset();
  state_ = State::kNeedMore;
  return request;
}

// Each line of `head` ends in CRLF.
HttpParser::State HttpParser::ParseHead(std::string_view head) {
  bool first = true;
  while (!head.empty()) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (!IsFieldText(line)) return Fail(400, "a control character in the request's head");
    if ((first ? ParseRequestLine(line) : ParseHeaderLine(line)) == State::kError) return state_;
    first = false;
  }
  return FinishHead();
}

HttpParser::State HttpParser::ParseRequestLine(std::string_view line) {
  const size_t method_end = line.find(' ');
  const size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || method_end == target_end) {
    return Fail(400, "the request line is not METHOD TARGET VERSION");
  }
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  if (!IsToken(method)) return Fail(400, "the method is not a word");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return Fail(505, "this server supports HTTP/1.1 and HTTP/1.0");
  }
  request_.method = method;
  request_.keep_alive = version == "HTTP/1.1";
  return ParseTarget(target);
}

HttpParser::State HttpParser::ParseTarget(std::string_view target) {
  if (target.empty() || target.front() != '/' || target.find(' ') != std::string_view::npos) {
    return Fail(400, "the target is not a path");
  }
  const size_t question = target.find('?');
  const std::optional<std::string> path = PercentDecode(target.substr(0, question));
  if (!path) return Fail(400, "a broken % escape in the path");
  request_.path = *path;
  if (question == std::string_view::npos) return state_;
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::optional<std::string> name = PercentDecode(pair.substr(0, equals));
    const std::optional<std::string> value =
        equals == std::string_view::npos ? "" : PercentDecode(pair.substr(equals + 1));
    if (!name || !value) return Fail(400, "a broken % escape in the query");
    request_.query.emplace_back(*name, *value);
  }
  return state_;
}

HttpParser::State HttpParser::ParseHeaderLine(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    return Fail(400, "a header line that is not NAME: VALUE");
  }
  if (request_.headers.size() >= kMaxHeaders) return Fail(431, "more than 64 headers");
  request_.headers.emplace_back(ToLower(line.substr(0, colon)),
                                Trim(line.substr(colon + 1), " \t"));
  return state_;
}

HttpParser::State HttpParser::FinishHead() {
  if (request_.Header("transfer-encoding") != nullptr) {
    return Fail(501, "send the body with Content-Length: transfer codings are not supported");
  }
  size_t size = 0;
  int lengths = 0;
  for (const auto& [name, value] : request_.headers) {
    if (name != "content-length") continue;
    const char* end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, size);
    if (parsed.ec == std::errc::result_out_of_range) size = max_body_ + 1;
    if (parsed.ec == std::errc::invalid_argument || parsed.ptr != end || ++lengths > 1) {
      return Fail(400, "Content-Length is not one number");
    }
  }
  if (size > max_body_) {
    return Fail(413, "the body has more than " + std::to_string(max_body_ >> 10) + " KiB");
  }
  if (const std::string* connection = request_.Header("connection")) {
    const std::string desired = ToLower(*connection);
    if (desired == "close") request_.keep_alive = false;
    if (desired == "keep-alive") request_.keep_alive = true;
  }
  body_size_ = size;
  return state_;
}

}  // namespace lockstep
