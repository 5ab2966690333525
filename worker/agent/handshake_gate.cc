#include "worker/agent/handshake_gate.h"

#include "worker/agent/event_loop.h"

namespace lockstep::agent {

bool HandshakeGate::Enter(Waiter* waiter) {
  if (inside_.size() < limit_) {
    inside_.insert(waiter);
    return true;
  }
  places_[waiter] = queue_.insert(queue_.end(), waiter);
  return false;
}

void HandshakeGate::Leave(Waiter* waiter) {
  const auto place = places_.find(waiter);
  if (place != places_.end()) {
    queue_.erase(place->second);
    places_.erase(place);
    return;
  }
  if (inside_.erase(waiter) > 0) AdmitNext();
}

void HandshakeGate::AdmitNext() {
  if (queue_.empty()) return;
  Waiter* next = queue_.front();
  queue_.pop_front();
  places_.erase(next);
  inside_.insert(next);
  // Posted, so that a row of handshakes that fail at once does not nest.
  loop_->Post([this, next] {
    if (inside_.contains(next)) next->OnAdmitted();
  });
}

}  // namespace lockstep::agent
