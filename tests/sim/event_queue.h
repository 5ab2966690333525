// EventQueue: virtual time. Events run in the order of their time, those of one time in the order
// in which they were put in.
#ifndef LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_
#define LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

class EventQueue {
 public:
  using Event = std::function<void()>;

  Time now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  uint64_t count() const { return next_; }

  // At `at`, or now if that has passed. kNever: not at all.
  void At(Time at, Event event) {
    if (at == kNever) return;
    heap_.push_back({std::max(at, now_), next_++, Keep(std::move(event))});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  void RunNext() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Entry entry = heap_.back();
    heap_.pop_back();
    now_ = entry.at;
    Event event = std::move(slots_[entry.slot]);
    free_.push_back(entry.slot);
    event();
  }

 private:
  struct Entry {
    Time at;
    uint64_t order;
    uint32_t slot;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }
  uint32_t Keep(Event event) {
    if (free_.empty()) {
      slots_.push_back(std::move(event));
      return static_cast<uint32_t>(slots_.size() - 1);
    }
    uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(event);
    return slot;
  }

  Time now_{};
  uint64_t next_ = 0;
  std::vector<Entry> heap_;
  std::vector<Event> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_
