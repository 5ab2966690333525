#include "operator/kube/events.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/thread_annotations.h"
#include "operator/kube/client.h"
#include "operator/kube/event_book.h"

namespace lockstep::kube {
namespace {

constexpr size_t kMaxWaiting = 1000;
constexpr int kMaxInFlight = 4;

}  // namespace

// Shared with the calls under way.
struct EventRecorder::State {
  State(Client* to, EventOptions with)
      : client(to), options(std::move(with)), book(options.controller, options.instance) {}

  Client* const client;
  const EventOptions options;
  Mutex mutex;
  EventBook book GUARDED_BY(mutex);
  std::deque<Request> waiting GUARDED_BY(mutex);
  int in_flight GUARDED_BY(mutex) = 0;
  uint64_t dropped GUARDED_BY(mutex) = 0;
  bool stopped GUARDED_BY(mutex) = false;

  std::optional<Request> Take() {
    const MutexLock lock(&mutex);
    if (stopped || waiting.empty() || in_flight == kMaxInFlight) return std::nullopt;
    ++in_flight;
    Request request = std::move(waiting.front());
    waiting.pop_front();
    return request;
  }

  // Events are best effort: a write that failed after the client's retries is dropped.
  static void Send(const std::shared_ptr<State>& state) {
    while (auto request = state->Take()) {
      state->client->Call(std::move(*request), [state](const ApiResult<std::string>& result) {
        {
          const MutexLock lock(&state->mutex);
          --state->in_flight;
          if (!result.ok()) ++state->dropped;
        }
        Send(state);
      });
    }
  }
};

EventRecorder::EventRecorder(Client* client, EventOptions options)
    : state_(std::make_shared<State>(client, std::move(options))) {}

EventRecorder::~EventRecorder() {
  const MutexLock lock(&state_->mutex);
  state_->stopped = true;
}

void EventRecorder::Record(const ObjectRef& regarding, EventType type, std::string_view reason,
                           std::string_view action, std::string_view note) {
  const Time now = state_->options.now();
  const WallTime wall = state_->options.wall_now();
  {
    const MutexLock lock(&state_->mutex);
    const EventText event{type, std::string(reason), std::string(action), std::string(note)};
    for (Request& write : state_->book.Record(regarding, event, now, wall)) {
      if (state_->waiting.size() == kMaxWaiting) {
        ++state_->dropped;
      } else {
        state_->waiting.push_back(std::move(write));
      }
    }
  }
  State::Send(state_);
}

uint64_t EventRecorder::dropped() const {
  const MutexLock lock(&state_->mutex);
  return state_->dropped;
}

}  // namespace lockstep::kube
