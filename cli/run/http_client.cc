#include "cli/run/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>

#include "core/gang/bodies.h"
#include "core/job/names.h"

namespace lockstep::cli {
namespace {

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <typename T>
bool ParseNumber(std::string_view text, T* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, size_t* used,
                                                  bool* keep_alive) {
  size_t head_end = bytes.substr(0, kMaxAnswerHead).find("\r\n\r\n");
  if (head_end == std::string_view::npos) {
    if (bytes.size() > kMaxAnswerHead) return Error::TooLarge("the answer's head is over 8 KiB");
    return std::optional<HttpAnswer>();
  }
  std::string_view head = bytes.substr(0, head_end);
  size_t line_end = std::min(head.find("\r\n"), head.size());
  std::string_view line = head.substr(0, line_end);
  HttpAnswer answer;
  if (!line.starts_with("HTTP/1.1 ") || line.size() < 12 ||
      !ParseNumber(line.substr(9, 3), &answer.status)) {
    return Error::Invalid("the answer is not HTTP/1.1");
  }
  std::optional<size_t> length;
  *keep_alive = true;
  while (line_end < head.size()) {
    head.remove_prefix(line_end + 2);
    line_end = std::min(head.find("\r\n"), head.size());
    line = head.substr(0, line_end);
    size_t colon = line.find(':');
    if (colon == std::string_view::npos) return Error::Invalid("a header without a colon");
    std::string_view name = line.substr(0, colon);
    std::string_view value = Trim(line.substr(colon + 1));
    if (EqualsIgnoringCase(name, "content-length")) {
      size_t n = 0;
      if (length || !ParseNumber(value, &n)) return Error::Invalid("a bad Content-Length");
      length = n;
    } else if (EqualsIgnoringCase(name, "connection")) {
      *keep_alive = !EqualsIgnoringCase(value, "close");
    } else if (EqualsIgnoringCase(name, "transfer-encoding")) {
      return Error::Invalid("an answer without Content-Length");
    }
  }
  if (!length) return Error::Invalid("an answer without Content-Length");
  if (*length > core::kMaxStatusBody) return Error::TooLarge("an answer over 256 KiB");
  size_t body = head_end + 4;
  if (bytes.size() - body < *length) return std::optional<HttpAnswer>();
  answer.body = bytes.substr(body, *length);
  *used = body + *length;
  return std::optional<HttpAnswer>(std::move(answer));
}

std::string GetStatusRequest(uint64_t after, Duration timeout) {
  return "GET /status?after=" + std::to_string(after) +
         "&timeout=" + std::to_string(timeout / seconds(1)) + " HTTP/1.1\r\nHost: lockstep\r\n\r\n";
}

std::string PutGangRequest(std::string_view body) {
  return "PUT /gang HTTP/1.1\r\nHost: lockstep\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

void HttpClient::Begin(const std::string& address, std::string request, Time deadline) {
  if (busy_ || address != address_) Drop();
  address_ = address;
  request_ = std::move(request);
  deadline_ = deadline;
  busy_ = true;
  sent_ = false;
  reused_ = fd_.valid();
}

void HttpClient::Drop() {
  busy_ = false;
  sent_ = false;
  ended_ = false;
  session_.reset();
  fd_.reset();
  received_.clear();
}

uint32_t HttpClient::events() {
  bool writing = session_ && !session_->output().empty();
  return writing ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

Status HttpClient::Connect() {
  Result<TlsSession> session = context_->NewSession();
  if (!session.ok()) return session.error();
  session_ = std::move(*session);
  fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_.valid()) return ErrnoError("socket", errno);
  int yes = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(core::kGangPort);
  inet_pton(AF_INET, address_.c_str(), &name.sin_addr);
  if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 &&
      errno != EINPROGRESS) {
    return ErrnoError("cannot reach " + address_, errno);
  }
  return {};
}

Status HttpClient::SendSome() {
  while (!session_->output().empty()) {
    std::string_view output = session_->output();
    ssize_t n = send(fd_.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return {};
    if (n < 0) return ErrnoError("cannot reach " + address_, errno);
    session_->ConsumeOutput(static_cast<size_t>(n));
  }
  return {};
}

Status HttpClient::ReceiveSome() {
  std::array<char, 16384> block;
  while (received_.size() <= core::kMaxStatusBody + kMaxAnswerHead) {
    ssize_t n = recv(fd_.get(), block.data(), block.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) return {};
    if (n < 0) return ErrnoError("cannot reach " + address_, errno);
    if (n == 0) {
      ended_ = true;
      return {};
    }
    Status status =
        session_->Receive(std::string_view(block.data(), static_cast<size_t>(n)), &received_);
    if (!status.ok()) return status;
  }
  return {};
}

Status HttpClient::Step(std::optional<HttpAnswer>* answer) {
  if (!fd_.valid()) {
    if (Status status = Connect(); !status.ok()) return status;
  }
  if (Status status = ReceiveSome(); !status.ok()) return status;
  if (session_->established() && !sent_) {
    if (Status status = session_->Send(request_); !status.ok()) return status;
    sent_ = true;
  }
  if (Status status = SendSome(); !status.ok()) return status;
  size_t used = 0;
  bool keep_alive = true;
  Result<std::optional<HttpAnswer>> parsed = ParseHttpAnswer(received_, &used, &keep_alive);
  if (!parsed.ok()) return parsed.error();
  if (!*parsed) {
    if (ended_) return Error::Unavailable(address_ + " closed the connection");
    return {};
  }
  *answer = std::move(**parsed);
  received_.erase(0, used);
  busy_ = false;
  if (!keep_alive || ended_) Drop();
  return {};
}

std::optional<Result<HttpAnswer>> HttpClient::Advance(Time now) {
  if (!busy_) return std::nullopt;
  if (now >= deadline_) {
    Drop();
    return Result<HttpAnswer>(Error::Timeout(address_ + " did not answer in time"));
  }
  std::optional<HttpAnswer> answer;
  Status status = Step(&answer);
  if (!status.ok() && reused_) {
    // The other side may close an idle connection at any time: once more on a new one.
    std::string request = std::move(request_);
    Drop();
    Begin(address_, std::move(request), deadline_);
    status = Step(&answer);
  }
  if (!status.ok()) {
    Drop();
    return Result<HttpAnswer>(status.error());
  }
  if (answer) return Result<HttpAnswer>(std::move(*answer));
  return std::nullopt;
}

}  // namespace lockstep::cli
