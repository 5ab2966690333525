#include "cli/commands/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/app.h"
#include "cli/commands/commands.h"

namespace lockstep::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CompleteTest : public ::testing::Test {
 protected:
  Completion Asked(const std::vector<std::string>& words) {
    return Complete(
        *app_, words, [](const std::vector<std::string>&) { return std::vector{here_}; },
        [this](const std::vector<std::string>& options) {
          options_ = options;
          return std::vector<std::string>{"gpt", "bert"};
        });
  }

  std::vector<std::string> Words(const std::vector<std::string>& words) {
    std::vector<std::string> found;
    for (const Candidate& each : Asked(words).candidates) found.push_back(each.word);
    return found;
  }

  static inline const std::string here_ = "run-here";
  Invocation invocation_;
  std::unique_ptr<CLI::App> app_ = MakeApp(&invocation_);
  std::vector<std::string> options_;
};

TEST_F(CompleteTest, CommandsHaveDescriptionsAndHiddenOnesAreNotOffered) {
  EXPECT_THAT(Words({"st"}), ElementsAre("status"));
  EXPECT_THAT(Words({""}), Contains("run"));
  EXPECT_THAT(Words({""}), Not(Contains("man")));
  EXPECT_THAT(Words({"help", "comp"}), ElementsAre("completion"));
  EXPECT_EQ(Asked({"delete"}).candidates.at(0).description, "Delete jobs and their pods");
  EXPECT_THAT(Words({"--v"}), ElementsAre("--version"));
}

TEST_F(CompleteTest, OptionsAndTheirValuesAreOffered) {
  EXPECT_THAT(Words({"run", "--framew"}), ElementsAre("--framework"));
  EXPECT_THAT(Words({"run", "--framework", "T"}), ElementsAre("Torch", "TensorFlow"));
  EXPECT_THAT(Words({"run", "--bind", "No"}), ElementsAre("None", "Node"));
  EXPECT_THAT(Words({"status", "-o", ""}), ElementsAre("text", "json", "yaml"));
  EXPECT_THAT(Words({"run", "--away"}), IsEmpty());
}

TEST_F(CompleteTest, ValueBehindAnEqualsSignIsOffered) {
  EXPECT_THAT(Words({"run", "--bind=No"}), ElementsAre("--bind=None", "--bind=Node"));
  EXPECT_THAT(Words({"run", "--bind", "=", "No"}), ElementsAre("None", "Node"));
  EXPECT_THAT(Words({"status", "--output", "="}), ElementsAre("text", "json", "yaml"));
}

TEST_F(CompleteTest, EachValueOfAListIsOffered) {
  EXPECT_THAT(Words({"bench", "--only", "local,re"}), ElementsAre("local,remote"));
}

TEST_F(CompleteTest, PathsAreOfferedOnlyWhereOnesFit) {
  using enum Completion::Paths;
  EXPECT_EQ(Asked({"run", ""}).paths, kFiles);
  EXPECT_EQ(Asked({"run", "job.yaml", ""}).paths, kNone);
  EXPECT_EQ(Asked({"run", "--report", ""}).paths, kFiles);
  EXPECT_EQ(Asked({"run", "--checkpoint", ""}).paths, kFolders);
  EXPECT_EQ(Asked({"run", "--machines", ""}).paths, kNone);
  EXPECT_EQ(Asked({"run", "-m", "2", "--", "python", ""}).paths, kFiles);
  EXPECT_EQ(Asked({"submit", "a.yaml", "b.yaml", ""}).paths, kFiles);
  EXPECT_EQ(Asked({"status", ""}).paths, kNone);
}

TEST_F(CompleteTest, NamesOfJobsComeFromTheClusterThatTheOptionsName) {
  EXPECT_THAT(Words({"suspend", ""}), ElementsAre("bert", "gpt"));
  EXPECT_THAT(options_, IsEmpty());
  EXPECT_THAT(Words({"-n", "research", "delete", "bert", "--context=blue", "g"}),
              ElementsAre("gpt"));
  EXPECT_THAT(options_, ElementsAre("-n", "research", "--context=blue"));
  EXPECT_THAT(Words({"scale", "--namespace", "research", "gpt", ""}), IsEmpty());
  EXPECT_THAT(Words({"status", "--namespace", "research", ""}), ElementsAre("bert", "gpt"));
  EXPECT_THAT(options_, ElementsAre("--namespace", "research"));
}

TEST_F(CompleteTest, CommandsThatLookAlsoNameRunsOnThisComputer) {
  for (const char* command : {"debug", "restart", "status", "logs", "why"}) {
    EXPECT_THAT(Words({command, ""}), ElementsAre("bert", "gpt", "run-here")) << command;
  }
  EXPECT_THAT(Words({"debug", "-n", "research", ""}), ElementsAre("bert", "gpt"));
}

TEST_F(CompleteTest, LastLineOfTheAnswerSaysWhichPathsFit) {
  EXPECT_EQ(ToText(Asked({"completion", "f"})), "fish\n:4\n");
  EXPECT_EQ(ToText(Asked({"topology", "--svg", ""})), ":0\n");
  EXPECT_EQ(ToText(Asked({"run", "--logs", ""})), ":16\n");
  EXPECT_EQ(ToText(Asked({"delete"})), "delete\tDelete jobs and their pods\n:4\n");
}

}  // namespace
}  // namespace lockstep::cli
