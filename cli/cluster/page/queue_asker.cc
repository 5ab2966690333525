#include "cli/cluster/page/queue_asker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "cli/cluster/page/rights.h"

namespace lockstep::cli {
namespace {

constexpr kube::Resource kLocalQueues{"visibility.kueue.x-k8s.io", "v1beta2", "localqueues"};
constexpr const char* kHidden = "places in its queues are";

// Kueue counts from 0.
int64_t PlaceIn(const OrderedJson& item, const char* name) {
  const auto found = item.find(name);
  return found != item.end() && found->is_number_integer() ? found->get<int64_t>() + 1 : 0;
}

std::string WhyUnknown(const LocalQueue& queue, const kube::ApiError& error) {
  if (error.kind == kube::ApiErrorKind::kForbidden) {
    return MissingRight("localqueues/pendingworkloads", "get", queue.name_space, kHidden);
  }
  if (error.kind == kube::ApiErrorKind::kNotFound) {
    // With a reason, it is the queue that does not exist, as the job's own reason says.
    if (!error.reason.empty()) return "";
    return "the cluster serves no visibility.kueue.x-k8s.io/v1beta2 (Kueue's VisibilityOnDemand), "
           "so places in queues are not shown";
  }
  return "the places in queue " + queue.name + " of namespace " + queue.name_space +
         " can't be read: " + error.message;
}

}  // namespace

std::map<std::string, QueuePlace> ReadPlaces(const std::string& answer) {
  std::map<std::string, QueuePlace> places;
  const OrderedJson list = ParseOrderedJson(answer);
  const auto items = list.is_object() ? list.find("items") : list.end();
  if (items == list.end() || !items->is_array()) return places;
  for (const OrderedJson& item : *items) {
    const auto meta = item.is_object() ? item.find("metadata") : item.end();
    if (meta == item.end() || !meta->is_object()) continue;
    const auto name = meta->find("name");
    if (name == meta->end() || !name->is_string()) continue;
    const QueuePlace place{PlaceIn(item, "positionInLocalQueue"),
                           PlaceIn(item, "positionInClusterQueue")};
    if (place.in_queue > 0) places[*name] = place;
  }
  return places;
}

uint64_t QueueAsker::Listen(std::function<void()> changed) {
  listeners_[++last_listener_] = std::move(changed);
  return last_listener_;
}

size_t QueueAsker::LimitOf(size_t queues) {
  return std::min(kMostWorkloads, kMostInAll / std::max<size_t>(queues, 1));
}

bool QueueAsker::Want(const LocalQueue& queue, size_t queues) {
  const Time now = BootTime();
  if (!queues_.contains(queue)) {
    std::erase_if(queues_, [now](const auto& each) {
      return !each.second.asking && now - each.second.asked >= 2 * kAgain;
    });
    if (queues_.size() >= kMostQueues) return false;
  }
  Known& known = queues_[queue];
  if (known.asking || (known.asked != Time{} && now - known.asked < kAgain)) return true;
  known.asking = true;
  known.asked = now;
  kube::Request request;
  const size_t limit = LimitOf(std::max(queues, queues_.size()));
  request.path = kube::Path(kLocalQueues, queue.name_space, queue.name, "pendingworkloads",
                            kube::Query({{"limit", std::to_string(limit)}}));
  connection_->client().Call(
      std::move(request),
      lifetime_.Hop(loop_, [this, queue](const kube::ApiResult<std::string>& answer) {
        OnAnswer(queue, answer);
      }));
  return true;
}

const QueueAsker::Known* QueueAsker::Find(const LocalQueue& queue) const {
  const auto known = queues_.find(queue);
  return known == queues_.end() ? nullptr : &known->second;
}

void QueueAsker::OnAnswer(const LocalQueue& queue, const kube::ApiResult<std::string>& answer) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return;
  Known now;
  now.asked = found->second.asked;
  if (answer.ok()) {
    now.places = ReadPlaces(*answer);
  } else {
    now.note = WhyUnknown(queue, answer.error());
  }
  const Known before = std::exchange(found->second, std::move(now));
  if (before.note == found->second.note && before.places == found->second.places) return;
  for (const auto& [id, changed] : listeners_) changed();
}

}  // namespace lockstep::cli
