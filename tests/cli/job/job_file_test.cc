#include "cli/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(JobNameTest, AJobIsNamedAfterItsProgram) {
  EXPECT_EQ(NameFromCommand({"python", "src/train.py", "--lr", "3"}), "train");
  EXPECT_EQ(NameFromCommand({"python3.11", "-u", "Fine_Tune.v2.py"}), "fine-tune-v2");
  EXPECT_EQ(NameFromCommand({"./a.out"}), "a");
  EXPECT_EQ(NameFromCommand({}), "job");
  EXPECT_EQ(NameFromCommand({"42"}), "job");
  EXPECT_EQ(NameFromCommand({std::string(100, 'x')}), std::string(40, 'x'));
}

TEST(JobFlagsTest, FlagsAloneMakeAWholeJob) {
  JobFlags flags;
  flags.machines = 2;
  flags.processes = 4;
  flags.framework = "Accelerate";
  flags.checkpoint = "ckpt";
  flags.max_restarts = 7;
  flags.grace_period = "5s";
  flags.prestart = "Always";
  flags.env = {"A=1", "B=x=y"};
  flags.command = {"python", "train.py"};
  Result<LoadedJob> loaded = LoadJob("", flags, core::Target::kLocal, 0);
  ASSERT_TRUE(loaded.ok() && loaded->ok());
  const core::Spec& spec = loaded->job.spec;
  EXPECT_EQ(loaded->job.metadata.name, "train");
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.framework, core::Framework::kAccelerate);
  EXPECT_EQ(spec.checkpoint.path, "ckpt");
  EXPECT_EQ(spec.failure_policy.max_restarts, 7);
  EXPECT_EQ(spec.grace_period, seconds(5));
  EXPECT_EQ(spec.prestart, core::Prestart::kAlways);
  ASSERT_THAT(spec.env, SizeIs(2));
  EXPECT_EQ(spec.env[1].value, "x=y");
}

TEST(JobFlagsTest, AFlagTakesTheFilesPlace) {
  std::string path = ::testing::TempDir() + "job_flags.yaml";
  std::ofstream(path) << "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\n"
                         "metadata: {name: gpt}\n"
                         "spec: {numMachines: 3, command: [a, b], args: [c], "
                         "env: [{name: A, value: old}]}\n";
  JobFlags flags;
  flags.machines = 1;
  flags.command = {"other"};
  flags.env = {"A=new"};
  Result<LoadedJob> loaded = LoadJob(path, flags, core::Target::kLocal, 0);
  ASSERT_TRUE(loaded.ok() && loaded->ok());
  EXPECT_EQ(loaded->job.metadata.name, "gpt");
  EXPECT_EQ(loaded->job.spec.num_machines, 1);
  EXPECT_EQ(loaded->job.spec.command, std::vector<std::string>{"other"});
  EXPECT_THAT(loaded->job.spec.args, IsEmpty());
  ASSERT_THAT(loaded->job.spec.env, SizeIs(1));
  EXPECT_EQ(loaded->job.spec.env[0].value, "new");
}

TEST(JobFlagsTest, WrongFlagsAreProblemsThatNameThem) {
  JobFlags flags;
  flags.framework = "Caffe";
  flags.grace_period = "5";
  flags.env = {"NOVALUE"};
  flags.command = {"true"};
  core::TrainingJob job;
  std::vector<core::Problem> problems = ApplyFlags(flags, &job);
  ASSERT_THAT(problems, SizeIs(3));
  EXPECT_EQ(problems[0].path, "--framework");
  EXPECT_THAT(problems[0].message, HasSubstr("Torch, Accelerate, Jax, "));
  EXPECT_EQ(problems[1].path, "--grace-period");
  EXPECT_EQ(problems[2].path, "--env");
}

TEST(ReadTextFileTest, FilesThatCannotBeReadSayWhy) {
  EXPECT_EQ(ReadTextFile("/no/such/file", 10).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(ReadTextFile("/", 10).error().message, HasSubstr("is a folder"));
  EXPECT_EQ(ReadTextFile("/proc/self/status", 10).error().kind, ErrorKind::kTooLarge);
}

}  // namespace
}  // namespace lockstep::cli
