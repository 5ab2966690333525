#include "worker/trainer/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace lockstep::trainer {

Result<InputFile> InputFile::Open(const std::string& path) {
  Result<UniqueFd> fd = OpenRegularFile(path);
  if (!fd.ok()) return fd.error();
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return ErrnoError("reading the size of " + path, errno);
  return InputFile(std::move(*fd), path, static_cast<uint64_t>(status.st_size));
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
                                " when it was opened; do not change the files of a running job; "
                                "start it again to use the new ones");
    }
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

void InputFile::Prefetch(uint64_t offset, uint64_t bytes) const {
  // Only a hint: what fails here fails again when it is read.
  posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_WILLNEED);
}

}  // namespace lockstep::trainer
