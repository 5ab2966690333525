#include "cli/mcp/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/mcp/call.h"

namespace lockstep::cli::mcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> NamesOf(const OrderedJson& tools) {
  std::vector<std::string> names;
  for (const OrderedJson& tool : tools) names.push_back(tool["name"].get<std::string>());
  return names;
}

std::vector<std::string> WordsOf(const std::string& tool, const std::string& arguments,
                                 const ToolOptions& options = {}) {
  const Result<std::vector<Command>> commands = CommandsOf(tool, ParseJson(arguments), options);
  if (!commands.ok()) return {commands.error().message};
  return commands->front().words;
}

std::string ProblemWith(const std::string& tool, const std::string& arguments) {
  const Result<std::vector<Command>> commands = CommandsOf(tool, ParseJson(arguments), {});
  return commands.ok() ? "" : commands.error().message;
}

TEST(Tools, ThoseThatWriteAreThereOnRequestAlone) {
  EXPECT_THAT(NamesOf(ListTools({})), ElementsAre("list_jobs", "get_job", "explain_failure", "logs",
                                                  "stacks", "validate", "plan"));
  const OrderedJson all = ListTools({.allow_write = true});
  EXPECT_EQ(all.size(), 12U);
  for (const OrderedJson& tool : all) {
    const std::string name = tool["name"].get<std::string>();
    const bool reads = IsTool(name, {});
    EXPECT_EQ(tool["annotations"]["readOnlyHint"], reads) << name;
    EXPECT_EQ(tool["annotations"]["destructiveHint"], name == "delete");
    EXPECT_EQ(tool["inputSchema"]["additionalProperties"], false);
  }
  EXPECT_FALSE(CommandsOf("delete", ParseJson(R"({"name":"gpt"})"), {}).ok());
}

TEST(Tools, ARunOnThisComputerComesBeforeAJobOfTheCluster) {
  const ToolOptions options{.allow_write = true,
                            .cluster = {"--kubeconfig", "/k"},
                            .name_space = "research",
                            .runs = {"here"}};
  EXPECT_THAT(WordsOf("get_job", R"({"name":"here"})", options), ElementsAre("status", "here"));
  EXPECT_THAT(WordsOf("get_job", R"({"name":"gpt"})", options),
              ElementsAre("status", "gpt", "--kubeconfig", "/k", "-n", "research"));
  EXPECT_THAT(WordsOf("restart", R"({"name":"here","namespace":"other"})", options),
              ElementsAre("restart", "here", "--kubeconfig", "/k", "-n", "other"));
  EXPECT_THAT(WordsOf("delete", R"({"name":"here"})", options),
              ElementsAre("delete", "here", "--no-wait", "--kubeconfig", "/k", "-n", "research"));
}

TEST(Tools, ArgumentsBecomeOptions) {
  EXPECT_THAT(WordsOf("logs", R"({"name":"gpt","rank":3,"lines":7})"),
              ElementsAre("logs", "gpt", "--tail", "7", "--rank", "3"));
  EXPECT_THAT(WordsOf("stacks", R"({"name":"gpt","kernel":true})"),
              ElementsAre("debug", "gpt", "--kernel"));
  EXPECT_THAT(WordsOf("plan", R"({"job":"kind: X","machines":2})"),
              ElementsAre("plan", "-", "--machines", "2"));
  EXPECT_THAT(WordsOf("restart", R"({"name":"gpt","reason":"--pid 1"})", {.allow_write = true}),
              ElementsAre("restart", "gpt", "--reason=--pid 1"));
}

TEST(Tools, WrongArgumentsAreNamedAllAtOnce) {
  EXPECT_EQ(ProblemWith("logs", R"({"rank":-1,"line":3})"),
            "logs: name is missing; rank must be a whole number from 0 to 2147483647; there is no "
            "argument line; did you mean lines?");
  EXPECT_THAT(ProblemWith("logs", R"({"name":"gpt","rank":1,"machine":0})"), HasSubstr("not both"));
  EXPECT_THAT(ProblemWith("logs", R"({"name":"gpt","rank":1.5})"), HasSubstr("whole number"));
  EXPECT_THAT(ProblemWith("logs", R"({"name":"gpt","lines":18446744073709551615})"),
              HasSubstr("from 1 to 1000"));
  EXPECT_THAT(ProblemWith("get_job", R"({"name":"gpt","format":"xml"})"),
              HasSubstr("text or json"));
  EXPECT_THAT(ProblemWith("stacks", R"({"name":"gpt","kernel":"yes"})"),
              HasSubstr("true or false"));
  EXPECT_THAT(ProblemWith("validate", "[]"), HasSubstr("must be an object"));
}

TEST(Tools, NoNameBecomesAnOption) {
  for (const char* name : {"--kubeconfig=/x", "-A", "", "a b", "../x", "GPT", "a;b"}) {
    EXPECT_THAT(ProblemWith("get_job", DumpJson(Json{{"name", name}})), HasSubstr("must be a name"))
        << name;
    EXPECT_THAT(ProblemWith("get_job", DumpJson(Json{{"name", "gpt"}, {"namespace", name}})),
                HasSubstr("must be a name"))
        << name;
  }
}

TEST(Tools, AnAnswerThatIsTooLongSaysWhatIsNotShown) {
  const std::string text(kMostOfAnswer, 'x');
  const Output output{.text = text, .bytes = 100'000};
  Command command;
  const ToolAnswer first = JoinOutputs({command}, {output});
  EXPECT_THAT(first.text,
              HasSubstr("x\n[cut: the first 49152 of 100000 bytes are shown; ask for "));
  command.keeps_end = true;
  const ToolAnswer last = JoinOutputs({command}, {output});
  EXPECT_THAT(last.text, StartsWith("[cut: the last 49152 of 100000 bytes are shown; ask for "));
  EXPECT_FALSE(last.is_error);
}

TEST(Tools, AFailedCommandMakesAnErrorUnlessItIsOptional) {
  const Output failed{.words = "lockstep: there is no job gpt", .code = 3};
  Command command{.words = {}, .input = "", .title = "TrainingJobs:"};
  const ToolAnswer error = JoinOutputs({command}, {failed});
  EXPECT_TRUE(error.is_error);
  EXPECT_EQ(error.text, "TrainingJobs:\nlockstep: there is no job gpt\nexit code 3\n");
  command.optional = true;
  EXPECT_FALSE(JoinOutputs({command}, {failed}).is_error);
}

}  // namespace
}  // namespace lockstep::cli::mcp
