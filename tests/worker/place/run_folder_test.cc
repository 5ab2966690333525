#include "worker/place/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::place {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, HasAFolderForTemporaryFilesThatGoesWithIt) {
  setenv("TMPDIR", "/tmp", 1);
  fs::path run;
  fs::path temporary;
  {
    Result<RunFolder> made = RunFolder::Make();
    ASSERT_TRUE(made.ok());
    run = made->path();
    const Result<std::string> agent = made->MakeAgentFolder(1, 2);
    ASSERT_TRUE(agent.ok());
    temporary = fs::canonical(*agent + "/tmp");
    EXPECT_EQ(temporary.parent_path().parent_path(), "/tmp");
    std::ofstream(temporary / "file") << "x";
  }
  EXPECT_FALSE(fs::exists(run));
  EXPECT_FALSE(fs::exists(temporary.parent_path()));
}

TEST(RunFolder, IsFoundByItsJobsNameWhileTheRunIsUnderWay) {
  const std::string job = "gpt-" + std::to_string(getpid());
  const auto agents_of = [&job] {
    std::vector<std::string> agents;
    for (const RunUnderWay& run : RunsUnderWay()) {
      if (run.job == job) agents = run.agents;
    }
    return agents;
  };
  {
    Result<RunFolder> made = RunFolder::Make();
    ASSERT_TRUE(made.ok() && made->MakeAgentFolder(0, 1).ok());
    made->NameJob(job);
    ASSERT_TRUE(made->MakeAgentFolder(0, 2).ok());
    EXPECT_EQ(agents_of(), std::vector<std::string>{made->path() + "/m0.2"});
  }
  EXPECT_EQ(agents_of(), std::vector<std::string>{});
}

TEST(RunFolder, TakesAShorterPlaceThanATmpdirThatLeavesSocketsNoRoom) {
  setenv("TMPDIR", ("/tmp/" + std::string(80, 'x')).c_str(), 1);
  Result<RunFolder> made = RunFolder::Make();
  ASSERT_TRUE(made.ok());
  const Result<std::string> agent = made->MakeAgentFolder(1023, 99);
  ASSERT_TRUE(agent.ok());
  EXPECT_LT(fs::canonical(*agent + "/tmp").string().size(), 50u);
  setenv("TMPDIR", "/tmp", 1);
}

}  // namespace
}  // namespace lockstep::place
