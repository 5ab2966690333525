#include "worker/agent/install.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/unique_fd.h"

namespace lockstep::agent {
namespace {

constexpr mode_t kMode = 0555;
constexpr size_t kBlock = size_t{1} << 20;

Error Failed(const std::string& what) {
  return Error::Unavailable(what + ": " + std::strerror(errno));
}

Status Copy(int from, int to, const std::string& path) {
  std::vector<char> block(kBlock);
  for (;;) {
    ssize_t got = read(from, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("cannot read this program's own file");
    if (got == 0) return {};
    for (ssize_t done = 0; done < got;) {
      ssize_t n = write(to, block.data() + done, static_cast<size_t>(got - done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Failed("cannot write " + path);
      done += n;
    }
  }
}

Status WriteFile(int from, const std::string& path) {
  UniqueFd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!to.valid()) return Failed("cannot make " + path);
  if (Status copied = Copy(from, to.get(), path); !copied.ok()) return copied;
  // The umask has no say in it: whoever the user's container runs as must be able to run it.
  if (fchmod(to.get(), kMode) != 0) return Failed("cannot make " + path + " executable");
  if (close(to.release()) != 0) return Failed("cannot write " + path);
  return {};
}

}  // namespace

Status InstallSelf(const std::string& folder) {
  UniqueFd self(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (!self.valid()) return Failed("cannot open this program's own file");
  const std::string path = folder + "/lockstep-agent";
  const std::string partial = path + "." + std::to_string(getpid());
  unlink(partial.c_str());  // of a container that was killed, under the same number
  Status written = WriteFile(self.get(), partial);
  if (written.ok() && rename(partial.c_str(), path.c_str()) != 0) {
    written = Failed("cannot rename " + partial + " to " + path);
  }
  if (!written.ok()) unlink(partial.c_str());
  return written;
}

}  // namespace lockstep::agent
