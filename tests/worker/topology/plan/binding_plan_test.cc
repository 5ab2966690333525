#include "worker/topology/plan/binding_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/worker/topology/machine_builder.h"
#include "worker/topology/plan/core_split.h"

namespace lockstep::topology::binding_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<int> Threads(const BindingPlan& plan) {
  std::vector<int> threads;
  for (const RankBinding& rank : plan.ranks) threads.push_back(rank.omp_threads);
  return threads;
}

BindingPlan PlanNode(const Machine& machine, int processes,
                     MemoryPolicy memory = MemoryPolicy::kPreferred) {
  return PlanBinding(machine, {.memory = memory, .processes = processes});
}

MakeMachine TwoNodes() {
  return MakeMachine().Node(0, 8).Node(1, 8).Distances({{10, 21}, {21, 10}});
}

MakeMachine EightGpus() {
  MakeMachine machine = TwoNodes();
  for (int gpu = 0; gpu < 8; ++gpu) machine.Gpu(gpu / 4);
  return machine;
}

TEST(BindingPlanTest, ProcessesWithoutGpusSplitNodesThenCores) {
  const BindingPlan plan = PlanNode(TwoNodes(), 4);
  EXPECT_EQ(Cpus(plan), "0-3 | 4-7 | 8-11 | 12-15");
  EXPECT_THAT(Threads(plan), ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(plan.ranks[0].numa_node, 0);
  EXPECT_EQ(plan.ranks[3].numa_node, 1);
  EXPECT_EQ(plan.ranks[3].memory, MemoryPolicy::kPreferred);
  EXPECT_THAT(plan.ranks[3].memory_nodes, ElementsAre(1));
  EXPECT_EQ(plan.ranks[3].reason, "");
}

TEST(BindingPlanTest, AnOddNumberOfProcessesStillKeepsEachWithinOneNode) {
  EXPECT_EQ(Cpus(PlanNode(TwoNodes(), 3)), "0-3 | 4-7 | 8-15");
}

TEST(BindingPlanTest, ALoneProcessGetsTheWholeMachine) {
  const BindingPlan plan = PlanNode(TwoNodes(), 1);
  EXPECT_EQ(Cpus(plan), "0-15");
  EXPECT_EQ(plan.ranks[0].numa_node, -1);
  EXPECT_EQ(plan.ranks[0].memory, MemoryPolicy::kNone);
  EXPECT_EQ(plan.ranks[0].reason, "");
}

TEST(BindingPlanTest, ProcessesGetTheirGpusNode) {
  const BindingPlan plan = PlanNode(EightGpus(), 8);
  EXPECT_EQ(Cpus(plan), "0-7 | 0-7 | 0-7 | 0-7 | 8-15 | 8-15 | 8-15 | 8-15");
  EXPECT_THAT(Threads(plan), ElementsAre(2, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_EQ(plan.ranks[5].gpus.at(0), 5);
  EXPECT_EQ(plan.ranks[5].reason, "");
}

TEST(BindingPlanTest, MoreProcessesThanGpusGoAroundThem) {
  const Machine machine = TwoNodes().Gpu(1).Gpu(0);
  const BindingPlan plan = PlanNode(machine, 4);
  EXPECT_EQ(Cpus(plan), "8-15 | 0-7 | 8-15 | 0-7");
  EXPECT_EQ(plan.ranks[2].gpus.at(0), 0);
}

TEST(BindingPlanTest, GpusOfUnknownNodeSplitTheCoresEvenlyAndAreNeverPutOnNodeZero) {
  const Machine machine = TwoNodes().Gpu(-1).Gpu(-1).Gpu(-1).Gpu(-1);
  const BindingPlan plan = PlanNode(machine, 4);
  EXPECT_EQ(Cpus(plan), "0-3 | 4-7 | 8-11 | 12-15");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("numa_node=-1"));
}

TEST(BindingPlanTest, AGpuOnAClosedNodeGetsTheNearestOpenOne) {
  const Machine machine = MakeMachine()
                              .Node(0, 2)
                              .Node(1, 2)
                              .Node(2, 2)
                              .Distances({{10, 12, 32}, {12, 10, 21}, {32, 21, 10}})
                              .Gpu(2)
                              .AllowedCpus({0, 1, 2, 3});
  const BindingPlan plan = PlanNode(machine, 1);
  EXPECT_EQ(Cpus(plan), "2-3");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("NUMA node 2, of which this container may use no"));
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("NUMA node 1, the nearest"));
}

TEST(BindingPlanTest, AGpuOnAClosedNodeOfUnknownDistanceGetsAnEvenShare) {
  const Machine machine =
      MakeMachine().Node(0, 4).Node(1, 4).Gpu(1).Gpu(1).AllowedCpus({0, 1, 2, 3});
  EXPECT_EQ(Cpus(PlanNode(machine, 2)), "0-1 | 2-3");
}

TEST(BindingPlanTest, AGpuOnANodeWithoutCpusGetsAnEvenShare) {
  const BindingPlan plan = PlanNode(TwoNodes().Gpu(7).Gpu(7), 2);
  EXPECT_EQ(Cpus(plan), "0-7 | 8-15");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("NUMA node 7"));
}

TEST(BindingPlanTest, SmtSiblingsStayTogetherAndCountAsOneThread) {
  const BindingPlan plan = PlanNode(MakeMachine().Smt(2).Node(0, 4), 2);
  EXPECT_EQ(Cpus(plan), "0-3 | 4-7");
  EXPECT_THAT(Threads(plan), ElementsAre(2, 2));
}

TEST(BindingPlanTest, ACpusetThatAllowsOneSiblingOfACoreIsRespected) {
  const BindingPlan plan = PlanNode(MakeMachine().Smt(2).Node(0, 4).AllowedCpus({0, 2, 3, 6}), 3);
  EXPECT_EQ(Cpus(plan), "0 | 2-3 | 6");
}

TEST(BindingPlanTest, ASkewedCpusetGivesProcessesToTheNodeWithTheCores) {
  const Machine machine = TwoNodes().AllowedCpus({0, 8, 9, 10, 11});
  EXPECT_EQ(Cpus(PlanNode(machine, 2)), "8-9 | 10-11");
}

TEST(BindingPlanTest, MoreProcessesThanCoresShareAndSaySo) {
  const BindingPlan plan = PlanNode(MakeMachine().Node(0, 2), 4);
  EXPECT_EQ(Cpus(plan), "0 | 0 | 1 | 1");
  EXPECT_THAT(Threads(plan), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(plan.ranks[0].reason, "4 processes share 2 cores");
}

TEST(BindingPlanTest, AQuotaLimitsThreadsButNotCores) {
  const Machine machine = MakeMachine().Node(0, 8).Quota(4.5);
  const BindingPlan plan = PlanNode(machine, 2);
  EXPECT_EQ(Cpus(plan), "0-3 | 4-7");
  EXPECT_THAT(Threads(plan), ElementsAre(2, 2));
  EXPECT_THAT(Threads(PlanNode(machine, 8)), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(BindingPlanTest, BindNoneBindsNothingAndStillDividesTheThreads) {
  const BindingPlan plan = PlanBinding(
      EightGpus(), {.mode = Bind::kNone, .memory = MemoryPolicy::kStrict, .processes = 4});
  for (const RankBinding& rank : plan.ranks) {
    EXPECT_THAT(rank.cpus, IsEmpty());
    EXPECT_EQ(rank.memory, MemoryPolicy::kNone);
    EXPECT_EQ(rank.reason, "");
  }
  EXPECT_THAT(Threads(plan), ElementsAre(4, 4, 4, 4));
}

TEST(BindingPlanTest, MemoryThatTheCpusetForbidsIsNotAskedFor) {
  const BindingPlan plan = PlanNode(TwoNodes().AllowedMems({0}), 2, MemoryPolicy::kStrict);
  EXPECT_EQ(plan.ranks[1].memory, MemoryPolicy::kNone);
  EXPECT_THAT(plan.ranks[1].reason, HasSubstr("no memory from NUMA node 1"));
}

TEST(BindingPlanTest, OneAllowedMemoryNodeNeedsNoPolicy) {
  const BindingPlan plan = PlanNode(MakeMachine().Node(0, 4), 2, MemoryPolicy::kStrict);
  EXPECT_EQ(plan.ranks[0].memory, MemoryPolicy::kNone);
  EXPECT_THAT(plan.ranks[0].memory_nodes, IsEmpty());
  EXPECT_EQ(plan.ranks[0].reason, "");
}

TEST(BindingPlanTest, StrictMemoryOfAProcessOnSeveralNodesIsThoseNodes) {
  const BindingPlan plan = PlanNode(TwoNodes(), 1, MemoryPolicy::kStrict);
  EXPECT_EQ(plan.ranks[0].memory, MemoryPolicy::kStrict);
  EXPECT_THAT(plan.ranks[0].memory_nodes, ElementsAre(0, 1));
}

TEST(BindingPlanTest, CpusOfNoKnownCoreOrNodeAreUsedToo) {
  Machine machine;
  machine.allowed_cpus = {0, 1, 2, 3};
  const BindingPlan plan = PlanNode(machine, 2);
  EXPECT_EQ(Cpus(plan), "0-1 | 2-3");
  EXPECT_EQ(plan.ranks[0].numa_node, -1);
  EXPECT_EQ(plan.ranks[0].reason, "NUMA nodes are unknown: memory by first touch");
}

TEST(RequestOfTest, AJobsOwnVariablesGoBeforeThoseThatItInherits) {
  core::Spec spec;
  spec.processes_per_machine = 4;
  spec.launch = core::Launch::kPerMachine;
  spec.env.push_back({"CUDA_VISIBLE_DEVICES", "1", {}});
  spec.env.push_back({"HIP_VISIBLE_DEVICES", "", core::Node::Map()});
  const BindingRequest request =
      RequestOf(spec, {"CUDA_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=2", "PATH=/bin"});
  EXPECT_EQ(request.processes, 4);
  EXPECT_TRUE(request.launcher);
  EXPECT_THAT(request.variables,
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "1"), Pair("HIP_VISIBLE_DEVICES", "2")));
}

TEST(RequestOfTest, AJobThatComputesOnCpusIsSpreadAsIfThereWereNoGpus) {
  core::Spec plain;
  EXPECT_EQ(RequestOf(plain, {}).gpus, std::nullopt) << "it may use what it finds";
  core::Spec trainer;
  trainer.trainer.emplace().device = core::Device::kCpu;
  EXPECT_EQ(RequestOf(trainer, {}).gpus, 0);
  core::Spec accelerate;
  accelerate.env.push_back({"ACCELERATE_USE_CPU", "true", {}});
  EXPECT_EQ(RequestOf(accelerate, {}).gpus, 0);
  EXPECT_EQ(RequestOf(plain, {"JAX_PLATFORMS=cpu"}).gpus, 0);
  EXPECT_EQ(RequestOf(plain, {"JAX_PLATFORMS=cuda,cpu"}).gpus, std::nullopt);
  trainer.resources_per_process.gpu = 1;
  EXPECT_EQ(RequestOf(trainer, {}).gpus, 1) << "it asked";
}

Machine RandomMachine(std::mt19937* random) {
  const auto pick = [random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(*random);
  };
  MakeMachine builder;
  const int nodes = pick(1, 6);
  int cpus = 0;
  for (int id = 0; id < nodes; ++id) {
    const int threads = pick(1, 2);
    const int cores = pick(1, 9);
    builder.Smt(threads).Node(id * pick(1, 2) + id, cores);
    cpus += threads * cores;
  }
  if (pick(0, 1) == 1) {
    for (int gpu = pick(1, 8); gpu > 0; --gpu) builder.Gpu(pick(-1, nodes));
  }
  IndexList allowed;
  for (int cpu = 0; cpu < cpus; ++cpu) {
    if (pick(0, 3) > 0) allowed.push_back(cpu);
  }
  if (allowed.empty()) allowed = {0};
  builder.AllowedCpus(allowed);
  if (pick(0, 2) == 0) builder.AllowedMems({0});
  if (pick(0, 2) == 0) builder.Quota(pick(1, 64) / 4.0);
  return builder;
}

TEST(BindingPlanPropertyTest, PlansStayWithinTheCpusetAndCoresAreDisjointWhereTheyCanBe) {
  std::mt19937 random(20260101);
  for (int round = 0; round < 5000; ++round) {
    const Machine machine = RandomMachine(&random);
    const int processes = std::uniform_int_distribution<int>(1, 20)(random);
    constexpr Bind kModes[] = {Bind::kNode, Bind::kSocket, Bind::kCoreComplex, Bind::kExclusive,
                               Bind::kInterleave};
    const Bind mode = kModes[static_cast<size_t>(round) % std::size(kModes)];
    const BindingPlan plan = PlanBinding(machine, {.mode = mode, .processes = processes});
    const std::vector<Core> cores = AllowedCores(machine);
    ASSERT_EQ(plan.ranks.size(), static_cast<size_t>(processes));

    IndexList used;
    for (const RankBinding& rank : plan.ranks) {
      ASSERT_FALSE(rank.cpus.empty());
      ASSERT_EQ(Intersect(rank.cpus, machine.allowed_cpus), rank.cpus);
      ASSERT_EQ(Intersect(rank.memory_nodes, machine.allowed_mems), rank.memory_nodes);
      ASSERT_EQ(rank.memory == MemoryPolicy::kNone, rank.memory_nodes.empty());
      ASSERT_GE(rank.omp_threads, 1);
      for (const Core& core : cores) {
        const IndexList part = Intersect(core.cpus, rank.cpus);
        ASSERT_TRUE(part.empty() || part == core.cpus) << "a core was cut";
      }
      const bool own = mode == Bind::kNode || mode == Bind::kExclusive;
      if (own && machine.gpus.empty() && cores.size() >= plan.ranks.size()) {
        ASSERT_THAT(Intersect(used, rank.cpus), IsEmpty()) << "round " << round;
      }
      used = Union(used, rank.cpus);
    }
  }
}

TEST(BindingPlanPropertyTest, ThreadsFitTheCoresAndTheQuotaButForTheOneThatEachProcessNeeds) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    const Machine machine = RandomMachine(&random);
    const int processes = std::uniform_int_distribution<int>(1, 20)(random);
    int beyond_first = 0;
    for (const RankBinding& rank : PlanNode(machine, processes).ranks) {
      beyond_first += rank.omp_threads - 1;
    }
    ASSERT_LE(beyond_first, static_cast<int>(AllowedCores(machine).size()));
    if (machine.cpu_quota > 0) ASSERT_LE(beyond_first, machine.cpu_quota);
  }
}

}  // namespace
}  // namespace lockstep::topology::binding_plan_test
