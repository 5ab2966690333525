#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "base/uuid.h"

namespace lockstep {
namespace {

constexpr mode_t kDefaultMode = 0644;

Error OpenError(const std::string& path, int code) {
  if (code == ENOENT || code == ENOTDIR) {
    return Error::NotFound(path +
                           " does not exist; check its name, and that its volume is mounted");
  }
  if (code == EACCES || code == EPERM) {
    return Error::Denied(path + " cannot be read by user " + std::to_string(geteuid()) +
                         "; change its permissions or the user of the process");
  }
  return ErrnoError("opening " + path, code);
}

Error NoFile(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) return Error::Invalid(path + " is a folder; name a file in it");
  return Error::Invalid(path + " is a pipe, a socket or a device; give a regular file");
}

using Fill = std::function<Status(int fd, const std::string& name)>;

Status WriteTemporary(const std::string& path, const WriteOptions& options, const Fill& fill) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                   options.mode.value_or(kDefaultMode)));
  if (!fd.valid()) return ErrnoError("making " + path, errno);
  if (Status filled = fill(fd.get(), path); !filled.ok()) return filled;
  if (options.mode && fchmod(fd.get(), *options.mode) != 0) {
    return ErrnoError("setting the mode of " + path, errno);
  }
  if (options.durable && fsync(fd.get()) != 0) return ErrnoError("syncing " + path, errno);
  // A network file system may report only here that there is no space. A signal is no such report,
  // and the descriptor is closed all the same.
  if (close(fd.release()) != 0 && errno != EINTR) return ErrnoError("writing " + path, errno);
  return {};
}

Status PutInPlace(const std::string& path, const WriteOptions& options, const Fill& fill) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
  // Not made of the file's name, which may be as long as names can be; and no file of another has
  // it: the folder may be the user's, and processes of several computers may write there.
  const std::string temporary = folder + ".lockstep-" + Uuid::Random().ToString();
  Status status = WriteTemporary(temporary, options, fill);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoError("renaming " + temporary + " to " + path, errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  if (options.durable) {
    const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.valid()) fsync(fd.get());
  }
  return {};
}

// `take` may end it with an error, which is returned.
template <typename Take>
Status ForEachBlock(int fd, const std::string& name, Take take) {
  std::array<char, 16 * 1024> block;
  for (;;) {
    const ssize_t got = read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EISDIR) return NoFile(name, S_IFDIR);
    if (got < 0) return Error::Unavailable("reading " + name + ": " + std::strerror(errno));
    if (got == 0) return {};
    Status taken = take(std::string_view(block.data(), static_cast<size_t>(got)));
    if (!taken.ok()) return taken;
  }
}

}  // namespace

Result<UniqueFd> OpenRegularFile(const std::string& path) {
  // A pipe is seen before it is opened, for that would wait for a writer.
  const UniqueFd found(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.valid()) return OpenError(path, errno);
  struct stat status{};
  if (fstat(found.get(), &status) != 0) return ErrnoError("looking at " + path, errno);
  if (!S_ISREG(status.st_mode)) return NoFile(path, status.st_mode);
  UniqueFd fd(open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return OpenError(path, errno);
  return fd;
}

Result<std::string> ReadFile(const std::string& path, size_t limit) {
  const Result<UniqueFd> fd = OpenRegularFile(path);
  if (!fd.ok()) return fd.error();
  return ReadToEnd(fd->get(), path, limit);
}

Result<std::string> ReadToEnd(int fd, const std::string& name, size_t limit) {
  std::string text;
  const Status read = ForEachBlock(fd, name, [&](std::string_view block) {
    text += block;
    return text.size() <= limit
               ? Status()
               : Error::TooLarge(name + " is larger than " + std::to_string(limit) + " bytes");
  });
  if (!read.ok()) return read.error();
  return text;
}

Status WriteAll(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Error::Unavailable("writing " + name + ": " + std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return {};
}

Status WriteFileAtomically(const std::string& path, std::string_view text,
                           const WriteOptions& options) {
  return PutInPlace(path, options,
                    [text](int fd, const std::string& name) { return WriteAll(fd, text, name); });
}

Status OverwriteFile(const std::string& path, std::string_view text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("opening " + path, errno);
  if (Status written = WriteAll(fd.get(), text, path); !written.ok()) return written;
  if (ftruncate(fd.get(), static_cast<off_t>(text.size())) != 0 || fsync(fd.get()) != 0) {
    return ErrnoError("writing " + path, errno);
  }
  return {};
}

Status CopyFileAtomically(const std::string& from, const std::string& to,
                          const WriteOptions& options) {
  const Result<UniqueFd> source = OpenRegularFile(from);
  if (!source.ok()) return source.error();
  return PutInPlace(to, options, [&](int fd, const std::string& name) {
    return ForEachBlock(source->get(), from,
                        [&](std::string_view block) { return WriteAll(fd, block, name); });
  });
}

}  // namespace lockstep
