#include "operator/kube/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace lockstep::kube {

Result<std::string> ReadSmallFile(const std::string& path, size_t limit) {
  auto failed = [&](int error) -> Error {
    if (error == ENOENT) return Error::NotFound(path + " does not exist");
    return Error::Invalid(ErrnoError("cannot read " + path, error).message);
  };
  // Not blocked by a pipe that stands where a file should.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return failed(errno);
  std::string text;
  char buffer[16 * 1024];
  for (;;) {
    ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > limit) {
      return Error::TooLarge(path + " is over " + std::to_string(limit) + " bytes");
    }
  }
}

}  // namespace lockstep::kube
