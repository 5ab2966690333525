#include "cli/cluster/page/fleet_page.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/text/json.h"
#include "base/wall_time.h"
#include "cli/cluster/page/rights.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr int kFormat = 1;
constexpr size_t kMostOfReason = 256;
constexpr const char* kNoPageFree =
    "the pages of other jobs take all places of this table: close another tab";
constexpr const char* kNotKnownYet =
    "the API server has not listed this namespace's jobs yet; the page tries again";
constexpr const char* kFull =
    "the disk of kept pages is full: pages of jobs that end now may be missing";
constexpr kube::Resource kNamespaces{"", "v1", "namespaces"};

kube::ObjectName NameOf(const std::string& job) {
  const size_t slash = job.find('/');
  if (slash == std::string::npos) return {"", job};
  return {job.substr(0, slash), job.substr(slash + 1)};
}

}  // namespace

std::string FleetRow(const StoredJob& job, const std::string& problem) {
  const core::JobStatus& status = job.status;
  OrderedJson row = {{"namespace", job.meta.name_space},
                     {"name", job.meta.name},
                     {"created", FormatWallTime(job.meta.created)}};
  if (!problem.empty()) {
    row["problem"] = core::OneLine(core::FirstBytes(problem, kMostOfReason));
    return DumpJson(row);
  }
  row["state"] = core::ToString(status.state);
  row["reason"] = core::OneLine(core::FirstBytes(status.reason, kMostOfReason));
  row["ready"] = status.ready;
  row["machines"] = MachinesOf(job);
  row["processes"] = job.job.spec.processes_per_machine;
  row["restarts"] = status.restarts.total;
  if (job.meta.deleted) row["deleted"] = true;
  if (const std::string queue = QueueOf(job); !queue.empty()) row["queue"] = queue;
  if (status.progress) {
    row["step"] = status.progress->step;
    row["totalSteps"] = status.progress->total_steps;
  }
  if (status.ledger) {
    row["productive"] = status.ledger->goodput;
    row["lostSeconds"] = status.ledger->sums.lost() / 1000;
  }
  return DumpJson(row);
}

FleetPage::FleetPage(JobPage::Sources sources, Options options)
    : sources_(std::move(sources)),
      options_(std::move(options)),
      places_(sources_.loop, sources_.queues, [this] { Changed(); }),
      calm_(sources_.loop,
            [this] {
              // Above all versions of earlier tables, as JobPage::MakeView.
              const auto first = static_cast<uint64_t>(BootTime() / milliseconds(1));
              version_ = version_ == 0 ? std::max<uint64_t>(first, 1) : version_ + 1;
              OpenAwaited();
              sources_.notify();
            }),
      idle_(sources_.loop, [this] { CloseIdle(); }) {
  handlers_.version = [this] { return version_; };
  handlers_.view = [this](uint64_t) {
    places_.Show();
    if (sources_.store != nullptr) {
      (void)sources_.store->Refresh(BootTime());
      Note("full", sources_.store->IsFull() ? kFull : "");
    }
    return Json();
  };
  Follow(options_.only);
}

Result<const PageServer::Handlers*> FleetPage::Find(const std::string& job,
                                                    PageServer::Visit visit) {
  if (visit == PageServer::Visit::kAsk) asked_ = BootTime();
  if (job.empty()) {
    if (visit == PageServer::Visit::kLeave) asked_ -= PageServer::kShown;
    return &handlers_;
  }
  if (version_ == 0) {
    if (visit == PageServer::Visit::kAsk && awaited_.size() < options_.most_open) {
      awaited_.insert(job);
    }
    return &handlers_;
  }
  if (sources_.store != nullptr) (void)sources_.store->Refresh(BootTime());
  auto found = open_.find(job);
  if (found != open_.end() && found->second.kept) {  // of one UID: there may be a later job
    const PageStore::Page* now = FindKept(job);
    if (now == nullptr || now->uid != found->second.kept->uid()) {
      if (visit != PageServer::Visit::kAsk) return Error::Unavailable(kNotKnownYet);
      open_.erase(found);
      found = open_.end();
    }
  }
  if (found != open_.end()) {
    if (visit == PageServer::Visit::kAsk) found->second.asked = BootTime();
    if (visit == PageServer::Visit::kLeave) found->second.asked -= PageServer::kShown;
    return &found->second.handlers();
  }
  if (!rows_.contains(job) && FindKept(job) == nullptr) {
    if (Awaits(job)) return Error::Unavailable(kNotKnownYet);
    return nullptr;
  }
  if (visit != PageServer::Visit::kAsk || !HasPlace()) return Error::Unavailable(kNoPageFree);
  return OpenJob(job);
}

Time FleetPage::asked() const {
  Time last = asked_;
  for (const auto& [job, open] : open_) last = std::max(last, open.asked);
  return last;
}

bool FleetPage::HasPlace() {
  if (open_.size() < options_.most_open) return true;
  const auto oldest =
      std::ranges::min_element(open_, {}, [](const auto& each) { return each.second.asked; });
  if (BootTime() - oldest->second.asked < PageServer::kShown) return false;
  open_.erase(oldest);
  return true;
}

void FleetPage::OpenAwaited() {
  for (const std::string& job : std::exchange(awaited_, {})) {
    if ((rows_.contains(job) || FindKept(job) != nullptr) && HasPlace()) OpenJob(job);
  }
}

const PageServer::Handlers* FleetPage::OpenJob(const std::string& job) {
  ++made_;
  Open& opened = open_[job];
  if (const PageStore::Page* kept = FindKept(job); kept != nullptr) {
    opened.kept =
        std::make_unique<KeptPage>(sources_.loop, sources_.connection, *kept, sources_.notify);
  } else {
    opened.page = std::make_unique<JobPage>(sources_, NameOf(job));
  }
  opened.asked = BootTime();
  if (!idle_.armed()) idle_.WakeAt(opened.asked + kIdle);
  return &opened.handlers();
}

bool FleetPage::Awaits(const std::string& job) const {
  const auto awaits = [this](const std::string& name_space) {
    return watches_.contains(name_space) && !listed_.contains(name_space);
  };
  return awaits("") || awaits(NameOf(job).name_space);
}

const PageStore::Page* FleetPage::FindKept(const std::string& job) const {
  if (sources_.store == nullptr) return nullptr;
  const kube::ObjectName name = NameOf(job);
  if (const auto row = rows_.find(job); row != rows_.end()) {
    if (row->second.ended.empty()) return nullptr;
    return sources_.store->Find(name, row->second.ended);
  }
  const auto lists = [this](const std::string& name_space) {
    const auto found = listed_.find(name_space);
    return found != listed_.end() && found->second;
  };
  return lists("") || lists(name.name_space) ? sources_.store->Find(name) : nullptr;
}

std::vector<const PageStore::Page*> FleetPage::KeptJobs() const {
  std::vector<const PageStore::Page*> jobs;
  if (sources_.store == nullptr) return jobs;
  for (const auto& [name_space, may] : listed_) {
    if (!may) continue;
    for (const PageStore::Page* page : sources_.store->List(name_space)) {
      if (rows_.contains(page->job.name_space + "/" + page->job.name)) continue;
      jobs.push_back(page);
    }
  }
  if (jobs.size() + rows_.size() > kMostJobs) {
    std::ranges::sort(jobs, std::greater(), &PageStore::Page::at);
    jobs.resize(kMostJobs - std::min(kMostJobs, rows_.size()));
  }
  return jobs;
}

void FleetPage::CloseIdle() {
  const Time now = BootTime();
  std::erase_if(open_, [now](const auto& each) { return now - each.second.asked >= kIdle; });
  if (!open_.empty()) idle_.WakeAt(now + kIdle / 2);
}

// ---- what is there ----

void FleetPage::Follow(const std::string& name_space) {
  EventLoop* loop = sources_.loop;
  watches_[name_space] = std::make_unique<kube::Reflector<kube::JobView>>(
      &sources_.connection->client().transport(),
      kube::WatchOptions{.path = kube::Path(kube::kTrainingJobs, name_space)},
      kube::WatchHandlers<kube::JobView>{
          .on_batch = lifetime_.Hop(loop,
                                    [this, name_space](kube::Batch<kube::JobView> batch) {
                                      OnBatch(name_space, std::move(batch));
                                    }),
          .on_problem = lifetime_.Hop(
              loop, [this, name_space](const Error& error) { OnProblem(name_space, error); })});
}

void FleetPage::OnBatch(const std::string& name_space, kube::Batch<kube::JobView> batch) {
  Note(name_space, "");
  listed_[name_space] = true;
  if (batch.replace) {
    std::erase_if(rows_, [&](const auto& row) {
      return name_space.empty() || row.first.starts_with(name_space + "/");
    });
  }
  for (auto& event : batch.events) {
    const kube::ObjectMeta meta = event.object.meta;
    const std::string key = meta.name_space + "/" + meta.name;
    if (event.kind == kube::EventKind::kDeleted) {
      rows_.erase(key);
      continue;
    }
    if (rows_.size() >= kMostJobs && !rows_.contains(key)) {
      Note("many", "there are more than 2000 jobs; to see the others, " + options_.another);
      continue;
    }
    StoredJob job;
    job.meta = meta;
    std::string problem;
    Result<StoredJob> read = event.unreadable ? Result<StoredJob>(Unreadable(meta))
                                              : ReadStored(std::move(event.object));
    if (read.ok()) {
      job = *std::move(read);
    } else {
      problem = read.error().message;
    }
    rows_[key] = {FleetRow(job, problem), problem.empty() ? WaitsInQueue(job) : std::nullopt,
                  problem.empty() && HasEnded(job.status) ? job.meta.uid : ""};
  }
  FollowQueues();
  Changed();
}

void FleetPage::OnProblem(const std::string& name_space, const Error& error) {
  if (error.kind != ErrorKind::kDenied) {
    Note(name_space, "no answer from " + sources_.connection->server() + ": " + error.message +
                         "; the page shows what was last heard");
  } else if (name_space.empty()) {
    watches_.clear();
    listed_.clear();
    AskNamespaces();
  } else {
    listed_[name_space] = false;
    Note(name_space, MissingRight("trainingjobs", "list and watch", name_space, "its jobs are"));
  }
  Changed();
}

void FleetPage::AskNamespaces() {
  const std::string own = options_.own;
  kube::Request request;
  request.path = kube::Path(kNamespaces, "", {}, {}, kube::Query({{"limit", "500"}}));
  sources_.connection->client().Call(
      std::move(request),
      lifetime_.Hop(sources_.loop, [this, own](const kube::ApiResult<std::string>& answer) {
        if (!answer.ok()) {
          Note("namespaces",
               "trainingjobs: list is missing in the cluster, and so is namespaces: list; only "
               "namespace " +
                   own + " is shown: " + options_.another);
          Follow(own);
          return Changed();
        }
        const OrderedJson list = ParseOrderedJson(*answer);
        if (!list.is_object() || !list.contains("items")) return;
        for (const OrderedJson& item : list["items"]) {
          const auto meta = item.is_object() ? item.find("metadata") : item.end();
          if (meta == item.end() || !meta->is_object() || !meta->contains("name")) continue;
          if ((*meta)["name"].is_string()) AskWhetherListIsAllowed((*meta)["name"]);
        }
        Changed();
      }));
}

void FleetPage::AskWhetherListIsAllowed(const std::string& name_space) {
  AskRight(*sources_.connection, {"list", "lockstep.dev", "trainingjobs", ""}, name_space,
           lifetime_.Hop(sources_.loop, [this, name_space](const Result<bool>& allowed) {
             if (!allowed.ok()) {
               return Note("namespaces",
                           "the jobs of some namespaces are not shown: " + allowed.error().message);
             }
             if (!*allowed) return;
             if (watches_.size() >= kMostNamespaces) {
               return Note("namespaces",
                           "only the jobs of 64 namespaces are shown: " + options_.another);
             }
             Follow(name_space);
           }));
}

void FleetPage::FollowQueues() {
  std::set<LocalQueue> queues;
  for (const auto& [key, row] : rows_) {
    if (row.queued) queues.insert(row.queued->queue);
  }
  places_.Follow(queues);
}

// ---- what the page asks ----

void FleetPage::Note(const std::string& about, std::string sentence) {
  std::string& note = notes_[about];
  sentence = AsNote(sentence);
  if (note == sentence) return;
  note = std::move(sentence);
  Changed();
}

void FleetPage::Changed() {
  if (!calm_.armed()) calm_.WakeAt(BootTime() + (version_ == 0 ? Duration::zero() : kCalm));
}

std::string FleetPage::Json() const {
  std::vector<std::string> sentences;
  for (const auto& [about, sentence] : notes_) {
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  std::ranges::copy(places_.Notes(), std::back_inserter(sentences));
  const OrderedJson head = {
      {"format", kFormat},
      {"version", version_},
      {"now", 0},
      {"heard", nullptr},
      {"live", true},
      {"at", FormatWallTime(WallNow())},
      {"notes", sentences},
      {"where", (options_.only.empty() ? "" : "namespace " + options_.only + " of ") +
                    sources_.connection->server()}};
  std::string text = DumpJson(head);
  text.pop_back();
  text += ",\"fleet\":[";
  bool first = true;
  for (const auto& [key, row] : rows_) {
    if (!std::exchange(first, false)) text += ',';
    text += row.text;
    const std::optional<QueuePlace> place = row.queued ? places_.Find(*row.queued) : std::nullopt;
    if (!place) continue;
    text.pop_back();
    text += ",\"place\":" + std::to_string(place->in_queue) +
            ",\"placeInClusterQueue\":" + std::to_string(place->in_cluster_queue) + '}';
  }
  for (const PageStore::Page* page : KeptJobs()) {
    if (!std::exchange(first, false)) text += ',';
    text += page->row;
  }
  return text + "]}";
}

}  // namespace lockstep::cli
