#include "cli/commands/misread.h"

#include <gtest/gtest.h>

#include <memory>

#include "cli/commands/app.h"
#include "cli/commands/commands.h"

namespace lockstep::cli {
namespace {

std::string Advice(const std::vector<std::string>& words) {
  Invocation invocation;
  return AdviceOnWords(*MakeApp(&invocation), words);
}

TEST(Misread, ACommandWithoutItsDashesIsShownWithThem) {
  EXPECT_EQ(Advice({"run", "-p", "2", "python", "train.py", "--epochs", "3"}),
            "a command follows --: `lockstep run -p 2 -- python train.py --epochs 3`");
  EXPECT_EQ(Advice({"run", "train.py", "--lr", "0.1"}),
            "a command follows --: `lockstep run -p 2 -- python3 train.py --lr 0.1`");
}

TEST(Misread, AnUnknownOptionIsAnsweredWithTheNearest) {
  EXPECT_EQ(Advice({"run", "--framwork", "Torch"}),
            "run: there is no option --framwork; did you mean --framework?");
  EXPECT_EQ(Advice({"run", "job.yaml", "--max_restarts=3"}),
            "run: there is no option --max_restarts; did you mean --max-restarts?");
  EXPECT_EQ(Advice({"validate", "--oputput", "x"}),
            "validate: there is no option --oputput; `lockstep validate --help` lists them");
}

TEST(Misread, OptionsOfOtherLaunchersAreAnsweredWithLockstepsOwn) {
  EXPECT_EQ(Advice({"run", "--nproc_per_node", "2"}),
            "run: --nproc_per_node is an option of torchrun; write -p 2");
  EXPECT_EQ(Advice({"run", "--nproc-per-node=auto"}),
            "run: --nproc-per-node is an option of torchrun; write -p");
  EXPECT_EQ(Advice({"run", "--nnodes=4"}), "run: --nnodes is an option of torchrun; write -m 4");
  EXPECT_EQ(Advice({"run", "--master_port", "29500"}),
            "run: --master_port is an option of another launcher; leave it out: Lockstep connects "
            "the ranks itself");
  EXPECT_EQ(Advice({"run", "-np", "4"}),
            "run: -np is an option of mpirun; write -m and -p, machines and processes on each");
}

TEST(Misread, AFileThatIsAProgramIsKnownByItsNameOrItsFirstBytes) {
  EXPECT_EQ(ProgramKind("a/train.py", ""), "a Python program");
  EXPECT_EQ(ProgramKind("run", "#!/b"), "a program");
  EXPECT_EQ(ProgramKind("run",
                        "\x7f"
                        "ELF"),
            "a program");
  EXPECT_EQ(ProgramKind("job", "kind"), "");
}

}  // namespace
}  // namespace lockstep::cli
