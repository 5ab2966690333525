#include "operator/gang/agent_connection.h"

#include <utility>

namespace lockstep::gang {
namespace {

// Time between two connections that give way, for the whole operator: 250 handshakes a second.
constexpr Duration kTurn = milliseconds(4);

}  // namespace

void AgentConnection::Leave() {
  timer_.Cancel();
  client_.reset();
  if (std::exchange(place_, Place::kNone) != Place::kNone) semaphore_->Leave(this);
}

void AgentConnection::GiveWay() {
  if (place_ != Place::kInside || !crowded()) return;
  if (loop_->now() >= semaphore_->last_admitted() + kTurn) Leave();
}

void AgentConnection::Enter() {
  if (place_ == Place::kQueue) return;
  GiveWay();
  if (place_ == Place::kNone && !semaphore_->Enter(this)) {
    place_ = Place::kQueue;
    return;
  }
  place_ = Place::kInside;
  begin_();
}

void AgentConnection::OnAdmitted() {
  if (place_ != Place::kQueue) return;
  place_ = Place::kInside;
  begin_();
}

HttpClient& AgentConnection::Client(const Key& key, const std::string& identity) {
  if (!client_) client_.emplace(loop_, key, identity);
  return *client_;
}

}  // namespace lockstep::gang
