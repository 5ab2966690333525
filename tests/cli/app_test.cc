#include "cli/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands/commands.h"
#include "cli/exit_codes.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

int MainWith(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "lockstep");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return Main(static_cast<int>(argv.size()), argv.data());
}

TEST(AppTest, EveryCommandAndOptionSaysWhatItIsFor) {
  Invocation invocation;
  std::unique_ptr<CLI::App> app = MakeApp(&invocation);
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    EXPECT_NE(command->get_description(), "") << command->get_name();
    for (const CLI::Option* option : command->get_options()) {
      EXPECT_NE(option->get_description(), "") << command->get_name() << " " << option->get_name();
    }
  }
}

TEST(AppTest, CompletionKnowsEveryCommand) {
  Invocation invocation;
  std::unique_ptr<CLI::App> app = MakeApp(&invocation);
  for (const char* shell : {"bash", "zsh", "fish"}) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(MainWith({"completion", shell}), 0);
    std::string script = ::testing::internal::GetCapturedStdout();
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
      EXPECT_THAT(script, HasSubstr(command->get_name())) << shell;
    }
    EXPECT_THAT(script, HasSubstr("max-restarts")) << shell;
  }
}

TEST(AppTest, WhatStandsBehindTheDashesIsTheCommandWithAllItsOptions) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(MainWith({"convert", "--", "torchrun", "--nproc-per-node", "2", "t.py", "--", "-m"}),
            0);
  std::string yaml = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(yaml, HasSubstr("processesPerMachine: 2"));
  EXPECT_THAT(yaml, HasSubstr("- -m"));
}

TEST(AppTest, WrongUsageIsTwo) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(MainWith({}), kExitUsage);
  EXPECT_EQ(MainWith({"nonsense"}), kExitUsage);
  EXPECT_EQ(MainWith({"run", "--no-such-flag"}), kExitUsage);
  EXPECT_EQ(MainWith({"run"}), kExitUsage);
  EXPECT_EQ(MainWith({"run", "-m", "-1", "--", "true"}), kExitUsage);
  EXPECT_EQ(MainWith({"run", "-m", "99999999999", "--", "true"}), kExitUsage);
  EXPECT_EQ(MainWith({"validate", "/no/such/file"}), kExitUsage);
  EXPECT_EQ(MainWith({"convert", "/no/such/file"}), kExitUsage);
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace lockstep::cli
