// Ranks are children of this test; what they are bound to is read back from /proc.
#include "worker/agent/ranks/rank_bindings.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/wait.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"
#include "tests/worker/topology/machine_builder.h"

namespace lockstep::agent::rank_bindings_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using topology::Cpus;
using topology::MakeMachine;

// The CPUs that this process may use.
IndexList OwnCpus() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  IndexList cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// A machine of one node that has one core for each of these.
topology::Machine MachineOf(const IndexList& cpus) {
  topology::Machine machine;
  topology::NumaNode node;
  node.cpus = cpus;
  for (const int cpu : cpus) machine.cores.push_back({{cpu}, 0});
  machine.numa_nodes.push_back(node);
  machine.allowed_cpus = cpus;
  machine.allowed_mems = {0};
  return machine;
}

class RankBindingsTest : public LoopTest {
 protected:
  RankBindingsTest() : spawner_(std::move(*Spawner::Create())) {
    config_.job.spec.processes_per_machine = 2;
    config_.job.spec.topology.memory_policy = core::MemoryPolicy::kNone;
  }
  ~RankBindingsTest() override {
    for (const SpawnedProcess& process : processes_) {
      kill(-process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
    }
  }

  void Make(topology::Machine machine) {
    bindings_ = std::make_unique<RankBindings>(
        loop(), &config_, std::move(machine), inherited_, &views_,
        [this](core::Binding binding, const std::string& reason) {
          bound_.emplace_back(binding, reason);
        },
        [this](const std::string& line) { log_ += line + "\n"; });
    views_.resize(bindings_->plan().ranks.size());
  }
  void Start(size_t local_rank) {
    SpawnRequest request = Shell("exec sleep 1000");
    bindings_->Hook(local_rank, &request);
    SpawnResult result = spawner_->Spawn(request);
    ASSERT_TRUE(std::holds_alternative<SpawnedProcess>(result));
    processes_.push_back(std::move(std::get<SpawnedProcess>(result)));
    views_[local_rank].rank = static_cast<uint32_t>(local_rank);
    views_[local_rank].pid = processes_.back().pid;
  }

  core::AgentConfig config_;
  std::vector<std::string> inherited_;
  std::vector<RankView> views_;
  std::unique_ptr<Spawner> spawner_;
  std::vector<SpawnedProcess> processes_;
  std::vector<std::pair<core::Binding, std::string>> bound_;
  std::string log_;
  std::unique_ptr<RankBindings> bindings_;
};

TEST_F(RankBindingsTest, EachRankGetsItsShareOfTheCores) {
  Make(MakeMachine().Node(0, 4).Node(1, 4));
  EXPECT_EQ(Cpus(bindings_->plan()), "0-3 | 4-7");
}

TEST_F(RankBindingsTest, AMachineThatSharesItsComputerGetsItsPart) {
  config_.job.spec.num_machines = 2;
  config_.machine = 1;
  config_.shares_computer = true;
  Make(MakeMachine().Node(0, 4).Node(1, 4));
  EXPECT_EQ(Cpus(bindings_->plan()), "4-5 | 6-7");
}

TEST_F(RankBindingsTest, ARankBindsItselfBeforeItsProgramRuns) {
  const IndexList own = OwnCpus();
  config_.job.spec.processes_per_machine = 1;
  Make(MachineOf({own.back()}));
  Start(0);
  bindings_->Read();
  ASSERT_TRUE(views_[0].bound);
  EXPECT_THAT(views_[0].binding.cpus, ElementsAre(own.back()));
  ASSERT_EQ(bound_.size(), 1U);
  EXPECT_EQ(bound_[0].second, "");
  EXPECT_THAT(log_, HasSubstr("rank"));
}

TEST_F(RankBindingsTest, ACpuThatTheMachineLacksIsReportedAndTheRankRunsAllTheSame) {
  config_.job.spec.processes_per_machine = 1;
  Make(MachineOf({CPU_SETSIZE - 1}));
  Start(0);
  bindings_->Read();
  ASSERT_EQ(bound_.size(), 1U);
  EXPECT_FALSE(core::IsAsAsked(bound_[0].first));
  EXPECT_THAT(bound_[0].second, HasSubstr("EINVAL"));
  EXPECT_EQ(kill(views_[0].pid, 0), 0);
}

TEST_F(RankBindingsTest, NothingIsReportedWhileARankIsNotRunning) {
  Make(MachineOf(OwnCpus()));
  Start(1);
  bindings_->Read();
  EXPECT_TRUE(views_[1].bound);
  EXPECT_FALSE(views_[0].bound);
  EXPECT_THAT(bound_, IsEmpty());
  Start(0);
  bindings_->Read();
  EXPECT_EQ(bound_.size(), 1U);
}

TEST_F(RankBindingsTest, WhereNoBindingIsAskedForNoneIsReported) {
  config_.job.spec.topology.bind = core::Bind::kNone;
  Make(MachineOf(OwnCpus()));
  Start(0);
  Start(1);
  bindings_->Read();
  EXPECT_EQ(views_[0].binding.cpus, OwnCpus());
  EXPECT_THAT(bound_, IsEmpty());
  EXPECT_EQ(log_, "");
}

TEST_F(RankBindingsTest, WhatARankChangedByItsFirstStepIsReportedAgain) {
  const IndexList own = OwnCpus();
  if (own.size() < 2) GTEST_SKIP() << "a rank cannot leave its CPU on a computer of one";
  config_.job.spec.processes_per_machine = 1;
  Make(MachineOf({own[0]}));
  Start(0);
  bindings_->Read();
  cpu_set_t elsewhere;
  CPU_ZERO(&elsewhere);
  CPU_SET(static_cast<size_t>(own[1]), &elsewhere);
  ASSERT_EQ(sched_setaffinity(views_[0].pid, sizeof elsewhere, &elsewhere), 0);
  bindings_->OnStep(0);
  ASSERT_TRUE(RunUntil([&] { return bound_.size() == 2; }));
  EXPECT_TRUE(views_[0].stepped);
  EXPECT_TRUE(core::IsAsAsked(bound_[1].first));
  EXPECT_THAT(log_, HasSubstr("rank 0 after its first step: "));
  EXPECT_THAT(log_, HasSubstr("by the process itself: runs on CPUs"));
}

TEST_F(RankBindingsTest, WhatIsReadOfAnEarlierGenerationIsDropped) {
  const IndexList own = OwnCpus();
  if (own.size() < 2) GTEST_SKIP() << "a rank cannot leave its CPU on a computer of one";
  config_.job.spec.processes_per_machine = 2;
  Make(MachineOf({own[0], own[1]}));
  Start(0);
  Start(1);
  bindings_->Read();
  const auto planned = views_[0].binding.cpus;
  for (const size_t rank : {size_t{0}, size_t{1}}) {
    cpu_set_t elsewhere;
    CPU_ZERO(&elsewhere);
    CPU_SET(static_cast<size_t>(own[1 - rank]), &elsewhere);
    ASSERT_EQ(sched_setaffinity(views_[rank].pid, sizeof elsewhere, &elsewhere), 0);
  }
  bindings_->OnStep(0);
  bindings_->BeginGeneration();
  bindings_->OnStep(1);  // it is read after rank 0
  ASSERT_TRUE(RunUntil([&] { return bound_.size() >= 2; }));
  EXPECT_EQ(views_[0].binding.cpus, planned);
}

}  // namespace
}  // namespace lockstep::agent::rank_bindings_test
