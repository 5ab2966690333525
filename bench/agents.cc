// agents: those of pods that only pretend, all in this process: for operator_bench.py, which says
// on stdin, a line of JSON each,
//
//   {"start": the agent's configuration, as protocol.md has it}   that a pod runs
//   {"end": {"jobUid": ..., "machine": ...}}                      that it is gone
//
// Machine 0 comes first of its gang, and with another machine 0 all of it is new. Coordinators,
// members and what the operator asks them are real, TLS included; ranks there are none, but each
// gang makes a step a second. It ends with its stdin.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop/wake_timer.h"
#include "base/text/line_buffer.h"
#include "bench/bench_member.h"
#include "bench/benchmarks.h"
#include "bench/helper.h"
#include "core/gang/status/status_api.h"
#include "core/model/names.h"
#include "worker/agent/gang/coordinator_host.h"
#include "worker/agent/gang/gang_config.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/http/status_server.h"

namespace lockstep::bench {
namespace {

using agent::CoordinatorHost;
using agent::GangListener;
using agent::StatusServer;

constexpr Duration kStep = seconds(1);

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "lockstep-bench: %s\n", result.error().message.c_str());
  std::_Exit(1);
}

class Gang final : public CoordinatorHost::Owner {
 public:
  Gang(EventLoop* loop, const core::AgentConfig& machine0)
      : loop_(loop),
        coordinator_(Must(ParseEndpoint(machine0.coordinator))),
        server_(Must(TlsPskContext::Server(*machine0.key, core::GangIdentity(machine0.job_uid)))),
        client_(Must(TlsPskContext::Client(*machine0.key, core::GangIdentity(machine0.job_uid)))),
        next_step_(loop, [this] { Step(); }) {
    members_[0] = std::make_unique<BenchMember>(
        loop, agent::ForMember(machine0),
        [&](agent::GangPort::Owner* own) {
          auto host = std::make_unique<CoordinatorHost>(loop, agent::ForCoordinator(machine0),
                                                        machine0.advertise, std::nullopt, nullptr,
                                                        own, this, [](const std::string&) {});
          host_ = host.get();
          return host;
        },
        BenchMember::Handlers{});
    status_ = std::make_unique<StatusServer>(
        loop, StatusServer::Handlers{.memory = {},
                                     .code = {},
                                     .status =
                                         [this](bool) {
                                           return core::StatusOf(host_->coordinator(), BootTime(),
                                                                 host_->born());
                                         },
                                     .version = [this] { return host_->coordinator().version(); },
                                     .desired =
                                         [this](const core::DesiredState& desired) {
                                           return host_->OnDesiredState(desired);
                                         }});
    listener_ = Must(GangListener::Listen(
        loop, coordinator_, &server_, {},
        {.on_member = [this](std::unique_ptr<agent::FrameConnection> frames,
                             const Endpoint& peer) { host_->Adopt(std::move(frames), peer); },
         .on_http =
             [this](std::unique_ptr<Connection> connection, std::string_view received) {
               status_->Adopt(std::move(connection), received);
             }},
        [](const std::string&) {}));
    next_step_.WakeAt(BootTime() + kStep);
  }

  void Start(const core::AgentConfig& machine) {
    const core::MemberConfig config = agent::ForMember(machine);
    members_[machine.machine] = std::make_unique<BenchMember>(
        loop_, config, OnWire(loop_, &client_, coordinator_, config), BenchMember::Handlers{});
  }

  void End(uint32_t machine) { members_.erase(machine); }

 private:
  void OnCoordinatorExit(const core::ExitCoordinator& /*exit*/) override {}
  void OnGangChange() override {
    if (status_) status_->Notify();
  }
  Status OnPrepare(uint32_t /*port*/) override { return {}; }

  void Step() {
    next_step_.WakeAt(BootTime() + kStep);
    if (host_->coordinator().phase() == core::CoordinatorPhase::kRunning) {
      members_[0]->OnStep(++step_);
    }
  }

  EventLoop* loop_;
  Endpoint coordinator_;
  TlsPskContext server_;
  TlsPskContext client_;
  WakeTimer next_step_;
  int64_t step_ = 0;
  CoordinatorHost* host_ = nullptr;  // of members_[0]
  std::map<uint32_t, std::unique_ptr<BenchMember>> members_;
  std::unique_ptr<StatusServer> status_;
  std::unique_ptr<GangListener> listener_;
};

class Agents {
 public:
  explicit Agents(EventLoop* loop) : loop_(loop) {}

  void OnLine(std::string_view line) {
    const Json said = Json::parse(line);
    if (said.contains("end")) return End(said["end"]);
    const core::AgentConfig config = Must(core::ParseAgentConfig(said.at("start").dump()));
    if (config.machine == 0) {
      gangs_.erase(config.job_uid);
      gangs_.emplace(config.job_uid, std::make_unique<Gang>(loop_, config));
    } else {
      gangs_.at(config.job_uid)->Start(config);
    }
  }

 private:
  void End(const Json& who) {
    const auto gang = gangs_.find(who.at("jobUid").get<std::string>());
    if (gang == gangs_.end()) return;
    const auto machine = who.at("machine").get<uint32_t>();
    if (machine != 0) return gang->second->End(machine);
    gangs_.erase(gang);
  }

  EventLoop* loop_;
  std::map<std::string, std::unique_ptr<Gang>> gangs_;
};

}  // namespace

int RunAgents(const std::vector<std::string>& /*arguments*/) {
  AllowFiles(0);
  const std::unique_ptr<EventLoop> loop = Must(EventLoop::Create());
  Agents agents(loop.get());
  LineBuffer lines(core::kMaxAgentConfig);
  fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  const Status watched = loop->Watch(STDIN_FILENO, EPOLLIN, [&](uint32_t) {
    std::array<char, 65536> bytes{};
    const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got == 0) return loop->Stop();
    if (got > 0) lines.Append({bytes.data(), static_cast<size_t>(got)});
    while (const auto line = lines.Next()) agents.OnLine(*line);
  });
  if (!watched.ok()) Fail("lockstep-bench: stdin must be a pipe");
  loop->Run();
  return 0;
}

}  // namespace lockstep::bench
