#include "cli/commands/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

#include "cli/commands/commands.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

int MainWith(std::vector<std::string> arguments, const RunOnCluster& on_cluster = {}) {
  arguments.insert(arguments.begin(), "lockstep");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return Main(static_cast<int>(argv.size()), argv.data(), on_cluster);
}

// What a command line of a command on clusters means.
template <typename What>
What Asked(const std::vector<std::string>& arguments, ClusterAddress* where = nullptr) {
  What what;
  const int code = MainWith(arguments, [&](const ClusterCommand& command) {
    what = std::get<What>(command.what);
    if (where != nullptr) *where = command.where;
    return 42;
  });
  EXPECT_EQ(code, 42);
  return what;
}

TEST(AppTest, CommandsOnClustersGoToWhoeverCarriesThemOut) {
  ClusterAddress where;
  const auto logs = Asked<LogsCommand>(
      {"logs", "gpt", "--rank", "3", "-f", "-n", "research", "--context", "blue"}, &where);
  EXPECT_EQ(logs.name, "gpt");
  EXPECT_EQ(logs.rank, 3);
  EXPECT_EQ(logs.machine, std::nullopt);
  EXPECT_TRUE(logs.follow);
  EXPECT_EQ(where.name_space, "research");
  EXPECT_EQ(where.context, "blue");
  EXPECT_TRUE(Asked<SuspendCommand>({"suspend", "gpt"}).suspend);
  EXPECT_FALSE(Asked<SuspendCommand>({"resume", "gpt"}).suspend);
  EXPECT_EQ(Asked<ScaleCommand>({"scale", "gpt", "8"}).machines, 8);
  EXPECT_TRUE(Asked<DeleteCommand>({"delete", "a", "b"}).wait);
  EXPECT_FALSE(Asked<DeleteCommand>({"delete", "a", "--no-wait"}).wait);
  EXPECT_TRUE(Asked<ListCommand>({"list", "-A"}).all_namespaces);
  EXPECT_TRUE(Asked<StatusCommand>({"status", "gpt", "--watch"}).watch);
  EXPECT_EQ(Asked<SubmitCommand>({"submit", "a.yaml", "b.yaml"}).files.size(), 2u);
}

TEST(AppTest, OptionsOfTheClusterMayStandBeforeTheCommandAsWithKubectl) {
  ClusterAddress where;
  const auto status = Asked<StatusCommand>(
      {"-n", "research", "--context=blue", "--kubeconfig", "/k", "status", "gpt", "-w"}, &where);
  EXPECT_EQ(status.name, "gpt");
  EXPECT_TRUE(status.watch);
  EXPECT_EQ(where.name_space, "research");
  EXPECT_EQ(where.context, "blue");
  EXPECT_EQ(where.kubeconfig, "/k");
}

TEST(AppTest, HelpAndVersionHaveTheNamesThatOthersGiveThem) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"help"}, "lockstep convert -- torchrun"},
      {{"help", "convert"}, "lockstep convert"},
      {{"-V"}, "lockstep "}};
  for (const auto& [line, says] : cases) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(MainWith(line), core::kExitSuccess) << line.front();
    EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr(says));
  }
}

TEST(AppTest, CommandsOnClustersRefuseWhatMeansNothing) {
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"logs", "gpt", "--rank", "3", "--machine", "1"},
                                             {"status", "gpt", "--watch", "-o", "json"},
                                             {"list", "-o", "xml"},
                                             {"scale", "gpt"},
                                             {"delete"}}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(MainWith(line), core::kExitUsage) << line.front();
    ::testing::internal::GetCapturedStderr();
  }
}

TEST(AppTest, AnUnknownCommandIsNamedWithTheNearestThatIsKnown) {
  const struct {
    std::vector<std::string> line;
    const char* says;
  } cases[] = {
      {{"numa"}, "unknown command \"numa\"; did you mean \"lockstep topology\"?"},
      {{"rnu", "job.yaml", "-p", "2"}, "\"rnu\"; did you mean \"lockstep run\"?"},
      {{"Validate"}, "did you mean \"lockstep validate\"?"},
      {{"ps"}, "did you mean \"lockstep list\"?"},
      {{"frobnicate"}, "unknown command \"frobnicate\"; there are run, validate, plan, "},
  };
  for (const auto& [line, says] : cases) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(MainWith(line), core::kExitUsage) << line.front();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(says));
  }
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

TEST(AppTest, WhatStandsBehindTheDashesIsTheCommandWithAllItsOptions) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(MainWith({"convert", "--", "torchrun", "--nproc-per-node", "2", "t.py", "--", "-m"}),
            0);
  std::string yaml = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(yaml, HasSubstr("processesPerMachine: 2"));
  EXPECT_THAT(yaml, HasSubstr("- -m"));
}

// A terminal would obey some of it: ESC, DEL, a carriage return, U+009B.
bool CanSteerATerminal(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0x7f || (byte < 0x20 && byte != '\n')) return true;
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) return true;
  }
  return false;
}

// Both streams of `lockstep ARGUMENTS FILE`, the file with `text`.
std::string SaidOf(std::vector<std::string> arguments, const std::string& text) {
  const std::string file = ::testing::TempDir() + "hostile.yaml";
  std::ofstream(file) << text;
  arguments.push_back(file);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  MainWith(arguments);
  return ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
}

TEST(AppTest, NothingThatStandsInAFileSteersTheTerminal) {
  const std::string esc = R"(\e[2J\x7f\r\u009b2J")";  // and the quotation mark behind it
  const std::string start = "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\n";
  const std::string valid = start + "metadata: {name: gpt}\nspec:\n  command: [python, \"w" + esc +
                            "]\n  env: [{name: A, value: \"w" + esc +
                            "}]\n  failurePolicy: {rules: [{stderr: \"w" + esc +
                            ", action: Fail}]}\n";
  const std::string invalid = start + "metadata: {name: \"w" + esc + "}\nspec: {command: [a], \"w" +
                              esc + ": 1, checkpoint: {resume: \"w" + esc + "}}\n";
  const std::string accelerate =
      "distributed_type: MULTI_GPU\nnum_processes: 2\nnum_machines: 1\n"
      "main_process_ip: \"w" +
      esc + "\n\"w" + esc + ": 1\n";
  using Case = std::pair<std::vector<std::string>, std::string>;
  for (const auto& [arguments, text] : std::vector<Case>{{{"plan"}, valid},
                                                         {{"plan", "-o", "json"}, valid},
                                                         {{"plan", "-o", "yaml"}, valid},
                                                         {{"validate"}, invalid},
                                                         {{"plan"}, invalid},
                                                         {{"run"}, invalid},
                                                         {{"convert"}, accelerate}}) {
    const std::string said = SaidOf(arguments, text);
    EXPECT_THAT(said, HasSubstr("[2J")) << arguments[0];
    EXPECT_FALSE(CanSteerATerminal(said)) << arguments[0] << ": " << said;
  }
}

TEST(AppTest, WrongUsageIsTwo) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(MainWith({}), core::kExitUsage);
  EXPECT_EQ(MainWith({"nonsense"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"run", "--no-such-flag"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"run"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"run", "-m", "-1", "--", "true"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"run", "-m", "99999999999", "--", "true"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"validate", "/no/such/file"}), core::kExitUsage);
  EXPECT_EQ(MainWith({"convert", "/no/such/file"}), core::kExitUsage);
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace lockstep::cli
