// FairQueue<T>: what waits for a place, in shares (namespaces) that take turns. The most urgent go
// first. Of shares whose most urgent items are equal, the one that has waited longest for its turn
// goes first, however much the others have waiting. Within a share: first in, first out.
//
//   FairQueue<Call> calls;
//   calls.Insert({"team-a", Priority::kNormal, turn++}, call);
//   while (room) if (auto call = calls.Take()) Send(*call);
//
// Taking looks at each share that has something: it is for hundreds of them. One thread.
#ifndef LOCKSTEP_OPERATOR_KUBE_FAIR_QUEUE_H_
#define LOCKSTEP_OPERATOR_KUBE_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::kube {

enum class Priority : uint8_t {
  kBackground,  // a job that is new, or seen for the first time; machines of a new gang; events
  kNormal,
  kUrgent,  // a machine is lost or replaced, a job stops
};

struct FairPlace {
  std::string share;
  Priority priority = Priority::kNormal;
  uint64_t turn = 0;  // ascends
};

// Whether something of this share and priority may be taken now.
using MayTake = std::function<bool(const std::string& share, Priority priority)>;

template <typename T>
class FairQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void Insert(const FairPlace& place, T item) {
    const auto [share, added] = shares_.try_emplace(place.share);
    // A share that had nothing has had its turn: it cannot overtake those that wait.
    if (added) share->second.served = ++served_;
    if (share->second.items.emplace(OrderOf(place), std::move(item)).second) ++size_;
  }

  void Erase(const FairPlace& place) {
    const auto share = shares_.find(place.share);
    if (share == shares_.end()) return;
    size_ -= share->second.items.erase(OrderOf(place));
    if (share->second.items.empty()) shares_.erase(share);
  }

  // `may`: empty for all.
  std::optional<T> Take(const MayTake& may = {}) {
    auto best = shares_.end();
    for (auto share = shares_.begin(); share != shares_.end(); ++share) {
      if (may && !may(share->first, PriorityOf(share->second))) continue;
      if (best == shares_.end() || IsBefore(share->second, best->second)) best = share;
    }
    if (best == shares_.end()) return std::nullopt;
    T item = std::move(best->second.items.begin()->second);
    best->second.items.erase(best->second.items.begin());
    best->second.served = ++served_;
    --size_;
    if (best->second.items.empty()) shares_.erase(best);
    return item;
  }

 private:
  struct Order {
    Priority priority;
    uint64_t turn;

    friend bool operator<(const Order& a, const Order& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.turn < b.turn;
    }
  };
  struct Share {
    std::map<Order, T> items;
    uint64_t served = 0;  // when it last had a turn
  };

  static Order OrderOf(const FairPlace& place) { return {place.priority, place.turn}; }
  static Priority PriorityOf(const Share& share) { return share.items.begin()->first.priority; }
  static bool IsBefore(const Share& a, const Share& b) {
    if (PriorityOf(a) != PriorityOf(b)) return PriorityOf(a) > PriorityOf(b);
    return a.served < b.served;
  }

  std::map<std::string, Share> shares_;
  uint64_t served_ = 0;
  size_t size_ = 0;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_FAIR_QUEUE_H_
