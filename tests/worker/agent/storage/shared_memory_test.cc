#include "worker/agent/storage/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class SharedMemoryTest : public testing::Test {
 protected:
  SharedMemoryTest() {
    std::string path = "/tmp/shm-XXXXXX";
    root_ = mkdtemp(path.data());
    folder_ = root_ / "shm";
    proc_ = root_ / "proc";
    fs::create_directories(folder_);
    fs::create_directories(proc_);
  }
  ~SharedMemoryTest() override { fs::remove_all(root_); }

  void Make(const std::string& name) { std::ofstream(folder_ / name) << "x"; }

  fs::path root_;
  fs::path folder_;
  fs::path proc_;
};

TEST_F(SharedMemoryTest, LosesWhatAGenerationMadeAndKeepsWhatWasThereAndFolders) {
  SharedMemory memory(true, folder_, proc_);
  Make("before");
  memory.BeginGeneration();
  Make("sm_segment.m0.0.1");
  fs::create_directory(folder_ / "data");
  Make("data/part");
  EXPECT_EQ(memory.Sweep({}), 1);
  EXPECT_FALSE(fs::exists(folder_ / "sm_segment.m0.0.1"));
  EXPECT_TRUE(fs::exists(folder_ / "before"));
  EXPECT_TRUE(fs::exists(folder_ / "data/part"));
}

TEST_F(SharedMemoryTest, KeepsWhatALivingProcessHasOpenOrMapped) {
  SharedMemory memory(true, folder_, proc_);
  memory.BeginGeneration();
  Make("open");
  Make("mapped");
  Make("left");
  const UniqueFd open_file(open((folder_ / "open").c_str(), O_RDWR | O_CLOEXEC));
  void* page = nullptr;
  {
    const UniqueFd file(open((folder_ / "mapped").c_str(), O_RDWR | O_CLOEXEC));
    page = mmap(nullptr, 1, PROT_READ, MAP_SHARED, file.get(), 0);
  }
  ASSERT_NE(page, MAP_FAILED);
  fs::create_directory_symlink("/proc/self", proc_ / "4711");
  EXPECT_EQ(memory.Sweep({}), 1);
  EXPECT_TRUE(fs::exists(folder_ / "open"));
  EXPECT_TRUE(fs::exists(folder_ / "mapped"));
  munmap(page, 1);
  EXPECT_EQ(memory.Sweep({4711}), 2) << "what the agent itself holds is not a reason";
}

TEST_F(SharedMemoryTest, OfOthersAsWellIsLeftAlone) {
  SharedMemory memory(false, folder_, proc_);
  memory.BeginGeneration();
  Make("whose");
  EXPECT_EQ(memory.Sweep({}), 0);
  EXPECT_TRUE(fs::exists(folder_ / "whose"));
}

TEST_F(SharedMemoryTest, IsOnesOwnWhereItIsMountedForTheMachineOrThePodHasItsSize) {
  core::AgentConfig config;
  EXPECT_FALSE(HasOwnSharedMemory(config));
  config.job.spec.shared_memory = Quantity{};
  EXPECT_TRUE(HasOwnSharedMemory(config));
  config.shares_computer = true;
  std::ofstream(folder_ / "mounts") << "tmpfs /dev/shm tmpfs rw 0 0\n";
  EXPECT_FALSE(HasOwnSharedMemory(config, folder_ / "mounts"));
  std::ofstream(folder_ / "mounts", std::ios::app) << "lockstep /dev/shm tmpfs rw 0 0\n";
  EXPECT_TRUE(HasOwnSharedMemory(config, folder_ / "mounts"));
  core::AgentConfig on_another_node;
  EXPECT_TRUE(HasOwnSharedMemory(on_another_node, folder_ / "mounts"));
}

}  // namespace
}  // namespace lockstep::agent
