#include "cli/cluster/log_follower.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/say.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr Duration kRetry = seconds(1);

}  // namespace

LogFollower::LogFollower(EventLoop* loop, Connection* cluster, kube::Transport* transport,
                         const std::string& job, std::optional<int> machine, LogFilter filter)
    : loop_(loop),
      transport_(transport),
      name_space_(cluster->name_space()),
      machine_(machine),
      filter_(filter),
      job_watch_(loop, cluster, {cluster->name_space(), job},
                 {.on_job = [this](const StoredJob* now) { OnJob(now); },
                  .on_hopeless = [this](const Error& error) { End(error); }}),
      pod_watch_(&cluster->client().transport(),
                 {.path = kube::Path(kube::kPods, name_space_), .query = PodsOf(job)},
                 {.on_batch =
                      [this](kube::Batch<kube::PodView> batch) {
                        loop_->PostFromAnyThread([this, batch = std::move(batch)]() mutable {
                          OnPods(std::move(batch));
                        });
                      },
                  .on_problem =
                      [this](const Error& error) {
                        loop_->PostFromAnyThread([this, error] {
                          ReportProblem(error, &told_, [this](const Error& why) { End(why); });
                        });
                      }}) {}

void LogFollower::OnPods(kube::Batch<kube::PodView> batch) {
  if (batch.replace) pods_.clear();
  for (auto& event : batch.events) {
    if (event.kind == kube::EventKind::kDeleted) {
      pods_.erase(event.object.meta.name);
    } else if (event.unreadable) {
      Say("pod " + event.object.meta.name + " cannot be read and is left out");
    } else {
      std::string name = event.object.meta.name;
      pods_[name] = std::move(event.object);
    }
  }
  pods_known_ = true;
  Advance();
}

void LogFollower::OnJob(const StoredJob* job) {
  job_ended_ = job == nullptr || HasEnded(job->status);
  Advance();
}

void LogFollower::OnStreamEnd(int machine, const std::string& uid, const Status& status,
                              std::optional<WallTime> last) {
  Reading& reading = readings_[machine];
  if (reading.uid != uid) return;
  reading.stream.reset();
  reading.last = last;
  const auto pod = pods_.find(reading.pod);
  const bool gone = pod == pods_.end() || pod->second.meta.uid != uid;
  const bool terminated =
      !gone && pod->second.worker.kind == kube::ContainerState::Kind::kTerminated;
  if (!status.ok() && status.error().kind == ErrorKind::kDenied) return End(status.error());
  reading.whole = gone || (terminated && status.ok());
  if (!reading.whole) {
    reading.retrying = true;
    loop_->StartTimer(BootTime() + kRetry, [this, machine, uid] {
      Reading& again = readings_[machine];
      if (again.uid != uid) return;
      again.retrying = false;
      Advance();
    });
  }
  Advance();
}

void LogFollower::Advance() {
  std::vector<const kube::PodView*> pods;
  pods.reserve(pods_.size());
  for (const auto& [name, pod] : pods_) pods.push_back(&pod);
  for (const auto& [machine, pod] : CurrentPods(pods, machine_)) {
    Reading& reading = readings_[machine];
    if (!HasStarted(*pod)) {
      if (std::exchange(reading.waited_for, WaitsFor(*pod)) == reading.waited_for) continue;
      Say(pod->meta.name + " waits for " + reading.waited_for);
      continue;
    }
    if (reading.uid != pod->meta.uid) {
      if (!reading.uid.empty()) {
        Say("machine " + std::to_string(machine) + " goes on as " + pod->meta.name);
      }
      reading = {};
      reading.pod = pod->meta.name;
      reading.uid = pod->meta.uid;
    }
    if (!reading.stream && !reading.whole && !reading.retrying) Open(machine, &reading);
  }
  const bool all_read = std::all_of(readings_.begin(), readings_.end(),
                                    [&](const auto& entry) { return IsOver(entry.second); });
  if (job_ended_ && pods_known_ && all_read) loop_->Stop();
}

// Of a job that has ended: nothing more will come of it.
bool LogFollower::IsOver(const Reading& reading) const {
  return reading.whole || reading.uid.empty() || (!reading.stream && !pods_.contains(reading.pod));
}

void LogFollower::Open(int machine, Reading* reading) {
  reading->stream = std::make_unique<LogStream>(
      transport_,
      PodLog{
          .name_space = name_space_, .pod = reading->pod, .follow = true, .behind = reading->last},
      filter_, ToStandardOutput(),
      [this, machine, uid = reading->uid](const Status& status, std::optional<WallTime> last) {
        loop_->PostFromAnyThread(
            [this, machine, uid, status, last] { OnStreamEnd(machine, uid, status, last); });
      });
}

void LogFollower::End(const Error& error) {
  outcome_ = error;
  loop_->Stop();
}

}  // namespace lockstep::cli
