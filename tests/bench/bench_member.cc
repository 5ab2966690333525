#include "tests/bench/bench_member.h"

#include <utility>
#include <variant>

namespace lockstep::bench {

BenchMember::BenchMember(EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator,
                         core::MemberConfig config, Handlers handlers)
    : loop_(loop),
      handlers_(std::move(handlers)),
      member_(std::move(config)),
      client_(loop, tls, coordinator, member_.config().machines,
              {.on_open =
                   [this] {
                     const Time now = BootTime();
                     Do(member_.OnConnected(now));
                     if (handlers_.on_hello) handlers_.on_hello(now);
                   },
               .on_message = [this](std::string_view body) { OnMessage(body); },
               .on_close = [this](const std::string&) { Do(member_.OnDisconnected(BootTime())); }},
              member_.config().machine) {
  client_.Start();
}

BenchMember::~BenchMember() { loop_->CancelTimer(timer_); }

void BenchMember::OnMessage(std::string_view body) {
  const Time now = BootTime();
  const Result<core::Message> message = core::Decode(body);
  if (!message.ok()) return client_.Reconnect(message.error().message);
  if (const auto* ping = std::get_if<core::Ping>(&*message); ping && handlers_.on_ping) {
    handlers_.on_ping(now, *ping);
  }
  Do(member_.OnMessage(now, *message));
}

void BenchMember::Do(const core::MemberActions& actions) {
  for (const core::MemberAction& action : actions) Do(action);
  ArmTimer();
}

void BenchMember::Do(const core::MemberAction& action) {
  if (const auto* send = std::get_if<core::SendToCoordinator>(&action)) {
    client_.Send(core::Encode(send->message));
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
    client_.Reconnect(gone->reason);
  } else if (const auto* exit = std::get_if<core::ExitAgent>(&action)) {
    if (handlers_.on_left) handlers_.on_left(*exit);
  }
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
