#include "worker/agent/evidence/evidence.h"

#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/text/ascii.h"
#include "core/gang/diagnosis/whereabouts.h"
#include "worker/agent/evidence/armed_stacks.h"
#include "worker/agent/evidence/py_spy.h"
#include "worker/agent/processes/descendants.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

using topology::ReadSmallFile;

constexpr size_t kMaxProcesses = 32;  // of one rank
constexpr size_t kMaxThreads = 64;    // of one process
constexpr Duration kStacksPatience = milliseconds(1500);
constexpr Duration kPySpyPatience = seconds(2);  // for all of a machine

std::string ProcOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::string Line(const std::string& path) {
  std::string text = ReadSmallFile(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  const std::string folder = ProcOf(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (!dir) return threads;
  while (const dirent* entry = readdir(dir.get())) {
    if (threads.size() == kMaxThreads) break;
    if (const auto number = ParseNumber<pid_t>(entry->d_name)) threads.push_back(*number);
  }
  return threads;
}

// What the kernel tells of one thread.
std::string ThreadText(const std::string& task, pid_t thread) {
  const std::string status = ReadSmallFile(task + "/status").value_or("");
  std::string text = "thread " + std::to_string(thread) + " " + Line(task + "/comm") + ": " +
                     topology::StatusField(status, "State").value_or("gone");
  const std::string channel = Line(task + "/wchan");
  if (!channel.empty() && channel != "0") text += ", waits in " + channel;
  const std::string call = Line(task + "/syscall");
  if (!call.empty()) text += ", system call " + call;
  text += "\n";
  if (const auto stack = ReadSmallFile(task + "/stack"); stack && !stack->empty()) {
    text += *stack + "\n";
  }
  return text;
}

std::string ProcessText(pid_t pid) {
  const std::string proc = ProcOf(pid);
  const std::string status = ReadSmallFile(proc + "/status").value_or("");
  std::string text = "== process " + std::to_string(pid) + " " + Line(proc + "/comm") + ": " +
                     topology::StatusField(status, "State").value_or("gone") + ", " +
                     topology::StatusField(status, "Threads").value_or("no") + " threads, " +
                     topology::StatusField(status, "VmRSS").value_or("0 kB") + " resident ==\n";
  for (const pid_t thread : ThreadsOf(pid)) {
    text += ThreadText(proc + "/task/" + std::to_string(thread), thread);
  }
  return text;
}

// Where a process is that shows no stacks: "futex_wait (trainer, state S)".
std::string KernelPlace(pid_t pid) {
  const std::string status = ReadSmallFile(ProcOf(pid) + "/status").value_or("");
  const std::string state = topology::StatusField(status, "State").value_or("");
  if (state.empty()) return "";
  const std::string channel = Line(ProcOf(pid) + "/wchan");
  return (channel.empty() || channel == "0" ? "its own code" : channel) + " (" +
         Line(ProcOf(pid) + "/comm") + ", state " + state.substr(0, 1) + ")";
}

bool IsPython(pid_t pid) {
  const std::string name = Line(ProcOf(pid) + "/comm");
  return name.starts_with("python") || name.starts_with("pt_main_thread");
}

}  // namespace

std::vector<pid_t> ProcessesOf(const RankProcess& rank) {
  std::vector<pid_t> pids;
  if (rank.pid == 0) return pids;
  pids.push_back(rank.pid);
  for (const Descendant& each : DescendantsOf(rank.pid, {})) {
    if (pids.size() == kMaxProcesses) break;
    pids.push_back(each.pid);
  }
  return pids;
}

std::vector<core::Whereabouts> PlacesOf(const std::vector<RankEvidence>& ranks) {
  std::vector<core::Whereabouts> places;
  for (const RankEvidence& each : ranks) {
    if (!each.place.empty()) places.push_back({each.rank, each.place});
  }
  return places;
}

std::vector<RankEvidence> LookAtRanks(const std::vector<RankProcess>& ranks,
                                      const std::string& stacks_folder, Time until) {
  std::vector<std::vector<pid_t>> processes;
  std::vector<pid_t> all;
  for (const RankProcess& rank : ranks) {
    processes.push_back(ProcessesOf(rank));
    all.insert(all.end(), processes.back().begin(), processes.back().end());
  }
  const auto stacks =
      AskForStacks(stacks_folder, all, std::min(until, BootTime() + kStacksPatience));
  const Time spied_until = std::min(until, BootTime() + kPySpyPatience);
  std::vector<RankEvidence> found;
  for (size_t i = 0; i < ranks.size(); ++i) {
    RankEvidence& rank = found.emplace_back();
    rank.rank = ranks[i].rank;
    bool python_seen = false;
    for (const pid_t pid : processes[i]) {
      std::string text = ProcessText(pid);
      const auto armed = stacks.find(pid);
      std::string python = armed == stacks.end() ? "" : armed->second;
      // Of the others the first is enough: the rest are its helpers.
      if (python.empty() && IsPython(pid) && !python_seen) {
        Result<std::string> spied = RunPySpy(pid, spied_until);
        if (spied.ok()) python = std::move(*spied);
        if (!spied.ok()) {
          text +=
              "no Python stacks: it has not imported lockstep, and " + spied.error().message + "\n";
        }
      }
      if (!python.empty()) text += "-- its stacks --\n" + python + "\n";
      python_seen = python_seen || IsPython(pid) || !python.empty();
      if (rank.place.empty()) rank.place = core::PlaceOf(python);
      if (rank.text.size() + text.size() <= kMaxEvidence) rank.text += text;
    }
    if (processes[i].empty()) rank.text = "it has ended\n";
    if (rank.place.empty() && !processes[i].empty()) rank.place = KernelPlace(processes[i].front());
  }
  return found;
}

}  // namespace lockstep::agent
