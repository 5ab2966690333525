#include "worker/place/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "base/folder.h"
#include "base/text/ascii.h"

namespace lockstep::place {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "lockstep-run-";

// In a run's folder: its job's name.
constexpr const char* kJob = "job";
// Likewise: the ID of its process.
constexpr const char* kPid = "pid";
// In a run's folder, and in each agent's: a link to its part of the folder on disk.
constexpr const char* kTemporary = "tmp";
// Bytes of TMPDIR beyond which the paths of sockets below a rank's own one would be too long.
constexpr size_t kLongestTemporaryBase = 20;

std::string TemporaryBase() {
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
}

std::string Base() {
  if (access("/dev/shm", W_OK | X_OK) == 0) return "/dev/shm";
  return TemporaryBase();
}

// Without one, temporary files are in the run's folder itself.
void MakeTemporary(const std::string& run) {
  const std::string base = TemporaryBase();
  std::string path = base.size() <= kLongestTemporaryBase ? base : "/tmp";
  path.append("/").append(kPrefix).append("XXXXXX");
  std::error_code ignored;
  if (mkdtemp(path.data()) != nullptr) fs::create_symlink(path, run + "/" + kTemporary, ignored);
}

void RemoveRun(const fs::path& run) {
  std::error_code ignored;
  const fs::path temporary = fs::read_symlink(run / kTemporary, ignored);
  if (temporary.filename().string().starts_with(kPrefix)) fs::remove_all(temporary, ignored);
  fs::remove_all(run, ignored);
}

std::string AgentFolderIn(const std::string& run, uint32_t machine, uint32_t attempt) {
  return run + "/m" + std::to_string(machine) + "." + std::to_string(attempt);
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

// Calls `visit` with each folder of this user's runs, and whether its run has ended: its lock is
// held meanwhile.
template <typename Visit>
void ForEachRun(const std::string& base, Visit visit) {
  ForEachEntry(base, [&visit](const fs::directory_entry& entry) {
    if (!entry.path().filename().string().starts_with(kPrefix)) return;
    UniqueFd lock(open((entry.path() / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat owner{};
    if (!lock.valid() || fstat(lock.get(), &owner) != 0 || owner.st_uid != geteuid()) return;
    const bool ended = flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
    visit(entry.path(), ended);
  });
}

void RemoveLeftovers(const std::string& base) {
  ForEachRun(base, [](const fs::path& folder, bool ended) {
    if (ended) RemoveRun(folder);
  });
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
  MakeTemporary(path);
  return folder;
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RunFolder::~RunFolder() {
  if (!path_.empty()) RemoveRun(path_);
}

void RunFolder::NameJob(const std::string& job) const {
  std::ofstream(path_ + "/" + kPid) << getpid();
  std::ofstream(path_ + "/" + kJob) << job;
}

Result<std::string> RunFolder::MakeAgentFolder(uint32_t machine, uint32_t attempt) const {
  std::string folder = AgentFolder(machine, attempt);
  if (mkdir(folder.c_str(), 0700) != 0) return ErrnoError("cannot make " + folder, errno);
  std::error_code none;
  const fs::path disk = fs::read_symlink(path_ + "/" + kTemporary, none);
  if (!none) {
    const fs::path own = disk / fs::path(folder).filename();
    fs::create_directory(own, none);
    fs::create_symlink(own, folder + "/" + kTemporary, none);
  }
  return folder;
}

std::string RunFolder::AgentFolder(uint32_t machine, uint32_t attempt) const {
  return AgentFolderIn(path_, machine, attempt);
}

std::vector<RunUnderWay> RunsUnderWay() {
  std::vector<RunUnderWay> runs;
  ForEachRun(Base(), [&runs](const fs::path& folder, bool ended) {
    if (ended) return;
    std::map<uint32_t, uint32_t> newest;  // machine -> attempt
    ForEachEntry(folder, [&newest](const fs::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      const size_t dot = name.find('.');
      if (!name.starts_with('m') || dot == std::string::npos) return;
      const auto machine = ParseNumber<uint32_t>(name.substr(1, dot - 1));
      const auto attempt = ParseNumber<uint32_t>(name.substr(dot + 1));
      if (machine && attempt) newest[*machine] = std::max(newest[*machine], *attempt);
    });
    RunUnderWay& run = runs.emplace_back();
    run.folder = folder.string();
    std::ifstream(folder / kPid) >> run.pid;
    std::getline(std::ifstream(folder / kJob), run.job);
    for (const auto& [machine, attempt] : newest) {
      run.agents.push_back(AgentFolderIn(folder, machine, attempt));
    }
  });
  return runs;
}

}  // namespace lockstep::place
