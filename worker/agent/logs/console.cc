#include "worker/agent/logs/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

namespace lockstep::agent {
namespace {

constexpr size_t kStageSize = size_t{64} << 10;
// What a terminal that is ready for writing takes without waiting.
constexpr size_t kPolledSize = 512;
// Kept free in the queue for the line that says how much was dropped.
constexpr size_t kNoticeRoom = 256;

}  // namespace

Console::Console(EventLoop* loop, int fd, size_t capacity)
    : loop_(loop), fd_(fd), capacity_(capacity) {
  struct stat info{};
  if (fstat(fd, &info) != 0) {
    broken_ = true;
    return;
  }
  if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else if (S_ISFIFO(info.st_mode)) {
    std::array<int, 2> stage{};
    kind_ = Kind::kPolled;
    if (pipe2(stage.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
      stage_out_.reset(stage[0]);
      stage_in_.reset(stage[1]);
      kind_ = Kind::kPipe;
    }
  } else if (isatty(fd) == 1) {
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    reopened_.reset(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    kind_ = reopened_.valid() ? Kind::kReopened : Kind::kPolled;
    if (reopened_.valid()) fd_ = reopened_.get();
  }
}

Console::~Console() {
  if (waiting_) loop_->Unwatch(fd_);
}

void Console::Write(std::string_view line) {
  const size_t notice = unsaid_lines_ > 0 ? kNoticeRoom : 0;
  if (broken_ || pending() + line.size() + notice > capacity_) {
    ++dropped_lines_;
    dropped_bytes_ += line.size();
    ++unsaid_lines_;
    unsaid_bytes_ += line.size();
    return;
  }
  if (unsaid_lines_ > 0) {
    Append("lockstep: " + std::to_string(std::exchange(unsaid_lines_, 0)) + " lines (" +
           std::to_string(std::exchange(unsaid_bytes_, 0)) +
           " bytes) were dropped here, because the reader of this output stood still\n");
  }
  Append(line);
}

void Console::Append(std::string_view line) {
  queue_.append(line);
  if (waiting_ || std::exchange(flush_scheduled_, true)) return;
  loop_->Post(lifetime_.Guard([this] {
    flush_scheduled_ = false;
    Flush();
  }));
}

void Console::Flush() {
  while (pending() > 0 && !broken_) {
    const ssize_t written = WriteSome(std::string_view(queue_).substr(sent_));
    if (written == 0) return WaitForRoom();
    if (written < 0) return Break();
  }
  if (std::exchange(waiting_, false)) loop_->Unwatch(fd_);
}

ssize_t Console::WriteSome(std::string_view bytes) {
  ssize_t written = 0;
  switch (kind_) {
    case Kind::kPipe:
      return WriteThroughPipe(bytes);
    case Kind::kSocket:
      written = send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      break;
    case Kind::kPolled: {
      pollfd ready{fd_, POLLOUT, 0};
      if (poll(&ready, 1, 0) <= 0) return 0;
      written = write(fd_, bytes.data(), std::min(bytes.size(), kPolledSize));
      break;
    }
    case Kind::kReopened:
    case Kind::kDirect:
      written = write(fd_, bytes.data(), bytes.size());
      break;
  }
  if (written < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  sent_ += static_cast<size_t>(written);
  if (sent_ == queue_.size()) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > capacity_ / 2) {
    queue_.erase(0, std::exchange(sent_, 0));
  }
  return written;
}

ssize_t Console::WriteThroughPipe(std::string_view bytes) {
  if (staged_ == 0) {
    const ssize_t staged = write(stage_in_.get(), bytes.data(), std::min(bytes.size(), kStageSize));
    if (staged <= 0) return -1;
    staged_ = static_cast<size_t>(staged);
    sent_ += staged_;
    if (sent_ == queue_.size() || sent_ > capacity_ / 2) queue_.erase(0, std::exchange(sent_, 0));
  }
  const ssize_t moved =
      splice(stage_out_.get(), nullptr, fd_, nullptr, staged_, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
  if (moved < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  staged_ -= static_cast<size_t>(moved);
  return moved;
}

void Console::WaitForRoom() {
  if (waiting_) return;
  const Status watched = loop_->Watch(fd_, EPOLLOUT, [this](uint32_t) { Flush(); });
  waiting_ = watched.ok();
  if (!watched.ok()) Break();
}

// Nobody will ever read it again, or the disk is full.
void Console::Break() {
  if (std::exchange(waiting_, false)) loop_->Unwatch(fd_);
  const std::string_view lost = std::string_view(queue_).substr(sent_);
  dropped_lines_ += static_cast<uint64_t>(std::count(lost.begin(), lost.end(), '\n'));
  dropped_bytes_ += lost.size() + staged_;
  queue_.clear();
  sent_ = 0;
  staged_ = 0;
  broken_ = kind_ != Kind::kDirect;
}

}  // namespace lockstep::agent
