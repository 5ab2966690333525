#include "cli/cluster/page/queue_places.h"

#include <utility>

#include "cli/cluster/page/rights.h"
#include "core/status/status.h"

namespace lockstep::cli {
namespace {

constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";
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

std::string QueueOf(const StoredJob& job) {
  const auto& labels = job.job.metadata.labels;
  const auto found = labels.find(kQueueLabel);
  return found == labels.end() ? "" : found->second;
}

std::optional<QueuedJob> WaitsInQueue(const StoredJob& job) {
  const std::string queue = QueueOf(job);
  if (job.status.state != core::JobState::kQueued || queue.empty() || !job.status.queue) return {};
  return QueuedJob{{job.meta.name_space, queue}, job.status.queue->workload};
}

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

QueuePlaces::QueuePlaces(EventLoop* loop, Connection* connection, std::function<void()> changed)
    : loop_(loop),
      connection_(connection),
      changed_(std::move(changed)),
      timer_(loop, [this] { AskAll(); }) {}

void QueuePlaces::Follow(const std::set<LocalQueue>& queues) {
  std::erase_if(queues_, [&](const auto& each) { return !queues.contains(each.first); });
  too_many_ = queues.size() > kMostQueues;
  for (const LocalQueue& queue : queues) {
    if (queues_.size() >= kMostQueues) break;
    if (!queues_.contains(queue)) Ask(queue);
  }
  if (!queues_.empty() && !timer_.armed()) timer_.WakeAt(BootTime() + kAgain);
}

std::optional<QueuePlace> QueuePlaces::Find(const QueuedJob& job) const {
  const auto known = queues_.find(job.queue);
  if (known == queues_.end()) return {};
  const auto place = known->second.places.find(job.workload);
  return place == known->second.places.end() ? std::nullopt : std::optional(place->second);
}

std::vector<std::string> QueuePlaces::Notes() const {
  std::set<std::string> notes;
  for (const auto& [queue, known] : queues_) {
    if (!known.note.empty()) notes.insert(AsNote(known.note));
  }
  if (too_many_) notes.insert("only the places in 32 queues are shown");
  return {notes.begin(), notes.end()};
}

void QueuePlaces::AskAll() {
  for (const auto& [queue, known] : queues_) {
    if (!known.asking) Ask(queue);
  }
  if (!queues_.empty()) timer_.WakeAt(BootTime() + kAgain);
}

void QueuePlaces::Ask(const LocalQueue& queue) {
  queues_[queue].asking = true;
  kube::Request request;
  request.path = kube::Path(kLocalQueues, queue.name_space, queue.name, "pendingworkloads",
                            kube::Query({{"limit", std::to_string(kMostWorkloads)}}));
  connection_->client().Call(
      std::move(request),
      lifetime_.Hop(loop_, [this, queue](const kube::ApiResult<std::string>& answer) {
        OnAnswer(queue, answer);
      }));
}

void QueuePlaces::OnAnswer(const LocalQueue& queue, const kube::ApiResult<std::string>& answer) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return;
  Known now;
  if (answer.ok()) {
    now.places = ReadPlaces(*answer);
  } else {
    now.note = WhyUnknown(queue, answer.error());
  }
  const Known before = std::exchange(found->second, std::move(now));
  if (before.note != found->second.note || before.places != found->second.places) changed_();
}

}  // namespace lockstep::cli
