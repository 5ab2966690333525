// fence [MACHINES [PROCESSES [RUNS]]]: 125 machines of 8 processes each, all of which put what
// MPICH's put and wait in a barrier of PMI: how long until the last of them goes on. Coordinator,
// members, TLS and the agents' PMI are real; the processes and their sockets are not.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_member.h"
#include "bench/benchmarks.h"
#include "bench/scale.h"
#include "worker/agent/services/pmi.h"

namespace lockstep::bench {
namespace {

constexpr int kPuts = 5;  // of each process, as MPICH 5 has them
constexpr size_t kValue = 200;

// One machine: its member, and its agent's answers to its processes.
class Machine {
 public:
  Machine(EventLoop* loop, const TlsPskContext* tls, const Endpoint& coordinator, uint32_t index,
          uint32_t machines, uint32_t processes, std::function<void()> on_done)
      : pmi_(ShapeOf(index, machines, processes)), on_done_(std::move(on_done)) {
    core::MemberConfig config;
    config.job_uid = kJobUid;
    config.machine = index;
    config.machines = machines;
    config.processes = processes;
    BenchMember::Handlers handlers;
    handlers.on_left = [](const core::ExitAgent&) { Fail("lockstep-bench: a member left"); };
    handlers.on_fence = [this](const core::DeliverFence& fence) { OnFence(fence); };
    member_ = std::make_unique<BenchMember>(loop, config, OnWire(loop, tls, coordinator, config),
                                            std::move(handlers));
    for (uint32_t rank = 1; rank <= processes; ++rank) {
      Say(rank, "cmd=initack pmiid=" + std::to_string(rank));
      Say(rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    processes_ = processes;
    first_rank_ = index * processes;
  }

  void Begin() {
    for (uint32_t rank = 1; rank <= processes_; ++rank) {
      for (int put = 0; put < kPuts; ++put) {
        Say(rank, "cmd=put kvsname=kvs key=" + std::to_string(first_rank_ + rank) + "-" +
                      std::to_string(put) + " value=" + std::string(kValue, 'v'));
      }
    }
    EnterBarrier();
  }

 private:
  static agent::Pmi::Shape ShapeOf(uint32_t index, uint32_t machines, uint32_t processes) {
    agent::Pmi::Shape shape{index, machines, processes, "kvs", {}};
    for (uint32_t rank = 1; rank <= processes; ++rank) shape.ids.push_back(rank);
    return shape;
  }

  void Say(uint32_t rank, const std::string& line) {
    Result<agent::Pmi::Effects> effects = pmi_.OnLine(rank, line);
    if (!effects.ok()) Fail("lockstep-bench: PMI");
    if (effects->fence) member_->EnterFence(*std::move(effects->fence));
  }

  void EnterBarrier() {
    for (uint32_t rank = 1; rank <= processes_; ++rank) Say(rank, "cmd=barrier_in");
  }

  void OnFence(const core::DeliverFence& fence) {
    if (!pmi_.OnFence(fence.entries, fence.last).answers.empty()) on_done_();
  }

  agent::Pmi pmi_;
  std::function<void()> on_done_;
  std::unique_ptr<BenchMember> member_;
  uint32_t processes_ = 0;
  uint32_t first_rank_ = 0;
};

// Answers anything with {"fenceMs"}, once all have put, waited and gone on.
void MachinesRole(const Line& line, uint16_t port, uint32_t machines, uint32_t processes) {
  auto loop = EventLoop::Create();
  auto tls = TlsPskContext::Client(BenchKey(), kJobUid);
  if (!loop.ok() || !tls.ok()) Fail("lockstep-bench: machines");
  std::vector<std::unique_ptr<Machine>> all;
  uint32_t left = machines;
  Time began{};
  for (uint32_t i = 0; i < machines; ++i) {
    all.push_back(std::make_unique<Machine>(
        loop->get(), &*tls, *MakeEndpoint("127.0.0.1", port), i, machines, processes, [&] {
          if (--left == 0) line.Say({{"fenceMs", Milliseconds(BootTime() - began)}});
        }));
  }
  line.Watch(loop->get(), [&](const Json&) {
    left = machines;
    began = BootTime();
    for (const std::unique_ptr<Machine>& machine : all) machine->Begin();
  });
  (*loop)->Run();
}

}  // namespace

int RunFence(const std::vector<std::string>& arguments) {
  const auto argument = [&](size_t index, uint32_t otherwise) {
    return arguments.size() <= index ? otherwise
                                     : static_cast<uint32_t>(std::stoul(arguments[index]));
  };
  const uint32_t machines = argument(0, 125);
  const uint32_t processes = argument(1, 8);
  std::vector<double> times;
  double peak_mb = 0;
  for (uint32_t run = 0; run < argument(2, 5); ++run) {
    const Helper coordinator =
        Helper::Start([&](const Line& line) { CoordinatorRole(line, machines, processes); });
    const auto port = coordinator.Hear().at("port").get<uint16_t>();
    const Helper gang =
        Helper::Start([&](const Line& line) { MachinesRole(line, port, machines, processes); });
    (void)coordinator.Hear();  // it runs
    times.push_back(gang.Ask({{"ask", "fence"}}).at("fenceMs").get<double>());
    peak_mb = std::max(peak_mb, coordinator.Ask({{"ask", "usage"}}).at("peakMB").get<double>());
  }
  Json line = {{"benchmark", "fence"},
               {"figure", "fence"},
               {"unit", "ms"},
               {"machines", machines},
               {"processes", machines * processes},
               {"bytes", size_t{machines} * processes * kPuts * kValue},
               {"coordinatorPeakMB", peak_mb},
               {"limit", 1000}};
  line.update(Spread(times));
  Print(line);
  return 0;
}

}  // namespace lockstep::bench
