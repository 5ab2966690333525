#include "core/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/model/names.h"

namespace lockstep::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TrainingJob Job(int machines, int processes) {
  TrainingJob job;
  job.metadata.name = "gpt";
  job.spec.num_machines = machines;
  job.spec.processes_per_machine = processes;
  job.spec.command = {"python", "train.py", "--lr", "0.1"};
  return job;
}

TEST(Plan, OfRolesShowsEachRanksOwnAndNoLauncherThatWouldDoTheSame) {
  TrainingJob job = Job(2, 1);
  job.spec.framework = Framework::kTensorFlow;
  job.spec.roles = {{"chief", 1}, {"ps", 1}};
  const Plan plan = MakePlan(job);
  EXPECT_THAT(plan.machines.at(1).processes.at(0).environment,
              testing::IsSupersetOf(Variables{{"ROLE_WORLD_SIZE", "1"},
                                              {"ROLE_NAME", "ps"},
                                              {"LOCKSTEP_ROLE", "ps"},
                                              {"LOCKSTEP_ROLE_RANK", "0"}}));
  EXPECT_THAT(plan.environment, Contains(Pair("TF_CONFIG", HasSubstr("<role>"))));
  EXPECT_THAT(plan.torchrun, IsEmpty());
  EXPECT_THAT(plan.accelerate, IsEmpty());
}

TEST(Plan, GivesEveryRankOnce) {
  const Plan plan = MakePlan(Job(3, 4));
  EXPECT_EQ(plan.world_size, 12);
  std::set<int64_t> ranks;
  for (const PlannedMachine& machine : plan.machines) {
    EXPECT_EQ(machine.last_rank - machine.first_rank, 3);
    for (const PlannedProcess& process : machine.processes) {
      EXPECT_TRUE(ranks.insert(process.rank).second);
      EXPECT_THAT(process.environment, Contains(Pair("RANK", std::to_string(process.rank))));
    }
  }
  EXPECT_EQ(ranks.size(), 12u);
  EXPECT_EQ(*ranks.rbegin(), 11);
}

TEST(Plan, SeparatesWhatDiffersFromWhatIsTheSame) {
  const Plan plan = MakePlan(Job(2, 2));
  EXPECT_THAT(plan.environment, Contains(Pair("WORLD_SIZE", "4")));
  EXPECT_THAT(plan.environment, Contains(Pair("MASTER_ADDR", "<IP of machine 0>")));
  EXPECT_THAT(plan.environment, testing::Not(Contains(Pair("RANK", testing::_))));
  EXPECT_THAT(plan.machines[1].processes[0].environment, Contains(Pair("LOCKSTEP_MACHINE", "1")));
}

TEST(Plan, SaysInWordsWhatOnlyTheStartOfAGenerationTells) {
  TrainingJob job = Job(2, 2);
  job.spec.checkpoint.path = "/ckpt";
  for (Launch launch : {Launch::kPerProcess, Launch::kPerMachine}) {
    job.spec.launch = launch;
    const Plan plan = MakePlan(job);
    EXPECT_THAT(plan.environment, testing::Not(Contains(Pair(testing::_, "-"))));
    EXPECT_THAT(plan.environment, Contains(Pair("LOCKSTEP_CHECKPOINT_DIR",
                                                "<checkpoint.path>/checkpoints/<attempt>-<n>")));
    EXPECT_THAT(plan.environment, Contains(Pair("NCCL_SOCKET_IFNAME", HasSubstr("interface"))));
  }
}

TEST(Plan, ShowsTheUsersEnv) {
  TrainingJob job = Job(1, 1);
  job.spec.env.resize(2);
  job.spec.env[0].name = "OMP_NUM_THREADS";
  job.spec.env[0].value = "4";
  job.spec.env[1].name = "MINE";
  job.spec.env[1].value_from = Node::Map();
  const Plan plan = MakePlan(job);
  EXPECT_THAT(plan.environment, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(plan.environment, Contains(Pair("MINE", "<valueFrom>")));
}

TEST(Plan, StartsOneProcessAMachineForALauncher) {
  TrainingJob job = Job(2, 8);
  job.spec.launch = Launch::kPerMachine;
  job.spec.command = {"torchrun", "train.py"};
  const Plan plan = MakePlan(job);
  EXPECT_EQ(plan.machines[1].processes.size(), 1u);
  EXPECT_EQ(plan.machines[1].first_rank, 8);
  EXPECT_EQ(plan.machines[1].last_rank, 15);
  EXPECT_THAT(plan.torchrun, IsEmpty());
}

TEST(Plan, ListsTheDefaultRulesBehindTheUsers) {
  TrainingJob job = Job(1, 1);
  job.spec.failure_policy.rules.resize(1);
  job.spec.failure_policy.rules[0].exit_codes = {78};
  const Plan plan = MakePlan(job);
  ASSERT_EQ(plan.rules.size(), 3u);
  EXPECT_FALSE(plan.rules[0].is_default);
  EXPECT_TRUE(plan.rules[1].is_default);
  EXPECT_THAT(plan.rules[1].rule.exit_codes, ElementsAre(2, 126, 127));
  EXPECT_THAT(plan.rules[2].rule.exit_codes, ElementsAre(76));
}

TEST(Plan, HoldsTheLargestJob) {
  TrainingJob job = Job(1024, 64);
  const Plan plan = MakePlan(job);
  EXPECT_EQ(plan.machines.back().processes.back().rank, 65535);
}

TEST(WorldSize, DoesNotWrap) {
  EXPECT_EQ(WorldSize(Job(2147483647, 2147483647).spec), int64_t{2147483647} * 2147483647);
}

TEST(EquivalentTorchrun, IsTheCommandOfOneMachine) {
  EXPECT_EQ(ShellQuote(EquivalentTorchrun(Job(2, 4))),
            "torchrun --nnodes=2 --node-rank=MACHINE --master-addr=MACHINE_0 --master-port=29500 "
            "--nproc-per-node=4 --max-restarts=3 train.py --lr 0.1");
  EXPECT_EQ(ShellQuote(EquivalentTorchrun(Job(1, 4))),
            "torchrun --standalone --nproc-per-node=4 --max-restarts=3 train.py --lr 0.1");
}

TEST(EquivalentTorchrun, StartsModulesAndOtherPrograms) {
  TrainingJob job = Job(1, 1);
  job.spec.command = {"/usr/bin/python3", "-u", "-m", "pkg.train"};
  EXPECT_THAT(ShellQuote(EquivalentTorchrun(job)), HasSubstr("--max-restarts=3 -m pkg.train"));
  job.spec.command = {"./train", "x y"};
  EXPECT_THAT(ShellQuote(EquivalentTorchrun(job)), HasSubstr("--no-python ./train 'x y'"));
  job.spec.command = {"python", "-c", "print(1)"};
  EXPECT_THAT(ShellQuote(EquivalentTorchrun(job)), HasSubstr("--no-python python -c 'print(1)'"));
  job.spec.command = {};
  EXPECT_THAT(EquivalentTorchrun(job), IsEmpty());
}

TEST(EquivalentAccelerate, NamesTheTotalOfProcesses) {
  TrainingJob job = Job(2, 4);
  job.spec.resources_per_process.gpu = 1;
  EXPECT_EQ(ShellQuote(EquivalentAccelerate(job)),
            "accelerate launch --num_processes=8 --num_machines=2 --machine_rank=MACHINE "
            "--main_process_ip=MACHINE_0 --main_process_port=29500 --multi_gpu train.py --lr 0.1");
}

TEST(EquivalentAccelerate, IsMissingForSeveralProcessesOnCpus) {
  EXPECT_THAT(EquivalentAccelerate(Job(2, 4)), IsEmpty());
  EXPECT_EQ(ShellQuote(EquivalentAccelerate(Job(1, 1))),
            "accelerate launch --num_processes=1 --num_machines=1 --cpu train.py --lr 0.1");
}

TEST(Recommend, PutsOneMachineFirst) {
  const Recommendation advice = Recommend(Job(2, 2), 8, 0);
  EXPECT_EQ(advice.num_machines, 1);
  EXPECT_EQ(advice.processes_per_machine, 4);
  EXPECT_EQ(advice.reason, "1 machine with 4 processes: this computer has 8 cores");
  EXPECT_THAT(advice.warnings, ElementsAre(HasSubstr("one machine with 4 processes")));
}

TEST(Recommend, NeverMoreProcessesThanCoresOrGpus) {
  EXPECT_EQ(Recommend(Job(1, 8), 2, 0).processes_per_machine, 2);
  EXPECT_EQ(Recommend(Job(4, 8), 64, 4).processes_per_machine, 4);
  EXPECT_THAT(Recommend(Job(1, 8), 2, 0).warnings,
              ElementsAre(HasSubstr("8 processes share 2 cores")));
  EXPECT_THAT(Recommend(Job(1, 8), 64, 4).warnings,
              ElementsAre(HasSubstr("8 processes share 4 GPUs")));
  EXPECT_THAT(Recommend(Job(1, 4), 2, 4).warnings,
              ElementsAre(HasSubstr("4 processes share 2 cores")));
}

TEST(Recommend, SaysNothingAgainstAJobThatFits) {
  EXPECT_THAT(Recommend(Job(1, 2), 2, 0).warnings, IsEmpty());
}

TEST(Recommend, SplitsWhatOneMachineCantHold) {
  const Recommendation advice = Recommend(Job(2, 64), 200, 0);
  EXPECT_EQ(advice.num_machines, 2);
  EXPECT_EQ(advice.processes_per_machine, 64);
}

TEST(Names, OfPodsAreStableInTheFirstEpochAndNewAfterwards) {
  EXPECT_EQ(PodName("gpt", 3, 1, 1), "gpt-3");
  EXPECT_EQ(PodName("gpt", 3, 7, 1), "gpt-3-r7");
  EXPECT_EQ(HostName("gpt", 3), "gpt-3");
  EXPECT_EQ(CoordinatorServiceName("gpt"), "gpt-coordinator");
}

TEST(Names, FitIntoAPodsNameForEveryJob) {
  EXPECT_LE(PodName(std::string(40, 'a'), 1023, 1'000'000, 1).size(), 63u);
}

TEST(Names, LabelsTellJobMachineAndAttempt) {
  const auto labels = PodLabels("gpt", 3, 7);
  EXPECT_EQ(labels.at("lockstep.dev/job"), "gpt");
  EXPECT_EQ(labels.at("lockstep.dev/machine"), "3");
  EXPECT_EQ(labels.at("lockstep.dev/attempt"), "7");
  EXPECT_EQ(labels.at("app.kubernetes.io/instance"), "gpt");
}

TEST(LocalJobUid, IsTheSameForTheSameNameAndFolderOnly) {
  EXPECT_EQ(LocalJobUid("gpt", "/c"), LocalJobUid("gpt", "/c"));
  EXPECT_NE(LocalJobUid("gpt", "/c"), LocalJobUid("gpt", "/d"));
  EXPECT_NE(LocalJobUid("gp", "t/c"), LocalJobUid("gpt", "/c"));
}

TEST(ShellWords, SplitAsAShellWouldAndQuoteBack) {
  EXPECT_THAT(SplitShellWords("a 'b c' \"d \\\" e\" f\\ g;h"),
              ElementsAre("a", "b c", "d \" e", "f g", ";", "h"));
  const std::vector<std::string> words = {"", "it's", "a b", "$X", "plain-1"};
  EXPECT_EQ(SplitShellWords(ShellQuote(words)), words);
}

}  // namespace
}  // namespace lockstep::core
