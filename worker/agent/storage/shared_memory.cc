#include "worker/agent/storage/shared_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/text/ascii.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

struct SharedFile {
  std::string path;
  ino_t inode = 0;
};

// Files of this user on the file system that is mounted there: what is bound into it is not.
std::vector<SharedFile> FilesIn(const std::string& folder) {
  std::vector<SharedFile> files;
  struct stat root{};
  if (stat(folder.c_str(), &root) != 0) return files;
  ForEachEntry(folder, [&](const fs::directory_entry& entry) {
    struct stat status{};
    if (lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (status.st_dev != root.st_dev || status.st_uid != geteuid()) return;
    files.push_back({entry.path(), status.st_ino});
  });
  return files;
}

// The inodes of the folder's file system that the process has open or mapped; none: it can't be
// looked into.
bool AddHeld(const fs::path& process, const std::string& folder, std::set<ino_t>* held) {
  struct stat root{};
  if (stat(folder.c_str(), &root) != 0) return false;
  const auto visit = [&](const fs::directory_entry& entry) {
    struct stat status{};
    if (stat(entry.path().c_str(), &status) == 0 && status.st_dev == root.st_dev) {
      held->insert(status.st_ino);
    }
  };
  std::error_code error;
  ForEachEntry(process / "fd", visit, &error);
  if (error == std::errc::permission_denied) return false;
  std::ifstream maps(process / "maps");
  // RANGE RIGHTS OFFSET DEVICE INODE PATH; a device's name here may not be stat's, its path is.
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string skipped;
    ino_t inode = 0;
    words >> skipped >> skipped >> skipped >> skipped >> inode;
    if (inode != 0 && line.find(folder + "/") != std::string::npos) held->insert(inode);
  }
  return true;
}

std::optional<std::set<ino_t>> HeldByOthers(const std::string& proc, const std::string& folder,
                                            const std::set<pid_t>& ours) {
  std::set<ino_t> held;
  bool all_seen = true;
  ForEachEntry(proc, [&](const fs::directory_entry& entry) {
    const auto pid = ParseNumber<pid_t>(entry.path().filename().string());
    if (!all_seen || !pid || ours.contains(*pid)) return;
    all_seen = AddHeld(entry.path(), folder, &held);
  });
  return all_seen ? std::optional(std::move(held)) : std::nullopt;
}

}  // namespace

void SharedMemory::BeginGeneration() {
  known_.clear();
  if (!own_) return;
  for (const SharedFile& file : FilesIn(folder_)) known_.insert(file.inode);
}

int SharedMemory::Sweep(const std::set<pid_t>& ours) const {
  if (!own_) return 0;
  std::vector<SharedFile> left = FilesIn(folder_);
  std::erase_if(left, [this](const SharedFile& file) { return known_.contains(file.inode); });
  if (left.empty()) return 0;
  const std::optional<std::set<ino_t>> held = HeldByOthers(proc_, folder_, ours);
  if (!held) return 0;
  int removed = 0;
  for (const SharedFile& file : left) {
    if (!held->contains(file.inode) && unlink(file.path.c_str()) == 0) ++removed;
  }
  return removed;
}

bool HasOwnSharedMemory(const core::AgentConfig& config, const std::string& mounts) {
  if (!config.shares_computer && config.job.spec.shared_memory) return true;
  std::ifstream lines(mounts);
  bool own = false;
  for (std::string line; std::getline(lines, line);) {  // the last one is on top
    std::istringstream words(line);
    std::string source;
    std::string target;
    words >> source >> target;
    if (target == "/dev/shm") own = source == "lockstep";
  }
  return own;
}

}  // namespace lockstep::agent
