#include "cli/run/machines/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace lockstep::cli::nodes_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NodesRequest In(const std::map<std::string, std::string>& environment) {
  NodesRequest request;
  request.variable = [environment](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  request.expand = [](const std::string& list) -> Result<std::vector<std::string>> {
    if (list == "n[1-2]") return std::vector<std::string>{"n1", "n2"};
    return Error::Unavailable("no scontrol here");
  };
  return request;
}

std::map<std::string, std::string> Allocation() {
  return {{"SLURM_JOB_ID", "7"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_NTASKS", "8"},
          {"SLURM_TASKS_PER_NODE", "4(x2)"}};
}

std::string Refusal(const Result<Nodes>& nodes) {
  return nodes.ok() ? "it is not an error" : nodes.error().message;
}

TEST(FindNodes, WithoutAnAllocationAndHostsMachinesAreHere) {
  const Result<Nodes> nodes = FindNodes(In({}));
  ASSERT_TRUE(nodes.ok());
  EXPECT_FALSE(nodes->remote());
  EXPECT_THAT(nodes->names, IsEmpty());
}

TEST(FindNodes, AnAllocationHasItsNodesAndItsTasks) {
  const Result<Nodes> nodes = FindNodes(In(Allocation()));
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  EXPECT_EQ(nodes->by, Reach::kSrun);
  EXPECT_THAT(nodes->names, ElementsAre("n1", "n2"));
  EXPECT_EQ(nodes->processes, 4);
}

TEST(FindNodes, OneTaskANodeMeansAProcessForEachOfItsGpus) {
  auto environment = Allocation();
  environment["SLURM_TASKS_PER_NODE"] = "1(x2)";
  EXPECT_EQ(FindNodes(In(environment))->processes, std::nullopt);
  environment["SLURM_GPUS_ON_NODE"] = "8";
  EXPECT_EQ(FindNodes(In(environment))->processes, 8);
}

TEST(FindNodes, TasksThatNobodyAskedForAreTheNodesCpusAndCountForNothing) {
  auto environment = Allocation();
  environment.erase("SLURM_NTASKS");
  environment["SLURM_TASKS_PER_NODE"] = "128(x2)";
  environment["SLURM_GPUS_ON_NODE"] = "8";
  EXPECT_EQ(FindNodes(In(environment))->processes, 8);
  environment["SLURM_TASKS_PER_NODE"] = "128,64";
  EXPECT_EQ(FindNodes(In(environment))->unclear, "");
}

TEST(FindNodes, TasksThatDifferAreUnclear) {
  auto environment = Allocation();
  environment["SLURM_TASKS_PER_NODE"] = "4,2";
  const Result<Nodes> nodes = FindNodes(In(environment));
  ASSERT_TRUE(nodes.ok()) << "-p and a file say it";
  EXPECT_EQ(nodes->processes, std::nullopt);
  EXPECT_THAT(nodes->unclear, HasSubstr("differ from node to node (4,2)"));
}

TEST(FindNodes, NodesThatCannotBeToldAreRefusedWithTheWayOut) {
  auto environment = Allocation();
  environment["SLURM_JOB_NODELIST"] = "m[1-2]";
  EXPECT_THAT(Refusal(FindNodes(In(environment))),
              HasSubstr("no scontrol here; --local runs all machines here"));
}

TEST(FindNodes, LocalLeavesTheAllocationAloneAndHostsTakeItsPlace) {
  NodesRequest request = In(Allocation());
  request.local = true;
  EXPECT_FALSE(FindNodes(request)->remote());
  request.hosts = "a,b";
  EXPECT_FALSE(FindNodes(request).ok());
  request.local = false;
  const Result<Nodes> nodes = FindNodes(request);
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes->by, Reach::kSsh);
  EXPECT_THAT(nodes->names, ElementsAre("a", "b"));
  EXPECT_EQ(nodes->processes, std::nullopt);
}

TEST(FindNodes, OneOfManyThatALauncherStartedIsToldWhatToWrite) {
  NodesRequest request = In({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  request.line.words = {"run", "--", "train"};
  EXPECT_THAT(Refusal(FindNodes(request)),
              HasSubstr("write `lockstep run --hosts a,b -p 2 -- train` without mpirun"));
  auto environment = Allocation();
  environment["SLURM_STEP_NUM_TASKS"] = "4";
  EXPECT_THAT(Refusal(FindNodes(In(environment))), HasSubstr("without srun"));
  environment["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_TRUE(FindNodes(In(environment)).ok());
}

// The job of a batch system whose file of hosts has this text.
NodesRequest InJob(const std::string& job, const std::string& file, const std::string& text) {
  NodesRequest request = In({{job, "7"}, {file, "/spool/hosts"}});
  request.read = [text](const std::string& path) -> Result<std::string> {
    if (path == "/spool/hosts") return text;
    return Error::NotFound(path);
  };
  return request;
}

TEST(FindNodes, AJobOfAnotherBatchSystemHasItsHostsAndSlots) {
  const std::string lines = "n1\nn1\nn2\nn2\n";
  for (const NodesRequest& request :
       {InJob("PBS_JOBID", "PBS_NODEFILE", lines), InJob("LSB_JOBID", "LSB_DJOB_HOSTFILE", lines),
        InJob("JOB_ID", "PE_HOSTFILE", "n1 2 all.q@n1 UNDEFINED\nn2 2 all.q@n2 UNDEFINED\n")}) {
    const Result<Nodes> nodes = FindNodes(request);
    ASSERT_TRUE(nodes.ok()) << nodes.error().message;
    EXPECT_EQ(nodes->by, Reach::kSsh);
    EXPECT_THAT(nodes->names, ElementsAre("n1", "n2"));
    EXPECT_EQ(nodes->processes, 2);
    EXPECT_THAT(nodes->whose, HasSubstr("'s job 7 has"));
  }
}

TEST(FindNodes, OneSlotANodeSaysNothingOfProcesses) {
  const Result<Nodes> nodes = FindNodes(InJob("PBS_JOBID", "PBS_NODEFILE", "n2\nn1\n"));
  EXPECT_THAT(nodes->names, ElementsAre("n2", "n1"));
  EXPECT_EQ(nodes->processes, std::nullopt);
  EXPECT_EQ(nodes->unclear, "");
}

TEST(FindNodes, SlotsThatDifferAreUnclear) {
  const Result<Nodes> nodes = FindNodes(InJob("LSB_JOBID", "LSB_DJOB_HOSTFILE", "n1\nn2\nn2\n"));
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes->processes, std::nullopt);
  EXPECT_THAT(nodes->unclear, HasSubstr("the slots of LSF's job 7 differ from node to node (1 on "
                                        "n1, 2 on n2)"));
}

TEST(FindNodes, ABatchJobOfOneNodeIsOnThisComputer) {
  EXPECT_FALSE(FindNodes(InJob("JOB_ID", "PE_HOSTFILE", "n1 16 all.q@n1 UNDEFINED\n"))->remote());
}

TEST(FindNodes, AFileOfHostsThatCannotBeReadIsRefusedWithTheWayOut) {
  NodesRequest request = InJob("PBS_JOBID", "PBS_NODEFILE", "n1\n-oProxyCommand=x\n");
  EXPECT_THAT(Refusal(FindNodes(request)),
              HasSubstr("\"-oProxyCommand=x\" is not the name of a host"));
  request.read = [](const std::string& path) -> Result<std::string> {
    return Error::NotFound(path + " is not there");
  };
  EXPECT_THAT(Refusal(FindNodes(request)),
              HasSubstr("this is in PBS's job 7, whose nodes cannot be found: /spool/hosts is not "
                        "there; --local runs all machines here"));
  request.local = true;
  EXPECT_TRUE(FindNodes(request).ok());
}

TEST(ParseHostFile, AddsUpSlotsWithoutEnd) {
  EXPECT_THAT(*ParseHostFile("a 2\n\nb\na 3\n"), ElementsAre(HostSlots{"a", 5}, HostSlots{"b", 1}));
  EXPECT_THAT(*ParseHostFile(""), IsEmpty());
  const auto many = ParseHostFile("a 2000000000\na 2000000000\na -5\n");
  ASSERT_TRUE(many.ok());
  EXPECT_GT(many->front().slots, 0);
}

TEST(ParseHosts, TakesNamesAndUsers) {
  EXPECT_THAT(*ParseHosts("a, me@b.example,10.0.0.7"),
              ElementsAre("a", "me@b.example", "10.0.0.7"));
}

TEST(ParseHosts, RefusesWhatIsNoNameOrStandsThereTwice) {
  for (const char* list : {"", "a,", "-oProxyCommand=x", "a b", "a;b", "$(x)"}) {
    EXPECT_FALSE(ParseHosts(list).ok()) << list;
  }
  EXPECT_THAT(ParseHosts("a,b,a").error().message, HasSubstr("names a twice"));
}

TEST(FirstOf, TakesTheFirstAndRefusesMoreThanThereAre) {
  const Nodes nodes = *FindNodes(In(Allocation()));
  EXPECT_THAT(FirstOf(nodes, 1)->names, ElementsAre("n1"));
  EXPECT_THAT(FirstOf(nodes, 2)->names, ElementsAre("n1", "n2"));
  EXPECT_THAT(Refusal(FirstOf(nodes, 3)),
              HasSubstr("the job has 3 machines, and SLURM's job 7 has 2 nodes: give -m 2"));
  EXPECT_TRUE(FirstOf(Nodes{}, 3).ok()) << "this computer is as many as you like";
}

TEST(CommandOn, NamesTheNodeAndQuotesWhatAShellReads) {
  const auto srun = CommandOn(Reach::kSrun, "n1", "/opt/it's/agent", {"--remote"});
  EXPECT_EQ(srun.front(), "srun");
  EXPECT_THAT(srun, testing::Contains("--nodelist=n1"));
  EXPECT_THAT(srun, testing::Contains("--overlap"));
  EXPECT_EQ(srun[srun.size() - 2], "/opt/it's/agent");
  const auto ssh = CommandOn(Reach::kSsh, "me@a", "/opt/it's/agent", {"--remote"});
  EXPECT_THAT(ssh, testing::Contains("BatchMode=yes"));
  ASSERT_GE(ssh.size(), 5U);
  EXPECT_THAT(std::vector(ssh.end() - 5, ssh.end()),
              ElementsAre("--", "me@a", "exec", "'/opt/it'\\''s/agent'", "--remote"));
}

TEST(ClientEnvironment, KeepsTheAllocationAndNoOptionOfSrun) {
  EXPECT_THAT(ClientEnvironment({"PATH=/bin", "SLURM_JOB_ID=7", "SLURM_NTASKS=4",
                                 "SLURM_GPUS_PER_TASK=1", "PMI_RANK=0", "SLURM_CONF=/etc/s.conf"}),
              ElementsAre("PATH=/bin", "SLURM_JOB_ID=7", "SLURM_CONF=/etc/s.conf"));
}

TEST(AdviceOn, IsForTheClientThatSaidIt) {
  EXPECT_THAT(AdviceOn(Reach::kSrun, "srun: unrecognized option '--overlap'"), HasSubstr("20.11"));
  EXPECT_THAT(AdviceOn(Reach::kSsh, "Host key verification failed."), HasSubstr("by hand"));
  EXPECT_EQ(AdviceOn(Reach::kSrun, "Host key verification failed."), "");
}

}  // namespace
}  // namespace lockstep::cli::nodes_test
