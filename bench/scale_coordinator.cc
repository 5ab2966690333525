#include <unordered_map>
#include <utility>

#include "bench/scale.h"
#include "worker/agent/gang/coordinator_host.h"
#include "worker/agent/gang/gang_listener.h"

namespace lockstep::bench {

using agent::CoordinatorHost;
using agent::GangListener;

Key BenchKey() {
  Key key;
  key.fill(7);
  return key;
}

// Says once when its gang's generation was announced and when it ran.
struct Announcer final : CoordinatorHost::Owner {
  explicit Announcer(const Line& to) : line(to) {}

  void OnCoordinatorExit(const core::ExitCoordinator& /*exit*/) override {
    Fail("lockstep-bench: it left");
  }
  void OnGangChange() override {
    const core::Coordinator& coordinator = gang->coordinator();
    if (told || coordinator.phase() != core::CoordinatorPhase::kRunning) return;
    told = true;
    const core::GenerationRecord& record = coordinator.history().back();
    line.Say({{"announced", record.announced->count()}, {"spawned", record.spawned->count()}});
  }
  Status OnPrepare(uint32_t /*port*/) override { return {}; }

  const Line& line;
  CoordinatorHost* gang = nullptr;
  bool told = false;
};

void CoordinatorRole(const Line& line, uint32_t members, uint32_t processes) {
  auto loop = EventLoop::Create();
  auto tls = TlsPskContext::Server(BenchKey(), kJobUid);
  if (!loop.ok() || !tls.ok()) Fail("lockstep-bench: coordinator");

  core::CoordinatorConfig config;
  config.job_uid = kJobUid;
  config.machines = members;
  config.processes = processes;
  Announcer announcer(line);
  CoordinatorHost host(loop->get(), config, "127.0.0.1", std::nullopt, nullptr, nullptr, &announcer,
                       [](const std::string&) {});
  announcer.gang = &host;

  auto listener = GangListener::Listen(
      loop->get(), *MakeEndpoint("127.0.0.1", 0), &*tls, {},
      {.on_member = [&](std::unique_ptr<agent::FrameConnection> frames,
                        const Endpoint& peer) { host.Adopt(std::move(frames), peer); },
       .on_http = [](const std::unique_ptr<Connection>&, std::string_view) {}},
      [](const std::string&) {});
  if (!listener.ok()) Fail("lockstep-bench: listen");
  line.Watch(loop->get(), [&](const Json&) {
    Json usage = Usage();
    usage["connections"] = (*listener)->connections();
    usage["refused"] = (*listener)->refused();
    usage["generations"] = host.coordinator().history().size();
    line.Say(usage);
  });
  line.Say({{"port", (*listener)->endpoint().port()}});
  (*loop)->Run();
}

}  // namespace lockstep::bench
