// EventBook: decides which events become objects, which are counted in a series, and which are
// dropped as spam. No I/O; time is passed in. One thread at a time.
#ifndef LOCKSTEP_OPERATOR_KUBE_EVENT_BOOK_H_
#define LOCKSTEP_OPERATOR_KUBE_EVENT_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "operator/kube/events.h"
#include "operator/kube/http/transport.h"

namespace lockstep::kube {

struct EventText {
  EventType type = EventType::kNormal;
  std::string reason;
  std::string action;
  std::string note;
};

class EventBook {
 public:
  static constexpr Duration kSeriesEnds = minutes(6);      // without another of its kind
  static constexpr Duration kSeriesRefresh = minutes(30);  // how often its count is sent
  static constexpr int kBurst = 25;                        // events of one object in a row
  static constexpr Duration kSpamInterval = minutes(5);    // and one more in each of these
  static constexpr size_t kMaxNote = 1024;

  EventBook(std::string controller, std::string instance)
      : controller_(std::move(controller)), instance_(std::move(instance)) {}

  // The writes that follow: at most one for this event, and those for series that are over.
  std::vector<Request> Record(const ObjectRef& regarding, const EventText& event, Time now,
                              WallTime wall);

  size_t size() const { return series_.size() + objects_.size(); }

 private:
  using Key = std::tuple<ObjectRef, EventType, std::string, std::string>;
  struct Series {
    std::string path;  // of the Event
    int count = 1;
    int sent_count = 1;
    Time seen{};
    Time sent{};
    WallTime last{};
  };
  struct Allowance {
    int left = kBurst;
    Time since{};  // of the last refill
  };

  bool IsSpam(const ObjectRef& regarding, Time now);
  void Sweep(Time now, std::vector<Request>* writes);
  Request Create(const ObjectRef& regarding, const EventText& event, WallTime wall,
                 std::string* path);
  static Request Patch(const Series& series);

  std::string controller_;
  std::string instance_;
  uint64_t made_ = 0;
  Time swept_{};
  std::map<Key, Series> series_;
  std::map<ObjectRef, Allowance> objects_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_EVENT_BOOK_H_
