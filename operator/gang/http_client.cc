#include "operator/gang/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text/endpoint.h"
#include "core/gang/status_api.h"

namespace lockstep::gang {

void HttpClient::Ask(const std::string& address, std::string request, Time deadline,
                     OnAnswer on_answer) {
  if (busy() || address != address_) Drop();
  address_ = address;
  request_ = std::move(request);
  deadline_ = deadline;
  on_answer_ = std::move(on_answer);
  reused_ = fd_.valid();
  Begin();
}

void HttpClient::Drop() {
  loop_->CancelTimer(std::exchange(timer_, 0));
  on_answer_ = nullptr;
  Close();
}

void HttpClient::Close() {
  if (fd_.valid()) loop_->Unwatch(fd_.get());
  fd_.reset();
  session_.reset();
  tls_.reset();
  ended_ = false;
  received_.clear();
}

void HttpClient::Finish(Result<HttpAnswer> answer) {
  loop_->CancelTimer(std::exchange(timer_, 0));
  if (answer.ok() && fd_.valid()) {
    loop_->Unwatch(fd_.get());
  } else {
    Close();
  }
  std::exchange(on_answer_, nullptr)(std::move(answer));  // may have destroyed this
}

void HttpClient::Begin() {
  sent_ = false;
  Status status;
  if (!fd_.valid()) status = Connect();
  if (status.ok()) {
    status = loop_->Watch(fd_.get(), EPOLLIN | EPOLLOUT, [this](uint32_t) { OnReady(); });
  }
  loop_->CancelTimer(timer_);
  if (!status.ok()) {
    timer_ = loop_->StartTimer(BootTime(), [this, error = status.error()] { Finish(error); });
    return;
  }
  timer_ =
      loop_->StartTimer(std::min(deadline_, BootTime() + kReachPatience), [this] { OnTimer(); });
}

void HttpClient::OnTimer() {
  Finish(Error::Timeout(address_ +
                        (sent_ ? " did not answer in time" : " could not be reached in time")));
}

void HttpClient::OnReady() {
  std::optional<HttpAnswer> answer;
  Status status = Step(&answer);
  if (!status.ok() && reused_) {
    // The other side may close an idle connection at any time: once more on a new one.
    reused_ = false;
    Close();
    return Begin();
  }
  if (!status.ok()) return Finish(status.error());
  if (answer) return Finish(std::move(*answer));
  loop_->Modify(fd_.get(), session_->output().empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

Status HttpClient::Connect() {
  Result<Endpoint> endpoint = ParseEndpoint(address_);
  if (!endpoint.ok()) return endpoint.error();
  fd_.reset(socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_.valid()) return ErrnoError("socket", errno);
  int yes = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (connect(fd_.get(), endpoint->get(), endpoint->size) != 0 && errno != EINPROGRESS) {
    int error = errno;
    Close();
    return Error::Unavailable("cannot reach " + address_ + ": " + std::strerror(error));
  }
  return {};
}

// TLS starts after the TCP connection, so an absent machine costs no handshake.
Status HttpClient::FinishConnecting() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    return Error::Unavailable("cannot reach " + address_ + ": " + std::strerror(error));
  }
  Result<TlsPskContext> tls = TlsPskContext::Client(key_, identity_);
  if (!tls.ok()) return tls.error();
  tls_ = std::move(*tls);
  Result<TlsSession> session = tls_->NewSession();
  if (!session.ok()) return session.error();
  session_ = std::move(*session);
  return {};
}

Status HttpClient::SendSome() {
  while (!session_->output().empty()) {
    std::string_view output = session_->output();
    ssize_t n = send(fd_.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0) {
      return Error::Unavailable("cannot reach " + address_ + ": " + std::strerror(errno));
    }
    session_->ConsumeOutput(static_cast<size_t>(n));
  }
  return {};
}

Status HttpClient::ReceiveSome() {
  std::array<char, 16384> block;
  while (received_.size() <= core::kMaxStatusBody + kMaxAnswerHead) {
    ssize_t n = recv(fd_.get(), block.data(), block.size(), 0);
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0) {
      return Error::Unavailable("lost " + address_ + ": " + std::strerror(errno));
    }
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
  if (!session_) {
    if (Status status = FinishConnecting(); !status.ok()) return status;
  }
  if (Status status = ReceiveSome(); !status.ok()) return status;
  if (session_->established() && !sent_) {
    if (Status status = session_->Send(request_); !status.ok()) return status;
    sent_ = true;
    loop_->CancelTimer(timer_);
    timer_ = loop_->StartTimer(deadline_, [this] { OnTimer(); });
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
  if (!keep_alive || ended_) Close();
  return {};
}

}  // namespace lockstep::gang
