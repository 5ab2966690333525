#include "worker/trainer/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep::trainer {

namespace {

Error OpenError(const std::string& path, int code) {
  if (code == ENOENT || code == ENOTDIR) {
    return Error::NotFound(path + " is not there; check the name, and that its volume is mounted");
  }
  if (code == EACCES || code == EPERM) {
    return Error::Denied(path + " can't be read by user " + std::to_string(geteuid()) +
                         "; change its permissions or the user of the process");
  }
  return ErrnoError("opening " + path, code);
}

// What is neither a file nor leads to one.
Error KindError(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) {
    return Error::Invalid(path + " is a folder; name the files in it, such as " + path + "/*.txt");
  }
  return Error::Invalid(path + " is a pipe, a socket or a device; give a regular file");
}

}  // namespace

Result<InputFile> InputFile::Open(const std::string& path) {
  // Without O_NONBLOCK a pipe would wait for its writer here.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return OpenError(path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return ErrnoError("reading the size of " + path, errno);
  if (!S_ISREG(status.st_mode)) return KindError(path, status.st_mode);
  return InputFile(std::move(fd), path, static_cast<uint64_t>(status.st_size));
}

Status InputFile::ReadAt(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    ssize_t got = pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Error::Unavailable("reading " + path_ + " at byte " + std::to_string(offset) + ": " +
                                std::strerror(errno) + "; check its disk or file server");
    }
    if (got == 0) {
      return Error::Unavailable(path_ + " now ends at byte " + std::to_string(offset) + ", of " +
                                std::to_string(size_) +
                                " when it was opened; leave a job's files as they are, or start "
                                "it again on the new ones");
    }
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace lockstep::trainer
