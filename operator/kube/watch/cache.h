// Cache<T>: the last known state of one resource, kept from the batches of a Reflector, or of one
// for each of several namespaces.
//
//   pods.Apply(std::move(batch), [&](const PodView* before, const PodView* after) {
//     const PodView& pod = after ? *after : *before;
//     queue.Add({pod.meta.name_space, pod.job}, Priority::kNormal, now);
//   });
//   for (const PodView* pod : pods.ByJob({"default", "gpt"})) ...
//
// One thread. Pointers to an object are good until the next Apply, Put or Remove.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_CACHE_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "operator/kube/resource_version.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::kube {

template <typename T>
class Cache {
 public:
  // `before` is null for a new object. `after` is null for a deleted one, and `before` is then its
  // last state. Both are set for a change; if their UIDs differ, another object has taken the name.
  using OnChange = std::function<void(const T* before, const T* after)>;

  // Calls on_change for each object that changed, when the cache already holds `after`. on_change
  // must not change the cache.
  void Apply(Batch<T> batch, const OnChange& on_change);

  // Stores the answer of a consistent GET. Ignored if a later state is known, or the end: of what
  // stood at a version that the watch has reached, and is not here, the watch has told the end.
  void Put(T object, const OnChange& on_change);
  // Removes an object that a consistent GET did not find.
  void Remove(const ObjectName& name, const OnChange& on_change);

  // Null when there is none.
  const T* Find(const ObjectName& name) const;

  // All objects whose JobOf is this job's name, in no particular order.
  std::span<const T* const> ByJob(const ObjectName& job) const;

  void ForEach(const std::function<void(const T&)>& visit) const;

  // How far what is known of a namespace goes; "": nothing is.
  const std::string& resource_version(const std::string& name_space = {}) const;
  size_t size() const { return objects_.size(); }

 private:
  using Name = std::pair<std::string_view, std::string_view>;  // namespace, name

  // Hashes and compares objects by the names that they hold.
  struct Hash {
    using is_transparent = void;
    size_t operator()(const Name& name) const {
      const std::hash<std::string_view> hash;
      return hash(name.first) * 31 + hash(name.second);
    }
    size_t operator()(const std::unique_ptr<T>& object) const { return (*this)(NameOf(*object)); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return NameOf(a) == NameOf(b); }
  };

  static Name NameOf(const Name& name) { return name; }
  static Name NameOf(const T& object) { return {object.meta.name_space, object.meta.name}; }
  static Name NameOf(const std::unique_ptr<T>& object) { return NameOf(*object); }
  static ObjectName JobNameOf(const T& object) {
    return {object.meta.name_space, std::string(JobOf(object))};
  }

  void Replace(Batch<T> batch, const OnChange& on_change);
  void SetUnlessOlder(T object, const OnChange& on_change);
  const T* Set(T object, const OnChange& on_change);
  // Of an object that was deleted. What a read has found under its name since then stays.
  void EraseUnlessTaken(T& last, const OnChange& on_change);
  // `last`: its last state, when newer than the cached one.
  void Erase(const Name& name, T* last, const OnChange& on_change);
  void AddToJob(const T& object);
  void RemoveFromJob(const T& object);

  std::unordered_set<std::unique_ptr<T>, Hash, Equal> objects_;
  std::map<ObjectName, std::vector<const T*>> by_job_;
  std::map<std::string, std::string> versions_;  // by the batches' namespaces
};

template <typename T>
void Cache<T>::Apply(Batch<T> batch, const OnChange& on_change) {
  versions_[batch.name_space] = batch.resource_version;
  if (batch.replace) {
    Replace(std::move(batch), on_change);
    return;
  }
  for (WatchEvent<T>& event : batch.events) {
    if (event.unreadable) {
      // What was known of it stays, until its end.
      if (event.kind == EventKind::kDeleted) Erase(NameOf(event.object), nullptr, on_change);
    } else if (event.kind == EventKind::kDeleted) {
      EraseUnlessTaken(event.object, on_change);
    } else {
      SetUnlessOlder(std::move(event.object), on_change);
    }
  }
}

template <typename T>
void Cache<T>::Put(T object, const OnChange& on_change) {
  const bool known = objects_.contains(NameOf(object));
  const std::string& seen = resource_version(object.meta.name_space);
  if (!known && Covers(seen, object.meta.resource_version)) return;
  SetUnlessOlder(std::move(object), on_change);
}

template <typename T>
void Cache<T>::SetUnlessOlder(T object, const OnChange& on_change) {
  auto known = objects_.find(NameOf(object));
  if (known != objects_.end()) {
    const ObjectMeta& meta = (*known)->meta;
    if (Covers(meta.resource_version, object.meta.resource_version)) return;
  }
  Set(std::move(object), on_change);
}

template <typename T>
void Cache<T>::Remove(const ObjectName& name, const OnChange& on_change) {
  Erase({name.name_space, name.name}, nullptr, on_change);
}

template <typename T>
const std::string& Cache<T>::resource_version(const std::string& name_space) const {
  static const std::string kNothing;
  auto found = versions_.find(name_space);
  if (found == versions_.end()) found = versions_.find("");
  return found == versions_.end() ? kNothing : found->second;
}

template <typename T>
const T* Cache<T>::Find(const ObjectName& name) const {
  auto found = objects_.find(Name(name.name_space, name.name));
  return found == objects_.end() ? nullptr : found->get();
}

template <typename T>
std::span<const T* const> Cache<T>::ByJob(const ObjectName& job) const {
  auto found = by_job_.find(job);
  if (found == by_job_.end()) return {};
  return found->second;
}

template <typename T>
void Cache<T>::ForEach(const std::function<void(const T&)>& visit) const {
  for (const std::unique_ptr<T>& object : objects_) visit(*object);
}

template <typename T>
void Cache<T>::Replace(Batch<T> batch, const OnChange& on_change) {
  std::unordered_set<const T*> present;
  present.reserve(batch.events.size());
  for (WatchEvent<T>& event : batch.events) {
    const ObjectMeta& meta = event.object.meta;
    present.insert(event.unreadable ? Find({meta.name_space, meta.name})
                                    : Set(std::move(event.object), on_change));
  }
  std::vector<const T*> gone;
  for (const std::unique_ptr<T>& object : objects_) {
    const bool told_of = batch.name_space.empty() || object->meta.name_space == batch.name_space;
    if (told_of && !present.contains(object.get())) gone.push_back(object.get());
  }
  for (const T* object : gone) Erase(NameOf(*object), nullptr, on_change);
}

template <typename T>
const T* Cache<T>::Set(T object, const OnChange& on_change) {
  auto known = objects_.find(NameOf(object));
  if (known == objects_.end()) {
    const T* added = objects_.insert(std::make_unique<T>(std::move(object))).first->get();
    AddToJob(*added);
    on_change(nullptr, added);
    return added;
  }
  T* current = known->get();
  const ObjectMeta& meta = current->meta;
  if (meta.uid == object.meta.uid && meta.resource_version == object.meta.resource_version) {
    return current;
  }
  RemoveFromJob(*current);
  std::swap(*current, object);  // the name, which it is found by, is the same
  AddToJob(*current);
  on_change(&object, current);
  return current;
}

template <typename T>
void Cache<T>::EraseUnlessTaken(T& last, const OnChange& on_change) {
  const T* known = Find({last.meta.name_space, last.meta.name});
  if (known != nullptr && known->meta.uid != last.meta.uid &&
      Covers(known->meta.resource_version, last.meta.resource_version)) {
    on_change(&last, nullptr);
    return;
  }
  Erase(NameOf(last), &last, on_change);
}

template <typename T>
void Cache<T>::Erase(const Name& name, T* last, const OnChange& on_change) {
  auto known = objects_.find(name);
  if (known == objects_.end()) {
    if (last != nullptr) on_change(last, nullptr);
    return;
  }
  const std::unique_ptr<T> object = std::move(objects_.extract(known).value());
  RemoveFromJob(*object);
  on_change(last != nullptr ? last : object.get(), nullptr);
}

template <typename T>
void Cache<T>::AddToJob(const T& object) {
  if (!JobOf(object).empty()) by_job_[JobNameOf(object)].push_back(&object);
}

template <typename T>
void Cache<T>::RemoveFromJob(const T& object) {
  auto found = by_job_.find(JobNameOf(object));
  if (found == by_job_.end()) return;
  std::erase(found->second, &object);
  if (found->second.empty()) by_job_.erase(found);
}

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_CACHE_H_
