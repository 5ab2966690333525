#include "operator/controller/observe/refresher.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/names.h"
#include "operator/kube/api.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/resource_version.h"
#include "operator/kube/watch/paged_list.h"
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
Status TakeJob(const kube::ObjectName& name, const std::string& uid, Answer answer,
               JobBudget* budget, kube::Cache<kube::JobView>* cache) {
  if (!answer.ok()) {
    const kube::ApiError& error = answer.error();
    if (error.kind != kube::ApiErrorKind::kNotFound) return Error::Unavailable(error.message);
    // Another one may have been made since.
    if (UidOf(name, *cache) == uid) cache->Remove(name, kNobodyToTell);
    return {};
  }
  kube::Decoder decoder;
  Result<kube::JobView> job = decoder.Object<kube::JobView>(std::move(*answer));
  if (!job.ok()) return job.error();
  budget->Admit(*job);
  cache->Put(std::move(*job), kNobodyToTell);
  return {};
}

// Objects that are not in the list are gone, unless they were made since.
template <typename T>
void TakeList(const kube::ObjectName& job, kube::PagedList<T>& list, kube::Cache<T>* cache) {
  std::set<std::string> gone;
  for (const T* each : cache->ByJob(job)) {
    const auto order =
        kube::CompareResourceVersions(each->meta.resource_version, list.resource_version());
    if (!order || *order <= 0) gone.insert(each->meta.name);
  }
  for (const kube::UnreadableObject& each : list.unreadable()) gone.erase(each.meta.name);
  for (T& each : list.items()) {
    gone.erase(each.meta.name);
    cache->Put(std::move(each), kNobodyToTell);
  }
  for (const std::string& name : gone) cache->Remove({job.name_space, name}, kNobodyToTell);
}

}  // namespace

// One job's open reads, and the first failed one.
struct Refresher::Reads {
  int open = 0;
  Status outcome{};
  std::function<void(const Status&)> done;

  void End(const Status& status) {
    if (outcome.ok()) outcome = status;
    if (--open == 0) done(outcome);
  }
};

Refresher::Refresher(EventLoop* loop, kube::Client* client, Caches* caches, JobBudget* budget)
    : loop_(loop), client_(client), caches_(caches), budget_(budget) {}

template <typename T>
void Refresher::ReadPages(const std::shared_ptr<kube::PagedList<T>>& list,
                          const kube::ObjectName& job, kube::Cache<T>* cache,
                          const std::shared_ptr<Reads>& reads) {
  client_->Call(list->Next(), lifetime_.Hop(loop_, [this, list, job, cache, reads](Answer answer) {
    if (const auto error = list->Take(std::move(answer))) {
      return reads->End(Error::Unavailable(error->message));
    }
    if (!list->done()) return ReadPages(list, job, cache, reads);
    TakeList(job, *list, cache);
    reads->End({});
  }));
}

void Refresher::Read(const kube::ObjectName& job, Reach reach,
                     std::function<void(const Status&)> done) {
  const std::string spares = std::string(job.name).append(core::kSpareSuffix);
  const std::string ours =
      kube::Query({{"labelSelector", "lockstep.dev/job in (" + job.name + "," + spares + ")"}});
  auto reads = std::make_shared<Reads>();
  reads->done = std::move(done);
  reads->open = 1;
  client_->Call(
      {kube::Method::kGet, kube::Path(kube::kTrainingJobs, job.name_space, job.name), ""},
      lifetime_.Hop(loop_, [this, job, reads, uid = UidOf(job, caches_->jobs)](Answer answer) {
        reads->End(TakeJob(job, uid, std::move(answer), budget_, &caches_->jobs));
      }));
  if (reach == Reach::kJob) return;
  const auto list = [&]<typename T>(const kube::Resource& resource, const std::string& query,
                                    kube::Cache<T>* cache) {
    ++reads->open;
    ReadPages(std::make_shared<kube::PagedList<T>>(kube::Path(resource, job.name_space), query),
              job, cache, reads);
  };
  list(kube::kPods, ours, &caches_->pods);
  list(kube::kServices, ours, &caches_->services);
  list(kube::kEndpointSlices,
       kube::Query({{"labelSelector", std::string(kSlicesOfJob) + job.name}}), &caches_->slices);
  if (reach == Reach::kAllAndQueue) list(kube::kWorkloads, ours, &caches_->workloads);
}

}  // namespace lockstep::control
