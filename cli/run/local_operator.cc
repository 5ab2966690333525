#include "cli/run/local_operator.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/loop/event_loop.h"
#include "base/process/stop_signals.h"
#include "base/text/endpoint.h"
#include "cli/run/kept_checkpoint.h"
#include "cli/run/local_job.h"
#include "cli/run/machines/agent_processes.h"
#include "cli/run/output/history.h"
#include "cli/run/output/ledger_text.h"
#include "cli/run/output/outcome.h"
#include "cli/run/output/prestart_text.h"
#include "cli/run/output/progress_events.h"
#include "cli/run/output/report.h"
#include "cli/run/output/screen.h"
#include "cli/run/output/table.h"
#include "cli/run/restart.h"
#include "cli/run/run_page.h"
#include "cli/run/run_server.h"
#include "cli/run/run_setup.h"
#include "core/exit_codes.h"
#include "core/gang/diagnosis/progress.h"
#include "core/gang/status/status_api.h"
#include "core/model/json.h"
#include "core/model/launch.h"
#include "core/model/names.h"
#include "core/text/limited_text.h"
#include "core/text/text.h"
#include "operator/gang/gang_link.h"
#include "operator/policy/status/last_failure.h"

namespace lockstep::cli {
namespace {

constexpr Duration kRedraw = milliseconds(250);
constexpr Duration kSweepAgain = milliseconds(10);
constexpr Duration kStatusAgain = milliseconds(500);
constexpr Duration kUnschedulableAgain = milliseconds(200);
constexpr size_t kMaxWords = 256;  // bytes of what somebody gives as a reason
constexpr size_t kMaxUnschedulable = 16 * 1024;
constexpr uint32_t kMaxLogNumber = 1U << 20U;       // a rank, a machine, or lines
constexpr size_t kMaxLogBytes = size_t{256} << 10;  // sixfold as escapes, and still one answer
constexpr size_t kLogLineBytes = 64;                // of JSON around each line
// Agents are born within milliseconds here.
constexpr Duration kFirstRetry = milliseconds(1);
constexpr Duration kLastRetry = milliseconds(100);

control::MachineEnd MachineEndOf(const AgentEnd& end) {
  control::MachineEnd ended;
  // Else it is the code of ssh or srun, which lost its agent.
  if (end.confirmed) ended.exit_code = end.code;
  ended.signal = end.signal;
  // An agent that could not be configured leaves no message, but says why.
  ended.termination = end.termination.empty()
                          ? core::LastBytes(end.last_words, core::kMaxTerminationMessage)
                          : end.termination;
  if (end.signal == 0 && end.code != core::kExitConfiguration) ended.reason = end.last_words;
  return ended;
}

core::TrainingJob WithUid(core::TrainingJob job, const std::string& uid) {
  job.metadata.uid = uid;
  return job;
}

std::vector<MachinePlace> MachinePlaces(const RunSetup& setup) {
  std::vector<MachinePlace> places;
  for (const Place& place : setup.places) places.push_back({place.address, place.node});
  return places;
}

bool WantsPage(const RunOptions& options) { return options.ui || !options.report.empty(); }

gang::GangLinkOptions LinkOptions(int machines, bool page) {
  gang::GangLinkOptions options;
  options.first_retry = kFirstRetry;
  options.last_retry = kLastRetry;
  options.calm = StatusPause(machines);
  options.by_machine = page;
  // These agents are this user's own, and so is the processor.
  options.first_gap = options.last_gap = Duration::zero();
  return options;
}

// Whether this computer is several machines.
bool PlaysMachines(const core::TrainingJob& job, const RunOptions& options) {
  return job.spec.num_machines > 1 && !options.nodes.remote();
}

// The page shows stderr apart. Json says the stream itself, Raw must stay as it is.
bool MarksStderr(const core::TrainingJob& job, const RunOptions& options) {
  return WantsPage(options) && job.spec.logs.format == core::LogFormat::kPrefix;
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

class LocalOperator final : private gang::GangLink::Owner {
 public:
  LocalOperator(const core::TrainingJob& job, RunState state, const RunOptions& options,
                RunSetup setup)
      : state_(std::move(state)),
        options_(options),
        setup_(std::move(setup)),
        screen_(setup_.loop.get(), WantsLiveTable(options), WantsColor()),
        agents_(
            setup_.loop.get(), &screen_, setup_.spawner.get(),
            {.agent = options.agent,
             .namespaces = options.namespaces,
             .show_agent_logs = options.verbose,
             // Machines that are several would meet each other's files in one.
             .own_shared_memory = job.spec.num_machines > 1,
             .hosts_file =
                 PlaysMachines(job, options) ? MakeHostsFile(setup_, job.metadata.name) : "",
             .needs_host_names = PlaysMachines(job, options) && core::StartsFromMachine0(job.spec),
             .marks_stderr = MarksStderr(job, options),
             .on_line = [this](uint32_t machine,
                               std::string_view line) { page_->OnLine(machine, line); }}),
        link_(setup_.loop.get(), LinkOptions(job.spec.num_machines, WantsPage(options)), this),
        job_(WithUid(job, state_.job_uid()), state_.epoch(), MachinePlaces(setup_),
             {.wall = options.started_wall, .boot = options.started}),
        printer_(options.started, ranks(), core::ProcessesStarted(job.spec)),
        events_(options.tensorboard),
        server_(setup_.loop.get(), [this](const Json& question) { return Answer(question); }) {
    for (const int signal : kStopSignals) {
      setup_.loop->OnSignal(signal, [this, signal] { OnSignal(signal); });
    }
    for (const int signal : {SIGCHLD, SIGWINCH, SIGCONT}) setup_.loop->OnSignal(signal, [] {});
    MakePage();
  }

  // Before anything runs: a port that is taken must not cost a run.
  Status ServePage() {
    if (!options_.ui) return {};
    const std::optional<PageFile> page = EmbeddedPage();
    if (!page) return Error::Unavailable(std::string("--ui: ") + kNoPage);
    if (Status served = page_->Serve(*options_.ui, *page); !served.ok()) {
      return Error{served.error().kind, "--ui: " + served.error().message +
                                            "; name another port, or none to get a free one"};
    }
    screen_.Event("the page of this run: " + page_->address());
    return {};
  }

  ~LocalOperator() {
    if (options_.sync) options_.sync->StopWatching();
  }
  LocalOperator(const LocalOperator&) = delete;
  LocalOperator& operator=(const LocalOperator&) = delete;

  Result<int> Run() {
    // The job runs without it, too.
    if (const Status opened = server_.Open(setup_.folder.path()); !opened.ok()) {
      screen_.Event("`lockstep restart` cannot reach this run: " + opened.error().message);
    }
    if (const Status begun = BeginSync(); !begun.ok()) return Abandon(begun.error());
    // From here on: the line with the page's token is in no report.
    screen_.OnEvent([this](const std::string& text) { page_->OnEvent(text); });
    while (true) {
      const Time now = BootTime();
      ReadUnschedulable();
      for (const AgentEnd& end : agents_.Collect()) OnEnd(end);
      Result<Time> decided = DecideAll(now);
      if (!decided.ok()) return Abandon(decided.error());
      page_->OnJob(job_.status());
      if (job_.over()) return Finish();
      UpdateScreen(now);
      if (now >= next_status_) {
        WriteStatus(job_.status());
        next_status_ = now + kStatusAgain;
      }
      agents_.Throttle();
      Time wake = *decided;
      if (agents_.sweeping()) wake = std::min(wake, now + kSweepAgain);
      if (!options_.unschedulable.empty()) wake = std::min(wake, now + kUnschedulableAgain);
      if (screen_.live()) wake = std::min(wake, now + kRedraw);
      if (!options_.status.empty()) wake = std::min(wake, now + kStatusAgain);
      RunOnce(wake);
    }
  }

 private:
  const core::Spec& spec() const { return job_.job().spec; }
  const std::string& name() const { return job_.job().metadata.name; }
  int64_t ranks() const {
    return static_cast<int64_t>(spec().num_machines) * core::ProcessesStarted(spec());
  }

  void MakePage() {
    ViewJob view;
    view.job = job_.job();
    view.where =
        options_.nodes.remote() ? std::to_string(setup_.places.size()) + " nodes" : OwnHostName();
    if (options_.nodes.remote()) {
      for (const Place& place : setup_.places) view.nodes.push_back(place.node);
    }
    view.began = options_.started_wall;
    page_ = std::make_unique<RunPage>(view, options_.started,
                                      RunPage::Sources{.loop = setup_.loop.get(),
                                                       .spawner = setup_.spawner.get(),
                                                       .history = &history_,
                                                       .bindings = options_.bindings,
                                                       .served = options_.ui.has_value(),
                                                       .agents = [this] { return Agents(); }});
  }

  // Those that run, with their folders where they are here.
  std::vector<StackAsker::Machine> Agents() const {
    std::vector<StackAsker::Machine> agents;
    for (const AgentProcess& process : job_.machines().processes()) {
      if (process.is_spare() || process.end || !process.placed) continue;
      StackAsker::Machine& agent = agents.emplace_back();
      agent.index = process.machine;
      if (setup_.places[process.machine].by == Reach::kHere) {
        agent.argv = {options_.agent, "--evidence",
                      setup_.folder.AgentFolder(process.machine, process.attempt)};
      } else {
        agent.problem = "it is on another computer; run `lockstep debug` there";
      }
    }
    return agents;
  }

  void KillAll() {
    for (const AgentProcess& process : job_.machines().processes()) agents_.Kill(process.machine);
  }

  // ---- what happens ----

  // A batch system may warn more than once, and asks for the end after it; only who has asked twice
  // is in a hurry.
  void OnSignal(int signal) {
    const bool warns = std::ranges::find(kWarningSignals, signal) != kWarningSignals.end();
    const bool again = !warns && std::exchange(asked_to_stop_, true);
    if (stop_signal_ != 0) {
      if (!again) return;
      KillAll();
      screen_.Event("killing every process");
      return;
    }
    stop_signal_ = signal;
    job_.Suspend();
    screen_.Event("stopping: processes have " + Brief(spec().grace_period) +
                  " to save and leave; press Ctrl-C once more to kill them at once");
  }

  void OnStatus(const std::string& /*job*/, const core::GangStatus& status, Time at) override {
    if (!job_.OnStatus(status, at) || status.machine != 0) return;
    history_.Update(status, job_.machine0()->started);
    std::optional<core::GangProgress> progress = core::Summarize(status.progress);
    if (progress) {
      rate_.Update(BootTime(), *progress);
      SayProblem(events_.Update(WallNow(), status.generation, *progress));
    }
    page_->OnStatus(status, job_.machine0()->started);
    PrintNews();
    if (job_.held() && !apply_failed_) ApplyCode();
  }
  void OnAccepted(const std::string& /*job*/) override {}

  void OnEnd(const AgentEnd& end) {
    if (end.machine >= kFirstSpare) return job_.OnEnd(end.machine, MachineEndOf(end));
    const Result<core::Termination> told = core::ParseTermination(end.termination);
    if (const AgentProcess* machine0 = job_.machine0(); told.ok() && machine0 != nullptr) {
      history_.LearnEnded(told->ended, machine0->attempt, machine0->started);
    }
    if (!end.confirmed) job_.OnLostTouch(end.machine, end.at);
    job_.OnEnd(end.machine, MachineEndOf(end));
    ends_.push_back(end);
    agents_.FlushOutput();
  }

  // A cluster that has no node for these machines is played. What can't be read changes nothing.
  void ReadUnschedulable() {
    if (options_.unschedulable.empty()) return;
    const Result<std::string> text = ReadFile(options_.unschedulable, kMaxUnschedulable);
    const Result<core::Members> unschedulable =
        text.ok() ? core::Members::Parse(*text) : Result<core::Members>(text.error());
    const std::string problem =
        unschedulable.ok() ? "" : "--unschedulable: " + unschedulable.error().message;
    if (!problem.empty() && problem != unschedulable_problem_) screen_.Event(problem);
    unschedulable_problem_ = problem;
    if (unschedulable.ok()) job_.SetUnschedulable(*unschedulable);
  }

  // ---- code that is edited ----

  Status BeginSync() {
    if (!options_.sync) return {};
    TellLeftOut();
    TakeCode();
    return options_.sync->Watch(setup_.loop.get(), [this] { OnCodeChanged(); });
  }

  void TakeCode() {
    core::CodeStatus code;
    code.digest = options_.sync->applied().Digest();
    code.files = static_cast<int32_t>(options_.sync->applied().files.size());
    code.by = UserName();
    code.since = job_.machines().At(BootTime()).wall;
    job_.SetCode(std::move(code), true);
  }

  // Once for each file.
  void TellLeftOut() {
    for (const std::string& line : options_.sync->left_out()) {
      if (left_out_.insert(line).second) screen_.Event("not synced: " + line);
    }
  }

  void OnCodeChanged() {
    if (job_.stopping()) return;
    const Result<bool> news = options_.sync->Scan();
    const std::string problem = news.ok() ? "" : "not synced: " + news.error().message;
    if (!problem.empty() && problem != sync_problem_) screen_.Event(problem);
    sync_problem_ = problem;
    if (!news.ok()) return;
    TellLeftOut();
    if (!*news) return job_.Release();  // it was changed back, or only touched
    apply_failed_ = false;
    job_.Hold(UserName() + ": " + options_.sync->News() + " changed");
    if (job_.held()) ApplyCode();
  }

  void ApplyCode() {
    const Status applied = options_.sync->Apply();
    if (!applied.ok()) {
      apply_failed_ = true;
      screen_.Event("no rank starts, because the code could not be copied: " +
                    applied.error().message + "; save a file to try again");
      return;
    }
    TakeCode();
    job_.Release();
  }

  // ---- what other commands ask ----

  Result<Json> Answer(const Json& question) {
    for (const auto& [name, answer] :
         {std::pair("restart", &LocalOperator::Restart), std::pair("look", &LocalOperator::Look),
          std::pair("log", &LocalOperator::Log)}) {
      if (question.contains(name) && question[name].is_object()) {
        return (this->*answer)(question[name]);
      }
    }
    return Error::Invalid("this version of lockstep run knows only \"restart\", \"look\", \"log\"");
  }

  Result<Json> Look(const Json& /*asked*/) {
    core::JobStatus status = job_.status();
    status.timings.created = options_.started_wall;
    core::Trim(status);
    core::Node document = core::ToNode(job_.job());
    document.Add("status", core::ToNode(status));
    return Json{{"document", core::WriteJson(document)}};
  }

  Result<Json> Log(const Json& asked) {
    const auto number = [&asked](const char* name) -> std::optional<uint32_t> {
      const Json value = asked.value(name, Json());
      if (!value.is_number_unsigned()) return std::nullopt;
      return static_cast<uint32_t>(std::min<uint64_t>(value.get<uint64_t>(), kMaxLogNumber));
    };
    const auto processes = static_cast<uint32_t>(spec().processes_per_machine);
    std::vector<std::optional<uint32_t>> ranks = {number("rank")};
    if (const auto machine = number("machine")) {
      ranks.clear();
      for (uint32_t i = 0; i < processes; ++i) ranks.emplace_back(*machine * processes + i);
    }
    std::vector<Json> lines;
    uint64_t skipped = 0;
    for (const std::optional<uint32_t>& rank : ranks) {
      const Result<std::string> log = page_->Log(rank, 0);
      if (!log.ok()) return log.error();
      Json read = ParseJson(*log);
      skipped += read["skipped"].get<uint64_t>();
      for (Json& line : read["lines"]) lines.push_back(std::move(line));
    }
    std::ranges::sort(lines, {}, [](const Json& line) { return line["n"].get<uint64_t>(); });
    const size_t most = number("lines").value_or(kMaxLogNumber);
    size_t bytes = 0;
    auto first = lines.end();
    while (first != lines.begin() && static_cast<size_t>(lines.end() - first) < most) {
      bytes += std::prev(first)->at("m").get_ref<const std::string&>().size() + kLogLineBytes;
      if (bytes > kMaxLogBytes) break;
      --first;
    }
    skipped += static_cast<uint64_t>(first - lines.begin());
    return Json{{"processes", processes},
                {"skipped", skipped},
                {"lines", std::vector<Json>(first, lines.end())}};
  }

  Result<Json> Restart(const Json& asked) {
    const auto text = [&asked](const char* name) {
      const bool said = asked.contains(name) && asked[name].is_string();
      return said ? core::FirstBytes(core::OneLine(asked[name].get<std::string>()), kMaxWords)
                  : std::string();
    };
    if (job_.stopping()) return Error::Conflict("run " + name() + " is stopping");
    core::RestartRequest request;
    request.reason = text("reason");
    request.requested_by = text("requestedBy");
    request.at_commit = asked.value("atCommit", Json(false)) == Json(true);
    if (request.at_commit)
      screen_.Event("restart at the next commit, requested by " + request.requested_by);
    job_.RequestRestart(std::move(request));
    return Json{{"job", name()}};
  }

  // ---- what is decided ----

  // Until nothing is left to be done now; when to decide again.
  Result<Time> DecideAll(Time now) {
    while (true) {
      const LocalStep step = job_.Decide(now);
      if (Status status = CarryOut(step); !status.ok()) return status.error();
      if (step.more) continue;
      SetPeers();
      link_.SetDesiredState(name(), job_.desired());
      // What was just accepted may be what the next decision waits for.
      const bool accepted = job_.desired() && link_.Accepted(name(), *job_.desired());
      if (!job_.OnAccepted(accepted)) return step.wake;
    }
  }

  Status CarryOut(const LocalStep& step) {
    if (step.before) {
      if (Status status = Record(*step.before); !status.ok()) return status;
    }
    for (const control::EventNote& event : step.events) PrintEvent(event);
    for (const LocalStep::Signal& signal : step.signals) {
      if (signal.machine >= kFirstSpare) {
        if (!job_.stopping()) {
          screen_.Event("spare " + std::to_string(signal.machine - kFirstSpare) +
                        " gives its place");
        }
        agents_.Kill(signal.machine);
      } else if (signal.kill) {
        screen_.Event("killing the agent of machine " + std::to_string(signal.machine) + ": " +
                      signal.why);
        agents_.Kill(signal.machine);
      } else {
        agents_.Terminate(signal.machine);
      }
    }
    for (const uint32_t machine : step.start) {
      if (machine >= kFirstSpare) {
        StartSpare(machine);
        continue;
      }
      Result<core::AgentConfig> config = AgentConfigOf(
          setup_, job_.job(), state_.path(), state_.url(), job_.status(), first_epoch_, machine);
      if (!config.ok()) return config.error();
      config->marks_stderr = MarksStderr(job_.job(), options_);
      config->predecessor_dead = job_.PredecessorsDead(machine, BootTime());
      Status started = agents_.Start(*config, setup_.places[machine]);
      if (!started.ok()) return started;
    }
    return {};
  }

  // The run goes on without one, which is tried again later.
  void StartSpare(uint32_t machine) {
    const Status started = agents_.StartSpare(machine);
    if (started.ok()) return;
    screen_.Event("no spare: " + started.error().message);
    control::MachineEnd end;
    end.reason = started.error().message;
    job_.OnEnd(machine, std::move(end));
  }

  // The epoch is on the disk before anything is made by it.
  Status Record(const core::JobStatus& before) {
    const core::JobStatus& next = job_.status();
    if (next.epoch > before.epoch) {
      Result<uint32_t> epoch = state_.RaiseEpoch();
      if (!epoch.ok()) return epoch.error();
      if (first_epoch_ == 0) first_epoch_ = *epoch;
    }
    const uint32_t machine0 = before.attempts.Of(0);
    const bool failed = next.last_failure != before.last_failure;
    if (failed && machine0 != 0 && next.attempts.Of(0) > machine0) {
      history_.Cut(EndOf(0, machine0), next.last_failure->failure);
      page_->OnHistory();
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

  // Prints the events that the gang's own lines do not show.
  void PrintEvent(const control::EventNote& event) {
    if (event.reason == "CheckpointNotWritten") unwritten_ = true;
    if (event.reason == "CheckpointNotWritten" || event.reason == "Straggler" ||
        event.reason == "PreflightFoundSlow" || event.reason == control::kRankRestarted ||
        event.reason == "RanksNeverMet" || event.reason == "GangShrunk" ||
        event.reason == "GangGrown" || event.reason == "HangSuspected" ||
        event.reason == "HangTimeoutUnused" || event.reason == "MetricBroken") {
      return screen_.Event(event.note);
    }
    if (event.reason != "MachineReplaced") return;
    std::string line = event.note;
    if (event.warning) {
      line += "; machine failure " + std::to_string(job_.status().counters.infrastructure_used()) +
              " of " + std::to_string(spec().failure_policy.max_machine_replacements) + " allowed";
    }
    screen_.Event(line);
  }

  // The agents that run.
  void SetPeers() {
    gang::GangPeers peers;
    peers.job_uid = job_.job().metadata.uid;
    peers.key = setup_.key;
    peers.machine_lost_after = spec().failure_policy.machine_lost_after;
    for (const AgentProcess& process : job_.machines().processes()) {
      const auto machine = static_cast<int>(process.machine);
      if (process.end || !process.placed || process.attempt != job_.status().attempts.Of(machine))
        continue;
      const Place& place = setup_.places[process.machine];
      peers.members.push_back(
          {process.machine, process.attempt, EndpointText(place.address, place.gang_port)});
    }
    link_.Set(name(), std::move(peers));
  }

  // ---- what is shown ----

  void SayProblem(const std::string& problem) {
    if (!problem.empty()) screen_.Event(problem);
  }

  void PrintNews() {
    const std::string waiting_for = job_.gang() != nullptr ? WaitingFor(*job_.gang()) : "";
    for (const std::string& line : printer_.NewLines(history_, waiting_for)) screen_.Event(line);
  }

  void UpdateScreen(Time now) {
    if (screen_.live() && now >= next_table_) {
      const core::GangStatus* gang = job_.gang();
      TableView view{job_.job(),
                     job_.status(),
                     gang != nullptr ? gang->progress : std::vector<core::RankProgress>(),
                     rate_,
                     now - options_.started,
                     WallNow(),
                     options_.wide,
                     {},
                     options_.show};
      if (gang != nullptr) {
        for (const auto& machine : gang->machines) {
          if (machine.usage) view.usage[static_cast<int32_t>(machine.index)] = *machine.usage;
        }
      }
      screen_.SetTable(RenderTable(view, Screen::Size(), screen_.color()));
      next_table_ = now + kRedraw;
    }
    screen_.Flush();
  }

  // For programs that follow the job. A failure is reported once and ends nothing.
  void WriteStatus(const core::JobStatus& status) {
    if (options_.status.empty()) return;
    std::string json = core::ToJson(status) + "\n";
    if (json == status_json_) return;
    const Status written = WriteFileAtomically(options_.status, json);
    const std::string problem = written.ok() ? "" : "no status: " + written.error().message;
    if (!problem.empty() && problem != status_problem_) screen_.Event(problem);
    status_problem_ = problem;
    if (written.ok()) status_json_ = std::move(json);
  }

  // ---- the end ----

  int Finish() {
    core::JobStatus status = job_.status();
    if (status.state == core::JobState::kSuspended) status.reason = "stopped on request";
    const core::Failure ending = EndingOf(status);
    const Time now = BootTime();
    // The last generation's end may have come with the agents' ends, after the last status.
    const auto last = std::ranges::max_element(ends_, {}, &AgentEnd::at);
    history_.Finish(last != ends_.end() ? last->at : now,
                    status.verdict ? status.verdict->generation : core::Generation{}, ending);
    PrintNews();
    screen_.SetTable({});
    const std::string prestart = PrestartLine(status);
    if (status.restarts.total > 0 && !prestart.empty()) screen_.Event(prestart);
    for (const std::string& line : LedgerLines(status, WallNow())) screen_.Event(line);
    if (status.progress) SayProblem(events_.Finish(WallNow(), *status.progress));
    if (unwritten_) KeepUnwritten();
    screen_.Event(
        ClosingLine(name(), status, history_.generations().size(), now - options_.started));
    for (const std::string& line : LastWordsLines(ending)) screen_.Event(line);
    const int exit_code = ExitCodeOf(status, stop_signal_);
    WriteStatus(status);
    status.timings.created = options_.started_wall;
    status.timings.finished = job_.machines().At(now).wall;
    agents_.FlushOutput();
    EndPage(status, exit_code, now);
    WriteReport(std::move(status), exit_code, now);
    screen_.Flush();
    DrainScreen();
    Linger();
    return exit_code;
  }

  // What another computer's agents held has gone with them.
  void KeepUnwritten() {
    const Result<KeptCheckpoint> kept =
        KeepCheckpoint(setup_.folder.path(), static_cast<uint32_t>(spec().num_machines));
    screen_.Event(!kept.ok() ? "the checkpoint is lost: " + kept.error().message
                  : state_.url().empty()
                      ? HowToUse(*kept, state_.path())
                      : "checkpoint " + kept->name + " is kept in memory, in " + kept->folder +
                            ": copy it to a disk, and remove the folder");
  }

  void EndPage(const core::JobStatus& status, int exit_code, Time now) {
    page_->OnHistory();
    page_->OnJob(status);
    page_->OnEnd(now, exit_code);
  }

  // Whoever looks at the page is to see how the run ended.
  void Linger() {
    bool enough = false;
    for (const int signal : kStopSignals) {
      setup_.loop->OnSignal(signal, [&enough] { enough = true; });
    }
    const Time until = BootTime() + RunPage::kLinger;
    while (page_->owes() && !enough && BootTime() < until) RunOnce(until);
  }

  Result<int> Abandon(const Error& error) {
    KillAll();
    WriteStatus(job_.status());
    page_->OnEvent(error.message);
    EndPage(job_.status(), core::kExitTrouble, BootTime());
    screen_.SetTable({});
    screen_.Flush();
    DrainScreen();
    Linger();
    return error;
  }

  void WriteReport(core::JobStatus status, int exit_code, Time now) {
    if (options_.report.empty()) return;
    Report report;
    report.job = name();
    report.job_uid = job_.job().metadata.uid;
    report.exit_code = exit_code;
    report.took = now - options_.started;
    report.status = std::move(status);
    report.generations = ReportOf(history_, options_.started);
    for (const AgentEnd& end : ends_) {
      report.agents.push_back({end.machine, end.attempt, job_.machines().At(end.at).wall,
                               end.signal > 0 ? std::nullopt : std::optional(end.code),
                               end.signal});
    }
    report.view = page_->Saved();
    const Status written = WriteFileAtomically(options_.report, ToJson(std::move(report)));
    if (!written.ok()) screen_.Event("no report: " + written.error().message);
  }

  // Until all is written, or somebody has had enough of waiting for a reader.
  void DrainScreen() {
    bool enough = false;
    for (const int signal : kStopSignals) {
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

  RunState state_;
  RunOptions options_;
  RunSetup setup_;
  Screen screen_;
  AgentProcesses agents_;
  gang::GangLink link_;
  LocalJob job_;
  uint32_t first_epoch_ = 0;    // of this run
  int stop_signal_ = 0;         // that asked for a stop
  bool asked_to_stop_ = false;  // by another signal than a warning
  History history_;
  ProgressPrinter printer_;
  core::RateMeter rate_;
  ProgressEvents events_;
  std::vector<AgentEnd> ends_;
  RunServer server_;
  std::set<std::string> left_out_;  // by the sync, as they were told
  std::string sync_problem_;        // as it was told
  bool apply_failed_ = false;       // the gang is held until the code is in place
  Time next_table_{};
  Time next_status_{};
  std::string status_json_;            // as it was last written
  std::string status_problem_;         // as it was told
  std::string unschedulable_problem_;  // as it was told
  bool unwritten_ = false;             // a checkpoint in memory is not in the folder
  std::unique_ptr<RunPage> page_;      // never null once this is made
};

}  // namespace

Duration StatusPause(int machines) {
  constexpr int kFew = 8;
  constexpr int kSome = 64;
  constexpr int kMany = 4096;
  constexpr Duration kShortest = milliseconds(50);
  constexpr Duration kLongest = seconds(1);
  if (machines <= kFew) return Duration::zero();
  const int above = std::clamp(machines, kSome, kMany) - kSome;
  return kShortest + (kLongest - kShortest) * above / (kMany - kSome);
}

Result<int> RunJob(const core::TrainingJob& job, RunState state, const RunOptions& options) {
  Result<RunSetup> setup =
      PrepareRun(static_cast<uint32_t>(job.spec.num_machines), options.nodes, options.agent);
  if (!setup.ok()) return setup.error();
  setup->folder.NameJob(job.metadata.name);
  LocalOperator local_operator(job, std::move(state), options, std::move(*setup));
  if (Status served = local_operator.ServePage(); !served.ok()) return served.error();
  return local_operator.Run();
}

}  // namespace lockstep::cli
