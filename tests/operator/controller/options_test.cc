#include "operator/controller/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::control {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Parsed {
  std::optional<int> exit_code;
  Options options;
  std::string said;
};

Parsed Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"lockstep-operator", "--agent-image=agent:1"});
  std::vector<char*> pointers;
  for (std::string& each : arguments) pointers.push_back(each.data());
  Parsed parsed;
  testing::internal::CaptureStderr();
  parsed.exit_code =
      ParseOptions(static_cast<int>(pointers.size()), pointers.data(), &parsed.options);
  parsed.said = testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(Options, AllNamespacesUnlessSomeAreNamed) {
  const Parsed parsed = Parse({});
  EXPECT_EQ(parsed.exit_code, std::nullopt);
  EXPECT_THAT(parsed.options.namespaces, IsEmpty());
}

TEST(Options, NamespacesAreGivenOneByOneOrWithCommas) {
  EXPECT_THAT(Parse({"--namespace=a"}).options.namespaces, ElementsAre("a"));
  EXPECT_THAT(Parse({"--namespace", "b", "--namespace=a"}).options.namespaces,
              ElementsAre("b", "a"));
  EXPECT_THAT(Parse({"--namespace=a,b"}).options.namespaces, ElementsAre("a", "b"));
  setenv("LOCKSTEP_NAMESPACE", "c,d", 1);
  const Parsed by_environment = Parse({});
  unsetenv("LOCKSTEP_NAMESPACE");
  EXPECT_THAT(by_environment.options.namespaces, ElementsAre("c", "d"));
}

TEST(Options, NodesAreReportedOnlyIfAskedForAndInAllNamespaces) {
  EXPECT_EQ(Parse({}).options.node_reports.stay, Duration::zero());
  EXPECT_EQ(Parse({"--node-reports=60"}).options.node_reports.stay, seconds(60));
  EXPECT_EQ(Parse({"--node-reports=60", "--namespace=a"}).options.node_reports.stay,
            Duration::zero());
}

TEST(Options, SignsOfSicknessReplaceTheDefaultOnes) {
  const SicknessSigns defaults = Parse({}).options.signs;
  EXPECT_TRUE(defaults.cordon);
  EXPECT_THAT(defaults.taints, Contains("nvidia.com/gpu-error"));
  const SicknessSigns given =
      Parse({"--sick-taints=a,b/*", "--sick-conditions", "GpuHealthy=False", "--ignore-cordons"})
          .options.signs;
  EXPECT_FALSE(given.cordon);
  EXPECT_THAT(given.taints, ElementsAre("a", "b/*"));
  EXPECT_THAT(given.conditions, ElementsAre("GpuHealthy=False"));
  EXPECT_THAT(Parse({"--sick-conditions=none"}).options.signs.conditions, ElementsAre("none"));
  EXPECT_EQ(Parse({"--sick-conditions=GpuHealthy"}).exit_code, 2);
}

TEST(Options, WhatTheInstallerAsksForIsGivenByResource) {
  const Options options = Parse({"--agent-resources=memory=100Mi,ephemeral-storage=1Gi"}).options;
  EXPECT_EQ(options.delivery.resources.size(), 2U);
  EXPECT_EQ(options.delivery.resources.at("memory").ToString(), "100Mi");
  for (const char* wrong : {"memory", "memory=much", "=1Gi", "memory=0"}) {
    const Parsed parsed = Parse({"--agent-resources", wrong});
    EXPECT_EQ(parsed.exit_code, 2) << wrong;
    EXPECT_THAT(parsed.said, HasSubstr("memory=100Mi")) << wrong;
  }
}

TEST(Options, ANamespaceTakesOneName) {
  const Parsed parsed = Parse({"--namespace", "a", "b"});
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.said, HasSubstr("b"));
}

TEST(Options, ANameGivenTwiceIsAMistake) {
  const Parsed parsed = Parse({"--namespace=a", "--namespace=b,a"});
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.said, HasSubstr("--namespace: a is given twice"));
}

TEST(Options, WhatIsNoNameOfANamespaceIsRefusedByItsName) {
  for (const char* wrong : {"Team-A", "a.b", "-a", "a b", "a/b"}) {
    const Parsed parsed = Parse({std::string("--namespace=") + wrong});
    EXPECT_EQ(parsed.exit_code, 2) << wrong;
    EXPECT_THAT(parsed.said, HasSubstr("\"" + std::string(wrong) + "\" is not the name")) << wrong;
  }
  EXPECT_EQ(Parse({"--namespace=" + std::string(64, 'a')}).exit_code, 2);
  EXPECT_EQ(Parse({"--namespace="}).exit_code, 2);
}

TEST(Options, TheLeaseOfAnOperatorIsNoneOfThoseThatClaimJobs) {
  for (const char* name : {"lockstep-jobs", "lockstep-all-jobs"}) {
    const Parsed parsed = Parse({std::string("--lease-name=") + name});
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.said, HasSubstr("--lease-name: " + std::string(name)));
  }
}

}  // namespace
}  // namespace lockstep::control
