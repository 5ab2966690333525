// From the environment to a Communicator.
#include "worker/trainer/collectives/group/connect.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kVariables[] = {
    "RANK",        "WORLD_SIZE",       "LOCAL_RANK",          "MASTER_ADDR",
    "MASTER_PORT", "LOCKSTEP_JOB_UID", "LOCKSTEP_GENERATION", "GLOO_SOCKET_IFNAME"};

class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() {
    for (const char* name : kVariables) unsetenv(name);
  }
  ~EnvironmentTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  static void Set(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string Refusal() {
    const Result<Options> options = OptionsFromEnvironment();
    EXPECT_FALSE(options.ok());
    if (options.ok()) return "";
    EXPECT_EQ(options.error().kind, ErrorKind::kInvalid);
    return options.error().message;
  }
};

TEST_F(EnvironmentTest, WithoutRankTheWorldIsOneAndNeedsNoAddress) {
  const Result<Options> options = OptionsFromEnvironment();
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->world, 1);
  EXPECT_EQ(options->rank, 0);
}

TEST_F(EnvironmentTest, AgentsVariablesAreRead) {
  Set({{"RANK", "3"},
       {"WORLD_SIZE", "4"},
       {"LOCAL_RANK", "1"},
       {"MASTER_ADDR", "10.0.0.7"},
       {"MASTER_PORT", "29400"},
       {"LOCKSTEP_JOB_UID", "abc"},
       {"LOCKSTEP_GENERATION", "5"},
       {"GLOO_SOCKET_IFNAME", "eth0"}});
  const Result<Options> options = OptionsFromEnvironment();
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->world, 4);
  EXPECT_EQ(options->local_rank, 1);
  EXPECT_EQ(options->master_address, "10.0.0.7");
  EXPECT_EQ(options->master_port, 29400);
  EXPECT_EQ(options->identity, "abc/5");
  EXPECT_EQ(options->interface, "eth0");
}

TEST_F(EnvironmentTest, TheVariableThatIsWrongIsNamed) {
  Set({{"RANK", "0"}});
  EXPECT_EQ(Refusal().rfind("WORLD_SIZE is \"\"", 0), 0u);
  Set({{"WORLD_SIZE", "two"}});
  EXPECT_EQ(Refusal().rfind("WORLD_SIZE is \"two\"", 0), 0u);
  Set({{"WORLD_SIZE", "2"}, {"RANK", "2"}});
  EXPECT_EQ(Refusal(), "RANK is \"2\"; it must be a number from 0 to 1");
  Set({{"RANK", "1"}});
  EXPECT_EQ(Refusal().rfind("MASTER_ADDR", 0), 0u);
  Set({{"MASTER_ADDR", "a-name"}});
  EXPECT_EQ(Refusal().rfind("MASTER_ADDR is \"a-name\"", 0), 0u);
  Set({{"MASTER_ADDR", "fd00::7"}, {"MASTER_PORT", "70000"}});
  EXPECT_EQ(Refusal().rfind("MASTER_PORT", 0), 0u);
}

TEST(ConnectTest, OptionsThatCannotBeMeantAreRefused) {
  for (const auto& [rank, world] : {std::pair{-1, 2}, {2, 2}, {0, 0}}) {
    Options options = TestOptions(world);
    options.rank = rank;
    EXPECT_EQ(Connect(options).error().kind, ErrorKind::kInvalid);
  }
  Options named = TestOptions(2);
  named.master_address = "localhost";
  EXPECT_EQ(Connect(named).error().kind, ErrorKind::kInvalid);
}

TEST(ConnectTest, AMissingRankIsNamedAtTheDeadline) {
  Options options = TestOptions(2);
  options.connect_timeout = milliseconds(100);
  const auto alone = Connect(options);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(alone.error().message.rfind("rank 1 of 2 did not come to 127.0.0.1:", 0), 0u)
      << alone.error().message;
}

TEST(ConnectTest, AnInterfaceThatDoesNotExistIsSaidSo) {
  Options options = TestOptions(2);
  options.interface = "nosuch0";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      const auto made = Connect(mine);
      ASSERT_FALSE(made.ok());
      EXPECT_NE(made.error().message.find(
                    made.error().kind == ErrorKind::kInvalid ? "GLOO_SOCKET_IFNAME" : "is lost"),
                std::string::npos)
          << made.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ConnectTest, ANamedInterfaceCarriesTheRanks) {
  Options options = TestOptions(2);
  options.interface = "lo";
  RunRanksWith(options, [](Communicator& all) {
    EXPECT_EQ(all.Describe(), "Gloo over TCP on lo");
    EXPECT_TRUE(all.Barrier("").ok());
  });
}

TEST(ConnectTest, ArgumentsThatCannotBeMeantFailAloneAndLeaveTheOthersWorking) {
  RunRanks(2, [](Communicator& all) {
    std::vector<float> values(4);
    const Span four{values.data(), 4};
    EXPECT_EQ(all.Broadcast(four, 2, "").error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(all.Send(four, all.rank(), "").error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(all.ReduceScatter(four, four, Reduction::kSum, "").error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(all.AllGather(four, four, "").error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(all.AllReduce({values.data(), 4, DataType::kByte}, Reduction::kSum, "").error().kind,
              ErrorKind::kInvalid);
    EXPECT_TRUE(all.Barrier("").ok());
  });
}

}  // namespace
}  // namespace lockstep::collectives
