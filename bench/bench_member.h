// BenchMember: one real protocol member (core/gang/member/member.h) on a real way to its
// coordinator. Its ranks are none: what it is asked to start runs at once, what it is asked to stop
// is dead at once.
//
//   BenchMember member(loop, config, OnWire(loop, &tls, coordinator, config), handlers);
#ifndef LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_
#define LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/gang/member/member.h"
#include "worker/agent/gang/gang_port.h"

namespace lockstep::bench {

class BenchMember final : private agent::GangPort::Owner {
 public:
  struct Handlers {
    std::function<void(Time)> on_hello;                    // HELLO is on its way
    std::function<void(Time, const core::Ping&)> on_ping;  // a PING came in
    std::function<void(const core::ExitAgent&)> on_left;   // must not destroy this in the call
    std::function<void(const core::Start&)> on_start = {};
    std::function<void(const core::DeliverFence&)> on_fence = {};
  };

  using Open = std::function<std::unique_ptr<agent::GangPort>(agent::GangPort::Owner*)>;

  BenchMember(EventLoop* loop, core::MemberConfig config, const Open& open, Handlers handlers);
  ~BenchMember();
  BenchMember(const BenchMember&) = delete;
  BenchMember& operator=(const BenchMember&) = delete;

  // Its first rank has made a step.
  void OnStep(int64_t step);
  // Its ranks wait in a fence.
  void EnterFence(std::vector<core::TableEntry> entries);

  const core::Member& member() const { return member_; }

 private:
  void OnGangOpen() override;
  void OnGangMessage(const core::Message& message) override;
  void OnGangClose(const std::string& /*reason*/) override {
    Do(member_.OnDisconnected(BootTime()));
  }
  void Do(const core::MemberActions& actions);
  void Do(const core::MemberAction& action);
  void ArmTimer();

  EventLoop* loop_;
  Handlers handlers_;
  core::Member member_;
  TimerId timer_ = 0;
  Time armed_for_ = kNever;
  std::unique_ptr<agent::GangPort> port_;
};

// `tls` is a client's context and outlives the member.
BenchMember::Open OnWire(EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator,
                         const core::MemberConfig& config);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_BENCH_MEMBER_H_
