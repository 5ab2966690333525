#include "cli/run/local_operator.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/event_loop.h"
#include "base/file.h"
#include "cli/run/decide.h"
#include "cli/run/fleet.h"
#include "cli/run/ground.h"
#include "cli/run/history.h"
#include "cli/run/report.h"
#include "cli/run/screen.h"
#include "cli/run/table.h"
#include "cli/run/view.h"
#include "core/exit_codes.h"
#include "core/gang/bodies.h"
#include "core/gang/progress.h"
#include "core/model/names.h"
#include "operator/gang/gang_link.h"

namespace lockstep::cli {
namespace {

constexpr Duration kRedraw = milliseconds(250);
constexpr Duration kSweepAgain = milliseconds(10);
// Agents are born within milliseconds here.
constexpr Duration kFirstRetry = milliseconds(1);
constexpr Duration kLastRetry = milliseconds(100);
// Each machine's steps change the status twice a second; with many of them people read slower.
constexpr Duration kCalm = milliseconds(50);
constexpr int kManyMachines = 8;

std::string HowItEnded(const AgentEnd& end) {
  if (end.signal == 0) return "exited with code " + std::to_string(end.code);
  const char* name = sigabbrev_np(end.signal);
  return "was killed by " +
         (name == nullptr ? "signal " + std::to_string(end.signal) : std::string("SIG") + name);
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
    snapshot_.stop = StopWish{core::StopReason::kSuspended, core::kExitSignal + signal, BootTime()};
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
    Result<std::string> text =
        ReadFile(ground_.folder.TerminationFile(end.machine, machine.attempt),
                 2 * core::kMaxTerminationMessage);
    if (text.ok()) {
      Result<core::Termination> termination = core::ParseTermination(*text);
      if (termination.ok()) machine.exit->message = std::move(*termination);
    }
    ends_.push_back({end.machine, machine.attempt, end.code, end.signal, end.at});
    fleet_.FlushOutput();
    uint32_t machine0_attempt = snapshot_.machines.front().attempt;
    if (!IsMachineFailure(machine, machine0_attempt) || snapshot_.stop) {
      bool drained = end.code == core::kExitStopped && !machine.terminated;
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
    if (snapshot_.first_epoch == 0) snapshot_.first_epoch = *epoch;
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
    Result<core::AgentConfig> config =
        AgentConfigOf(ground_, job_, state_.path(), snapshot_, index);
    if (!config.ok()) return config.error();
    return fleet_.Start(*config);
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

  // ---- what is shown ----

  void Tell() {
    for (const std::string& line : teller_.Tell(history_, WaitingFor(snapshot_)))
      screen_.Event(line);
  }

  void Show(Time now) {
    if (screen_.live() && now >= next_table_) {
      screen_.SetTable(RenderTable(ViewOf(job_, snapshot_, history_, rate_, now), Screen::Size(),
                                   screen_.color()));
      next_table_ = now + kRedraw;
    }
    screen_.Flush();
  }

  // ---- the end ----

  int Finish(const Outcome& outcome) {
    LearnEnd(outcome);
    Tell();
    screen_.SetTable({});
    screen_.Event(ClosingLine(job_, outcome, history_, BootTime() - snapshot_.started));
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
    report.started_wall = options_.started_wall;
    report.started = snapshot_.started;
    report.finished = BootTime();
    report.outcome = outcome;
    report.counters = snapshot_.counters;
    report.history = history_;
    report.ends = ends_;
    Status status = WriteFileAtomically(options_.report, ToJson(report));
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
  Time next_table_{};
};

}  // namespace

Result<int> RunJob(const core::TrainingJob& job, RunState state, const RunOptions& options) {
  Result<Ground> ground = PrepareGround(static_cast<uint32_t>(job.spec.num_machines));
  if (!ground.ok()) return ground.error();
  LocalOperator local_operator(job, std::move(state), options, std::move(*ground));
  return local_operator.Run();
}

}  // namespace lockstep::cli
