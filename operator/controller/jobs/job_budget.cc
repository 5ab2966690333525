#include "operator/controller/jobs/job_budget.h"

#include <algorithm>

#include "operator/kube/decode/decode.h"

namespace lockstep::control {
namespace {

// Bytes of one value in the tree (core/text/node.h), with its key.
constexpr size_t kValue = 256;

}  // namespace

size_t JobBudget::CostOf(const kube::JobView& job) {
  const auto values = static_cast<size_t>(std::ranges::count(job.json, ','));
  return job.json.size() + values * kValue;
}

void JobBudget::Admit(kube::JobView& job) {
  const kube::ObjectName name = {job.meta.name_space, job.meta.name};
  const size_t cost = CostOf(job);
  const MutexLock lock(&mutex_);
  Uncount(name);
  if (cost <= kOrdinary) return;
  const auto found = by_namespace_.find(name.name_space);
  const size_t own = found == by_namespace_.end() ? 0 : found->second;
  const size_t others = std::min(all_ - own, kRoom);
  if (job.begun || own + cost <= (kRoom - others) / 2) return Count(name, cost);
  kube::Refuse(job,
               "the large TrainingJobs of namespace " + name.name_space + " take " +
                   std::to_string(own >> 20) + " MiB of the operator's memory, and this one " +
                   std::to_string(cost >> 10) +
                   " KiB more, which is over the limit: delete some of them, or make them smaller");
}

void JobBudget::Release(const kube::ObjectName& job) {
  const MutexLock lock(&mutex_);
  Uncount(job);
}

void JobBudget::Clear(const std::string& name_space) {
  const MutexLock lock(&mutex_);
  for (auto each = costs_.begin(); each != costs_.end();) {
    const kube::ObjectName job = (each++)->first;
    if (name_space.empty() || job.name_space == name_space) Uncount(job);
  }
}

void JobBudget::Count(const kube::ObjectName& job, size_t cost) {
  costs_[job] = cost;
  by_namespace_[job.name_space] += cost;
  all_ += cost;
}

void JobBudget::Uncount(const kube::ObjectName& job) {
  const auto found = costs_.find(job);
  if (found == costs_.end()) return;
  size_t& own = by_namespace_[job.name_space];
  own -= found->second;
  all_ -= found->second;
  if (own == 0) by_namespace_.erase(job.name_space);
  costs_.erase(found);
}

}  // namespace lockstep::control
