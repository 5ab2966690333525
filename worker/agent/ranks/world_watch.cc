#include "worker/agent/ranks/world_watch.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/text/ascii.h"
#include "core/model/launch.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"
#include "worker/agent/processes/descendants.h"
#include "worker/agent/processes/process_environment.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

constexpr Duration kLeastInterval = milliseconds(250);
constexpr Duration kMostInterval = seconds(10);
constexpr int kRestFactor = 50;  // of the time that a look takes
constexpr size_t kMostProcesses = 4096;

std::vector<std::string> CommandOf(pid_t pid) {
  std::vector<std::string> words;
  const std::string text =
      topology::ReadSmallFile("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('\0'));
    words.emplace_back(word);
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return words;
}

int64_t NumberIn(const ProcessEnvironment& environment,
                 std::initializer_list<std::string_view> names) {
  return ParseNumber<int64_t>(environment.FirstOf(names)).value_or(0);
}

// One that was not agreed on when the job was judged.
std::string UnagreedLauncherOf(const core::Spec& spec, const std::vector<std::string>& command) {
  if (core::LaunchOf(spec) == core::Launch::kPerProcess) return core::LauncherOf(command);
  return core::UnsupportedLauncherOf(command, core::StartsFromMachine0(spec));
}

}  // namespace

WorldWatch::WorldWatch(EventLoop* loop, const core::Spec* spec, Owner* owner)
    : spec_(spec),
      owner_(owner),
      python_(!spec->command.empty() && core::IsPython(spec->command[0])),
      timer_(loop, [this] { Look(); }) {}

void WorldWatch::Begin(const Endpoint& master, int machines) {
  master_ = master;
  machines_ = machines;
  begun_ = BootTime();
  if (!settled()) timer_.WakeAt(begun_ + kLeastInterval);
  owner_->OnLook();
}

bool WorldWatch::MeetsByTcp() const {
  return core::WorldSize(*spec_) > 1 && !spec_->trainer &&
         core::RowOf(spec_->framework).meets_by_tcp;
}

bool WorldWatch::settled() const { return met_ || !doubt_.empty() || core::WorldSize(*spec_) == 1; }

void WorldWatch::Look() {
  if (settled()) return timer_.Cancel();
  const Time began = BootTime();
  const std::vector<TcpConnection> connections =
      MeetsByTcp() ? ReadConnections() : std::vector<TcpConnection>();
  met_ = AnyAt(connections, master_);
  if (!met_) {
    const std::vector<Process> processes = Processes();
    for (const Process& process : processes) LookAt(process);
    met_ = met_ || HaveMet(processes, connections);
  }
  owner_->OnLook();
  const Time now = BootTime();
  const Duration interval = std::clamp((now - begun_) / 4, kLeastInterval, kMostInterval);
  timer_.WakeAt(settled() ? kNever : now + std::max(interval, kRestFactor * (now - began)));
}

std::vector<WorldWatch::Process> WorldWatch::Processes() const {
  std::vector<Process> processes;
  for (const RankProcess& rank : owner_->Ranks()) {
    if (rank.pid == 0) continue;
    processes.push_back({rank.rank, rank.pid, true});
    for (const Descendant& each : DescendantsOf(rank.pid, {})) {
      if (processes.size() == kMostProcesses) break;
      processes.push_back({rank.rank, each.pid, false});
    }
  }
  return processes;
}

void WorldWatch::LookAt(const Process& process) {
  // A process without one is about to end, or hangs in the kernel and is not to be waited for.
  const ProcessEnvironment environment(process.pid);
  if (environment.empty() || !doubt_.empty()) return;
  const std::vector<std::string> command = CommandOf(process.pid);
  if (command.empty()) return;
  python_ = python_ || core::IsPython(command[0]);
  const std::string who = "rank " + std::to_string(process.rank);
  if (const std::string launcher = UnagreedLauncherOf(*spec_, command);
      !launcher.empty() && machines_ * core::ProcessesStarted(*spec_) > 1) {
    return Doubt(who + " runs " + launcher +
                 ", which starts a separate training: write the program itself as the command, "
                 "as in [python, train.py]; `lockstep convert -- " +
                 launcher + " ...` does");
  }
  if (core::StartsFromMachine0(*spec_)) {
    const int64_t size = NumberIn(environment, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    if (size > 0) owner_->OnMpiWorld(size);
    met_ = met_ || size >= core::WorldSize(*spec_);
    return;
  }
  const int64_t world = NumberIn(environment, {"WORLD_SIZE"});
  const int64_t local = std::max<int64_t>(1, NumberIn(environment, {"LOCAL_WORLD_SIZE"}));
  if (process.is_rank || world <= 0 || world / local >= machines_) return;
  Doubt("a process that " + who + " started has WORLD_SIZE=" + std::to_string(world) +
        ", a world without all of the job's " + std::to_string(machines_) +
        " machines: start no ranks in the program or a script; write processesPerMachine, and the "
        "program itself as the command");
}

void WorldWatch::Doubt(std::string doubt) {
  doubt_ = std::move(doubt);
  owner_->OnDoubt();
}

bool WorldWatch::HaveMet(const std::vector<Process>& processes,
                         const std::vector<TcpConnection>& connections) const {
  if (connections.empty()) return false;
  std::map<uint64_t, uint32_t> owners;
  for (const Process& process : processes) {
    for (const uint64_t inode : SocketsOf(process.pid)) owners.emplace(inode, process.rank);
  }
  return AnyBetween(connections, owners, owner_->Machines());
}

std::string WorldWatch::DoubtOfSuccess() const {
  if (!doubt_.empty() || met_ || !python_ || !MeetsByTcp()) return doubt_;
  return "the ranks never met: none connected to MASTER_ADDR:MASTER_PORT or another rank. Each may "
         "have trained alone: call init_process_group by the environment, and start no ranks in "
         "the program (mp.spawn), or write framework: None";
}

}  // namespace lockstep::agent
