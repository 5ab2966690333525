// Lines of mpirun, horovodrun and deepspeed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/convert/converted.h"

namespace lockstep::convert {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ConvertMpirun, ReadsTheSizesOfEveryMpi) {
  const struct {
    const char* line;
    int machines;
    int processes;
  } cases[] = {
      {"mpirun -np 8 -H a:4,b:4 t.py", 2, 4},
      {"mpirun -np 4 --host a,b t.py", 2, 2},
      {"mpirun --host a,a,b,b t.py", 2, 2},
      {"mpirun -n 8 -npernode 4 t.py", 2, 4},
      {"mpirun -np 8 --map-by ppr:2:node t.py", 4, 2},
      {"mpiexec -n 8 -ppn 4 t.py", 2, 4},
      {"mpiexec.hydra -n 4 -perhost 2 -f hosts t.py", 2, 2},
      {"/opt/openmpi/bin/mpirun --np=2 t.py", 1, 2},
      {"mpirun -N 2 t.py", 1, 2},
      {"mpirun -H a,b -pernode t.py", 2, 1},
      {"mpirun t.py", 1, 1},
  };
  for (const auto& c : cases) {
    const core::Spec spec = SpecOf(ConvertLine(c.line));
    EXPECT_EQ(spec.num_machines, c.machines) << c.line;
    EXPECT_EQ(spec.processes_per_machine, c.processes) << c.line;
    EXPECT_EQ(spec.framework, core::Framework::kMpi);
    const std::string line = c.line;
    const std::string launcher = line.substr(0, line.find(' '));
    const std::string world = std::to_string(c.machines * c.processes);
    if (line == "mpirun t.py") {
      EXPECT_THAT(spec.command, ElementsAre("mpirun", "t.py"));
    } else {
      EXPECT_THAT(spec.command, ElementsAre(launcher, "-np", world, "t.py")) << line;
    }
  }
}

TEST(ConvertMpirun, CarriesVariablesAndTheFolder) {
  const ConvertResult result = ConvertLine(
      "LD=/l mpirun -np 2 -x A=b -x LD -x PATH -x RANK=1 -genv C d -wdir /w --mca btl tcp,self "
      "--mca plm_rsh_agent ssh --prtemca odls x "
      "--bind-to core --allow-run-as-root python -u t.py -np 3");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(Env(spec), (std::map<std::string, std::string>{{"A", "b"},
                                                           {"C", "d"},
                                                           {"LD", "/l"},
                                                           {"OMPI_MCA_btl", "tcp,self"},
                                                           {"PRTE_MCA_odls", "x"}}));
  EXPECT_EQ(spec.working_dir, "/w");
  EXPECT_THAT(spec.command, ElementsAre("mpirun", "-np", "2", "python", "-u", "t.py", "-np", "3"));
  EXPECT_THAT(result.yaml,
              AllOf(HasSubstr("-x PATH is not carried over"), HasSubstr("env RANK is not carried"),
                    HasSubstr("--mca plm_rsh_agent ssh"), HasSubstr("--bind-to core"),
                    Not(HasSubstr("-x LD is not"))));
}

TEST(ConvertMpirun, LeavesTheRanksToMpirun) {
  const std::string yaml = ConvertLine("mpirun -np 4 python -m mpi4py t.py").yaml;
  EXPECT_THAT(yaml, AllOf(HasSubstr("framework: Mpi"), HasSubstr("still starts the ranks"),
                          Not(HasSubstr("LOOK AT THIS"))));
}

TEST(ConvertMpirun, SaysWhatItCannotKnow) {
  EXPECT_THAT(ConvertLine("mpirun -np 4 t.py").yaml, HasSubstr("not on how many machines"));
  EXPECT_THAT(ConvertLine("mpirun -np 4 --hostfile h t.py").yaml,
              HasSubstr("LOOK AT THIS: the host file h was not read"));
  EXPECT_THAT(ConvertLine("mpirun -H a:2,b:3 t.py").yaml, HasSubstr("unequal slots"));
  EXPECT_THAT(ConvertLine("mpirun t.py").yaml, HasSubstr("is given no number of processes"));
  EXPECT_THAT(ConvertLine("mpirun -np 2 --map-by socket t.py").yaml, HasSubstr("--map-by socket"));
}

TEST(ConvertMpirun, RefusesWhatIsNoJob) {
  const struct {
    const char* line;
    const char* says;
  } cases[] = {
      {"mpirun -np 4", "names no script"},
      {"mpirun -np", "value is missing"},
      {"mpirun -np four t.py", "\"four\" is not a number"},
      {"mpirun -np 0 t.py", "\"0\" is not a number"},
      {"mpirun -np 2 a : -np 2 b", "a TrainingJob runs one program"},
      {"mpirun -np 5 -N 2 t.py", "cannot be divided evenly"},
      {"mpirun -np 4 -H a,b,c t.py", "cannot be divided evenly"},
      {"mpirun --novelty 3 t.py", "--novelty: is not a known option of mpirun"},
      {"mpirun -np 1000 t.py", "spec.processesPerMachine"},
      {"mpirun -np 8 -H a:4\xff,b:4 t.py", "UTF-8"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Problems(ConvertLine(c.line)), HasSubstr(c.says)) << c.line;
  }
}

TEST(ConvertMpirun, RefusesWhatNoJobCanHold) {
  std::string line = "mpirun -np 2 t.py";
  for (int i = 0; i < 300; ++i) line += " --option";
  EXPECT_THAT(Problems(ConvertLine(line)), HasSubstr("must hold at most"));
}

TEST(ConvertHorovodrun, ReadsItsCommandLine) {
  const ConvertResult result = ConvertLine(
      "horovodrun -np 8 -H a:4,b:4 --gloo --network-interface eth0 --fusion-threshold-mb 32 "
      "python t.py");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_THAT(spec.command, ElementsAre("python", "t.py"));
  EXPECT_EQ(spec.framework, core::Framework::kHorovod);
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("serve what Horovod asks horovodrun for"),
                                 HasSubstr("--fusion-threshold-mb 32 is not carried over")));
  EXPECT_THAT(Problems(ConvertLine("horovodrun --novelty t.py")), HasSubstr("of horovodrun"));
}

TEST(ConvertDeepSpeed, ReadsItsCommandLine) {
  const ConvertResult result = ConvertLine(
      "deepspeed --num_nodes=2 --num_gpus 8 --master_port 29501 --include a:0,1 --launcher pdsh "
      "--hostfile /job/hostfile train.py --deepspeed ds.json --num_gpus 3");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 8);
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(spec.framework, core::Framework::kTorch);
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py", "--local_rank=$(LOCAL_RANK)",
                                        "--deepspeed", "ds.json", "--num_gpus", "3"));
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("--include a:0,1 is not carried over"),
                                 HasSubstr("--launcher pdsh"), Not(HasSubstr("was not read"))));
}

TEST(ConvertDeepSpeed, ReadsModulesAndPrograms) {
  EXPECT_THAT(SpecOf(ConvertLine("deepspeed --module pkg.train -x")).command,
              ElementsAre("python", "-m", "pkg.train", "--local_rank=$(LOCAL_RANK)", "-x"));
  EXPECT_THAT(SpecOf(ConvertLine("deepspeed --no_python --no_local_rank ./train")).command,
              ElementsAre("./train"));
  EXPECT_THAT(SpecOf(ConvertLine("python3 -m deepspeed.launcher.runner t.py")).command,
              ElementsAre("python3", "t.py", "--local_rank=$(LOCAL_RANK)"));
}

TEST(ConvertDeepSpeed, SaysWhatItCannotKnow) {
  EXPECT_THAT(ConvertLine("deepspeed -H h t.py").yaml,
              AllOf(HasSubstr("LOOK AT THIS: the host file h was not read"),
                    HasSubstr("LOOK AT THIS: --num_gpus is not given")));
  EXPECT_THAT(Problems(ConvertLine("deepspeed --novelty t.py")), HasSubstr("of deepspeed"));
  EXPECT_THAT(Problems(ConvertLine("deepspeed --num_gpus=8")), HasSubstr("names no script"));
}

}  // namespace
}  // namespace lockstep::convert
