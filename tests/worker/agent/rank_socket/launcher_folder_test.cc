#include "worker/agent/rank_socket/launcher_folder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class LauncherFolder : public ::testing::Test {
 protected:
  LauncherFolder() {
    std::string path = "/tmp/launcher-XXXXXX";
    root_ = mkdtemp(path.data());
    job_.metadata.name = "gpt";
    job_.spec.num_machines = 3;
    job_.spec.processes_per_machine = 2;
  }
  ~LauncherFolder() override { fs::remove_all(root_); }

  std::string Make(core::Generation generation) {
    const Result<std::string> folder =
        MakeLauncherFolder(root_, generation, job_, "/opt/the agent", "/run/agent.sock");
    EXPECT_TRUE(folder.ok());
    return folder.ok() ? *folder : "";
  }
  static std::string Text(const std::string& path) {
    const Result<std::string> text = ReadFile(path, 4096);
    return text.ok() ? *text : "";
  }

  fs::path root_;
  core::TrainingJob job_;
};

TEST_F(LauncherFolder, ListsMachine0UnderItsOwnNameInBothForms) {
  const std::string folder = Make({1, 2});
  EXPECT_EQ(folder, root_ / "mpi/1-2");
  std::array<char, 256> own{};
  ASSERT_EQ(gethostname(own.data(), own.size() - 1), 0);
  EXPECT_EQ(Text(folder + "/hosts"),
            std::string(own.data()) + " slots=2\ngpt-1 slots=2\ngpt-2 slots=2\n");
  EXPECT_EQ(Text(folder + "/hosts.hydra"), std::string(own.data()) + ":2\ngpt-1:2\ngpt-2:2\n");
}

TEST_F(LauncherFolder, ItsShellIsTheAgentsProgramForThisGeneration) {
  const std::string folder = Make({1, 2});
  EXPECT_EQ(Text(folder + "/rsh"),
            "#!/bin/sh\nexec '/opt/the agent' --rsh /run/agent.sock 1-2 \"$@\"\n");
  struct stat status{};
  ASSERT_EQ(stat((folder + "/rsh").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, S_IRWXU);
}

TEST_F(LauncherFolder, TheLastGenerationsIsGone) {
  const std::string first = Make({1, 1});
  Make({1, 2});
  EXPECT_FALSE(fs::exists(first));
}

TEST_F(LauncherFolder, KnowsTheOtherMachinesByTheirNames) {
  EXPECT_EQ(MachineNamed(job_, "gpt-2"), 2U);
  for (const char* host : {"gpt-0", "gpt-3", "gpt", "localhost", ""}) {
    EXPECT_EQ(MachineNamed(job_, host), std::nullopt) << host;
  }
}

}  // namespace
}  // namespace lockstep::agent
