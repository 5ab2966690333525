#include "cli/cluster/page/job_page.h"

#include <algorithm>

#include "base/text/json.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/page/rights.h"
#include "cli/cluster/pod_exec.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr Duration kEventsPause = seconds(2);  // between two questions
constexpr Duration kEventsAgain = seconds(15);
constexpr Duration kLastEvent = seconds(3);    // it may come so long after the end
constexpr Duration kLogPatience = seconds(3);  // for lines of a job that has ended
constexpr size_t kMostStacks = 64;             // machines that are asked for one rank's peers

std::string TextOf(const OrderedJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The first of these members that is a time.
std::optional<WallTime> TimeOf(const OrderedJson& object,
                               std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Result<WallTime> at = ParseWallTime(TextOf(object, name));
    if (at.ok()) return *at;
  }
  return std::nullopt;
}

// An event of the job as the API server has it.
struct StoredEvent {
  std::string uid;
  int64_t count = 1;
  WallTime at{};
  std::string text;
};

std::optional<StoredEvent> ReadEvent(const OrderedJson& item, const std::string& job_uid) {
  if (!item.is_object() || !item.contains("metadata") || !item.contains("regarding")) return {};
  if (!item["metadata"].is_object() || !item["regarding"].is_object()) return {};
  if (TextOf(item["regarding"], "uid") != job_uid) return {};
  StoredEvent event;
  event.uid = TextOf(item["metadata"], "uid");
  std::optional<WallTime> at;
  const auto series = item.find("series");
  if (series != item.end() && series->is_object()) {
    at = TimeOf(*series, {"lastObservedTime"});
    const auto count = series->find("count");
    if (count != series->end() && count->is_number_integer()) event.count = count->get<int64_t>();
  }
  if (!at) at = TimeOf(item, {"eventTime", "deprecatedLastTimestamp"});
  if (!at) at = TimeOf(item["metadata"], {"creationTimestamp"});
  if (!at) return {};
  event.at = *at;
  event.text = TextOf(item, "reason") + ": " + TextOf(item, "note");
  if (event.count > 1) event.text += " (" + std::to_string(event.count) + " times)";
  return event;
}

bool Runs(const kube::PodView& pod) {
  return pod.worker.kind == kube::ContainerState::Kind::kRunning;
}

}  // namespace

JobPage::JobPage(Sources sources, kube::ObjectName job, std::vector<core::JobProgress> past)
    : sources_(std::move(sources)),
      name_(std::move(job)),
      clock_(BootTime(), WallNow()),
      past_(std::move(past)),
      places_(sources_.loop, sources_.queues, [this] { ShowQueue(); }),
      logs_(sources_.loop, sources_.streams, this),
      stacks_(sources_.loop, sources_.spawner),
      gang_(sources_.loop, sources_.spawner, this),
      events_timer_(sources_.loop, [this] { AskEvents(); }),
      first_timer_(sources_.loop,
                   [this] {
                     awaited_.clear();
                     Changed();
                   }),
      logs_timer_(sources_.loop, [this] { AnswerLogs(); }) {
  handlers_.version = [this] { return view_ && awaited_.empty() ? view_->version() : 0; };
  handlers_.view = [this](uint64_t after) {
    places_.Show();
    return view_->Json(after, BootTime());
  };
  handlers_.log = [this](std::optional<uint32_t> rank, uint64_t after, PageServer::Answer answer) {
    Log(rank, after, std::move(answer));
  };
  handlers_.stacks = [this](std::optional<uint32_t> rank, const PageServer::Answer& answer) {
    Stacks(rank, answer);
  };
  handlers_.topology = [](uint32_t) -> Result<std::string> {
    return std::string(
        R"({"notes":["The machines are pods: `lockstep topology` in one of them draws its node."]})");
  };
  first_timer_.WakeAt(BootTime() + kFirstView);
  AskWhetherExecIsAllowed();
  EventLoop* loop = sources_.loop;
  job_watch_ = std::make_unique<JobWatch>(
      loop, sources_.connection, name_,
      JobWatch::Handlers{.on_job = [this](const StoredJob* now) { OnJob(now); },
                         .on_hopeless = [this](const Error& error) { OnJobProblem(error); },
                         .on_problem = [this](const Error& error) { OnJobProblem(error); }});
  pod_watch_ = std::make_unique<kube::Reflector<kube::PodView>>(
      &sources_.connection->client().transport(),
      kube::WatchOptions{.path = kube::Path(kube::kPods, name_.name_space),
                         .query = PodsOf(name_.name)},
      kube::WatchHandlers<kube::PodView>{
          .on_batch = lifetime_.Hop(
              loop, [this](kube::Batch<kube::PodView> batch) { OnPods(std::move(batch)); }),
          .on_problem = lifetime_.Hop(loop, [this](const Error& error) { OnPodsProblem(error); })});
}

JobPage::~JobPage() {
  for (const LogQuestion& question : std::exchange(log_questions_, {})) {
    question.answer(Error::Unavailable("the page of this job was closed; ask again"));
  }
}

void JobPage::Changed() {
  if (handlers_.version() != 0) sources_.notify();
}

void JobPage::Ready(const char* part) {
  awaited_.erase(part);
  Changed();
}

void JobPage::Note(const char* about, std::string sentence) {
  std::string& note = notes_[about];
  sentence = AsNote(sentence);
  if (note == sentence) return;
  note = std::move(sentence);
  ShowNotes();
}

void JobPage::ShowNotes() {
  if (!view_) return;
  std::vector<std::string> sentences;
  for (const auto& [about, sentence] : notes_) {
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  view_->SetNotes(sentences);
  Changed();
}

std::string JobPage::Missing(const char* resource, const char* verb, const char* hidden) const {
  return MissingRight(resource, verb, name_.name_space, hidden);
}

// ---- the job ----

void JobPage::MakeView(const StoredJob& job) {
  // Above all versions of earlier views of this job, so that a page that has one gets all of this.
  const auto milliseconds_now = static_cast<uint64_t>(BootTime() / milliseconds(1));
  const uint64_t version = std::max(view_ ? view_->version() + 1 : 1, milliseconds_now);
  clock_.Saw(NewestIn(job.status), BootTime());
  history_ = {};
  told_ = {};
  events_.clear();
  ended_.reset();
  events_whole_ = false;
  view_ = std::make_unique<View>(ViewJobOf(job), &history_, clock_.At(job.meta.created),
                                 sources_.lines, version);
  for (const core::JobProgress& each : past_) {
    view_->LearnProgress(each, clock_.At(each.last_updated.value_or(job.meta.created)));
  }
  ShowNotes();
}

ViewJob JobPage::ViewJobOf(const StoredJob& job) const {
  ViewJob view;
  view.job = job.job;
  view.job.metadata.uid = job.meta.uid;
  view.job.spec.num_machines = MachinesOf(job);
  view.where = "namespace " + name_.name_space + " of " + sources_.connection->server();
  view.nodes = StoredNodes(job.status, MachinesOf(job));
  view.began = job.meta.created;
  return view;
}

void JobPage::OnJob(const StoredJob* job) {
  job_heard_ = BootTime();
  Note("api", "");
  if (job == nullptr) return OnJobGone();
  Note("job", job->meta.deleted ? "the job is being deleted" : "");
  const bool other = !job_ || job_->meta.uid != job->meta.uid;
  job_ = *job;
  if (other) MakeView(*job);
  view_->SetSilent(std::nullopt);
  view_->SetJob(ViewJobOf(*job));
  const core::JobStatus& status = job->status;
  view_->SetStatus(status);
  view_->LearnMachines(StoredMachines(status, MachinesOf(*job)));
  if (status.progress) {
    const std::optional<WallTime>& at = status.progress->last_updated;
    view_->LearnProgress(*status.progress, at ? clock_.At(*at) : job_heard_);
  }
  ShowGenerations();
  if (HasEnded(status) && !ended_) ended_ = job_heard_;
  if (HasEnded(status) && view_->live()) {
    const std::optional<WallTime>& at = status.timings.finished;
    view_->Finish(at ? clock_.At(*at) : job_heard_, status.verdict ? status.verdict->exit_code : 0);
  }
  const std::optional<QueuedJob> queued = WaitsInQueue(*job);
  places_.Follow(queued ? std::set{queued->queue} : std::set<LocalQueue>{});
  ShowQueue();
  ShowPods();
  FollowGang();
  events_timer_.WakeAt(std::max(job_heard_, events_asked_ + kEventsPause));
  Changed();
}

void JobPage::OnJobGone() {
  const std::string who = "trainingjob " + name_.name + " in namespace " + name_.name_space;
  if (!job_) {
    StoredJob none;
    none.meta.created = WallNow();
    none.job.metadata.name = name_.name;
    MakeView(none);
    awaited_.clear();
    Note("job", "there is no " + who);
  } else {
    Note("job", who + " was deleted; the page shows its last state");
  }
  places_.Follow({});
  if (view_->live()) view_->Finish(job_heard_, 0);
  Changed();
}

void JobPage::OnJobProblem(const Error& error) {
  if (error.kind == ErrorKind::kDenied) {
    Note("api", "the job can't be followed any more: " + error.message);
  } else {
    Note("api", "no answer from " + sources_.connection->server() + ": " + error.message +
                    "; the page shows what was last heard");
  }
  if (view_) view_->SetSilent(job_heard_);
  Changed();
}

void JobPage::ShowGenerations() {
  history_.Replace(Merge(StoredGenerations(job_->status, clock_), told_.generations()));
  view_->LearnHistory();
}

void JobPage::ShowQueue() {
  const std::optional<QueuedJob> queued = WaitsInQueue(*job_);
  const std::optional<QueuePlace> place = queued ? places_.Find(*queued) : std::nullopt;
  const std::vector<std::string> notes = places_.Notes();
  Note("queue", notes.empty() ? "" : notes.front());
  OrderedJson shown;
  if (queued) shown["name"] = queued->queue.name;
  if (place) {
    shown["place"] = place->in_queue;
    shown["placeInClusterQueue"] = place->in_cluster_queue;
  }
  view_->SetQueue(DumpJson(shown));
  Changed();
}

// ---- its pods ----

void JobPage::OnPods(kube::Batch<kube::PodView> batch) {
  if (batch.replace) pods_.clear();
  for (auto& event : batch.events) {
    std::string name = event.object.meta.name;
    if (event.kind == kube::EventKind::kDeleted || event.unreadable) {
      pods_.erase(name);
    } else {
      pods_[name] = std::move(event.object);
    }
  }
  pods_known_ = true;
  Note("pods", "");
  logs_.SetPods(CurrentPodsOf());
  ShowPods();
  FollowGang();
  Ready("pods");
}

void JobPage::FollowGang() {
  const PodsByMachine pods = CurrentPodsOf();
  const auto first = pods.find(0);
  const bool asked =
      may_exec_ && job_ && !HasEnded(job_->status) && first != pods.end() && Runs(*first->second);
  if (asked) {
    std::vector<std::string> argv =
        AskPod(sources_.where, *first->second, {"--status", "--follow"});
    argv.front() = sources_.kubectl;
    return gang_.Follow(first->second->meta.uid, std::move(argv));
  }
  gang_.Stop();
  if (!view_ || (job_ && HasEnded(job_->status))) return;
  view_->LoseGang();
  if (may_exec_) Note("exec", "");
}

void JobPage::OnPodsProblem(const Error& error) {
  if (error.kind == ErrorKind::kDenied) {
    Note("pods", Missing("pods", "list", "logs and stacks are"));
  } else if (!pods_known_) {  // later, the watch of the job says that nothing answers
    Note("pods", "the pods of this job can't be listed: " + error.message);
  }
  Ready("pods");
}

void JobPage::ShowPods() {
  const bool gone = job_ && HasEnded(job_->status) && pods_known_ && pods_.empty();
  Note("gone", gone ? "the pods of this job are gone, and their logs with them" : "");
}

PodsByMachine JobPage::CurrentPodsOf() const {
  std::vector<const kube::PodView*> pods;
  for (const auto& [name, pod] : pods_) pods.push_back(&pod);
  return CurrentPods(pods, std::nullopt);
}

// ---- events and rights ----

void JobPage::AskEvents() {
  if (asking_events_ || !job_) return;
  asking_events_ = true;
  events_asked_ = BootTime();
  kube::Request request;
  request.path = kube::Path(
      kube::kEvents, name_.name_space, {}, {},
      kube::Query({{"fieldSelector", "regarding.kind=TrainingJob,regarding.name=" + name_.name},
                   {"limit", "500"}}));
  sources_.connection->client().Call(
      std::move(request),
      lifetime_.Hop(sources_.loop,
                    [this](const kube::ApiResult<std::string>& answer) { OnEvents(answer); }));
}

void JobPage::OnEvents(const kube::ApiResult<std::string>& answer) {
  asking_events_ = false;
  const bool forbidden = !answer.ok() && answer.error().kind == kube::ApiErrorKind::kForbidden;
  events_whole_ = ended_ && events_asked_ - *ended_ >= kLastEvent && (answer.ok() || forbidden);
  if (view_->live()) {
    events_timer_.WakeAt(BootTime() + kEventsAgain);
  } else if (ended_ && !events_whole_) {
    events_timer_.WakeAt(std::max(*ended_ + kLastEvent, events_asked_ + kEventsPause));
  }
  if (!answer.ok()) {
    Note("events", forbidden ? Missing("events", "list", "events are")
                             : "the events can't be read: " + answer.error().message);
    return Ready("events");
  }
  Note("events", "");
  const OrderedJson list = ParseOrderedJson(*answer);
  std::vector<StoredEvent> fresh;
  const auto items = list.is_object() ? list.find("items") : list.end();
  for (const OrderedJson& item : items == list.end() ? OrderedJson::array() : *items) {
    std::optional<StoredEvent> event = ReadEvent(item, job_->meta.uid);
    if (!event || events_[event->uid] >= event->count) continue;
    events_[event->uid] = event->count;
    fresh.push_back(*std::move(event));
  }
  std::ranges::sort(fresh, {}, &StoredEvent::at);
  for (const StoredEvent& event : fresh) {
    clock_.Saw(event.at, BootTime());
    view_->AddEvent(clock_.At(event.at), event.text);
  }
  Ready("events");
}

void JobPage::AskWhetherExecIsAllowed() {
  if (sources_.spawner == nullptr) {
    exec_note_ = sources_.no_exec;
    Note("exec", exec_note_);
    return Ready("rights");
  }
  AskRight(*sources_.connection, {"create", "", "pods", "exec"}, name_.name_space,
           lifetime_.Hop(sources_.loop, [this](const Result<bool>& allowed) {
             may_exec_ = allowed.ok() && *allowed && !sources_.kubectl.empty();
             if (!allowed.ok()) {
               exec_note_ =
                   "per-rank progress and stacks are not shown: " + allowed.error().message;
             } else if (!*allowed) {
               exec_note_ = Missing("pods/exec", "create", "per-rank progress and stacks are");
             } else if (!may_exec_) {
               exec_note_ = sources_.no_exec;
             }
             Note("exec", exec_note_);
             FollowGang();
             Ready("rights");
           }));
}

// ---- what the page asks ----

bool JobPage::ReadAll() {
  std::vector<int> machines;
  for (const auto& [index, pod] : CurrentPodsOf()) machines.push_back(index);
  logs_.Want(machines);
  return HasAll();
}

bool JobPage::HasAll() const { return ended_ && pods_known_ && events_whole_ && logs_.whole(); }

std::string JobPage::Whole() {
  Note("whole", HasAll() ? "" : "the end of a log, or the last events, could not be read");
  view_->KeepLogs();
  return view_->Json(0, BootTime());
}

void JobPage::Log(std::optional<uint32_t> rank, uint64_t after, PageServer::Answer answer) {
  if (!job_) return answer(Error::Unavailable("nothing is known of this job yet"));
  LogsCommand asked;
  if (rank) asked.rank = static_cast<int32_t>(*rank);
  const Result<std::optional<int>> machine = MachineAsked(*job_, asked);
  if (!machine.ok()) return answer(Error::NotFound(machine.error().message));
  std::vector<int> machines;
  for (const auto& [index, pod] : CurrentPodsOf()) {
    if (!*machine || **machine == index) machines.push_back(index);
  }
  const bool some = machines.size() > PodLogs::kMost;
  Note("ranks",
       some ? "the log of all ranks has the first 16 machines; choose a rank to see another" : "");
  logs_.Want(machines);
  log_questions_.push_back({rank, after, std::move(answer)});
  // A page asks again while the job lives.
  if (view_->live() || !logs_.pending()) return AnswerLogs();
  if (!logs_timer_.armed()) logs_timer_.WakeAt(BootTime() + kLogPatience);
}

void JobPage::OnGang(const core::GangStatus& gang, Time born) {
  Note("exec", "");
  told_.Update(gang, born);
  view_->Update(gang, BootTime(), born);
  ShowGenerations();
  Changed();
}

void JobPage::OnGangBeat() {
  view_->Hear(BootTime());
  Changed();
}

void JobPage::OnGangLost(const std::string& why) {
  Note("exec", "machine 0's agent can't be asked, so per-rank progress is not shown: " + why);
  view_->LoseGang();
  Changed();
}

void JobPage::OnLogLine(int machine, std::optional<WallTime> at, std::string_view line) {
  view_->AddAgentLine(at ? clock_.At(*at) : BootTime(), static_cast<uint32_t>(machine), line);
}

void JobPage::OnLogRead(const Status& status) {
  if (status.ok()) {
    Note("log", "");
  } else if (status.error().kind == ErrorKind::kDenied) {
    Note("log", Missing("pods/log", "get", "logs are"));
  } else {
    Note("log", "a log can't be read: " + status.error().message);
  }
  if (!logs_.pending()) AnswerLogs();
}

void JobPage::AnswerLogs() {
  logs_timer_.Cancel();
  for (const LogQuestion& question : std::exchange(log_questions_, {})) {
    question.answer(view_->LogJson(question.rank, question.after));
  }
}

void JobPage::Stacks(std::optional<uint32_t> rank, const PageServer::Answer& answer) {
  if (!job_) return answer(Error::Unavailable("nothing is known of this job yet"));
  if (!may_exec_) return answer(Error::Unavailable(exec_note_));
  LogsCommand asked;
  const PodsByMachine pods = CurrentPodsOf();
  if (rank) asked.rank = static_cast<int32_t>(*rank);
  const Result<std::optional<int>> machine = MachineAsked(*job_, asked);
  if (!machine.ok()) return answer(Error::NotFound(machine.error().message));
  std::vector<StackAsker::Machine> machines;
  for (const auto& [index, pod] : pods) {
    if (*machine && **machine != index && pods.size() > kMostStacks) continue;
    StackAsker::Machine& each = machines.emplace_back();
    each.index = static_cast<uint32_t>(index);
    if (Runs(*pod)) {
      each.argv = AskPod(sources_.where, *pod, {"--evidence"});
      each.argv.front() = sources_.kubectl;
    } else {
      each.problem = "it does not run; it waits for " + WaitsFor(*pod);
    }
  }
  stacks_.Ask(std::move(machines), [rank, answer](const lockstep::cli::Stacks& stacks) {
    answer(StacksJson(stacks, rank));
  });
}

}  // namespace lockstep::cli
