#include "worker/agent/evidence/flight_files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "worker/agent/processes/process_environment.h"

namespace lockstep::agent {
namespace {

constexpr Duration kLookAtFiles = milliseconds(20);
constexpr Duration kFilesSettle = milliseconds(200);  // that a file has not grown for

// Where torch writes for a process of this environment: it appends the rank. Newer releases know
// both names, and write to the second of the defaults.
std::vector<std::string> DumpPrefixes(const ProcessEnvironment& environment) {
  const std::string named =
      environment.FirstOf({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"});
  if (!named.empty()) return {named};
  std::vector<std::string> defaults = {"/tmp/nccl_trace_rank_"};
  std::string cache = environment.FirstOf({"XDG_CACHE_HOME"});
  const std::string home = environment.FirstOf({"HOME"});
  if (cache.empty() && !home.empty()) cache = home + "/.cache";
  if (!cache.empty()) defaults.push_back(cache + "/torch/comm_lib_trace_rank_");
  return defaults;
}

// How long the process has lived; nullopt: it has ended.
std::optional<Duration> AgeOf(pid_t pid) {
  const Result<std::string> stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  const size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*stat).substr(name_end + 1);
  constexpr int kFieldsBefore = 20;  // between the name and the start's time
  for (int i = 0; i < kFieldsBefore; ++i) {
    const size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  const auto ticks = ParseNumber<int64_t>(rest.substr(0, rest.find(' ')));
  if (!ticks) return std::nullopt;
  return BootTime() - Time(nanoseconds(seconds(1)) / sysconf(_SC_CLK_TCK) * *ticks);
}

bool IsUnchanged(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ino == b.st_ino;
}

struct stat Look(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) info = {};
  return info;
}

// One byte into the pipe, if somebody reads there.
bool AskByPipe(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  return fd.valid() && fstat(fd.get(), &info) == 0 && S_ISFIFO(info.st_mode) &&
         write(fd.get(), "1", 1) == 1;
}

Duration TimeOfDay() {
  return duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

FlightSearch::FlightSearch(const std::vector<RankProcess>& ranks, const std::string& run_dir) {
  for (const RankProcess& rank : ranks) {
    for (const pid_t pid : ProcessesOf(rank)) {
      const std::optional<Duration> age = AgeOf(pid);
      if (!age) continue;
      const Duration since = TimeOfDay() - *age - seconds(1);  // clocks of files are coarse
      if (pid == rank.pid) {
        char name[32];
        std::snprintf(name, sizeof name, "rank-%05u.json", rank.rank);
        Add(run_dir + "/flight/" + name, name, since);
      }
      const ProcessEnvironment environment(pid);
      // A launcher's workers have ranks of their own.
      const std::string told = environment.FirstOf({"RANK"});
      const std::string number = std::to_string(ParseNumber<uint32_t>(told).value_or(rank.rank));
      const std::string pipe = environment.FirstOf({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"});
      const std::vector<std::string> prefixes = DumpPrefixes(environment);
      for (const std::string& prefix : prefixes) {
        Add(prefix + number, "torch_flight_rank_" + number, since);
      }
      if (!pipe.empty()) Ask(pipe + number + ".pipe", prefixes.back() + number);
    }
  }
}

void FlightSearch::Add(const std::string& from, const std::string& name, Duration since) {
  if (candidates_.size() == kMaxFlightFiles || !seen_.insert(from).second) return;
  Candidate& added = candidates_.emplace_back();
  added.file = {from, name};
  added.since = since;
  added.before = added.last = Look(from);
}

void FlightSearch::Ask(const std::string& pipe, const std::string& from) {
  if (!seen_.insert(pipe).second || !AskByPipe(pipe)) return;
  const auto file =
      std::ranges::find(candidates_, from, [](const Candidate& each) { return each.file.from; });
  if (file != candidates_.end()) file->asked = true;
}

std::vector<FlightFile> FlightSearch::Find(Time until) {
  const auto look = [this](Time now) {
    bool awaited = false;
    for (Candidate& each : candidates_) {
      const struct stat info = Look(each.file.from);
      if (!IsUnchanged(info, each.last)) each.changed = now;
      each.last = info;
      awaited = awaited || (each.asked && (IsUnchanged(each.before, each.last) ||
                                           now - each.changed < kFilesSettle));
    }
    return awaited;
  };
  for (Time now = BootTime(); look(now) && now < until; now = BootTime()) {
    poll(nullptr, 0, static_cast<int>(kLookAtFiles / milliseconds(1)));
  }
  std::vector<FlightFile> found;
  for (const Candidate& each : candidates_) {
    const timespec& wrote = each.last.st_mtim;
    if (seconds(wrote.tv_sec) + nanoseconds(wrote.tv_nsec) >= each.since) {
      found.push_back(each.file);
    }
  }
  return found;
}

std::string CopyFlightFiles(const std::vector<FlightFile>& files, const std::string& folder) {
  std::string failed;
  for (const FlightFile& file : files) {
    const UniqueFd fd(open(file.from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info{};
    Status done;
    if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      done = Error::NotFound("no regular file");
    } else {
      const Result<std::string> bytes = ReadToEnd(fd.get(), file.from, kMaxFlightFile);
      done = bytes.ok() ? WriteFileAtomically(folder + "/" + file.name, *bytes, {.mode = 0600})
                        : Status(bytes.error());
    }
    if (done.ok()) continue;
    failed += (failed.empty() ? "" : ", ") + file.name + " (" + done.error().message + ")";
  }
  return failed;
}

}  // namespace lockstep::agent
