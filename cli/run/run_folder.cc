#include "cli/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "lockstep-run-";

std::string Base() {
  if (access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm";
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

// The lock of a folder appears only when it is held: under its final name it is never free while
// the run lives.
Result<UniqueFd> HoldLock(const std::string& folder) {
  std::string draft = folder + "/lock.new";
  UniqueFd fd(open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoError("cannot make " + draft, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 ||
      rename(draft.c_str(), (folder + "/lock").c_str()) != 0) {
    return ErrnoError("cannot lock " + draft, errno);
  }
  return fd;
}

void RemoveLeftovers(const std::string& base) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    UniqueFd lock(open((entry->path() / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat owner{};
    if (!lock.valid() || fstat(lock.get(), &owner) != 0 || owner.st_uid != geteuid()) continue;
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

Result<RunFolder> RunFolder::Make() {
  std::string base = Base();
  RemoveLeftovers(base);
  std::string path = base + "/" + kPrefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return ErrnoError("cannot make a folder in " + base, errno);
  RunFolder folder;
  folder.path_ = path;
  Result<UniqueFd> lock = HoldLock(path);
  if (!lock.ok()) return lock.error();
  folder.lock_ = std::move(*lock);
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RunFolder::~RunFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Result<std::string> RunFolder::MakeAgentFolder(uint32_t machine, uint32_t attempt) const {
  std::string folder = AgentFolder(machine, attempt);
  if (mkdir(folder.c_str(), 0700) != 0) return ErrnoError("cannot make " + folder, errno);
  return folder;
}

std::string RunFolder::TerminationFile(uint32_t machine, uint32_t attempt) const {
  return AgentFolder(machine, attempt) + "/termination.json";
}

std::string RunFolder::AgentFolder(uint32_t machine, uint32_t attempt) const {
  return path_ + "/m" + std::to_string(machine) + "." + std::to_string(attempt);
}

}  // namespace lockstep::cli
