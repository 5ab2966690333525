#include "cli/cluster/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

using kube::ApiErrorKind;
using ::testing::HasSubstr;

Error ExplainOf(ApiErrorKind kind, const std::string& reason, const std::string& message) {
  kube::ApiError error;
  error.kind = kind;
  error.reason = reason;
  error.message = message;
  return Explain(error, "read trainingjob gpt", "https://api:6443");
}

TEST(ExplainTest, AClusterWithoutTheTypeIsToldFromAJobThatIsMissing) {
  const Error no_type = ExplainOf(ApiErrorKind::kNotFound, "", "HTTP status 404");
  EXPECT_THAT(no_type.message,
              HasSubstr("does not know TrainingJobs: install Lockstep there first"));
  EXPECT_EQ(ExitCodeOf(no_type), core::kExitNotFound);
  const Error no_job =
      ExplainOf(ApiErrorKind::kNotFound, "NotFound", "trainingjobs \"gpt\" not found");
  EXPECT_EQ(no_job.message, "cannot read trainingjob gpt: trainingjobs \"gpt\" not found");
  EXPECT_EQ(ExitCodeOf(no_job), core::kExitNotFound);
}

TEST(ExplainTest, WhatIsForbiddenInvalidOrUnreachableIsSaidAndHasItsExitCode) {
  const Error forbidden = ExplainOf(ApiErrorKind::kForbidden, "Forbidden", "user ann cannot get");
  EXPECT_EQ(forbidden.message, "cannot read trainingjob gpt: not allowed: user ann cannot get");
  EXPECT_EQ(ExitCodeOf(forbidden), core::kExitTrouble);
  const Error invalid = ExplainOf(ApiErrorKind::kInvalid, "Invalid", "spec.x: wrong");
  EXPECT_EQ(ExitCodeOf(invalid), core::kExitUsage);
  const Error gone = ExplainOf(ApiErrorKind::kTransport, "", "connection refused");
  EXPECT_THAT(gone.message, HasSubstr("no answer from https://api:6443: connection refused"));
  EXPECT_EQ(ExitCodeOf(gone), core::kExitTrouble);
  const Error who = ExplainOf(ApiErrorKind::kUnauthorized, "Unauthorized", "Unauthorized");
  EXPECT_THAT(who.message, HasSubstr("does not accept the credentials"));
}

class FindClusterTest : public ::testing::Test {
 protected:
  FindClusterTest() : folder_(std::filesystem::temp_directory_path() / MakeName()) {
    std::filesystem::create_directory(folder_);
    setenv("HOME", folder_.c_str(), 1);
    unsetenv("KUBECONFIG");
    unsetenv("KUBERNETES_SERVICE_HOST");
  }
  ~FindClusterTest() override { std::filesystem::remove_all(folder_); }

  static std::string MakeName() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string("lockstep-") + test->name() + "-" + std::to_string(getpid());
  }

  std::string Write(const std::string& name) {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file)
        << "{apiVersion: v1, kind: Config, current-context: c,"
           " contexts: [{name: c, context: {cluster: k, user: u, namespace: ours}}],"
           " clusters: [{name: k, cluster: {server: 'https://"
        << file.filename().string()
        << "', certificate-authority: ca.crt}}], users: [{name: u, user: {token: t}}]}";
    return file.string();
  }

  std::filesystem::path folder_;
};

TEST_F(FindClusterTest, WhatIsNamedComesBeforeTheEnvironmentAndThatBeforeTheHome) {
  EXPECT_THAT(FindCluster({}).error().message, HasSubstr("no cluster: there is no --kubeconfig"));
  Write(".kube/config");
  ASSERT_TRUE(FindCluster({}).ok());
  EXPECT_EQ(FindCluster({})->server, "https://config");
  const std::string list = "/nowhere:" + Write("environment");
  setenv("KUBECONFIG", list.c_str(), 1);
  EXPECT_EQ(FindCluster({})->server, "https://environment");
  EXPECT_EQ(FindCluster({.kubeconfig = Write("named")})->server, "https://named");
}

TEST_F(FindClusterTest, TheNamespaceIsTheContextsUnlessOneIsNamed) {
  const std::string file = Write("named");
  EXPECT_EQ(FindCluster({.kubeconfig = file})->default_namespace, "ours");
  EXPECT_EQ(FindCluster({.kubeconfig = file, .name_space = "mine"})->default_namespace, "mine");
}

TEST_F(FindClusterTest, SeveralFilesAreRefusedWithWhatToDo) {
  const std::string list = Write("a") + ":" + Write("b");
  setenv("KUBECONFIG", list.c_str(), 1);
  EXPECT_THAT(FindCluster({}).error().message, HasSubstr("kubectl config view --flatten"));
}

}  // namespace
}  // namespace lockstep::cli
