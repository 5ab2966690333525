#include "operator/controller/refresher.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/names.h"
#include "operator/kube/api.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/watch/resource_version.h"
#include "operator/objects/endpoint_slice.h"

namespace lockstep::control {
namespace {

using Answer = kube::ApiResult<std::string>;

constexpr auto kNobodyToTell = [](const auto*, const auto*) {};

std::string UidOf(const kube::ObjectName& name, const kube::Cache<kube::JobView>& cache) {
  const kube::JobView* job = cache.Find(name);
  return job == nullptr ? "" : job->meta.uid;
}

// `uid`: of the one that was known when it was asked for.
bool TakeJob(const kube::ObjectName& name, const std::string& uid, Answer answer,
             kube::Cache<kube::JobView>* cache) {
  if (!answer.ok()) {
    if (answer.error().kind != kube::ApiErrorKind::kNotFound) return false;
    // Another one may have been made since.
    if (UidOf(name, *cache) == uid) cache->Remove(name, kNobodyToTell);
    return true;
  }
  kube::Decoder decoder;
  Result<kube::JobView> job = decoder.Object<kube::JobView>(std::move(*answer));
  if (job.ok()) cache->Put(std::move(*job), kNobodyToTell);
  return job.ok();
}

// What the list doesn't hold is gone, unless it was made since.
template <typename T>
bool TakeList(const kube::ObjectName& job, Answer answer, kube::Cache<T>* cache) {
  if (!answer.ok()) return false;
  kube::Decoder decoder;
  std::vector<T> items;
  const Result<kube::ListPage> page = decoder.Page(std::move(*answer), &items);
  if (!page.ok()) return false;
  std::set<std::string> gone;
  for (const T* each : cache->ByJob(job)) {
    const auto order =
        kube::CompareResourceVersions(each->meta.resource_version, page->resource_version);
    if (!order || *order <= 0) gone.insert(each->meta.name);
  }
  for (T& each : items) {
    gone.erase(each.meta.name);
    cache->Put(std::move(each), kNobodyToTell);
  }
  for (const std::string& name : gone) cache->Remove({job.name_space, name}, kNobodyToTell);
  return true;
}

}  // namespace

Refresher::Refresher(EventLoop* loop, kube::Client* client, Caches* caches)
    : loop_(loop), client_(client), caches_(caches) {}

void Refresher::Read(const kube::ObjectName& job, bool queues, std::function<void(bool ok)> done) {
  struct Reads {
    int open = 0;
    bool ok = true;
    std::function<void(bool)> done;
  };
  auto reads = std::make_shared<Reads>();
  reads->open = queues ? 5 : 4;
  reads->done = std::move(done);
  const auto read = [&](std::string path, std::function<bool(Answer)> take) {
    client_->Call({kube::Method::kGet, std::move(path), ""},
                  lifetime_.Hop(loop_, [reads, take = std::move(take)](Answer answer) {
                    reads->ok &= take(std::move(answer));
                    if (--reads->open == 0) reads->done(reads->ok);
                  }));
  };
  const std::string spares = std::string(job.name).append(core::kSpareSuffix);
  const std::string selector =
      kube::Query({{"labelSelector", "lockstep.dev/job in (" + job.name + "," + spares + ")"}});
  read(kube::Path(kube::kTrainingJobs, job.name_space, job.name),
       [this, job, uid = UidOf(job, caches_->jobs)](Answer answer) {
         return TakeJob(job, uid, std::move(answer), &caches_->jobs);
       });
  read(kube::Path(kube::kPods, job.name_space, {}, {}, selector),
       [this, job](Answer answer) { return TakeList(job, std::move(answer), &caches_->pods); });
  read(kube::Path(kube::kServices, job.name_space, {}, {}, selector),
       [this, job](Answer answer) { return TakeList(job, std::move(answer), &caches_->services); });
  read(kube::Path(kube::kEndpointSlices, job.name_space, {}, {},
                  kube::Query({{"labelSelector", std::string(kSlicesOfJob) + job.name}})),
       [this, job](Answer answer) { return TakeList(job, std::move(answer), &caches_->slices); });
  if (!queues) return;
  read(kube::Path(kube::kWorkloads, job.name_space, {}, {}, selector), [this, job](Answer answer) {
    return TakeList(job, std::move(answer), &caches_->workloads);
  });
}

}  // namespace lockstep::control
