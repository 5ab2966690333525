#include "worker/agent/storage/kept_caches.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kCpu =
    "processor\t: 0\nmodel name\t: Some CPU\ncpu MHz\t\t: %\nflags\t: sse\n";

class CacheIdentityTest : public ::testing::Test {
 protected:
  CacheIdentityTest() {
    tree_
        .File("venv/bin/python3",
              "\x7f"
              "ELF...")
        .File("venv/lib/python3.11/site-packages/torch-2.1.0.dist-info/RECORD", "")
        .File("venv/lib/python3.11/site-packages/torch/version.py", "")
        .File("proc/cpuinfo", kCpu);
  }
  Result<std::string> Identity(const std::vector<topology::Gpu>& gpus = {},
                               const std::string& program = "venv/bin/python3") {
    SpawnRequest rank;
    rank.path = tree_.root() + "/" + program;
    rank.argv = {program, "train.py"};
    return CacheIdentity(rank, gpus, tree_.root());
  }

  topology::FixtureTree tree_;
};

TEST_F(CacheIdentityTest, IsOfTheInterpreterItsPackagesAndTheKindOfMachine) {
  const Result<std::string> identity = Identity();
  ASSERT_TRUE(identity.ok());
  EXPECT_THAT(*identity, HasSubstr("torch-2.1.0.dist-info"));
  EXPECT_THAT(*identity, HasSubstr("Some CPU"));
  tree_.File("proc/cpuinfo",
             "processor\t: 0\nmodel name\t: Some CPU\ncpu MHz\t\t: 9\nflags\t: sse\n");
  EXPECT_EQ(*Identity(), *identity);  // its clock is no kind
  tree_.File("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nflags\t: sse avx\n");
  EXPECT_NE(*Identity(), *identity);
}

TEST_F(CacheIdentityTest, IsAnotherWithAnotherPackageImageOrGpu) {
  const std::string before = *Identity();
  const fs::path python = tree_.root() + "/venv/bin/python3";
  const fs::file_time_type made = fs::last_write_time(python);
  fs::last_write_time(python, made - std::chrono::hours(1));
  EXPECT_NE(*Identity(), before);
  fs::last_write_time(python, made);
  EXPECT_EQ(*Identity(), before);
  tree_.File("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n")
      .File("sys/bus/pci/devices/0000:17:00.0/device", "0x2330\n");
  topology::Gpu one;
  one.pci_address = "0000:17:00.0";
  const std::string gpu = *Identity({one});
  EXPECT_THAT(gpu, HasSubstr("0x2330"));
  tree_.File("proc/driver/nvidia/version", "NVRM version: 580\n");
  EXPECT_NE(*Identity({one}), gpu);
  EXPECT_EQ(*Identity(), before);
  tree_.File("venv/lib/python3.11/site-packages/triton-3.0.dist-info/RECORD", "");
  EXPECT_NE(*Identity(), before);
}

TEST_F(CacheIdentityTest, IsNotKnownOfWhatIsNoPython) {
  tree_.File("bin/trainer",
             "\x7f"
             "ELF...");
  EXPECT_THAT(Identity({}, "bin/trainer").error().message, HasSubstr("is not Python"));
}

}  // namespace
}  // namespace lockstep::agent
