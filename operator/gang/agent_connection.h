// AgentConnection: a connection to one of a job's agents, and the time of its next use. It is open
// only while it holds a place in a Semaphore.
//
//   AgentConnection connection(loop, &semaphore, [this] { Poll(); });
//   connection.Schedule(now);      // Poll() runs then, or when there is a place
//   connection.Client(key, identity).Ask(...);
//   connection.Leave();            // gives up the place and the connection
//
// While others wait, connections give up their places, one after another and not all at once: a new
// one begins with a handshake. Such a job queues again behind the others. One thread.
#ifndef LOCKSTEP_OPERATOR_GANG_AGENT_CONNECTION_H_
#define LOCKSTEP_OPERATOR_GANG_AGENT_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/crypto/hkdf.h"
#include "base/loop/event_loop.h"
#include "base/loop/semaphore.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "operator/gang/http_client.h"

namespace lockstep::gang {

class AgentConnection : private Semaphore::Waiter {
 public:
  // All must outlive it. `begin` is called with a place in the semaphore, never from within
  // Schedule.
  AgentConnection(EventLoop* loop, Semaphore* semaphore, std::function<void()> begin)
      : loop_(loop),
        semaphore_(semaphore),
        begin_(std::move(begin)),
        timer_(loop, [this] { Enter(); }) {}
  ~AgentConnection() override { Leave(); }
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  // Replaces an earlier time; a request under way continues.
  void Schedule(Time when) { timer_.WakeAt(when); }
  // Drops what is under way and what was scheduled.
  void Leave();

  bool busy() const { return client_ && client_->busy(); }
  // Whether others wait for a place.
  bool crowded() const { return semaphore_->waiting() > 0; }
  // Gives up the place and the connection if it is another's turn.
  void GiveWay();

  // Within `begin`. The connection is kept from one use to the next.
  HttpClient& Client(const Key& key, const std::string& identity);

 private:
  enum class Place : uint8_t { kNone, kQueue, kInside };

  void OnAdmitted() override;
  void Enter();

  EventLoop* loop_;
  Semaphore* semaphore_;
  std::function<void()> begin_;
  Place place_ = Place::kNone;
  WakeTimer timer_;
  std::optional<HttpClient> client_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_AGENT_CONNECTION_H_
