#include "cli/cluster/page/queue_places.h"

#include <utility>

#include "cli/cluster/page/rights.h"
#include "cli/ui/page_server.h"
#include "core/status/status.h"

namespace lockstep::cli {
namespace {

constexpr const char* kQueueLabel = "kueue.x-k8s.io/queue-name";

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

QueuePlaces::QueuePlaces(EventLoop* loop, QueueAsker* asker, std::function<void()> changed)
    : asker_(asker),
      shown_(BootTime()),
      listener_(asker->Listen([this, changed = std::move(changed)] {
        if (!queues_.empty()) changed();
      })),
      timer_(loop, [this] { Ask(); }) {}

QueuePlaces::~QueuePlaces() { asker_->Forget(listener_); }

void QueuePlaces::Follow(const std::set<LocalQueue>& queues) {
  const bool other = queues != queues_;
  queues_ = queues;
  if (other) Ask();
}

void QueuePlaces::Show() {
  shown_ = BootTime();
  if (!timer_.armed()) Ask();
}

void QueuePlaces::Ask() {
  if (queues_.empty() || BootTime() - shown_ >= PageServer::kShown) return timer_.Cancel();
  too_many_ = false;
  for (const LocalQueue& queue : queues_) {
    if (!asker_->Want(queue, queues_.size())) too_many_ = true;
  }
  timer_.WakeAt(BootTime() + QueueAsker::kAgain);
}

std::optional<QueuePlace> QueuePlaces::Find(const QueuedJob& job) const {
  const QueueAsker::Known* known = asker_->Find(job.queue);
  if (known == nullptr) return {};
  const auto place = known->places.find(job.workload);
  return place == known->places.end() ? std::nullopt : std::optional(place->second);
}

std::vector<std::string> QueuePlaces::Notes() const {
  std::set<std::string> notes;
  for (const LocalQueue& queue : queues_) {
    const QueueAsker::Known* known = asker_->Find(queue);
    if (known != nullptr && !known->note.empty()) notes.insert(AsNote(known->note));
  }
  if (too_many_) notes.insert("only the places in 32 queues are shown");
  return {notes.begin(), notes.end()};
}

}  // namespace lockstep::cli
