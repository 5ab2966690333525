#include "operator/kube/config/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/wall_time.h"
#include "operator/kube/config/credentials_exec.h"

namespace lockstep::kube {
namespace {

using testing::HasSubstr;

constexpr Duration kPatience = seconds(60);

bool Eventually(const std::function<bool()>& holds) {
  Time until = BootTime() + kPatience;
  while (!holds()) {
    if (BootTime() > until) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

class CredentialsTest : public testing::Test {
 protected:
  // A file of this test.
  std::string File(const std::string& name) const {
    return testing::TempDir() + "/" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + "-" + name;
  }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(File(name)) << text;
    return File(name);
  }
  // A plugin that is this shell script.
  ClientConfig Plugin(const std::string& script, Duration timeout = kPatience) const {
    ClientConfig config;
    config.server = "https://api";
    config.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1",
                             .command = {"/bin/sh", "-c", script},
                             .env = {{"FROM_CONFIG", "yes"}},
                             .timeout = timeout};
    return config;
  }
};

std::string Printed(const std::string& token, const std::string& expires = "") {
  std::string extra = expires.empty() ? "" : R"(,"expirationTimestamp":")" + expires + "\"";
  return R"(echo '{"kind":"ExecCredential","status":{"token":")" + token + "\"" + extra + "}}'";
}

TEST_F(CredentialsTest, ATokenIsAHeaderWithoutTheFilesLineEnd) {
  ClientConfig config;
  config.token.file = Write("token", "sesame\n");
  auto credentials = Credentials::Create(config);
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ((*credentials)->Current()->authorization, "Bearer sesame");
}

TEST_F(CredentialsTest, ATokenThatWouldBeAnotherHeaderIsRefused) {
  ClientConfig config;
  for (const char* token : {"a\r\nX-Remote-User: admin", "a b", "\n", "a\x01z"}) {
    config.token.file = Write("token", token);
    auto credentials = Credentials::Create(config);
    ASSERT_FALSE(credentials.ok()) << token;
    EXPECT_EQ(credentials.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(credentials.error().message, Not(HasSubstr("admin")));
  }
  config.token.file = Write("token", std::string(kMaxCredential + 1, 'x'));
  EXPECT_EQ(Credentials::Create(config).error().kind, ErrorKind::kTooLarge);
  config.token.file = File("none");
  EXPECT_EQ(Credentials::Create(config).error().kind, ErrorKind::kNotFound);
}

TEST_F(CredentialsTest, FilesAreReadAgainAndTheLastGoodOnesStay) {
  ClientConfig config;
  config.token.file = Write("token", "one");
  config.ca.file = Write("ca", "CA 1");
  auto credentials = *Credentials::Create(config, milliseconds(5));
  auto first = credentials->Current();
  Write("token", "two");
  ASSERT_TRUE(Eventually([&] { return credentials->Current()->authorization == "Bearer two"; }));
  EXPECT_EQ(credentials->Current()->tls, first->tls);
  std::remove(File("token").c_str());
  Write("ca", "CA 2");
  Write("token", "three");
  ASSERT_TRUE(Eventually([&] { return credentials->Current()->tls->ca == "CA 2"; }));
  EXPECT_NE(credentials->Current()->tls, first->tls);
  // While one of the files is missing, nothing is taken of the others.
  std::remove(File("token").c_str());
  Write("ca", "CA 3");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(credentials->Current()->tls->ca, "CA 2");
  Write("token", "four");
  ASSERT_TRUE(Eventually([&] {
    auto current = credentials->Current();
    return current->tls->ca == "CA 3" && current->authorization == "Bearer four";
  }));
  EXPECT_EQ(first->authorization, "Bearer one");
}

TEST_F(CredentialsTest, APluginGetsWhatTheProtocolSays) {
  auto printed = RunExecPlugin(
      Plugin(R"(case "$KUBERNETES_EXEC_INFO" in *'"kind":"ExecCredential"'*) ;; *) exit 1;; esac
                [ "$FROM_CONFIG" = yes ] && [ -n "$PATH" ] && )" +
             Printed("sesame", "2031-01-02T03:04:05Z")),
      -1);
  ASSERT_TRUE(printed.ok()) << printed.error().message;
  EXPECT_EQ(printed->token, "sesame");
  EXPECT_EQ(FormatWallTime(*printed->expires), "2031-01-02T03:04:05Z");
}

TEST_F(CredentialsTest, APluginThatFailsIsDeniedWithTheReason) {
  struct Case {
    std::string script;
    const char* message;
  };
  for (const Case& c : {Case{"exit 3", "exit code 3"}, Case{"kill -9 $$", "exit code 137"},
                        Case{"echo nonsense", "no ExecCredential"},
                        Case{"head -c 200000 /dev/zero", "more than 128 KiB"},
                        Case{Printed("secret") + "; exit 1", "exit code 1"}}) {
    auto credentials = Credentials::Create(Plugin(c.script));
    ASSERT_FALSE(credentials.ok()) << c.script;
    EXPECT_EQ(credentials.error().kind, ErrorKind::kDenied);
    EXPECT_THAT(credentials.error().message, HasSubstr(c.message));
    EXPECT_THAT(credentials.error().message, Not(HasSubstr("secret")));
  }
  ClientConfig missing = Plugin("");
  missing.exec->command = {"/nowhere/login"};
  missing.exec->install_hint = "install it like this";
  EXPECT_THAT(Credentials::Create(missing).error().message, HasSubstr("install it like this"));
}

TEST_F(CredentialsTest, APluginThatHangsIsKilledWithItsChildren) {
  std::string file = File("pid");
  auto credentials =
      Credentials::Create(Plugin("sleep 1000 & echo $! > " + file + "; wait", seconds(4)));
  ASSERT_FALSE(credentials.ok());
  EXPECT_THAT(credentials.error().message, HasSubstr("had not ended after 4s"));
  int pid = 0;
  std::ifstream(file) >> pid;
  ASSERT_GT(pid, 0);
  // Dead, or a zombie that nobody of ours reaps.
  EXPECT_TRUE(Eventually([&] {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    return text.empty() || text.find(") Z ") != text.npos;
  }));
}

TEST_F(CredentialsTest, ARefusedTokenRunsThePluginAgain) {
  std::string file = Write("token", "one");
  auto credentials = *Credentials::Create(Plugin(
      R"(printf '{"kind":"ExecCredential","status":{"token":"%s"}}' "$(cat )" + file + ")\""));
  auto first = credentials->Current();
  EXPECT_EQ(first->authorization, "Bearer one");
  Write("token", "two");
  credentials->Refused(first);
  EXPECT_TRUE(Eventually([&] { return credentials->Current()->authorization == "Bearer two"; }));
}

TEST_F(CredentialsTest, ItsEndDoesNotWaitForAPlugin) {
  std::string file = File("again");
  std::remove(file.c_str());
  auto credentials =
      *Credentials::Create(Plugin("if [ -e " + file + " ]; then touch " + file +
                                  ".runs; sleep 1000; fi; touch " + file + "; " + Printed("one")));
  credentials->Refused(credentials->Current());
  ASSERT_TRUE(Eventually([&] {
    struct stat ignored{};
    return stat((file + ".runs").c_str(), &ignored) == 0;
  }));
  Time begin = BootTime();
  credentials.reset();
  EXPECT_LT(BootTime() - begin, seconds(10));
}

}  // namespace
}  // namespace lockstep::kube
