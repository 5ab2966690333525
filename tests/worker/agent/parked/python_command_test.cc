#include "worker/agent/parked/python_command.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PythonCommandTest : public ::testing::Test {
 protected:
  PythonCommandTest() {
    tree_
        .File("bin/python3",
              "\x7f"
              "ELF...")
        .File("bin/python3.13t",
              "\x7f"
              "ELF...")
        .File("bin/python", "#!/bin/bash\nexec pyenv\n")
        .File("bin/trainer",
              "\x7f"
              "ELF...")
        .File("bin/tool", "#!" + Path("bin/python3") + " -sE\nimport tool\n")
        .File("bin/console", "#! " + Path("bin/python3") + "\nimport tool\n")
        .File("bin/by_env", "#!/usr/bin/env python3\nimport tool\n")
        .File("bin/by_env_s", "#!/usr/bin/env -S python3 -u -X dev\nimport tool\n");
    for (const char* program : {"python3", "python"}) {
      EXPECT_EQ(chmod(Path("bin/" + std::string(program)).c_str(), 0755), 0);
    }
  }
  std::string Path(const std::string& name) const { return tree_.root() + "/" + name; }

  Result<PythonCommand> Find(const std::string& file, std::vector<std::string> arguments) {
    SpawnRequest request;
    request.path = file;
    request.argv = std::move(arguments);
    request.argv.insert(request.argv.begin(), file);
    request.env = {"PATH=" + Path("bin")};
    request.working_directory = tree_.root();
    return FindPython(request);
  }
  std::vector<std::string> Options(std::vector<std::string> arguments) {
    const Result<PythonCommand> found = Find("bin/python3", std::move(arguments));
    if (!found.ok()) return {found.error().message};
    return {found->options.begin() + 1, found->options.end()};
  }
  std::string WhyNot(const std::string& file, std::vector<std::string> arguments) {
    const Result<PythonCommand> found = Find(file, std::move(arguments));
    return found.ok() ? "" : found.error().message;
  }

  topology::FixtureTree tree_;
};

TEST_F(PythonCommandTest, OptionsEndWhereTheProgramBegins) {
  EXPECT_THAT(Options({"train.py", "-I"}), ElementsAre());
  EXPECT_THAT(Options({"-u", "-W", "ignore", "train.py", "-E"}), ElementsAre("-u", "-W", "ignore"));
  EXPECT_THAT(Options({"-Xdev", "-OO", "-m", "train", "-S"}), ElementsAre("-Xdev", "-OO"));
  EXPECT_THAT(Options({"-uc", "print()"}), ElementsAre("-u"));
  EXPECT_THAT(Options({"-umtrain"}), ElementsAre("-u"));
  EXPECT_THAT(Options({"-um", "train"}), ElementsAre("-u"));
  EXPECT_THAT(Options({"--check-hash-based-pycs", "always", "train.py"}),
              ElementsAre("--check-hash-based-pycs", "always"));
  EXPECT_THAT(Options({"-u", "--", "-E"}), ElementsAre("-u"));
}

TEST_F(PythonCommandTest, OptionsThatKeepTheHookOutAreNamed) {
  for (const char* option : {"-I", "-E", "-S", "-uS", "-BE"}) {
    EXPECT_THAT(WhyNot("bin/python3", {option, "train.py"}), HasSubstr("keeps it from loading"))
        << option;
  }
}

TEST_F(PythonCommandTest, WithoutAProgramThereIsNothingToWaitFor) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{}, {"-"}, {"-u"}, {"--"}, {"-X"}, {"-m"}}) {
    EXPECT_NE(WhyNot("bin/python3", arguments), "");
  }
  for (const char* option : {"--version", "-V", "-h", "-z"}) {
    EXPECT_THAT(WhyNot("bin/python3", {option, "a"}), HasSubstr("is not known here"));
  }
}

TEST_F(PythonCommandTest, OtherProgramsAreNoPython) {
  EXPECT_EQ(WhyNot("bin/trainer", {"train.py"}), "trainer is not Python");
  EXPECT_EQ(WhyNot("bin/python", {"train.py"}), "bash is not Python");
  EXPECT_EQ(WhyNot("/bin/sh", {"-c", "python3 train.py"}), "sh is not Python");
  EXPECT_EQ(WhyNot("bin/nothing", {}), "nothing is not Python");
}

TEST_F(PythonCommandTest, AScriptIsRunByWhatItsFirstLineNames) {
  EXPECT_THAT(WhyNot("bin/tool", {}), HasSubstr("-E"));
  const Result<PythonCommand> console = Find("bin/console", {"--steps", "3"});
  ASSERT_TRUE(console.ok()) << console.error().message;
  EXPECT_EQ(console->path, Path("bin/python3"));
  EXPECT_THAT(console->options, ElementsAre(Path("bin/python3")));
  const Result<PythonCommand> by_env = Find("bin/by_env_s", {});
  ASSERT_TRUE(by_env.ok()) << by_env.error().message;
  EXPECT_EQ(by_env->path, Path("bin/python3"));
  EXPECT_THAT(by_env->options, ElementsAre("python3", "-u", "-X", "dev"));
  EXPECT_TRUE(Find("bin/by_env", {}).ok());
}

TEST_F(PythonCommandTest, AScriptThatStartsTheProgramElsewhereIsNoProgramToWaitFor) {
  tree_.File("bin/conda", "#!" + Path("bin/python3") + "\nimport conda\n");
  EXPECT_EQ(WhyNot("bin/conda", {"run", "python3", "train.py"}),
            "conda starts the program in a separate process");
  EXPECT_EQ(WhyNot("bin/uv", {"run", "train.py"}), "uv starts the program in a separate process");
}

TEST_F(PythonCommandTest, ALinkOfAnotherNameIsKnownByWhatItIsCalled) {
  EXPECT_TRUE(Find("bin/python3.13t", {"train.py"}).ok());
}

}  // namespace
}  // namespace lockstep::agent
