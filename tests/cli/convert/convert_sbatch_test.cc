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

constexpr const char* kTorchrun = R"sbatch(#!/bin/bash
#SBATCH --job-name=GPT_2-large
#SBATCH --nodes=4 --ntasks-per-node=1
#SBATCH --gres=gpu:a100:8
#SBATCH -c 64
#SBATCH --mem=512G           # of a node
#SBATCH --time=2-12:30:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue --exclusive
#SBATCH -p gpu -A team
#SBATCH --array=0-3

module load cuda/12.4
source ~/venv/bin/activate
set -euo pipefail
cd /data/gpt
export NCCL_DEBUG=INFO
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=29500
export WANDB_NAME=run-$SLURM_JOB_ID
GPUS=8
LAUNCH="torchrun --nnodes $SLURM_NNODES --nproc-per-node $GPUS --node-rank \$SLURM_PROCID \
  --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT --rdzv-backend c10d"

echo "starting on $(hostname)"
srun --kill-on-bad-exit=1 bash -c "$LAUNCH train.py --tokens 1e9" > log.txt 2>&1
)sbatch";

TEST(ConvertSbatch, ReadsAScriptThatStartsTorchrunBySrun) {
  const ConvertResult result = Convert(kTorchrun);
  const core::Spec spec = SpecOf(result);
  EXPECT_THAT(result.yaml, HasSubstr("name: gpt-2-large"));
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.processes_per_machine, 8);
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py", "--tokens", "1e9"));
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(spec.resources_per_process.cpu->ToString(), "8");
  EXPECT_EQ(spec.resources_per_process.memory->ToString(), "64Gi");
  EXPECT_EQ(spec.active_deadline_seconds, (2 * 24 + 12) * 3600 + 30 * 60);
  EXPECT_EQ(spec.grace_period, seconds(300));
  EXPECT_EQ(spec.placement.one_per_node, core::OnePerNode::kRequired);
  EXPECT_EQ(spec.working_dir, "/data/gpt");
  EXPECT_EQ(Env(spec), (std::map<std::string, std::string>{{"NCCL_DEBUG", "INFO"}}));
}

TEST(ConvertSbatch, SaysWhatItLeavesOut) {
  EXPECT_THAT(
      Convert(kTorchrun).yaml,
      AllOf(HasSubstr("sbatch: -p gpu is not carried over"), HasSubstr("-A team"),
            HasSubstr("--array 0-3 is not carried over"), HasSubstr("The kind of GPU, a100"),
            HasSubstr("Line 13, `module load cuda/12.4`"),
            HasSubstr("Line 14, `source ~/venv/bin/activate`"),
            HasSubstr("env MASTER_ADDR is not carried over"), HasSubstr("env WANDB_NAME"),
            HasSubstr("redirections are not carried over"), Not(HasSubstr("hostname)"))));
}

TEST(ConvertSbatch, StartsTheTasksOfSrunItself) {
  const ConvertResult result = Convert(
      "#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=4 --gpus-per-node=4 --mem-per-cpu=2000 -c8\n"
      "srun --cpu-bind=cores python train.py --name $SLURM_JOB_NAME --out $SCRATCH/a\n");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(spec.resources_per_process.cpu->ToString(), "8");
  EXPECT_EQ(spec.resources_per_process.memory->ToString(), "16000Mi");
  EXPECT_THAT(spec.command,
              ElementsAre("python", "train.py", "--name", "converted", "--out", "$SCRATCH/a"));
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("LOOK AT THIS: the value of $SCRATCH"),
                                 HasSubstr("in place of SLURM_PROCID")));
}

TEST(ConvertSbatch, ReadsTheLaunchersThatScriptsStart) {
  const struct {
    const char* options;
    const char* launch;
    int machines;
    int processes;
  } cases[] = {
      {"-N 2 --gpus-per-node=8",
       "srun accelerate launch --multi_gpu --num_machines $SLURM_NNODES "
       "--num_processes $((SLURM_NNODES * 8)) --machine_rank $SLURM_NODEID t.py",
       2, 8},
      {"-N 2 --gpus-per-node=8", "deepspeed --hostfile h --no_local_rank t.py", 2, 8},
      {"-N 2 --ntasks-per-node=4", "horovodrun -np 8 python t.py", 2, 4},
      {"--ntasks=8 --ntasks-per-node=4", "srun python t.py", 2, 4},
      {"-N 2", "srun -n 6 python t.py", 2, 3},
      {"-N 1", "A=b exec python -m torch.distributed.run --standalone --nproc-per-node=4 t.py", 1,
       4},
      {"-N 1", "python t.py", 1, 1},
      {"-N 2", "X='-N 2'; srun $X --ntasks-per-node 2 sh -c 'cd /a; torchrun --nnodes=2 t.py'", 2,
       1},
      {"-N 2", "CMD='torchrun --nnodes=2 t.py'; eval srun $CMD", 2, 1},
      {"-N 2 -n 2", "srun apptainer exec --nv a.sif torchrun --nnodes=2 t.py", 2, 1},
      {"-N 2", "srun hostname; srun -N1 nvidia-smi\ntorchrun --nnodes=2 t.py | tee log", 2, 1},
      {"-N 2", "if [ -f a ]; then echo b; fi; python prepare.py\nsrun torchrun --nnodes=2 t.py", 2,
       1},
  };
  for (const auto& c : cases) {
    const ConvertResult result =
        Convert(std::string("#SBATCH ") + c.options + "\n" + c.launch + "\n");
    const core::Spec spec = SpecOf(result);
    EXPECT_EQ(spec.num_machines, c.machines) << c.launch << result.yaml;
    EXPECT_EQ(spec.processes_per_machine, c.processes) << c.launch << result.yaml;
    EXPECT_THAT(spec.command, ElementsAre("python", "t.py")) << c.launch;
  }
}

TEST(ConvertSbatch, MpirunRunsAsItIs) {
  for (const char* launch : {"mpirun python t.py", "mpirun -np $SLURM_NTASKS -x A=b python t.py"}) {
    const core::Spec spec = SpecOf(Convert(std::string("#SBATCH -N 2 -n 8\n") + launch + "\n"));
    EXPECT_EQ(spec.framework, core::Framework::kMpi) << launch;
    EXPECT_EQ(spec.num_machines, 2) << launch;
    EXPECT_EQ(spec.processes_per_machine, 4) << launch;
    EXPECT_EQ(spec.command.front(), "mpirun") << launch;
  }
}

TEST(ConvertSbatch, SaysWhereSizesDiffer) {
  EXPECT_THAT(
      Convert("#SBATCH -N 4\ntorchrun --nproc-per-node 2 t.py\n").yaml,
      AllOf(HasSubstr("asks for 4 nodes, what it starts uses 1"), HasSubstr("numMachines is 1")));
  EXPECT_THAT(Convert("#SBATCH -N 4\npython t.py\n").yaml, HasSubstr("on the first of its nodes"));
  EXPECT_THAT(Convert("#SBATCH -N 2-4 -n4\nsrun python t.py\n").yaml, HasSubstr("on 4 machines"));
}

TEST(ConvertSbatch, LeavesOutWhatABlockMaySet) {
  const ConvertResult result = Convert(
      "#SBATCH -N 2\nN=2\nif true; then N=3; ./prepare; fi\nsrun torchrun --nnodes $N t.py\n");
  EXPECT_THAT(Problems(result), HasSubstr("source:4:1: error: --nnodes: \"$N\" is not a number"));
  EXPECT_THAT(Convert("#SBATCH -N 2\nif true; then ./p; fi\nsrun torchrun --nnodes 2 t.py\n").yaml,
              HasSubstr("Line 2, `./p`, is not carried over"));
}

TEST(ConvertSbatch, RefusesWhatIsNoOneTraining) {
  const struct {
    const char* script;
    const char* says;
  } cases[] = {
      {"#SBATCH -N 2\necho a\n", "nothing in the script starts a training"},
      {"#SBATCH -N 2\nsrun a.py &\nsrun b.py &\nwait\n", "3:1: error: the script starts several"},
      {"#SBATCH -N 2\nfor x in 1 2; do\nsrun t.py\ndone\n", "3:1: error: the launch is inside"},
      {"#SBATCH -N 2\n#SBATCH hetjob\nsrun t.py\n", "a TrainingJob has equal parts"},
      {"#SBATCH -N 2\nsrun --multi-prog a.conf\n", "a TrainingJob runs one program"},
      {"#SBATCH -N 2\nsrun -N 2\n", "srun names no program"},
      {"#SBATCH -N 2\nsrun sh -c 'a=$(b; torchrun t.py'\n", "never ends"},
      {"#SBATCH -N 2\nsrun timeout 1h torchrun t.py\n", "stands behind timeout"},
      {"#SBATCH -N 2\nA='eval $A'\neval $A\n", "eval within eval"},
      {"#SBATCH -N 2\nsrun 't.py\n", "2:1: error: this quote"},
      {"#SBATCH -N two\nsrun t.py\n", "1:1: error: -N: \"two\" is not a number"},
      {"#SBATCH --novelty=1\nsrun t.py\n",
       "1:1: error: --novelty: is not a known option of sbatch"},
      {"#SBATCH --node=2\nsrun t.py\n",
       "--node: is ambiguous: it may be any of --nodes, --nodelist, --nodefile"},
      {"#SBATCH --nodez=2\nsrun t.py\n", "did you mean --nodes?"},
      {"#SBATCH -Z\nsrun t.py\n", "error: -Z: is not a known option"},
      {"#SBATCH --nodes\nsrun t.py\n", "its value is missing"},
      {"#SBATCH 4\nsrun t.py\n", "\"4\" is not an option of sbatch"},
      {"#SBATCH --mem=lots\nsrun t.py\n", "is not an amount of memory"},
      {"#SBATCH -t 1:2:3:4\nsrun t.py\n", "is not a time"},
      {"#SBATCH -t -5\nsrun t.py\n", "is not a time"},
      {"#SBATCH --signal=USR1@soon\nsrun t.py\n", "\"soon\" is not a number"},
      {"#SBATCH -N 3 -n 8\nsrun t.py\n", "cannot be divided evenly"},
      {"#SBATCH -N 5000\nsrun t.py\n", "spec.numMachines"},
      {"#SBATCH -N 2\nsrun t.py \x01\n", "control characters"},
      {"#SBATCH -N 2\nsrun t.py \xff\n", "not UTF-8"},
  };
  for (const auto& c : cases) {
    const ConvertResult result = Convert(c.script);
    EXPECT_THAT(Problems(result), HasSubstr(c.says)) << c.script;
    EXPECT_EQ(result.yaml, "") << c.script;
  }
}

TEST(ConvertSbatch, RefusesAFileThatIsTooLarge) {
  const std::string script = "#SBATCH -N 2\n" + std::string(2U << 20, ' ') + "\nsrun t.py\n";
  EXPECT_THAT(Problems(Convert(script)), HasSubstr("1 MiB"));
}

TEST(ConvertSbatch, WritesAJobThatReadsHoweverMuchItLeavesOut) {
  std::string script = "#SBATCH -N 2\n";
  for (int i = 0; i < 50'000; ++i) script += "prepare a b\n";
  const ConvertResult result = Convert(script + "srun t.py\n");
  EXPECT_EQ(SpecOf(result).num_machines, 2);
  EXPECT_THAT(result.yaml, HasSubstr("more remarks are left out"));
}

TEST(ConvertSbatch, ReadsTimes) {
  const struct {
    const char* text;
    int64_t seconds;
  } cases[] = {{"90", 5400},      {"1:30", 90},        {"1:30:05", 5405}, {"1-2", 93'600},
               {"1-2:3", 93'780}, {"1-2:3:4", 93'784}, {"UNLIMITED", 0}};
  for (const auto& c : cases) {
    const std::string script = std::string("#SBATCH -t ") + c.text + "\nsrun t.py\n";
    EXPECT_EQ(SpecOf(Convert(script)).active_deadline_seconds, c.seconds) << c.text;
  }
}

TEST(ConvertSbatch, ReadsNoDirectiveBehindTheFirstCommand) {
  const ConvertResult result = Convert("#SBATCH -N 2\necho\n#SBATCH -N 3\nsrun t.py\n");
  EXPECT_EQ(SpecOf(result).num_machines, 2);
  EXPECT_THAT(result.yaml, HasSubstr("Line 3: sbatch ignores"));
}

TEST(ConvertSbatch, MakesNamesThatKubernetesTakes) {
  const struct {
    const char* name;
    const char* becomes;
  } cases[] = {{"_x_", "name: x\n"},
               {"7b", "name: job-7b\n"},
               {"%j", "name: j\n"},
               {"abcdefghijklmnopqrstuvwxyzabcdefghijklm-xyz",
                "name: abcdefghijklmnopqrstuvwxyzabcdefghijklm\n"}};
  for (const auto& c : cases) {
    const ConvertResult result = Convert(std::string("#SBATCH -J ") + c.name + "\nsrun t.py\n");
    SpecOf(result);
    EXPECT_THAT(result.yaml, HasSubstr(c.becomes));
  }
}

TEST(ConvertSrun, ReadsALineOfItsOwn) {
  const core::Spec spec = SpecOf(ConvertLine("A=b srun -N2 --ntasks-per-node=4 python t.py -x"));
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(Env(spec).at("A"), "b");
  EXPECT_THAT(spec.command, ElementsAre("python", "t.py", "-x"));
  EXPECT_THAT(Problems(ConvertLine("srun")), HasSubstr("names no program"));
}

}  // namespace
}  // namespace lockstep::convert
