#include "cli/run/local_operator.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/event_loop.h"
#include "base/hkdf.h"
#include "cli/exit_codes.h"
#include "cli/job_file.h"
#include "cli/run/address.h"
#include "cli/run/decide.h"
#include "cli/run/fleet.h"
#include "cli/run/history.h"
#include "cli/run/report.h"
#include "cli/run/run_folder.h"
#include "cli/run/screen.h"
#include "cli/run/table.h"
#include "core/gang/bodies.h"
#include "core/gang/progress.h"
#include "core/job/agent_config.h"
#include "core/job/names.h"
#include "operator/gang/gang_link.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTerminationFile = "termination.json";
constexpr Duration kRedraw = milliseconds(250);
constexpr Duration kSweepAgain = milliseconds(10);
// Agents are born within milliseconds here.
constexpr Duration kFirstRetry = milliseconds(1);
constexpr Duration kLastRetry = milliseconds(100);
// Each machine's steps change the status twice a second; with many of them people read slower.
constexpr Duration kCalm = milliseconds(50);
constexpr int kManyMachines = 8;

template <typename T>
Result<T> Random() {
  T value{};
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    return ErrnoError("getrandom", errno);
  }
  return value;
}

std::string HowItEnded(const AgentEnd& end) {
  if (end.signal == 0) return "exited with code " + std::to_string(end.code);
  const char* name = sigabbrev_np(end.signal);
  return "was killed by " +
         (name == nullptr ? "signal " + std::to_string(end.signal) : std::string("SIG") + name);
}

// What must be there before the first agent is started.
struct Ground {
  Key key{};
  AddressBlock addresses;
  RunFolder folder;
  std::unique_ptr<EventLoop> loop;
  rlimit open_files{};
};

Result<Ground> Prepare(uint32_t machines) {
  Result<Key> key = Random<Key>();
  if (!key.ok()) return key.error();
  auto random = [] {
    Result<uint16_t> bits = Random<uint16_t>();
    return bits.ok() ? *bits : static_cast<uint16_t>(getpid());
  };
  rlimit open_files = RaiseFileLimit();
  Result<AddressBlock> addresses = ChooseBlock(machines, random, GangPortsFree);
  if (!addresses.ok()) return addresses.error();
  Result<RunFolder> folder = RunFolder::Make();
  if (!folder.ok()) return folder.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  if (Status status = BecomeSubreaper(); !status.ok()) return status.error();
  std::signal(SIGPIPE, SIG_IGN);
  return Ground{*key, *addresses, std::move(*folder), std::move(*loop), open_files};
}

gang::GangLinkOptions LinkOptions(int machines) {
  gang::GangLinkOptions options;
  options.first_retry = kFirstRetry;
  options.last_retry = kLastRetry;
  options.calm = machines > kManyMachines ? kCalm : Duration::zero();
  return options;
}

bool WantsLiveTable(const RunOptions& options) {
  const char* terminal = std::getenv("TERM");
  return options.table && isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

bool WantsColor() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

class LocalOperator {
 public:
  LocalOperator(const core::TrainingJob& job, RunState state, const RunOptions& options,
                Ground ground)
      : job_(job),
        state_(std::move(state)),
        options_(options),
        ground_(std::move(ground)),
        screen_(ground_.loop.get(), WantsLiveTable(options), WantsColor()),
        fleet_(ground_.loop.get(), &screen_,
               {options.agent, options.namespaces, options.verbose, ground_.open_files}),
        link_(ground_.loop.get(), LinkOptions(job.spec.num_machines),
              {.on_status = [this](const std::string&, const core::GangStatus& status,
                                   Time) { OnStatus(status); },
               .on_accepted = nullptr}),
        teller_(options.started, ranks()) {
    const core::Spec& spec = job.spec;
    snapshot_.job_uid = state_.job_uid();
    snapshot_.policy = spec.failure_policy;
    snapshot_.grace = spec.grace_period;
    snapshot_.active_deadline = seconds(spec.active_deadline_seconds);
    snapshot_.started = options.started;
    snapshot_.machines.resize(static_cast<size_t>(spec.num_machines));
    started_wall_ = std::chrono::system_clock::now();
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      ground_.loop->OnSignal(signal, [this, signal] { OnSignal(signal); });
    }
    for (int signal : {SIGCHLD, SIGWINCH}) ground_.loop->OnSignal(signal, [] {});
  }

  Result<int> Run() {
    while (true) {
      Time now = BootTime();
      for (const AgentEnd& end : fleet_.Collect()) OnEnd(end);
      Decision decision = Decide(snapshot_, now);
      if (decision.outcome) return Finish(*decision.outcome);
      if (Status status = Apply(decision); !status.ok()) return Abandon(status.error());
      link_.Set(job_.metadata.name, Peers());
      link_.SetWish(job_.metadata.name, decision.wish);
      bool accepted = decision.wish && link_.Accepted(job_.metadata.name, *decision.wish);
      // What was just accepted may be what the next decision waits for.
      Time wake = accepted == snapshot_.wish_accepted ? decision.wake : now;
      snapshot_.wish_accepted = accepted;
      Show(now);
      fleet_.Throttle();
      if (fleet_.sweeping()) wake = std::min(wake, now + kSweepAgain);
      if (screen_.live()) wake = std::min(wake, now + kRedraw);
      if (!decision.start.empty()) wake = now;
      RunOnce(wake);
    }
  }

 private:
  int64_t ranks() const {
    return static_cast<int64_t>(job_.spec.num_machines) * core::ProcessesStarted(job_.spec);
  }

  // ---- what happens ----

  void OnSignal(int signal) {
    if (snapshot_.stop) {
      snapshot_.kill = true;
      screen_.Event("killing every process");
      return;
    }
    snapshot_.stop = StopWish{core::StopReason::kSuspended, kExitSignal + signal, BootTime()};
    screen_.Event("stopping: processes have " + Brief(snapshot_.grace) +
                  " to save and leave; once more to kill them at once");
  }

  void OnStatus(const core::GangStatus& status) {
    const Machine& machine0 = snapshot_.machines.front();
    if (status.machine != 0) {
      snapshot_.member = status;
      return;
    }
    if (status.attempt != machine0.attempt) return;
    snapshot_.member.reset();
    snapshot_.coordinator = status;
    snapshot_.counters.Merge(status.counters);
    history_.Learn(status, machine0.started);
    std::optional<core::GangProgress> progress = core::Summarize(status.progress);
    if (progress) rate_.Learn(BootTime(), *progress);
    Tell();
  }

  void OnEnd(const AgentEnd& end) {
    Machine& machine = snapshot_.machines[end.machine];
    machine.running = false;
    machine.exit = AgentExit{end.code, end.signal, end.at, std::nullopt, end.last_words};
    std::string message = AgentFolder(end.machine, machine.attempt) + "/" + kTerminationFile;
    Result<std::string> text = ReadTextFile(message, 2 * core::kMaxTerminationMessage);
    if (text.ok()) {
      Result<core::Termination> termination = core::ParseTermination(*text);
      if (termination.ok()) machine.exit->message = std::move(*termination);
    }
    ends_.push_back({end.machine, machine.attempt, end.code, end.signal, end.at});
    fleet_.FlushOutput();
    uint32_t machine0_attempt = snapshot_.machines.front().attempt;
    if (!IsMachineFailure(machine, machine0_attempt) || snapshot_.stop) {
      bool drained = end.code == kExitStopped && !machine.terminated;
      if (drained) {
        screen_.Event("the agent of machine " + std::to_string(end.machine) +
                      " was asked to leave, and left; another takes its place");
      }
      return;
    }
    ++snapshot_.counters.replacements;
    snapshot_.last_replacement = end.at;
    RecordLoss(end, machine);
  }

  void RecordLoss(const AgentEnd& end, const Machine& machine) {
    std::string name = "machine " + std::to_string(end.machine);
    std::string how = "the agent of " + name + " " + HowItEnded(end);
    if (!end.last_words.empty() && end.signal == 0) how += " (" + end.last_words + ")";
    screen_.Event(how + "; machine failure " +
                  std::to_string(snapshot_.counters.infrastructure_used()) + " of " +
                  std::to_string(snapshot_.policy.max_machine_replacements) + " allowed");
    if (end.machine == 0) {
      core::Failure failure;
      failure.cause = core::Cause::kMachineLost;
      failure.machine = 0;
      failure.message = how;
      history_.Cut(end.at, failure);
      snapshot_.coordinator.reset();
      Tell();
      return;
    }
    std::erase_if(snapshot_.ended, [&](const core::GangWish::Terminated& ended) {
      return ended.machine == end.machine;
    });
    snapshot_.ended.push_back({end.machine, machine.attempt, core::Cause::kMachineLost});
  }

  // ---- what is done ----

  Status Apply(const Decision& decision) {
    for (const Decision::Kill& kill : decision.kill) {
      if (!kill.why.empty()) {
        screen_.Event("killing the agent of machine " + std::to_string(kill.machine) + ": " +
                      kill.why);
      }
      snapshot_.machines[kill.machine].killed = true;
      fleet_.Kill(kill.machine);
    }
    for (uint32_t machine : decision.terminate) {
      snapshot_.machines[machine].terminated = true;
      fleet_.Terminate(machine);
    }
    if (decision.reset_replacements) {
      snapshot_.counters.replacements_base = snapshot_.counters.replacements;
    }
    if (decision.start.empty()) return {};
    Result<uint32_t> epoch = state_.RaiseEpoch();
    if (!epoch.ok()) return epoch.error();
    snapshot_.epoch = *epoch;
    for (uint32_t machine : decision.start) {
      snapshot_.machines[machine].attempt = *epoch;
    }
    for (uint32_t machine : decision.start) {
      if (Status status = Start(machine); !status.ok()) return status;
    }
    return {};
  }

  Status Start(uint32_t index) {
    Machine& machine = snapshot_.machines[index];
    Machine next;
    next.attempt = machine.attempt;
    next.starts = machine.starts + 1;
    next.started = BootTime();
    next.running = true;
    machine = std::move(next);
    Result<std::string> folder = ground_.folder.MakeAgentFolder(index, machine.attempt);
    if (!folder.ok()) return folder.error();
    std::string address = ground_.addresses.Machine(index);
    core::AgentConfig config;
    config.job_uid = snapshot_.job_uid;
    config.job = job_;
    config.machine = index;
    config.attempt = machine.attempt;
    config.machine0_attempt = snapshot_.machines.front().attempt;
    config.epoch = snapshot_.epoch;
    if (index == 0) {
      for (const Machine& other : snapshot_.machines) config.attempts.push_back(other.attempt);
    }
    config.predecessor_dead = true;  // a new attempt follows an end, and ends are told when all is
    config.key = ground_.key;
    config.coordinator = At(ground_.addresses.Machine(0), core::kGangPort);
    config.listen = At(address, core::kGangPort);
    config.metrics_listen = At(address, core::kMetricsPort);
    config.advertise = address;
    config.run_dir = *folder;
    config.checkpoint_path = state_.path();
    config.log_path = job_.spec.logs.path;
    config.termination_path = *folder + "/" + kTerminationFile;
    config.interface = "lo";
    return fleet_.Start(config);
  }

  // The agents that run.
  gang::GangPeers Peers() const {
    gang::GangPeers peers;
    peers.job_uid = snapshot_.job_uid;
    peers.key = ground_.key;
    peers.machine_lost_after = snapshot_.policy.machine_lost_after;
    for (uint32_t i = 0; i < snapshot_.machines.size(); ++i) {
      const Machine& machine = snapshot_.machines[i];
      if (!machine.running) continue;
      peers.members.push_back(
          {i, machine.attempt, {ground_.addresses.Machine(i), core::kGangPort}});
    }
    return peers;
  }

  static std::string At(const std::string& address, int port) {
    return core::ToString(core::HostPort{address, static_cast<uint16_t>(port)});
  }

  std::string AgentFolder(uint32_t machine, uint32_t attempt) const {
    return ground_.folder.path() + "/m" + std::to_string(machine) + "." + std::to_string(attempt);
  }

  // ---- what is shown ----

  // Why nothing runs, when that will last.
  std::string WaitingFor() const {
    if (!snapshot_.coordinator) return "";
    const core::GangStatus& status = *snapshot_.coordinator;
    for (core::CoordinatorPhase phase :
         {core::CoordinatorPhase::kBackoff, core::CoordinatorPhase::kHeld,
          core::CoordinatorPhase::kGathering, core::CoordinatorPhase::kVerdict,
          core::CoordinatorPhase::kDone}) {
      if (status.phase == ToString(phase)) return status.reason;
    }
    return "";
  }

  void Tell() {
    for (const std::string& line : teller_.Tell(history_, WaitingFor())) screen_.Event(line);
  }

  void Show(Time now) {
    if (screen_.live() && now >= next_table_) {
      screen_.SetTable(RenderTable(View(now), Screen::Size(), screen_.color()));
      next_table_ = now + kRedraw;
    }
    screen_.Flush();
  }

  TableView View(Time now) const {
    TableView view;
    view.job = job_.metadata.name;
    view.elapsed = now - snapshot_.started;
    view.restarts = std::max(static_cast<int>(history_.generations().size()) - 1, 0);
    view.state = snapshot_.stop ? "Stopping" : "Starting";
    if (snapshot_.coordinator) {
      const core::GangStatus& status = *snapshot_.coordinator;
      if (!snapshot_.stop) view.state = status.phase;
      if (status.phase != ToString(core::CoordinatorPhase::kRunning)) view.reason = status.reason;
      if (status.generation.exists()) view.generation = status.generation.ToString();
      view.progress = core::Summarize(status.progress);
      if (view.progress) {
        view.steps_per_second = rate_.steps_per_second();
        view.remaining = rate_.Remaining();
      }
    }
    for (uint32_t i = 0; i < snapshot_.machines.size(); ++i) view.rows.push_back(Row(i));
    return view;
  }

  TableRow Row(uint32_t index) const {
    const Machine& machine = snapshot_.machines[index];
    int64_t processes = job_.spec.processes_per_machine;
    TableRow row;
    row.machine = index;
    row.first_rank = index * processes;
    row.last_rank = row.first_rank + processes - 1;
    row.state = machine.running ? "Starting" : "Lost";
    if (machine.starts > 1) row.note = "attempt " + std::to_string(machine.attempt);
    if (!snapshot_.coordinator) return row;
    for (const auto& seen : snapshot_.coordinator->machines) {
      if (seen.index == index && seen.attempt == machine.attempt && machine.running) {
        row.state = seen.state;
      }
    }
    int64_t started = core::ProcessesStarted(job_.spec);
    std::vector<core::RankProgress> ranks;
    for (const core::RankProgress& rank : snapshot_.coordinator->progress) {
      if (rank.rank / started == index) ranks.push_back(rank);
    }
    row.progress = core::Summarize(ranks);
    return row;
  }

  // ---- the end ----

  int Finish(const Outcome& outcome) {
    LearnEnd(outcome);
    Tell();
    screen_.SetTable({});
    std::string line = "job " + job_.metadata.name + " ";
    line += outcome.state == JobState::kSucceeded   ? "succeeded"
            : outcome.state == JobState::kSuspended ? "stopped"
                                                    : "failed";
    if (outcome.state == JobState::kFailed && !outcome.failure.message.empty()) {
      line += ": " + outcome.failure.message;
      if (outcome.reason != outcome.failure.message) line += "; " + outcome.reason;
    }
    size_t generations = history_.generations().size();
    line += " (" + std::to_string(generations) +
            (generations == 1 ? " generation, " : " generations, ") +
            Brief(BootTime() - snapshot_.started) + ")";
    screen_.Event(line);
    if (job_.spec.logs.console != core::Console::kAll && !outcome.failure.stderr_tail.empty()) {
      screen_.RankText(outcome.failure.stderr_tail + "\n");
    }
    WriteReport(outcome);
    fleet_.FlushOutput();
    screen_.Flush();
    DrainScreen();
    return outcome.exit_code;
  }

  // The last generation's end may have come with the agents' ends, after the last status.
  void LearnEnd(const Outcome& outcome) {
    Time last = options_.started;
    for (const MachineEnd& end : ends_) last = std::max(last, end.at);
    core::Failure failure;
    if (outcome.state != JobState::kSucceeded) failure = outcome.failure;
    history_.Finish(last, outcome.generation, failure);
  }

  Result<int> Abandon(const Error& error) {
    for (uint32_t i = 0; i < snapshot_.machines.size(); ++i) fleet_.Kill(i);
    screen_.SetTable({});
    screen_.Flush();
    DrainScreen();
    return error;
  }

  void WriteReport(const Outcome& outcome) {
    if (options_.report.empty()) return;
    Report report;
    report.job = job_.metadata.name;
    report.job_uid = snapshot_.job_uid;
    report.num_machines = job_.spec.num_machines;
    report.processes_per_machine = job_.spec.processes_per_machine;
    report.epoch = snapshot_.epoch;
    report.started_wall = started_wall_;
    report.started = snapshot_.started;
    report.finished = BootTime();
    report.outcome = outcome;
    report.counters = snapshot_.counters;
    report.history = history_;
    report.ends = ends_;
    Status status = WriteFileAtomically(options_.report, ToJson(report), /*durable=*/false);
    if (!status.ok()) screen_.Event("no report: " + status.error().message);
  }

  // Until all is written, or somebody has had enough of waiting for a reader.
  void DrainScreen() {
    bool enough = false;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      ground_.loop->OnSignal(signal, [&enough] { enough = true; });
    }
    while (!screen_.drained() && !enough) RunOnce(kNever);
  }

  // One round of the loop, which ends at `until` at the latest.
  void RunOnce(Time until) {
    TimerId timer = ground_.loop->StartTimer(until, [] {});
    ground_.loop->RunOnce();
    ground_.loop->CancelTimer(timer);
  }

  const core::TrainingJob& job_;
  RunState state_;
  RunOptions options_;
  Ground ground_;
  Screen screen_;
  Fleet fleet_;
  gang::GangLink link_;
  Snapshot snapshot_;
  History history_;
  Teller teller_;
  core::RateMeter rate_;
  std::vector<MachineEnd> ends_;
  std::chrono::system_clock::time_point started_wall_;
  Time next_table_{};
};

}  // namespace

Result<int> RunJob(const core::TrainingJob& job, RunState state, const RunOptions& options) {
  Result<Ground> ground = Prepare(static_cast<uint32_t>(job.spec.num_machines));
  if (!ground.ok()) return ground.error();
  LocalOperator local_operator(job, std::move(state), options, std::move(*ground));
  return local_operator.Run();
}

}  // namespace lockstep::cli
