#include "cli/run/output/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxPending = size_t{1} << 20;
constexpr size_t kWriteSize = size_t{1} << 18;
// What poll calls writable takes this much without blocking.
constexpr size_t kCarefulSize = 4096;

bool Writable(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  return poll(&ready, 1, 0) == 1;
}

}  // namespace

Sink::Sink(int fd, EventLoop* loop) : fd_(fd), loop_(loop) {
  struct stat kind{};
  if (fstat(fd, &kind) != 0 || S_ISREG(kind.st_mode)) return;
  own_.reset(open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                  O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  careful_ = !own_.valid();
  if (own_.valid()) fd_ = own_.get();
}

void Sink::Write(std::string_view bytes) {
  if (broken_) return;
  bytes_ += bytes;
  Drain();
}

void Sink::Drain() {
  size_t done = 0;
  size_t limit = careful_ ? kCarefulSize : kWriteSize;
  while (done < bytes_.size() && (!careful_ || Writable(fd_))) {
    ssize_t n = write(fd_, bytes_.data() + done, std::min(bytes_.size() - done, limit));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      broken_ = errno == EPIPE;
      if (!broken_ && !losing_) problem_ = std::strerror(errno);
      losing_ = true;
      done = bytes_.size();
      break;
    }
    losing_ = false;
    done += static_cast<size_t>(n);
  }
  bytes_.erase(0, done);
  if (bytes_.empty() == !watching_) return;
  watching_ = !bytes_.empty();
  if (!watching_) return loop_->Unwatch(fd_);
  watching_ = loop_->Watch(fd_, EPOLLOUT, [this](uint32_t) { Drain(); }).ok();
}

Screen::Screen(EventLoop* loop, bool live, bool color)
    : live_(live),
      color_(color),
      ranks_on_screen_(live && isatty(STDOUT_FILENO) == 1),
      out_(STDOUT_FILENO, loop),
      err_(STDERR_FILENO, loop) {}

void Screen::RankText(std::string_view lines) {
  if (ranks_on_screen_) {
    above_ += lines;
  } else {
    out_.Write(lines);
    const std::string problem = out_.TakeProblem();
    if (!problem.empty()) Event("output of ranks is left out: standard output: " + problem);
  }
}

void Screen::Event(const std::string& text) {
  const std::string line = core::OneLine(text);
  if (listener_) listener_(line);
  if (live_ && color_) {
    above_ += "\x1b[36m" + line + "\x1b[0m\n";
  } else {
    above_ += "lockstep: " + line + "\n";
  }
  if (!live_) Flush();
}

void Screen::SetTable(std::vector<std::string> lines) {
  if (!live_ || lines == table_) return;
  table_ = std::move(lines);
  table_changed_ = true;
}

void Screen::Flush() {
  if (above_.empty() && !table_changed_) return;
  std::string text;
  if (drawn_ > 0) text += "\x1b[" + std::to_string(drawn_) + "F\x1b[J";
  text += above_;
  // The last line of raw output may have no end.
  if (!above_.empty() && above_.back() != '\n') text += '\n';
  for (const std::string& line : table_) text += line + "\n";
  drawn_ = table_.size();
  above_.clear();
  table_changed_ = false;
  err_.Write(text);
}

bool Screen::congested() const {
  return out_.pending() > kMaxPending || err_.pending() > kMaxPending;
}

TerminalSize Screen::Size() {
  winsize size{};
  TerminalSize result;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    result.columns = size.ws_col;
    result.lines = size.ws_row;
  }
  return result;
}

}  // namespace lockstep::cli
