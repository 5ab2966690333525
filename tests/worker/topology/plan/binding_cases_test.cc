// Ways in which a binding can be wrong while it looks right, each a machine and a request: shapes
// of jobs, and what is known to break other launchers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/topology/machine_builder.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string Gpus(const BindingPlan& plan) {
  std::string text;
  for (const RankBinding& rank : plan.ranks) {
    text += text.empty() ? "" : " | ";
    for (const int gpu : rank.gpus) text += std::to_string(gpu);
  }
  return text;
}

std::vector<std::string> Reasons(const BindingPlan& plan) {
  std::vector<std::string> reasons;
  for (const RankBinding& rank : plan.ranks) {
    if (!rank.reason.empty()) reasons.push_back(rank.reason);
  }
  return reasons;
}

// Two nodes of four cores, four GPUs on each.
MakeMachine TwoByFour() {
  MakeMachine machine;
  machine.Node(0, 4).Node(1, 4).Distances({{10, 21}, {21, 10}});
  for (int gpu = 0; gpu < 8; ++gpu) {
    machine.Gpu(gpu / 4).Uuid("GPU-" + std::to_string(gpu) + "f00d");
  }
  return machine;
}

TEST(BindingCaseTest, FourProcessesOfTwoGpusEachUseAllEightAndTheirNodes) {
  const BindingPlan plan = PlanBinding(TwoByFour(), {.processes = 4, .gpus = 2});
  EXPECT_EQ(Gpus(plan), "01 | 23 | 45 | 67");
  EXPECT_EQ(Cpus(plan), "0-3 | 0-3 | 4-7 | 4-7");
  EXPECT_THAT(plan.ranks[3].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "6,7")));
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

TEST(BindingCaseTest, ALauncherGetsWhatAllOfItsRanksWouldGetAndTheThreadsOfOne) {
  const BindingPlan plan = PlanBinding(TwoByFour(), {.processes = 8, .launcher = true});
  ASSERT_EQ(plan.ranks.size(), 1u);
  EXPECT_EQ(Cpus(plan), "0-7");
  EXPECT_EQ(Gpus(plan), "01234567");
  EXPECT_EQ(plan.ranks[0].omp_threads, 1);
  EXPECT_THAT(Reasons(plan), IsEmpty());
  EXPECT_EQ(PlanBinding(TwoByFour(), {.processes = 2, .launcher = true}).ranks[0].omp_threads, 2);
}

TEST(BindingCaseTest, VisibleDevicesAreThoseThatTheProcessesNumber) {
  const auto plan = [](const std::string& visible) {
    return PlanBinding(TwoByFour(),
                       {.processes = 2, .variables = {{"CUDA_VISIBLE_DEVICES", visible}}});
  };
  EXPECT_EQ(Gpus(plan("4,5,6,7")), "4 | 5");
  EXPECT_EQ(Cpus(plan("4,5,6,7")), "4-7 | 4-7");
  EXPECT_EQ(Gpus(plan("GPU-6f00d,GPU-1")), "6 | 1");
  EXPECT_EQ(Cpus(plan("GPU-6f00d,GPU-1")), "4-7 | 0-3");
  EXPECT_EQ(Gpus(plan("MIG-GPU-5f00d/7/0,MIG-GPU-5f00d/8/0")), "5 | 5");
  EXPECT_THAT(plan("MIG-GPU-5f00d/7/0,MIG-GPU-5f00d/8/0").ranks[1].isolated,
              ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "MIG-GPU-5f00d/8/0")));
  EXPECT_EQ(Gpus(plan("")), "");
  EXPECT_EQ(Gpus(plan("-1")), "");
  EXPECT_THAT(
      plan("7,12,1").notes,
      ElementsAre(HasSubstr("names \"12\""), "2 processes have 1 GPU here: too few for one each"));
  EXPECT_EQ(Gpus(plan("7,12,1")), "7 | 7");
}

TEST(BindingCaseTest, AMigSliceThatNamesNoGpuSaysSoAndGetsAShare) {
  const BindingPlan plan =
      PlanBinding(TwoByFour(),
                  {.processes = 2, .variables = {{"CUDA_VISIBLE_DEVICES", "MIG-1a-2b,MIG-3c-4d"}}});
  EXPECT_EQ(Cpus(plan), "0-3 | 4-7");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("MIG-1a-2b"));
  EXPECT_THAT(plan.ranks[1].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "MIG-3c-4d")));
}

TEST(BindingCaseTest, OnAMachineOfOneNodeEveryGpuIsOnThatNode) {
  const auto plan = [](const Machine& machine, const std::string& visible) {
    return PlanBinding(machine, {.policy = core::TopologyPolicy::kRequired,
                                 .processes = 2,
                                 .variables = {{"CUDA_VISIBLE_DEVICES", visible}}});
  };
  const Machine unknown = MakeMachine().Node(0, 8).Gpu(-1).Gpu(-1);
  const Machine beside = MakeMachine().Node(0, 8).MemoryNode(1, {}).Gpu(1).Gpu(-1);
  for (const BindingPlan& one :
       {plan(unknown, "0,1"), plan(unknown, "MIG-1a-2b,MIG-3c-4d"), plan(beside, "0,1")}) {
    EXPECT_EQ(Cpus(one), "0-7 | 0-7");
    EXPECT_EQ(one.error, "");
  }
}

TEST(BindingCaseTest, AUuidThatTheDriverDoesNotShowIsAGpuAllTheSame) {
  const auto plan = [](const Machine& machine) {
    return PlanBinding(
        machine, {.processes = 2, .variables = {{"CUDA_VISIBLE_DEVICES", "GPU-8a3e,GPU-0f00d"}}});
  };
  MakeMachine machine;
  machine.Node(0, 4).Node(1, 4).Gpu(0).Gpu(1);
  const BindingPlan hidden = plan(machine);
  EXPECT_THAT(hidden.notes, IsEmpty());
  EXPECT_EQ(Cpus(hidden), "0-3 | 4-7");
  EXPECT_THAT(hidden.ranks[0].reason, HasSubstr("GPU-8a3e"));
  EXPECT_THAT(hidden.ranks[1].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "GPU-0f00d")));

  const BindingPlan half = plan(machine.Uuid("GPU-0f00d-1"));
  EXPECT_EQ(Gpus(half), "1");  // of the second process
  EXPECT_THAT(half.notes, IsEmpty());

  const BindingPlan only = plan(MakeMachine().Node(0, 4).Node(1, 4).Gpu(1));
  EXPECT_EQ(Gpus(only), "0 | 0");
  EXPECT_THAT(Reasons(only), IsEmpty());

  const BindingPlan other = plan(TwoByFour());
  EXPECT_THAT(other.notes, ElementsAre(HasSubstr("names \"GPU-8a3e\", which is not one of the 8")));
  EXPECT_THAT(other.ranks[0].isolated, IsEmpty());
}

TEST(BindingCaseTest, OneProcessWithAllGpusGetsAllTheirNodes) {
  for (const std::optional<int> gpus : {std::optional<int>(), std::optional<int>(8)}) {
    const BindingPlan plan = PlanBinding(TwoByFour(), {.processes = 1, .gpus = gpus});
    EXPECT_EQ(Cpus(plan), "0-7");
    EXPECT_EQ(Gpus(plan), "01234567");
    EXPECT_EQ(plan.ranks[0].omp_threads, 8);
    EXPECT_THAT(Reasons(plan), IsEmpty());
  }
}

TEST(BindingCaseTest, MachinesOfOneComputerShareOutItsGpusAndCores) {
  const auto plan = [](int part) {
    return PlanBinding(TwoByFour(), {.processes = 4, .part = part, .parts = 2});
  };
  EXPECT_EQ(Gpus(plan(0)), "0 | 1 | 2 | 3");
  EXPECT_EQ(Gpus(plan(1)), "4 | 5 | 6 | 7");
  EXPECT_EQ(Cpus(plan(1)), "4-7 | 4-7 | 4-7 | 4-7");
  EXPECT_THAT(plan(0).visible, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0,1,2,3")));
  EXPECT_THAT(plan(1).visible, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "4,5,6,7")));
  EXPECT_THAT(plan(1).notes, IsEmpty());

  const Machine without = MakeMachine().Node(0, 4).Node(1, 4);
  EXPECT_EQ(Cpus(PlanBinding(without, {.processes = 2, .part = 1, .parts = 2})), "4-5 | 6-7");
}

TEST(BindingCaseTest, MachinesThatNeedMoreGpusThanThereAreUseTheSameOnesAndSaySo) {
  const BindingPlan plan =
      PlanBinding(TwoByFour(), {.processes = 4, .gpus = 2, .part = 1, .parts = 2});
  EXPECT_EQ(Gpus(plan), "01 | 23 | 45 | 67");
  EXPECT_THAT(plan.visible, IsEmpty());
  EXPECT_THAT(plan.notes, ElementsAre("the job's 2 machines need 16 GPUs and this computer has 8: "
                                      "their processes use the same ones"));
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

TEST(BindingCaseTest, MachinesOfFewerGpusThanProcessesSaySoAndSplitThemWhereEachSeesItsOwn) {
  const auto plan = [](core::GpuVisibility visibility, int part, std::optional<int> gpus) {
    MakeMachine machine;
    machine.Node(0, 4).Node(1, 4);
    for (int gpu = 0; gpu < 5; ++gpu) machine.Gpu(gpu / 3);
    return PlanBinding(
        machine,
        {.processes = 4, .gpus = gpus, .visibility = visibility, .part = part, .parts = 2});
  };
  // GPU LOCAL_RANK must be there.
  const BindingPlan shared = plan(core::GpuVisibility::kShared, 1, std::nullopt);
  EXPECT_EQ(Gpus(shared), "0 | 1 | 2 | 3");
  EXPECT_THAT(shared.visible, IsEmpty());
  EXPECT_THAT(shared.notes, ElementsAre("8 processes have 5 GPUs here: too few for one each"));
  for (const std::optional<int> gpus : {std::optional<int>(), std::optional<int>(1)}) {
    EXPECT_EQ(Gpus(plan(core::GpuVisibility::kIsolated, 0, gpus)), "0 | 1 | 0 | 1");
    const BindingPlan second = plan(core::GpuVisibility::kIsolated, 1, gpus);
    EXPECT_EQ(Gpus(second), "2 | 3 | 4 | 2");
    EXPECT_THAT(second.ranks[1].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "3")));
    EXPECT_EQ(second.notes.size(), 1u);
  }
}

TEST(BindingCaseTest, PartsOfAGpuAreNoShortageAndAShortageNoReason) {
  const auto plan = [](const std::string& resource, const std::string& visible) {
    return PlanBinding(MakeMachine().Node(0, 4).Node(1, 4).Gpu(1),
                       {.policy = core::TopologyPolicy::kRequired,
                        .processes = 4,
                        .gpus = 1,
                        .gpu_resource = resource,
                        .variables = {{"CUDA_VISIBLE_DEVICES", visible}}});
  };
  const BindingPlan whole = plan("nvidia.com/gpu", "0");
  EXPECT_EQ(whole.error, "");
  EXPECT_THAT(whole.notes, ElementsAre(HasSubstr("needs 4 GPUs of a machine")));
  EXPECT_THAT(whole.ranks[3].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0")));

  const BindingPlan shared = plan("nvidia.com/gpu.shared", "0");
  EXPECT_EQ(shared.error, "");
  EXPECT_THAT(shared.notes, IsEmpty());
  EXPECT_THAT(shared.ranks[3].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "0")));

  const BindingPlan slices = plan("nvidia.com/mig-1g.10gb", "0");
  EXPECT_EQ(slices.error, "");
  EXPECT_THAT(slices.notes, IsEmpty());
  EXPECT_EQ(Cpus(slices), "4-7 | 4-7 | 4-7 | 4-7");
  EXPECT_THAT(slices.ranks[3].isolated, IsEmpty());
  EXPECT_TRUE(slices.ranks[3].has_gpu);

  const BindingPlan named = plan("nvidia.com/mig-1g.10gb", "MIG-1a,MIG-2b,MIG-3c,MIG-4d");
  EXPECT_THAT(named.ranks[3].isolated, ElementsAre(Pair("CUDA_VISIBLE_DEVICES", "MIG-4d")));
  EXPECT_EQ(named.error, "");
}

TEST(BindingCaseTest, AmdGpusAreBoundToAndShownByRocmsNames) {
  MakeMachine machine;
  machine.Node(0, 4).Node(1, 4).AmdGpu(0).AmdGpu(0).AmdGpu(1).AmdGpu(1);
  const BindingPlan plan = PlanBinding(machine, {.processes = 4});
  EXPECT_EQ(Cpus(plan), "0-3 | 0-3 | 4-7 | 4-7");
  EXPECT_THAT(plan.ranks[2].isolated, ElementsAre(Pair("ROCR_VISIBLE_DEVICES", "2")));

  const BindingPlan narrowed = PlanBinding(
      machine, {.processes = 1,
                .variables = {{"ROCR_VISIBLE_DEVICES", "1,2,3"}, {"HIP_VISIBLE_DEVICES", "2"}}});
  EXPECT_EQ(Gpus(narrowed), "3");
  EXPECT_THAT(narrowed.ranks[0].isolated,
              ElementsAre(Pair("ROCR_VISIBLE_DEVICES", "3"), Pair("HIP_VISIBLE_DEVICES", "0")));
}

// ---- modes ----

// Two packages of two nodes of four cores with two SMT siblings; a cache for each two cores.
MakeMachine TwoSockets() {
  MakeMachine machine;
  machine.Smt(2).Node(0, 4).Node(1, 4).Package().Node(2, 4).Node(3, 4).Package();
  for (int first = 0; first < 32; first += 4) {
    machine.Cache({first, first + 1, first + 2, first + 3});
  }
  return machine;
}

TEST(BindingModeTest, SocketIsAllNodesOfTheGpusPackage) {
  const BindingPlan plan =
      PlanBinding(TwoSockets().Gpu(1).Gpu(2), {.mode = Bind::kSocket, .processes = 2});
  EXPECT_EQ(Cpus(plan), "0-15 | 16-31");
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

TEST(BindingModeTest, CoreComplexesAreDealtOutToTheProcessesOfANode) {
  const BindingPlan plan = PlanBinding(TwoSockets().Gpu(1).Gpu(1).Gpu(1).Gpu(3),
                                       {.mode = Bind::kCoreComplex, .processes = 4});
  EXPECT_EQ(Cpus(plan), "8-11 | 12-15 | 8-11 | 24-27");
  EXPECT_THAT(plan.ranks[0].omp_threads, 1);
  EXPECT_THAT(plan.ranks[3].omp_threads, 2);
}

TEST(BindingModeTest, ExclusiveCoresAreOneProcessesAlone) {
  const BindingPlan plan = PlanBinding(TwoSockets().Gpu(1).Gpu(1).Gpu(1).Gpu(3),
                                       {.mode = Bind::kExclusive, .processes = 4});
  EXPECT_EQ(Cpus(plan), "8-9 | 10-11 | 12-15 | 24-31");
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

TEST(BindingModeTest, InterleaveIsAllCpusAndTheMemoryOfAllNodesWithCpus) {
  const BindingPlan plan =
      PlanBinding(TwoByFour().MemoryNode(2, {10, 21}), {.mode = Bind::kInterleave, .processes = 2});
  EXPECT_EQ(Cpus(plan), "0-7 | 0-7");
  EXPECT_EQ(plan.ranks[1].memory, MemoryPolicy::kInterleave);
  EXPECT_THAT(plan.ranks[1].memory_nodes, ElementsAre(0, 1));
  EXPECT_THAT(plan.ranks[1].omp_threads, 4);
}

TEST(BindingModeTest, AMapIsFollowedToTheCpu) {
  const Machine machine = TwoSockets();
  const BindingPlan plan = PlanBinding(machine, {.mode = Bind::kMap,
                                                 .memory = MemoryPolicy::kStrict,
                                                 .processes = 2,
                                                 .map = {{"0-3,16", "2"}, {"9", ""}}});
  EXPECT_EQ(Cpus(plan), "0-3,16 | 9");
  EXPECT_THAT(plan.ranks[0].memory_nodes, ElementsAre(2));
  EXPECT_THAT(plan.ranks[1].memory_nodes, ElementsAre(1));
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

TEST(BindingModeTest, AMapThatTheCpusetDoesNotAllowIsCutAndSaysSo) {
  const Machine machine = TwoByFour().AllowedCpus({0, 1, 2, 3});
  const BindingPlan plan =
      PlanBinding(machine, {.mode = Bind::kMap, .processes = 2, .map = {{"2-5", ""}, {"4-7", ""}}});
  EXPECT_EQ(Cpus(plan), "2-3 | 2-3");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("CPUs 2-5, of which this container may use 2-3"));
  EXPECT_THAT(plan.ranks[1].reason, HasSubstr("CPUs 4-7, of which this container may use none"));
}

TEST(BindingModeTest, InterleavedMemoryIsThatOfTheProcessesOwnNodes) {
  const BindingPlan plan =
      PlanBinding(TwoSockets().Gpu(0).Gpu(2),
                  {.mode = Bind::kSocket, .memory = MemoryPolicy::kInterleave, .processes = 2});
  EXPECT_THAT(plan.ranks[1].memory_nodes, ElementsAre(2, 3));
}

TEST(BindingModeTest, WhatIsLessThanAskedIsAnErrorWhereItIsRequiredAlone) {
  BindingRequest request{.processes = 1};
  const Machine unknown = MakeMachine().Node(0, 4).Node(1, 4).Gpu(-1);
  EXPECT_EQ(PlanBinding(unknown, request).error, "");
  request.policy = core::TopologyPolicy::kRequired;
  const BindingPlan plan = PlanBinding(unknown, request);
  EXPECT_THAT(plan.error, HasSubstr("local rank 0: the machine does not show"));
  EXPECT_EQ(Cpus(plan), "0-7");
  EXPECT_EQ(PlanBinding(TwoByFour(), request).error, "");
}

TEST(BindingModeTest, TheNearestNetworkCardIsOnTheSameSwitchElseOnTheSameNode) {
  MakeMachine machine;
  machine.Node(0, 4).Node(1, 4);
  machine.Gpu(0).GpuPath("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0");
  machine.Gpu(0).GpuPath("pci0000:20/0000:20:01.0/0000:21:00.0");
  machine.Nic("mlx5_0", 0, "pci0000:10/0000:10:01.0/0000:11:01.0/0000:13:00.0");
  machine.Nic("mlx5_1", 0, "pci0000:30/0000:30:01.0/0000:31:00.0");
  machine.Nic("mlx5_2", 1, "pci0000:40/0000:40:01.0/0000:41:00.0");
  const BindingPlan plan = PlanBinding(machine, {.processes = 2});
  EXPECT_THAT(plan.ranks[0].nics, ElementsAre("mlx5_0"));
  EXPECT_THAT(plan.ranks[1].nics, ElementsAre("mlx5_0", "mlx5_1"));
}

// ---- what is known to break other launchers ----

constexpr Bind kModes[] = {Bind::kNode, Bind::kSocket, Bind::kCoreComplex, Bind::kExclusive};

// Every process has CPUs, all of them allowed.
void ExpectBound(const Machine& machine, const BindingPlan& plan) {
  for (const RankBinding& rank : plan.ranks) {
    EXPECT_FALSE(rank.cpus.empty());
    EXPECT_EQ(Intersect(rank.cpus, machine.allowed_cpus), rank.cpus);
    EXPECT_GE(rank.omp_threads, 1);
  }
}

// torchrun --numa-binding: node and exclusive end the job on the empty set, socket all ranks.
TEST(KnownFailureTest, TorchrunsCpusetWithoutTheGpusNode) {
  const Machine machine = TwoSockets().Gpu(3).Gpu(0).AllowedCpus({0, 1, 2, 3, 4, 5, 6, 7});
  for (const Bind mode : kModes) {
    const BindingPlan plan = PlanBinding(machine, {.mode = mode, .processes = 2});
    ExpectBound(machine, plan);
    EXPECT_THAT(plan.ranks[0].reason, HasSubstr("NUMA node 3, of which")) << core::ToString(mode);
  }
}

// torchrun: max(numa_node, 0) puts the GPUs of most virtual machines on node 0.
TEST(KnownFailureTest, TorchrunsGpusOfUnknownNode) {
  const Machine machine = TwoSockets().Gpu(-1).Gpu(-1).Gpu(-1).Gpu(-1);
  for (const Bind mode : kModes) {
    const BindingPlan plan = PlanBinding(machine, {.mode = mode, .processes = 4});
    ExpectBound(machine, plan);
    EXPECT_NE(plan.ranks[0].cpus, plan.ranks[3].cpus) << core::ToString(mode);
    EXPECT_EQ(Reasons(plan).size(), 4u);
  }
}

// torchrun: socket takes the minimum over the CPUs of each node, and one may have none.
TEST(KnownFailureTest, TorchrunsSocketWithANodeOfMemoryAlone) {
  const Machine machine =
      MakeMachine().Node(0, 4).Package().Node(1, 4).Package().Gpu(1).MemoryNode(2, {14, 10});
  const BindingPlan plan = PlanBinding(machine, {.mode = Bind::kSocket, .processes = 1});
  EXPECT_EQ(Cpus(plan), "4-7");
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

// torchrun: exclusive with eight GPUs on four cores is an error.
TEST(KnownFailureTest, TorchrunsExclusiveWithMoreProcessesThanCores) {
  MakeMachine machine;
  machine.Node(0, 4);
  for (int gpu = 0; gpu < 8; ++gpu) machine.Gpu(0);
  for (const Bind mode : kModes) {
    const BindingPlan plan = PlanBinding(machine, {.mode = mode, .processes = 8});
    ExpectBound(machine, plan);
    EXPECT_THAT(plan.ranks[7].reason, HasSubstr("8 processes share 4 cores"));
  }
}

// torchrun and accelerate: one node's GPUs may outnumber its cores while another's are idle.
TEST(KnownFailureTest, TorchrunsExclusiveWithMoreProcessesThanCoresOfTheirNode) {
  const Machine machine = MakeMachine().Node(0, 2).Node(1, 8).Gpu(0).Gpu(0).Gpu(0);
  const BindingPlan plan = PlanBinding(machine, {.mode = Bind::kExclusive, .processes = 3});
  EXPECT_EQ(Cpus(plan), "0 | 0 | 1");
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("3 processes share 2 cores of NUMA node 0"));
}

// accelerate: the driver's mask is the whole machine's, and its index is not the visible one.
TEST(KnownFailureTest, AcceleratesMaskBeyondTheCpusetAndIndexWithoutVisibleDevices) {
  const Machine machine = TwoByFour().AllowedCpus({1, 5, 6});
  const BindingPlan plan =
      PlanBinding(machine, {.processes = 2, .variables = {{"CUDA_VISIBLE_DEVICES", "7,0"}}});
  EXPECT_EQ(Cpus(plan), "5-6 | 1");
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

// Grace: the driver may name the GPU's own memory as its node, which has no CPU.
TEST(KnownFailureTest, AGpuOnTheNodeOfItsOwnMemoryIsBoundToTheCpusBesideIt) {
  const Machine machine = MakeMachine()
                              .Node(0, 4)
                              .Node(1, 4)
                              .Distances({{10, 40}, {40, 10}})
                              .MemoryNode(4, {80, 40})
                              .Gpu(4);
  const BindingPlan plan = PlanBinding(machine, {.processes = 1});
  EXPECT_EQ(Cpus(plan), "4-7");
  EXPECT_THAT(plan.ranks[0].memory_nodes, ElementsAre(1));
  EXPECT_THAT(Reasons(plan), IsEmpty());
}

// deepspeed: cores 0 to n-1 are taken for physical ones, and memory for one node's.
TEST(KnownFailureTest, DeepspeedsSiblingsNumberedBehindAllCores) {
  Machine machine;
  machine.allowed_cpus = {0, 1, 2, 3, 4, 5, 6, 7};
  machine.allowed_mems = {0, 1};
  machine.numa_nodes = {{.id = 0, .cpus = {0, 1, 4, 5}, .distances = {}},
                        {.id = 1, .cpus = {2, 3, 6, 7}, .distances = {}}};
  machine.cores = {{{0, 4}, 0}, {{1, 5}, 0}, {{2, 6}, 1}, {{3, 7}, 1}};
  const BindingPlan plan = PlanBinding(machine, {.mode = Bind::kExclusive, .processes = 4});
  EXPECT_EQ(Cpus(plan), "0,4 | 1,5 | 2,6 | 3,7");
}

}  // namespace
}  // namespace lockstep::topology
