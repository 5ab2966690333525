#include "operator/kube/work_queue.h"

#include <algorithm>
#include <cassert>

#include "base/backoff.h"
#include "operator/kube/resource_version.h"

namespace lockstep::kube {
namespace {

constexpr char kIncomparable[] = "?";

}  // namespace

void WorkQueue::Add(const ObjectName& key, Priority priority, Time now) {
  Want(Of(key), priority, now);
}

void WorkQueue::AddAt(const ObjectName& key, Time when, Priority priority) {
  if (when != kNever) SetTimer(Of(key), when, priority);
}

std::optional<Work> WorkQueue::Take(Time now, const MayTake& may) {
  RunTimers(now);
  ExpireParked(now);
  const std::optional<Entry*> next = ready_.Take(may);
  if (!next) return std::nullopt;
  Entry& entry = **next;
  Work work{.key = entry.key,
            .waited = std::max(Duration(0), now - entry.ready_since),
            .stale = entry.stale};
  entry.ready_since = kNever;
  entry.in_work = true;
  entry.priority = Priority::kBackground;
  return work;
}

void WorkQueue::Done(const ObjectName& key, Time now, Outcome outcome) {
  Entry& entry = Of(key);
  assert(entry.in_work);
  entry.in_work = false;
  if (outcome == Outcome::kOk) {
    entry.failures = 0;
    entry.stale = false;
  } else {
    const Duration backoff =
        DoubledPause(options_.backoff_min, options_.backoff_max, entry.failures++);
    SetTimer(entry, now + backoff, Priority::kNormal);
  }
  if (entry.again && entry.park_until == kNever) {
    MakeReady(entry, now);
  } else {
    DropIfIdle(entry);
  }
}

void WorkQueue::Park(const ObjectName& key, Watched resource, std::string_view version, Time now) {
  Entry& entry = Of(key);
  assert(entry.in_work);
  // The run that wrote may have read the cache before it came this far.
  entry.again = true;
  entry.priority = std::max(entry.priority, Priority::kNormal);
  const auto index = static_cast<size_t>(resource);
  Seen& seen = SeenFor(entry);
  if (Covers(seen.versions[index], version)) return;
  std::string& parked_on = entry.parked_on[index];
  if (Covers(parked_on, version) || parked_on == kIncomparable) return;
  Unpark(entry, index);
  if (IsResourceVersion(version)) {
    parked_on = version;
    seen.waiting_for[index].emplace(parked_on, &entry);
  } else {
    parked_on = kIncomparable;
  }
  if (entry.park_until != kNever) return;
  entry.park_until = now + options_.park_limit;
  expiries_.emplace(entry.park_until, &entry);
}

void WorkQueue::Progress(Watched resource, std::string_view version, Time now,
                         const std::string& name_space) {
  const auto index = static_cast<size_t>(resource);
  Seen& seen = seen_[name_space];
  seen.versions[index] = version;
  auto& waiting = seen.waiting_for[index];
  while (!waiting.empty() && Covers(version, waiting.begin()->first)) {
    Entry& entry = *waiting.begin()->second;
    Unpark(entry, index);
    const bool parked =
        std::ranges::any_of(entry.parked_on, [](const std::string& on) { return !on.empty(); });
    if (!parked) EndPark(entry, now);
  }
}

Time WorkQueue::NextWake() const {
  Time next = kNever;
  if (!timers_.empty()) next = timers_.begin()->first;
  // A key in work is handed out again only when it is done.
  for (const auto& [time, entry] : expiries_) {
    if (time >= next) break;
    if (!entry->in_work) next = time;
  }
  return next;
}

WorkQueue::Entry& WorkQueue::Of(const ObjectName& key) {
  auto [at, added] = entries_.try_emplace(key);
  if (added) at->second.key = key;
  return at->second;
}

void WorkQueue::Want(Entry& entry, Priority priority, Time now) {
  if (entry.ready_since != kNever) {
    if (priority <= entry.priority) return;
    ready_.Erase(PlaceOf(entry));
    entry.priority = priority;
    entry.turn = turns_++;
    ready_.Insert(PlaceOf(entry), &entry);
    return;
  }
  entry.priority = std::max(entry.priority, priority);
  entry.again = true;
  if (!entry.in_work && entry.park_until == kNever) MakeReady(entry, now);
}

void WorkQueue::MakeReady(Entry& entry, Time now) {
  entry.again = false;
  entry.ready_since = now;
  entry.turn = turns_++;
  ready_.Insert(PlaceOf(entry), &entry);
}

void WorkQueue::SetTimer(Entry& entry, Time when, Priority priority) {
  if (entry.timer != kNever) {
    priority = std::max(priority, entry.timer_priority);
    when = std::min(when, entry.timer);
    timers_.erase({entry.timer, &entry});
  }
  entry.timer = when;
  entry.timer_priority = priority;
  timers_.emplace(when, &entry);
}

void WorkQueue::Unpark(Entry& entry, size_t resource) {
  std::string& parked_on = entry.parked_on[resource];
  if (!parked_on.empty()) SeenFor(entry).waiting_for[resource].erase({parked_on, &entry});
  parked_on.clear();
}

void WorkQueue::EndPark(Entry& entry, Time now) {
  expiries_.erase({entry.park_until, &entry});
  entry.park_until = kNever;
  if (!entry.in_work) MakeReady(entry, now);
}

void WorkQueue::RunTimers(Time now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Entry& entry = *timers_.begin()->second;
    timers_.erase(timers_.begin());
    entry.timer = kNever;
    Want(entry, entry.timer_priority, now);
  }
}

void WorkQueue::ExpireParked(Time now) {
  auto next = expiries_.begin();
  while (next != expiries_.end() && next->first <= now) {
    Entry& entry = *(next++)->second;
    if (entry.in_work) continue;
    for (size_t resource = 0; resource < entry.parked_on.size(); ++resource) {
      Unpark(entry, resource);
    }
    entry.stale = true;
    EndPark(entry, now);
  }
}

void WorkQueue::DropIfIdle(Entry& entry) {
  const bool idle = !entry.in_work && !entry.again && entry.ready_since == kNever &&
                    entry.timer == kNever && entry.park_until == kNever && entry.failures == 0;
  if (idle) entries_.erase(ObjectName(entry.key));
}

}  // namespace lockstep::kube
