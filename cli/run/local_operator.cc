#include "cli/run/local_operator.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/event_loop.h"
#include "base/file.h"
#include "cli/run/agent_processes.h"
#include "cli/run/history.h"
#include "cli/run/local_machines.h"
#include "cli/run/outcome.h"
#include "cli/run/report.h"
#include "cli/run/run_setup.h"
#include "cli/run/screen.h"
#include "cli/run/table.h"
#include "core/exit_codes.h"
#include "core/gang/progress.h"
#include "core/gang/status_api.h"
#include "core/text/limited_text.h"
#include "operator/gang/gang_link.h"
#include "operator/policy/decide.h"
#include "operator/policy/machines.h"
#include "operator/policy/policies.h"

namespace lockstep::cli {
namespace {

constexpr Duration kRedraw = milliseconds(250);
constexpr Duration kStopSlack = seconds(15);  // beyond the grace period, for agents to leave
constexpr Duration kSweepAgain = milliseconds(10);
// Agents are born within milliseconds here.
constexpr Duration kFirstRetry = milliseconds(1);
constexpr Duration kLastRetry = milliseconds(100);
// Each machine's steps change the status twice a second; with many of them people read slower.
constexpr Duration kCalm = milliseconds(50);
constexpr int kManyMachines = 8;
constexpr size_t kMaxTermination = 2 * core::kMaxTerminationMessage;

control::MachineEnd MachineEndOf(const AgentEnd& end, const Result<std::string>& termination) {
  control::MachineEnd ended;
  ended.exit_code = end.code;
  ended.signal = end.signal;
  // An agent that could not be configured leaves no message, but says why.
  const bool told = termination.ok() && !termination->empty();
  ended.termination = core::LastBytes(told ? *termination : end.last_words, kMaxTermination);
  if (end.signal == 0 && end.code != core::kExitConfiguration) ended.reason = end.last_words;
  return ended;
}

// What only a cluster honours is not to be decided by.
core::TrainingJob LocalJob(core::TrainingJob job, const std::string& uid) {
  job.metadata.uid = uid;
  job.spec.managed_by = control::kManager;
  job.spec.suspend = false;
  job.spec.clean_pod_policy = core::CleanPodPolicy::kRunning;
  job.spec.ttl_seconds_after_finished.reset();
  return job;
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
                RunSetup setup)
      : job_(LocalJob(job, state.job_uid())),
        state_(std::move(state)),
        options_(options),
        setup_(std::move(setup)),
        screen_(setup_.loop.get(), WantsLiveTable(options), WantsColor()),
        agents_(setup_.loop.get(), &screen_, setup_.spawner.get(),
                {options.agent, options.namespaces, options.verbose}),
        link_(setup_.loop.get(), LinkOptions(job.spec.num_machines),
              {.on_status = [this](const std::string&, const core::GangStatus& status,
                                   Time at) { OnStatus(status, at); },
               .on_accepted = nullptr}),
        machines_({.wall = options.started_wall, .boot = options.started}),
        printer_(options.started, ranks()) {
    status_.epoch = state_.epoch();
    for (uint32_t i = 0; i < machines(); ++i) addresses_.push_back(setup_.addresses.Machine(i));
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      setup_.loop->OnSignal(signal, [this, signal] { OnSignal(signal); });
    }
    for (int signal : {SIGCHLD, SIGWINCH}) setup_.loop->OnSignal(signal, [] {});
  }

  Result<int> Run() {
    while (true) {
      const Time now = BootTime();
      for (const AgentEnd& end : agents_.Collect()) OnEnd(end);
      Result<Time> decided = DecideAll(now);
      if (!decided.ok()) return Abandon(decided.error());
      if (IsOver()) return Finish();
      Show(now);
      agents_.Throttle();
      Time wake = std::min(*decided, machines_.NextKill());
      if (agents_.sweeping()) wake = std::min(wake, now + kSweepAgain);
      if (screen_.live()) wake = std::min(wake, now + kRedraw);
      RunOnce(wake);
    }
  }

 private:
  uint32_t machines() const { return static_cast<uint32_t>(job_.spec.num_machines); }
  int64_t ranks() const {
    return static_cast<int64_t>(job_.spec.num_machines) * core::ProcessesStarted(job_.spec);
  }

  bool IsOver() const {
    const bool ended = control::IsFinished(status_) || status_.state == core::JobState::kSuspended;
    return ended && !machines_.running();
  }

  // The newest attempt of machine 0; null when there is none.
  const AgentProcess* machine0() const {
    const auto newest =
        std::ranges::find(machines_.processes() | std::views::reverse, 0U, &AgentProcess::machine);
    return newest == machines_.processes().rend() ? nullptr : &*newest;
  }

  // Its last answer, if it still runs.
  const core::GangStatus* gang() const {
    const AgentProcess* zero = machine0();
    const bool counts = coordinator_ && zero != nullptr && !zero->end &&
                        coordinator_->status.attempt == zero->attempt;
    return counts ? &coordinator_->status : nullptr;
  }

  // ---- what happens ----

  void OnSignal(int signal) {
    if (stop_signal_ != 0) {
      for (uint32_t i = 0; i < machines(); ++i) agents_.Kill(i);
      screen_.Event("killing every process");
      return;
    }
    stop_signal_ = signal;
    job_.spec.suspend = true;
    ++generation_;
    screen_.Event("stopping: processes have " + Brief(job_.spec.grace_period) +
                  " to save and leave; once more to kill them at once");
  }

  void OnStatus(const core::GangStatus& status, Time at) {
    if (status.machine != 0) {
      member_ = control::GangReport{status, at};
      return;
    }
    const AgentProcess* zero = machine0();
    if (zero == nullptr || status.attempt != zero->attempt) return;
    member_.reset();
    coordinator_ = control::GangReport{status, at};
    history_.Learn(status, zero->started);
    std::optional<core::GangProgress> progress = core::Summarize(status.progress);
    if (progress) rate_.Learn(BootTime(), *progress);
    PrintNews();
  }

  void OnEnd(const AgentEnd& end) {
    machines_.Ended(
        end.machine,
        MachineEndOf(end, ReadFile(setup_.folder.TerminationFile(end.machine, end.attempt),
                                   kMaxTermination)));
    ends_.push_back(end);
    agents_.FlushOutput();
  }

  // ---- what is decided ----

  control::Snapshot Take() const {
    control::Snapshot snapshot;
    snapshot.job = &job_;
    snapshot.uid = job_.metadata.uid;
    snapshot.generation = generation_;
    snapshot.status = status_;
    snapshot.machines = machines_.Observe(addresses_);
    snapshot.has_names = true;
    snapshot.coordinator_address = {"", addresses_.front(), status_.attempts.Of(0)};
    snapshot.coordinator = coordinator_;
    snapshot.member = member_;
    snapshot.desired_state_accepted = accepted_;
    snapshot.notes.key_made = true;
    snapshot.memory = memory_;
    snapshot.replacements_allowed = INT_MAX;
    return snapshot;
  }

  // Until nothing is left to be done now; when to decide again.
  Result<Time> DecideAll(Time now) {
    while (true) {
      for (uint32_t machine : machines_.Overdue(now)) Kill(machine, "it did not leave in time");
      const control::Snapshot snapshot = Take();
      control::Decision decision = control::Decide(snapshot, machines_.At(now));
      memory_ = std::move(decision.memory);
      const bool forgot = machines_.ForgetStopped();
      Result<bool> done = CarryOut(decision, now);
      if (!done.ok()) return done.error();
      if (*done || forgot) continue;
      SetPeers(snapshot);
      if (decision.desired) desired_ = decision.desired;
      link_.SetDesiredState(job_.metadata.name, desired_);
      // What was just accepted may be what the next decision waits for.
      const bool accepted = desired_ && link_.Accepted(job_.metadata.name, *desired_);
      if (accepted == accepted_) return decision.wake;
      accepted_ = accepted;
    }
  }

  // Whether anything was done.
  Result<bool> CarryOut(const control::Decision& decision, Time now) {
    if (decision.intent) {
      if (Status status = Record(*decision.intent); !status.ok()) return status.error();
      PrintEvents(decision);
      return true;
    }
    bool done = decision.status.has_value();
    if (done) status_ = *decision.status;
    for (const control::Action& action : decision.actions) {
      if (const auto* start = std::get_if<control::StartMachine>(&action)) {
        if (!machines_.IsFree(start->machine)) continue;
        done = true;
        if (Status status = Start(start->machine, now); !status.ok()) return status.error();
      } else if (const auto* stop = std::get_if<control::StopMachine>(&action)) {
        done |= Stop(*stop, now);
      }
    }
    return done;
  }

  // The epoch is on the disk before anything is made by it.
  Status Record(const core::JobStatus& next) {
    if (next.epoch > status_.epoch) {
      Result<uint32_t> epoch = state_.RaiseEpoch();
      if (!epoch.ok()) return epoch.error();
      if (first_epoch_ == 0) first_epoch_ = *epoch;
    }
    const uint32_t machine0 = status_.attempts.Of(0);
    const bool failed = next.last_failure != status_.last_failure;
    status_ = next;
    if (failed && machine0 != 0 && next.attempts.Of(0) > machine0) {
      history_.Cut(EndOf(0, machine0), next.last_failure->failure);
      PrintNews();
    }
    return {};
  }

  // Now, when it still runs.
  Time EndOf(uint32_t machine, uint32_t attempt) const {
    for (const AgentEnd& end : ends_) {
      if (end.machine == machine && end.attempt == attempt) return end.at;
    }
    return BootTime();
  }

  // Of its decisions people are told which machines it replaces; the rest the gang's own lines say.
  void PrintEvents(const control::Decision& decision) {
    for (const control::EventNote& event : decision.events) {
      if (event.reason != "MachineReplaced") continue;
      std::string line = event.note;
      if (event.warning) {
        line += "; machine failure " + std::to_string(status_.counters.infrastructure_used()) +
                " of " + std::to_string(job_.spec.failure_policy.max_machine_replacements) +
                " allowed";
      }
      screen_.Event(line);
    }
  }

  Status Start(uint32_t machine, Time now) {
    const uint32_t attempt = status_.attempts.Of(static_cast<int>(machine));
    machines_.Started(machine, attempt, now);
    Result<core::AgentConfig> config =
        AgentConfigOf(setup_, job_, state_.path(), status_, first_epoch_, machine);
    if (!config.ok()) return config.error();
    return agents_.Start(*config);
  }

  bool Stop(const control::StopMachine& action, Time now) {
    // Who has been told of the verdict has had its time to leave, and has nothing to save.
    const bool told = status_.verdict && status_.verdict->generation.exists();
    const auto [machine, signal] =
        machines_.Stop(action, now, told ? Duration::zero() : job_.spec.grace_period + kStopSlack);
    if (signal == StopSignal::kTerminate) agents_.Terminate(machine);
    if (signal == StopSignal::kKill) Kill(machine, "another takes its place");
    return signal != StopSignal::kNone;
  }

  void Kill(uint32_t machine, const std::string& why) {
    screen_.Event("killing the agent of machine " + std::to_string(machine) + ": " + why);
    agents_.Kill(machine);
  }

  // The agents that run.
  void SetPeers(const control::Snapshot& snapshot) {
    gang::GangPeers peers;
    peers.job_uid = job_.metadata.uid;
    peers.key = setup_.key;
    peers.machine_lost_after = job_.spec.failure_policy.machine_lost_after;
    for (const control::Machine& machine : control::Machines(snapshot)) {
      if (machine.life != control::Life::kRunning) continue;
      peers.members.push_back(
          {machine.index, machine.attempt, {machine.seen->address, core::kGangPort}});
    }
    link_.Set(job_.metadata.name, std::move(peers));
  }

  // ---- what is shown ----

  void PrintNews() {
    const std::string waiting_for = gang() != nullptr ? WaitingFor(*gang()) : "";
    for (const std::string& line : printer_.NewLines(history_, waiting_for)) screen_.Event(line);
  }

  void Show(Time now) {
    if (screen_.live() && now >= next_table_) {
      const TableView view{job_, status_,
                           gang() != nullptr ? gang()->progress : std::vector<core::RankProgress>(),
                           rate_, now - options_.started};
      screen_.SetTable(RenderTable(view, Screen::Size(), screen_.color()));
      next_table_ = now + kRedraw;
    }
    screen_.Flush();
  }

  // ---- the end ----

  int Finish() {
    if (status_.state == core::JobState::kSuspended) status_.reason = "stopped on request";
    const core::Failure ending = EndingOf(status_);
    const Time now = BootTime();
    // The last generation's end may have come with the agents' ends, after the last status.
    const auto last = std::ranges::max_element(ends_, {}, &AgentEnd::at);
    history_.Finish(last != ends_.end() ? last->at : now,
                    status_.verdict ? status_.verdict->generation : core::Generation{}, ending);
    PrintNews();
    screen_.SetTable({});
    screen_.Event(ClosingLine(job_.metadata.name, status_, history_.generations().size(),
                              now - options_.started));
    if (job_.spec.logs.console != core::Console::kAll && !ending.stderr_tail.empty()) {
      screen_.RankText(ending.stderr_tail + "\n");
    }
    WriteReport(now);
    agents_.FlushOutput();
    screen_.Flush();
    DrainScreen();
    return ExitCodeOf(status_, stop_signal_);
  }

  Result<int> Abandon(const Error& error) {
    for (uint32_t i = 0; i < machines(); ++i) agents_.Kill(i);
    screen_.SetTable({});
    screen_.Flush();
    DrainScreen();
    return error;
  }

  void WriteReport(Time now) {
    if (options_.report.empty()) return;
    Report report;
    report.job = job_.metadata.name;
    report.job_uid = job_.metadata.uid;
    report.exit_code = ExitCodeOf(status_, stop_signal_);
    report.took = now - options_.started;
    report.status = status_;
    report.status.timings.created = options_.started_wall;
    report.status.timings.finished = machines_.At(now).wall;
    report.generations = ReportOf(history_, options_.started);
    for (const AgentEnd& end : ends_) {
      report.agents.push_back({end.machine, end.attempt, machines_.At(end.at).wall,
                               end.signal > 0 ? std::nullopt : std::optional(end.code),
                               end.signal});
    }
    Status status = WriteFileAtomically(options_.report, ToJson(report));
    if (!status.ok()) screen_.Event("no report: " + status.error().message);
  }

  // Until all is written, or somebody has had enough of waiting for a reader.
  void DrainScreen() {
    bool enough = false;
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
      setup_.loop->OnSignal(signal, [&enough] { enough = true; });
    }
    while (!screen_.drained() && !enough) RunOnce(kNever);
  }

  // One round of the loop, which ends at `until` at the latest.
  void RunOnce(Time until) {
    TimerId timer = setup_.loop->StartTimer(until, [] {});
    setup_.loop->RunOnce();
    setup_.loop->CancelTimer(timer);
  }

  core::TrainingJob job_;
  RunState state_;
  RunOptions options_;
  RunSetup setup_;
  Screen screen_;
  AgentProcesses agents_;
  gang::GangLink link_;
  LocalMachines machines_;
  std::vector<std::string> addresses_;
  core::JobStatus status_;
  control::Memory memory_;
  std::optional<control::GangReport> coordinator_;
  std::optional<control::GangReport> member_;
  std::optional<core::DesiredState> desired_;
  bool accepted_ = false;     // the desired state, when it was last decided
  uint32_t first_epoch_ = 0;  // of this run
  int64_t generation_ = 1;    // of the spec: a stop changes it
  int stop_signal_ = 0;       // that asked for a stop
  History history_;
  ProgressPrinter printer_;
  core::RateMeter rate_;
  std::vector<AgentEnd> ends_;
  Time next_table_{};
};

}  // namespace

Result<int> RunJob(const core::TrainingJob& job, RunState state, const RunOptions& options) {
  Result<RunSetup> setup = PrepareRun(static_cast<uint32_t>(job.spec.num_machines));
  if (!setup.ok()) return setup.error();
  LocalOperator local_operator(job, std::move(state), options, std::move(*setup));
  return local_operator.Run();
}

}  // namespace lockstep::cli
