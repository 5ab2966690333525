#include "base/events/append.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

namespace lockstep::events {

Status AppendWhole(int fd, std::string_view bytes, const std::string& path) {
  struct stat before{};
  const bool known = fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
  Status written = WriteAll(fd, bytes, path);
  if (!written.ok() && known) static_cast<void>(ftruncate(fd, before.st_size));
  return written;
}

}  // namespace lockstep::events
