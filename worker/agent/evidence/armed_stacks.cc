#include "worker/agent/evidence/armed_stacks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/folder.h"
#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLook = milliseconds(5);
constexpr Duration kSettled = milliseconds(40);  // that nothing more came for
constexpr size_t kMaxFile = size_t{1} << 20;     // it is cut when it is longer
constexpr size_t kMaxHeader = 12;

struct Armed {
  UniqueFd file;
  off_t from = 0;  // what stands before is older
  off_t size = 0;
  Time grew{};
};

// Whether the process catches the signal.
bool Catches(pid_t pid) {
  const auto status = topology::ReadSmallFile("/proc/" + std::to_string(pid) + "/status");
  const auto caught = status ? topology::StatusField(*status, "SigCgt") : std::nullopt;
  if (!caught) return false;
  uint64_t mask = 0;
  const auto read = std::from_chars(caught->data(), caught->data() + caught->size(), mask, 16);
  return read.ec == std::errc() && (mask >> (kEvidenceSignal - 1) & 1) != 0;
}

bool IsTheSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::optional<Armed> OpenArmed(const std::string& folder, pid_t pid) {
  const std::string path = folder + "/" + std::to_string(pid);
  Armed armed;
  armed.file.reset(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!armed.file.valid() || fstat(armed.file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  std::string header(kMaxHeader, '\0');
  const ssize_t got = pread(armed.file.get(), header.data(), header.size(), 0);
  header.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const size_t end = header.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::optional<int> held = ParseNumber<int>(std::string_view(header).substr(0, end));
  struct stat its{};
  if (!held || *held < 0 ||
      stat(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(*held)).c_str(), &its) != 0 ||
      !IsTheSame(info, its)) {
    return std::nullopt;
  }
  armed.from = armed.size = info.st_size;
  if (info.st_size > static_cast<off_t>(kMaxFile) &&
      ftruncate(armed.file.get(), static_cast<off_t>(end + 1)) == 0) {
    armed.from = armed.size = static_cast<off_t>(end + 1);
  }
  return armed;
}

bool Signal(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  // In this order: what the descriptor names cannot become another process after it was looked at.
  return pidfd.valid() && Catches(pid) &&
         syscall(SYS_pidfd_send_signal, pidfd.get(), kEvidenceSignal, nullptr, 0) == 0;
}

// The end of it, where it is long: the main thread comes last.
std::string ReadFrom(const Armed& armed) {
  std::string text(kMaxStacks, '\0');
  const off_t from = std::max(armed.from, armed.size - static_cast<off_t>(kMaxStacks));
  const ssize_t got = pread(armed.file.get(), text.data(), text.size(), from);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

void RemoveLeftoverStacks(const std::string& folder) {
  ForEachEntry(folder, [](const fs::directory_entry& entry) {
    const std::optional<pid_t> pid = ParseNumber<pid_t>(entry.path().filename().string());
    if (pid && *pid > 0 && kill(*pid, 0) == 0) return;
    unlink(entry.path().c_str());
  });
}

std::map<pid_t, std::string> AskForStacks(const std::string& folder, const std::vector<pid_t>& pids,
                                          Time until) {
  std::map<pid_t, Armed> asked;
  for (const pid_t pid : pids) {
    std::optional<Armed> armed = OpenArmed(folder, pid);
    if (!armed || !Signal(pid)) continue;
    armed->grew = BootTime();
    asked.emplace(pid, std::move(*armed));
  }
  const auto writes = [&](Time now) {
    return std::ranges::any_of(asked, [now](const auto& each) {
      const Armed& armed = each.second;
      return armed.size == armed.from || now - armed.grew < kSettled;
    });
  };
  for (Time now = BootTime(); now < until && writes(now); now = BootTime()) {
    poll(nullptr, 0, static_cast<int>(kLook / milliseconds(1)));
    for (auto& [pid, armed] : asked) {
      struct stat info{};
      if (fstat(armed.file.get(), &info) != 0 || info.st_size == armed.size) continue;
      armed.size = info.st_size;
      armed.grew = BootTime();
    }
  }
  std::map<pid_t, std::string> stacks;
  for (const auto& [pid, armed] : asked) {
    std::string text = ReadFrom(armed);
    if (!text.empty()) stacks[pid] = std::move(text);
  }
  return stacks;
}

}  // namespace lockstep::agent
