// Fd: owns one file descriptor.
#ifndef LOCKSTEP_CLI_RUN_FD_H_
#define LOCKSTEP_CLI_RUN_FD_H_

#include <unistd.h>

#include <utility>

namespace lockstep::cli {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_FD_H_
