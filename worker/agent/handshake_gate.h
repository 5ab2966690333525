// HandshakeGate: how many TLS handshakes may be unfinished at once. An unfinished one costs 45 KB,
// so a crowd waits here, in order of arrival, at the price of its few hundred bytes.
//
// One thread. A waiter that goes away calls Leave, admitted or not; calling it twice does no harm.
#ifndef LOCKSTEP_WORKER_AGENT_HANDSHAKE_GATE_H_
#define LOCKSTEP_WORKER_AGENT_HANDSHAKE_GATE_H_

#include <cstddef>
#include <list>
#include <unordered_map>
#include <unordered_set>

namespace lockstep::agent {

class EventLoop;

class HandshakeGate {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Called from the loop once there is room, if Enter had said to wait.
    virtual void OnAdmitted() = 0;
  };

  HandshakeGate(EventLoop* loop, size_t limit) : loop_(loop), limit_(limit) {}

  // True: go on at once. False: wait for OnAdmitted.
  bool Enter(Waiter* waiter);
  void Leave(Waiter* waiter);

  size_t inside() const { return inside_.size(); }
  size_t waiting() const { return queue_.size(); }

 private:
  void AdmitNext();

  EventLoop* loop_;
  size_t limit_;
  std::unordered_set<Waiter*> inside_;
  std::list<Waiter*> queue_;
  std::unordered_map<Waiter*, std::list<Waiter*>::iterator> places_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_HANDSHAKE_GATE_H_
