#include "bench/bench_member.h"

#include <utility>
#include <variant>

namespace lockstep::bench {

BenchMember::Open OnWire(EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator,
                         const core::MemberConfig& config) {
  return [loop, tls, coordinator, machines = config.machines,
          seed = config.machine](agent::GangPort::Owner* owner) {
    return std::make_unique<agent::WirePort>(loop, tls, coordinator, machines, owner, seed);
  };
}

BenchMember::BenchMember(EventLoop* loop, core::MemberConfig config, const Open& open,
                         Handlers handlers)
    : loop_(loop), handlers_(std::move(handlers)), member_(std::move(config)), port_(open(this)) {
  port_->Start();
}

BenchMember::~BenchMember() { loop_->CancelTimer(timer_); }

void BenchMember::OnGangOpen() {
  const Time now = BootTime();
  Do(member_.OnConnected(now));
  if (handlers_.on_hello) handlers_.on_hello(now);
}

void BenchMember::OnGangMessage(const core::Message& message) {
  const Time now = BootTime();
  if (const auto* ping = std::get_if<core::Ping>(&message); ping && handlers_.on_ping) {
    handlers_.on_ping(now, *ping);
  }
  Do(member_.OnMessage(now, message));
}

void BenchMember::Do(const core::MemberActions& actions) {
  for (const core::MemberAction& action : actions) Do(action);
  ArmTimer();
}

void BenchMember::Do(const core::MemberAction& action) {
  if (const auto* send = std::get_if<core::SendToCoordinator>(&action)) {
    port_->Send(send->message);
  } else if (const auto* spawn = std::get_if<core::Spawn>(&action)) {
    Do(member_.OnSpawned(BootTime(), spawn->start.generation));
    if (handlers_.on_start) handlers_.on_start(spawn->start);
  } else if (const auto* stop = std::get_if<core::StopProcesses>(&action)) {
    Do(member_.OnAllDead(BootTime(), stop->generation));
  } else if (const auto* collect = std::get_if<core::CollectEvidence>(&action)) {
    Do(member_.OnEvidence(BootTime(), collect->generation, {}));
  } else if (const auto* fence = std::get_if<core::DeliverFence>(&action)) {
    if (handlers_.on_fence) handlers_.on_fence(*fence);
  } else if (const auto* gone = std::get_if<core::Disconnect>(&action)) {
    port_->Reconnect(gone->reason);
  } else if (const auto* exit = std::get_if<core::ExitAgent>(&action)) {
    if (handlers_.on_left) handlers_.on_left(*exit);
  }
}

void BenchMember::OnStep(int64_t step) {
  core::RankProgress progress;
  progress.rank = member_.first_rank();
  progress.step = step;
  Do(member_.OnProgress(BootTime(), progress));
}

void BenchMember::EnterFence(std::vector<core::TableEntry> entries) {
  Do(member_.OnFence(BootTime(), member_.generation(), std::move(entries)));
}

void BenchMember::ArmTimer() {
  const Time wake = member_.NextWake();
  if (wake == armed_for_) return;
  loop_->CancelTimer(timer_);
  armed_for_ = wake;
  timer_ = 0;
  if (wake == kNever) return;
  timer_ = loop_->StartTimer(wake, [this] {
    armed_for_ = kNever;
    timer_ = 0;
    Do(member_.OnTimer(BootTime()));
  });
}

}  // namespace lockstep::bench
