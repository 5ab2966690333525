#include "base/net/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kReadSize = 32 * 1024;
// Plaintext encrypted at a time: what stands twice in memory while a peer reads slowly.
constexpr size_t kEncryptSize = 64 * 1024;

}  // namespace

std::unique_ptr<Connection> Connection::Accept(EventLoop* loop, UniqueFd fd) {
  return std::unique_ptr<Connection>(new Connection(loop, std::move(fd), nullptr, nullptr, false));
}

std::unique_ptr<Connection> Connection::AcceptTls(EventLoop* loop, UniqueFd fd,
                                                  const TlsPskContext* tls, Semaphore* handshakes) {
  return std::unique_ptr<Connection>(new Connection(loop, std::move(fd), tls, handshakes, false));
}

std::unique_ptr<Connection> Connection::ConnectTls(EventLoop* loop, UniqueFd fd,
                                                   const TlsPskContext* tls) {
  return std::unique_ptr<Connection>(new Connection(loop, std::move(fd), tls, nullptr, true));
}

Connection::Connection(EventLoop* loop, UniqueFd fd, const TlsPskContext* tls,
                       Semaphore* handshakes, bool is_client)
    : loop_(loop),
      fd_(std::move(fd)),
      tls_(tls),
      handshakes_(handshakes),
      is_client_(is_client),
      handlers_(std::make_shared<Handlers>()) {
  SetTcpOptions(fd_.get());
}

Connection::~Connection() {
  ClearDeadline();
  if (handshakes_ != nullptr) handshakes_->Leave(this);
  if (fd_.valid()) loop_->Unwatch(fd_.get());
}

void Connection::Start(Handlers handlers) {
  SetHandlers(std::move(handlers));
  state_ = is_client_ ? State::kConnecting : State::kHandshaking;
  const Status watched =
      loop_->Watch(fd_.get(), is_client_ ? uint32_t{EPOLLOUT} : uint32_t{EPOLLIN},
                   [this](uint32_t events) { OnEvents(events); });
  if (!watched.ok()) return Abort(watched.error().message);
  if (tls_ != nullptr || is_client_) return;
  // In clear there is nothing to prove; told at the round's end, as every other event.
  state_ = State::kOpen;
  loop_->Post(lifetime_.Guard([this] {
    if (state_ != State::kOpen) return;
    const std::shared_ptr<Handlers> to = handlers_;
    if (to->on_open) to->on_open();
  }));
}

void Connection::SetHandlers(Handlers handlers) {
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
}

void Connection::SetDeadline(Time when, std::string reason) {
  ClearDeadline();
  deadline_ = loop_->StartTimer(when, [this, reason = std::move(reason)] {
    deadline_ = 0;
    Fail(reason);
  });
}

void Connection::ClearDeadline() { loop_->CancelTimer(std::exchange(deadline_, 0)); }

size_t Connection::queued() const { return queue_.size() - queue_sent_; }

void Connection::Write(std::string_view bytes) {
  if (state_ >= State::kClosing) return;
  if (queued() + bytes.size() > kMaxQueued) {
    return Abort("the peer does not read: " + std::to_string(queued()) + " bytes wait for it");
  }
  queue_.append(bytes);
  ScheduleFlush();
}

void Connection::Close(std::string reason) {
  if (state_ >= State::kClosing) return;
  if (state_ != State::kOpen) return Abort(std::move(reason));
  state_ = State::kClosing;
  says_goodbye_ = true;
  close_reason_ = reason;
  SetDeadline(BootTime() + kLinger, std::move(reason));
  ScheduleFlush();
}

void Connection::Abort(std::string reason) {
  if (state_ == State::kClosed) return;
  if (state_ < State::kClosing) state_ = State::kClosing;
  loop_->Post(lifetime_.Guard([this, why = std::move(reason)] { Fail(why); }));
}

// A copy: what is passed may be close_reason_, which goes with this object in the callback.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void Connection::Fail(std::string reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  ClearDeadline();
  if (handshakes_ != nullptr) handshakes_->Leave(this);
  loop_->Unwatch(fd_.get());
  fd_.reset();
  session_.reset();
  held_.reset();
  const std::shared_ptr<Handlers> to = handlers_;
  if (to->on_close) to->on_close(reason);
}

void Connection::OnEvents(uint32_t events) {
  if (state_ == State::kConnecting) return OnConnected();
  if ((events & EPOLLOUT) != 0) {
    const Lifetime::Watch self = lifetime_.watch();
    blocked_ = false;
    Flush();
    if (self.gone() || state_ == State::kClosed) return;
  }
  if (waits_for_permit_ && (events & (EPOLLHUP | EPOLLERR)) != 0) {
    return Fail("closed by the peer before the handshake");
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) OnReadable();
}

void Connection::OnConnected() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Fail(std::string("connect: ") + std::strerror(error));
  Result<TlsSession> session = tls_->NewSession();
  if (!session.ok()) return Fail(session.error().message);
  session_ = std::move(*session);
  state_ = State::kHandshaking;
  Flush();
}

void Connection::OnReadable() {
  std::array<char, kReadSize> buffer;
  const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    return Fail(std::string("receive: ") + std::strerror(errno));
  }
  if (got == 0) {
    return Fail(state_ == State::kLingering ? close_reason_ : std::string("closed by the peer"));
  }
  TakeBytes({buffer.data(), static_cast<size_t>(got)});
}

bool Connection::TakeBytes(std::string_view bytes) {
  if (state_ == State::kLingering) return true;
  if (tls_ == nullptr) return Deliver(bytes);
  return session_ ? Decrypt(bytes) : TakeClientHello(bytes);
}

bool Connection::TakeClientHello(std::string_view bytes) {
  client_hello_.append(bytes);
  switch (CheckClientHello(client_hello_)) {
    case ClientHelloCheck::kNeedMore:
      return true;
    case ClientHelloCheck::kNotTls:
      Fail("not TLS");
      return false;
    case ClientHelloCheck::kTooLarge:
      Fail("a ClientHello of more than 4 KiB");
      return false;
    case ClientHelloCheck::kComplete:
      break;
  }
  if (handshakes_ != nullptr && !handshakes_->Enter(this)) {
    waits_for_permit_ = true;
    UpdateEvents();
    return true;
  }
  const Lifetime::Watch self = lifetime_.watch();
  OnAdmitted();
  return !self.gone() && state_ != State::kClosed;
}

void Connection::OnAdmitted() {
  if (state_ != State::kHandshaking) return;
  waits_for_permit_ = false;
  UpdateEvents();
  if (tls_->HasAnswered(client_hello_)) {
    return Fail("a ClientHello that was answered before: it may have been captured and sent again");
  }
  Result<TlsSession> session = tls_->NewSession();
  if (!session.ok()) return Fail(session.error().message);
  session_ = std::move(*session);
  const std::string hello = std::exchange(client_hello_, {});
  Decrypt(hello);
}

bool Connection::Decrypt(std::string_view bytes) {
  const Lifetime::Watch self = lifetime_.watch();
  std::string plain;
  const Status received = session_->Receive(bytes, &plain);
  if (!received.ok()) {
    // The alert, if the socket takes it, so that the peer learns why.
    const std::string_view alert = session_->output();
    send(fd_.get(), alert.data(), alert.size(), MSG_NOSIGNAL);
    Fail(received.error().message);
    return false;
  }
  if (state_ == State::kHandshaking) {
    if (session_->established()) BecomeOpen();
    if (self.gone() || state_ == State::kClosed) return false;
    Flush();
    if (self.gone() || state_ == State::kClosed) return false;
  }
  if (!plain.empty() && !Deliver(plain)) return false;
  if (session_->peer_closed()) {
    Fail(state_ >= State::kClosing ? close_reason_ : std::string("closed by the peer"));
    return false;
  }
  return true;
}

bool Connection::Deliver(std::string_view plain) {
  if (state_ != State::kOpen) return true;
  const Lifetime::Watch self = lifetime_.watch();
  const std::shared_ptr<Handlers> to = handlers_;
  if (to->on_data) to->on_data(plain);
  return !self.gone() && state_ != State::kClosed;
}

void Connection::BecomeOpen() {
  state_ = State::kOpen;
  // The semaphore belongs to the listener, which this connection may outlive from here on.
  if (handshakes_ != nullptr) std::exchange(handshakes_, nullptr)->Leave(this);
  const std::shared_ptr<Handlers> to = handlers_;
  if (to->on_open) to->on_open();
}

void Connection::ScheduleFlush() {
  if (std::exchange(flush_scheduled_, true)) return;
  loop_->Post(lifetime_.Guard([this] {
    flush_scheduled_ = false;
    Flush();
  }));
}

void Connection::Flush() {
  if (state_ <= State::kConnecting || state_ >= State::kLingering || blocked_) return;
  while (EncryptMore()) {
    const std::string_view unsent = Unsent();
    const ssize_t sent = send(fd_.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      blocked_ = true;
      break;
    }
    if (sent < 0) return Fail(std::string("send: ") + std::strerror(errno));
    ConsumeUnsent(static_cast<size_t>(sent));
  }
  if (!blocked_ && state_ == State::kClosing && says_goodbye_) return StartLinger();
  UpdateEvents();
}

// Whether there is something to put on the wire.
bool Connection::EncryptMore() {
  if (tls_ == nullptr) return queued() > 0;
  if (!session_) return false;
  if (!session_->output().empty()) return true;
  if (queued() == 0 || !session_->established()) return false;
  const size_t chunk = std::min(queued(), kEncryptSize);
  const Status sent = session_->Send(std::string_view(queue_).substr(queue_sent_, chunk));
  if (!sent.ok()) {
    Abort(sent.error().message);
    return false;
  }
  queue_sent_ += chunk;
  if (queue_sent_ == queue_.size()) {
    queue_.clear();
    queue_sent_ = 0;
    if (queue_.capacity() > kEncryptSize) queue_.shrink_to_fit();
  }
  return true;
}

std::string_view Connection::Unsent() {
  return session_ ? session_->output() : std::string_view(queue_).substr(queue_sent_);
}

void Connection::ConsumeUnsent(size_t bytes) {
  if (session_) return session_->ConsumeOutput(bytes);
  queue_sent_ += bytes;
  if (queue_sent_ < queue_.size()) return;
  queue_.clear();
  queue_sent_ = 0;
}

// Reads on until the peer is done: closing a socket with unread bytes would reset it, and take what
// was just sent with it.
void Connection::StartLinger() {
  if (session_) {
    session_->Close();
    const std::string_view goodbye = session_->output();
    send(fd_.get(), goodbye.data(), goodbye.size(), MSG_NOSIGNAL);
  }
  state_ = State::kLingering;
  shutdown(fd_.get(), SHUT_WR);
  UpdateEvents();
}

void Connection::UpdateEvents() {
  if (!fd_.valid()) return;
  const uint32_t in = waits_for_permit_ ? 0 : uint32_t{EPOLLIN};
  const uint32_t out = blocked_ ? uint32_t{EPOLLOUT} : 0;
  loop_->Modify(fd_.get(), in | out);
}

}  // namespace lockstep
