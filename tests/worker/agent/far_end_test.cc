#include "worker/agent/far_end.h"

#include <gtest/gtest.h>

#include <map>

#include "base/net/tcp.h"
#include "base/text/endpoint.h"

namespace lockstep::agent {
namespace {

Result<std::string> In(const std::map<std::string, std::string>& environment) {
  return StarterAddress([&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

TEST(StarterAddress, IsWhereSrunOrSshWasStarted) {
  EXPECT_EQ(*In({{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}, {"SSH_CONNECTION", "10.0.0.9 1 2 3"}}),
            "10.0.0.1");
  EXPECT_EQ(*In({{"SSH_CONNECTION", "fd00::9 40000 fd00::1 22"}}), "fd00::9");
}

TEST(StarterAddress, IsNotGuessed) { EXPECT_FALSE(In({}).ok()); }

TEST(CheckPortIsFree, ReportsAListenerAndLeavesAFreePortToTheAgent) {
  Result<UniqueFd> listener = ListenTcp(*ParseEndpoint("127.0.0.1:0"), 1);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  const Endpoint endpoint = *LocalEndpoint(listener->get());
  const Status taken = CheckPortIsFree(endpoint.ToString());
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().kind, ErrorKind::kConflict);
  listener->reset();
  EXPECT_TRUE(CheckPortIsFree(endpoint.ToString()).ok());
  EXPECT_TRUE(ListenTcp(endpoint, 1).ok());
}

TEST(CheckPortIsFree, RejectsWhatIsNoAddress) {
  const Status status = CheckPortIsFree("somewhere");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().kind, ErrorKind::kConflict);
}

}  // namespace
}  // namespace lockstep::agent
