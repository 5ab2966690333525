#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bench_member.h"
#include "bench/scale.h"

namespace lockstep::bench {
namespace {

constexpr std::string_view kGarbage = "GET /status HTTP/1.1\r\nHost: a\r\n\r\n";

// One connection that is no TLS at all, until the listener has closed it.
class Garbage {
 public:
  Garbage(EventLoop* loop, const Endpoint& to, std::function<void()> on_refused)
      : loop_(loop), on_refused_(std::move(on_refused)) {
    Result<UniqueFd> fd = ConnectTcp(to);
    if (!fd.ok()) Fail("lockstep-bench: connect");
    fd_ = std::move(*fd);
    const Status watched =
        loop_->Watch(fd_.get(), EPOLLOUT, [this](uint32_t events) { OnEvents(events); });
    if (!watched.ok()) Fail("lockstep-bench: epoll");
  }
  ~Garbage() { loop_->Unwatch(fd_.get()); }
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;

 private:
  void OnEvents(uint32_t events) {
    if ((events & EPOLLOUT) != 0) {
      send(fd_.get(), kGarbage.data(), kGarbage.size(), MSG_NOSIGNAL);
      loop_->Modify(fd_.get(), EPOLLIN);
      return;
    }
    std::array<char, 512> answer{};
    if (recv(fd_.get(), answer.data(), answer.size(), 0) > 0) return;
    loop_->Unwatch(fd_.get());
    on_refused_();
  }

  EventLoop* loop_;
  std::function<void()> on_refused_;
  UniqueFd fd_;
};

class Strangers {
 public:
  Strangers(EventLoop* loop, const TlsPskContext* tls, const Endpoint& to, uint32_t members,
            uint32_t count, Duration length)
      : loop_(loop),
        tls_(tls),
        to_(to),
        members_(members),
        count_(count),
        began_(BootTime()),
        ends_(began_ + length) {
    Wave();
  }

  Json Said() const {
    return {{"connections", waves_ * count_},
            {"waves", waves_},
            {"seconds", Round(Milliseconds(BootTime() - began_) / 1e3)}};
  }

 private:
  // A third each: another shape, a machine that is none, garbage.
  void Wave() {
    agents_.clear();
    garbage_.clear();
    ++waves_;
    left_ = count_;
    for (uint32_t i = 0; i < count_; ++i) {
      if (i % 3 == 2) {
        garbage_.push_back(std::make_unique<Garbage>(loop_, to_, [this] { OnRefused(); }));
        continue;
      }
      core::MemberConfig config;
      config.job_uid = kJobUid;
      config.machine = i % 3 == 0 ? 0 : members_;
      config.machines = i % 3 == 0 ? members_ + 1 : members_;
      agents_.push_back(std::make_unique<BenchMember>(
          loop_, config, OnWire(loop_, tls_, to_, config),
          BenchMember::Handlers{.on_hello = {},
                                .on_ping = {},
                                .on_left = [this](const core::ExitAgent&) { OnRefused(); }}));
    }
  }

  void OnRefused() {
    if (--left_ > 0) return;
    loop_->Post([this] {
      if (BootTime() < ends_) return Wave();
      loop_->Stop();
    });
  }

  EventLoop* loop_;
  const TlsPskContext* tls_;
  Endpoint to_;
  uint32_t members_;
  uint32_t count_;
  Time began_;
  Time ends_;
  uint64_t waves_ = 0;
  uint32_t left_ = 0;
  std::vector<std::unique_ptr<BenchMember>> agents_;
  std::vector<std::unique_ptr<Garbage>> garbage_;
};

}  // namespace

void StrangersRole(const Line& line, uint16_t port, uint32_t members, uint32_t count,
                   Duration length) {
  auto loop = EventLoop::Create();
  auto tls = TlsPskContext::Client(BenchKey(), kJobUid);
  if (!loop.ok() || !tls.ok()) Fail("lockstep-bench: strangers");
  const Strangers all(loop->get(), &*tls, *MakeEndpoint("127.0.0.1", port), members, count, length);
  (*loop)->Run();
  line.Say(all.Said());
}

}  // namespace lockstep::bench
