#include "worker/agent/far_end.h"

#include <gtest/gtest.h>

#include <map>

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

}  // namespace
}  // namespace lockstep::agent
