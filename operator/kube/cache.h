// Cache<T>: the last known state of one resource, as the Reflector's batches make it.
//
//   pods.Apply(std::move(batch), [&](const PodView* before, const PodView* after) {
//     const PodView& pod = after ? *after : *before;
//     queue.Add({pod.meta.name_space, pod.job}, Priority::kNormal);
//   });
//   for (const PodView* pod : pods.ByJob("default", "gpt")) ...
//
// One thread. Pointers to an object are good until the next Apply or Put.
#ifndef LOCKSTEP_OPERATOR_KUBE_CACHE_H_
#define LOCKSTEP_OPERATOR_KUBE_CACHE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "operator/kube/views.h"
#include "operator/kube/watch.h"

namespace lockstep::kube {

template <typename T>
class Cache {
 public:
  // before: null if new. after: null if gone. Both: changed; another UID is another object under
  // the same name. Called after each single change; the cache already stands at `after`.
  using OnChange = std::function<void(const T* before, const T* after)>;

  void Apply(Batch<T> batch, const OnChange& on_change);

  // A state read directly (a consistent GET), `object` null: it is not there. An older one than
  // what is cached is ignored.
  void Put(const ObjectName& name, const T* object, const OnChange& on_change);

  // Null when there is none.
  const T* Find(std::string_view name_space, std::string_view name) const;

  // All objects whose JobOf is `job`, in no particular order.
  std::span<const T* const> ByJob(std::string_view name_space, std::string_view job) const;

  void ForEach(const std::function<void(const T&)>& visit) const;

  bool synced() const { return synced_; }  // a whole state has been applied
  const std::string& resource_version() const { return resource_version_; }
  size_t size() const;

 private:
  std::string resource_version_;
  bool synced_ = false;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CACHE_H_
