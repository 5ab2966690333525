// BenchMember: one real protocol member (core/gang/member.h) on a real line to the coordinator. Its
// ranks are none: what it is asked to start runs at once, what it is asked to stop is dead at once.
#ifndef LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_
#define LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_

#include <functional>
#include <vector>

#include "core/gang/member.h"
#include "worker/agent/gang/gang_client.h"

namespace lockstep::bench {

class BenchMember {
 public:
  struct Handlers {
    std::function<void(Time)> on_hello;                    // HELLO is on its way
    std::function<void(Time, const core::Ping&)> on_ping;  // a PING came in
    std::function<void(const core::ExitAgent&)> on_left;   // must not destroy this in the call
    std::function<void(const core::Start&)> on_start = {};
    std::function<void(const core::DeliverFence&)> on_fence = {};
  };

  BenchMember(EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator,
              core::MemberConfig config, Handlers handlers);
  ~BenchMember();
  BenchMember(const BenchMember&) = delete;
  BenchMember& operator=(const BenchMember&) = delete;

  // Its ranks wait in a fence.
  void EnterFence(std::vector<core::TableEntry> entries);

  const core::Member& member() const { return member_; }

 private:
  void OnMessage(std::string_view body);
  void Do(const core::MemberActions& actions);
  void Do(const core::MemberAction& action);
  void ArmTimer();

  EventLoop* loop_;
  Handlers handlers_;
  core::Member member_;
  TimerId timer_ = 0;
  Time armed_for_ = kNever;
  agent::GangClient client_;
};

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_
