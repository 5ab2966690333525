#include "cli/run/machines/copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace lockstep::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

std::optional<Copies> In(const Environment& environment) {
  return CopiesOf([&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

// A node has `here` of `all`.
Copies OpenMpi(const std::string& all, const std::string& here) {
  return *In({{"OMPI_COMM_WORLD_SIZE", all}, {"OMPI_COMM_WORLD_LOCAL_SIZE", here}});
}

const CommandLine kLine = {.words = {"run", "--", "python", "train.py", "a b"}};

TEST(CopiesOf, OneAloneIsNoneOfThem) {
  EXPECT_FALSE(In({}));
  EXPECT_FALSE(In({{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"}}));
  EXPECT_FALSE(In({{"SLURM_STEP_NUM_TASKS", "many"}}));
}

TEST(CopiesOf, EachLauncherSaysHowManyInItsOwnWay) {
  const auto mpirun = In({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}});
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->launcher, "mpirun");
  EXPECT_EQ(mpirun->all, 8);
  EXPECT_EQ(mpirun->here, 4);
  EXPECT_EQ(In({{"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "2"}})->launcher, "mpiexec");
  const auto srun = In({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x4)"}});
  EXPECT_EQ(srun->launcher, "srun");
  EXPECT_EQ(srun->here, 2);
}

TEST(CopiesOf, AnMpirunWhoseDaemonsSrunStartedIsTheOneThatCounts) {
  const auto copies = In({{"PMI_SIZE", "8"},
                          {"MPI_LOCALNRANKS", "4"},
                          {"SLURM_STEP_NUM_TASKS", "2"},
                          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  EXPECT_EQ(copies->launcher, "mpiexec");
  EXPECT_EQ(copies->here, 4);
}

TEST(CopiesOf, ThePmiThatSrunSpeaksIsSruns) {
  const auto copies = In(
      {{"PMI_SIZE", "8"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}});
  EXPECT_EQ(copies->launcher, "srun");
}

TEST(Copies, AreOnAsManyNodesAsTheyFill) {
  EXPECT_EQ(OpenMpi("8", "4").Nodes(), 2);
  EXPECT_EQ(OpenMpi("5", "4").Nodes(), 2);
  EXPECT_EQ(OpenMpi("4", "4").Nodes(), 1);
  EXPECT_EQ(In({{"OMPI_COMM_WORLD_SIZE", "4"}})->Nodes(), 2) << "unknown, and more than here";
}

TEST(Instead, IsOneMachineWhereAllCopiesAreOnThisNode) {
  EXPECT_THAT(Instead(OpenMpi("4", "4"), kLine, ""),
              EndsWith("write `lockstep run -p 4 -- python train.py 'a b'` without mpirun"));
}

TEST(Instead, AsksForTheHostsThatOnlyMpirunKnows) {
  EXPECT_EQ(Instead(OpenMpi("4", "2"), kLine, ""),
            "mpirun started 4 of this program (OMPI_COMM_WORLD_SIZE), and each would run the "
            "whole job: write `lockstep run --hosts a,b -p 2 -- python train.py 'a b'` without "
            "mpirun, with its hosts for a,b; their agents are started by ssh");
  EXPECT_THAT(Instead(OpenMpi("4", "1"), kLine, ""),
              HasSubstr("`lockstep run --hosts a,b,... -- python"));
}

TEST(Instead, KeepsWhatTheUserSaid) {
  CommandLine line = {
      .words = {"run", "--hosts", "c,d", "job.yaml"}, .says_processes = true, .says_hosts = true};
  EXPECT_THAT(Instead(OpenMpi("4", "2"), line, ""),
              HasSubstr("`lockstep run --hosts c,d job.yaml` without mpirun"));
}

TEST(Instead, LeavesTheNodesOfABatchJobToIt) {
  EXPECT_THAT(Instead(OpenMpi("4", "2"), kLine, "PBS's job 7"),
              EndsWith("`lockstep run -p 2 -- python train.py 'a b'` without mpirun; it finds the "
                       "nodes of PBS's job 7 itself"));
}

TEST(Instead, NamesTheAllocationThatSrunMadeByItself) {
  const auto srun = In({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x4)"}});
  EXPECT_THAT(Instead(*srun, kLine, "SLURM's job 7"),
              EndsWith("`lockstep run -p 2 -- python train.py 'a b'` without srun, in sbatch or "
                       "behind `salloc -N 4`"));
}

TEST(TasksPerNode, IsOneNumberForAllNodes) {
  EXPECT_EQ(TasksPerNode("4"), 4);
  EXPECT_EQ(TasksPerNode("4(x16)"), 4);
  for (const char* text : {"", "4,2", "4(x2),1", "4(x", "4(xa)"}) {
    EXPECT_EQ(TasksPerNode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::cli
