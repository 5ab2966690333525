#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "bench/bench_member.h"
#include "bench/scale.h"
#include "core/gang/protocol/lease.h"

namespace lockstep::bench {
namespace {

class Members {
 public:
  Members(const Line* line, EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator,
          uint32_t count)
      : line_(line), heartbeats_(count) {
    began_ = BootTime();
    for (uint32_t i = 0; i < count; ++i) {
      core::MemberConfig config;
      config.job_uid = kJobUid;
      config.machine = i;
      config.machines = count;
      members_.push_back(std::make_unique<BenchMember>(
          loop, config, OnWire(loop, tls, coordinator, config),
          BenchMember::Handlers{
              .on_hello = [this](Time now) { OnHello(now); },
              .on_ping = [this, i](Time now, const core::Ping& ping) { OnPing(now, i, ping); },
              .on_left = [](const core::ExitAgent&) { Fail("lockstep-bench: a member left"); }}));
    }
    line->Watch(loop, [this](const Json& question) {
      wanted_ = question.at("pings").get<uint64_t>() * members_.size();
      counted_ = 0;
      AnswerIfDue();
    });
  }

 private:
  struct Heartbeat {
    Time last = kNever;
  };

  void OnHello(Time now) {
    if (++hellos_ != members_.size()) {
      lost_ += hellos_ > members_.size() ? 1 : 0;
      return;
    }
    line_->Say({{"began", began_.count()}, {"lastHello", now.count()}});
  }

  void OnPing(Time now, uint32_t member, const core::Ping& ping) {
    if (ping.lease.present) interval_ = core::PingInterval(ping.lease.length);
    delivery_.push_back(Milliseconds(now - ping.sent));
    Heartbeat& heartbeat = heartbeats_[member];
    if (heartbeat.last != kNever && ping.lease.present) {
      late_.push_back(std::max(0.0, Milliseconds(now - heartbeat.last - interval_)));
    }
    heartbeat.last = now;
    ++counted_;
    AnswerIfDue();
  }

  void AnswerIfDue() {
    if (!wanted_ || counted_ < *wanted_) return;
    wanted_.reset();
    line_->Say({{"intervalMs", Milliseconds(interval_)},
                {"late", Spread(late_)},
                {"delivery", Spread(delivery_)},
                {"reconnected", lost_}});
    late_.clear();
    delivery_.clear();
  }

  const Line* line_;
  std::vector<Heartbeat> heartbeats_;
  std::vector<std::unique_ptr<BenchMember>> members_;
  Time began_{};
  size_t hellos_ = 0;
  uint64_t lost_ = 0;
  Duration interval_{};
  std::optional<uint64_t> wanted_;  // an answer is due after so many PINGs
  uint64_t counted_ = 0;
  std::vector<double> late_;
  std::vector<double> delivery_;
};

}  // namespace

void MembersRole(const Line& line, uint16_t port, uint32_t members) {
  auto loop = EventLoop::Create();
  auto tls = TlsPskContext::Client(BenchKey(), kJobUid);
  if (!loop.ok() || !tls.ok()) Fail("lockstep-bench: members");
  const Members all(&line, loop->get(), &*tls, *MakeEndpoint("127.0.0.1", port), members);
  (*loop)->Run();
}

}  // namespace lockstep::bench
