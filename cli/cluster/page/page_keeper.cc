#include "cli/cluster/page/page_keeper.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/cluster/page/fleet_page.h"
#include "cli/say.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr const char* kNotKept =
    "the progress of each rank and the parts of a restart are not kept on a cluster";

std::string PageOf(const kube::ObjectName& job) {
  return "the page of " + job.name + " in namespace " + job.name_space;
}

}  // namespace

PageKeeper::PageKeeper(JobPage::Sources sources, Options options)
    : sources_(std::move(sources)),
      options_(std::move(options)),
      store_(sources_.store),
      go_on_(sources_.loop, [this] { GoOn(); }),
      again_(sources_.loop, [this] { TryAgain(); }) {
  sources_.spawner = nullptr;
  sources_.no_exec = kNotKept;
  sources_.lines = kLines;
  sources_.notify = [this] { go_on_.WakeAt(BootTime()); };
  TryAgain();
  if (options_.namespaces.empty()) Follow("");
  for (const std::string& name_space : options_.namespaces) Follow(name_space);
}

void PageKeeper::Follow(const std::string& name_space) {
  EventLoop* loop = sources_.loop;
  watches_[name_space] = std::make_unique<kube::Reflector<kube::JobView>>(
      &sources_.connection->client().transport(),
      kube::WatchOptions{.path = kube::Path(kube::kTrainingJobs, name_space)},
      kube::WatchHandlers<kube::JobView>{
          .on_batch = lifetime_.Hop(loop,
                                    [this, name_space](kube::Batch<kube::JobView> batch) {
                                      OnBatch(name_space, std::move(batch));
                                    }),
          .on_problem = lifetime_.Hop(loop, [this](const Error& error) {
            Complain("the TrainingJobs can't be followed: " + error.message);
          })});
}

void PageKeeper::OnBatch(const std::string& name_space, kube::Batch<kube::JobView> batch) {
  std::map<std::string, Ended> before;
  std::map<std::string, Curve> curves;
  if (batch.replace) {  // what still exists comes again
    const auto here = [&](const auto& each) {
      return name_space.empty() || each.second.job.name_space == name_space;
    };
    std::ranges::copy_if(done_, std::inserter(before, before.end()), here);
    std::ranges::copy_if(curves_, std::inserter(curves, curves.end()), here);
    std::erase_if(curves_, here);
    for (auto* jobs : {&waiting_, &later_, &done_}) std::erase_if(*jobs, here);
  }
  for (auto& event : batch.events) {
    const std::string uid = event.object.meta.uid;
    if (event.kind == kube::EventKind::kDeleted) {
      waiting_.erase(uid);
      later_.erase(uid);
      done_.erase(uid);
      curves_.erase(uid);
      continue;
    }
    if (const auto known = before.find(uid); known != before.end()) done_.insert(*known);
    if (const auto known = curves.find(uid); known != curves.end()) curves_.insert(*known);
    if (event.unreadable || done_.contains(uid)) continue;
    const Result<StoredJob> job = ReadStored(std::move(event.object));
    if (job.ok()) OnJob(*job);
  }
  if (followed_.insert(name_space).second && followed_.size() == watches_.size()) {
    Say("pages of jobs that end are kept from now on");
  }
  go_on_.WakeAt(BootTime());
}

void PageKeeper::OnJob(const StoredJob& job) {
  const std::string& uid = job.meta.uid;
  Remember(job);
  if (!HasEnded(job.status) || open_.contains(uid) || later_.contains(uid)) return;
  if (waiting_.contains(uid)) return;
  waiting_[uid] = {.job = {job.meta.name_space, job.meta.name},
                   .uid = uid,
                   .at = job.status.timings.finished.value_or(WallNow())};
}

bool PageKeeper::Wants(const Ended& ended) const {
  if (ended.tries > 0) return true;
  return store_->Find(ended.job, ended.uid) == nullptr &&
         store_->Wants(ended.job.name_space, ended.at, options_.limits, WallNow());
}

void PageKeeper::Remember(const StoredJob& job) {
  const std::optional<core::JobProgress>& progress = job.status.progress;
  if (HasEnded(job.status) || !progress || !progress->last_updated) return;
  if (curves_.size() >= kMostCurves && !curves_.contains(job.meta.uid)) return;
  Curve& curve = curves_[job.meta.uid];
  curve.job = {job.meta.name_space, job.meta.name};
  std::vector<core::JobProgress>& points = curve.points;
  if (!points.empty() && points.back().last_updated >= progress->last_updated) return;
  if (points.size() >= kMostPoints) {  // every second one goes
    size_t left = 0;
    for (size_t i = 0; i < points.size(); i += 2) std::swap(points[left++], points[i]);
    points.resize(left);
  }
  points.push_back(*progress);
}

void PageKeeper::GoOn() {
  const Time now = BootTime();
  for (auto each = open_.begin(); each != open_.end();) {
    Open& open = each->second;
    const PageServer::Handlers& handlers = open.page->handlers();
    const bool known = handlers.version() != 0;
    const bool gone = known && !open.page->job();
    const bool whole = known && open.page->ReadAll();
    if (!whole && !gone && now < open.until) {
      ++each;
      continue;
    }
    if (known) {
      Write(open, whole);
    } else {
      Complain(PageOf(open.ended.job) + " can't be read; it is tried again");
      later_[each->first] = open.ended;
    }
    each = open_.erase(each);
  }
  while (readable_ && open_.size() < kMostAtOnce && !waiting_.empty()) {
    const Ended ended = waiting_.extract(waiting_.begin()).mapped();
    const auto curve = curves_.find(ended.uid);
    if (!Wants(ended)) {
      done_[ended.uid] = ended;
      curves_.erase(ended.uid);
      continue;
    }
    Open& open = open_[ended.uid];
    open.ended = ended;
    open.page = std::make_unique<JobPage>(
        sources_, ended.job,
        curve == curves_.end() ? std::vector<core::JobProgress>{} : curve->second.points);
    open.until = now + kPatience;
  }
  if (!open_.empty() && !go_on_.armed()) go_on_.WakeAt(now + kLook);
}

void PageKeeper::Write(const Open& open, bool whole) {
  const std::optional<StoredJob>& job = open.page->job();
  const Ended& ended = open.ended;
  if (!job || job->meta.uid != ended.uid) {
    if (ended.tries > 0) return;  // there is one
    Complain(PageOf(ended.job) + " is not kept: the job was deleted before it was read");
    return;
  }
  if (!HasEnded(job->status)) {
    later_[ended.uid] = ended;
    return;
  }
  const Status kept =
      store_->Keep(ended.job, ended.uid, ended.at, FleetRow(*job, ""), open.page->Whole());
  if (!kept.ok()) {
    later_[ended.uid] = ended;
    Complain(PageOf(ended.job) + " is not kept: " + kept.error().message +
             "; it is tried again while the job exists");
    return;
  }
  said_.clear();
  store_->Prune(options_.limits, WallNow());
  if (!whole && ended.tries + 1 < kMostTries) {
    Say(PageOf(ended.job) + " is kept without all of its lines and events; they are read again");
    Ended& again = later_[ended.uid] = ended;
    ++again.tries;
    return;
  }
  done_[ended.uid] = ended;
  curves_.erase(ended.uid);
  Say("kept " + PageOf(ended.job));
}

void PageKeeper::TryAgain() {
  const Status read = store_->Refresh(BootTime());
  readable_ = read.ok();
  if (readable_) {
    store_->Prune(options_.limits, WallNow());
    store_->Sweep();
  } else {
    Complain(read.error().message + "; no page is kept meanwhile");
  }
  waiting_.merge(later_);
  go_on_.WakeAt(BootTime());
  again_.WakeAt(BootTime() + kAgain);
}

void PageKeeper::Complain(const std::string& sentence) {
  if (sentence == std::exchange(said_, sentence)) return;
  Say(sentence);
}

}  // namespace lockstep::cli
