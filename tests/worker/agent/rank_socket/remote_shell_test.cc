#include "worker/agent/rank_socket/remote_shell.h"

#include <gmock/gmock.h>

#include "core/gang/protocol/messages.h"

namespace lockstep::agent {
namespace {

using ::testing::HasSubstr;

TEST(RemoteShell, ReadsTheCallsOfTheFourMpis) {
  const struct {
    std::vector<std::string> arguments;
    const char* host;
    const char* command;
  } cases[] = {
      {{"gpt-1", " orted", "-mca", "ess", "\"env\""}, "gpt-1", " orted -mca ess \"env\""},
      {{"gpt-1", "PRTE_PREFIX=/p;export PRTE_PREFIX;/p/bin/prted", "--daemonize", "--prtemca", "a",
        "1"},
       "gpt-1",
       "PRTE_PREFIX=/p;export PRTE_PREFIX;/p/bin/prted --prtemca a 1"},
      {{"-x", "gpt-2", "\"/usr/bin/hydra_pmi_proxy\"", "--control-port", "vm:41355"},
       "gpt-2",
       "\"/usr/bin/hydra_pmi_proxy\" --control-port vm:41355"},
      {{"-q", "-x", "gpt-2", "/o/hydra_bstrap_proxy", "--upstream-host", "vm"},
       "gpt-2",
       "/o/hydra_bstrap_proxy --upstream-host vm"},
      {{"-p", "22", "-o", "A=b", "-l", "me", "you@gpt-1", "a"}, "gpt-1", "a"},
  };
  for (const auto& c : cases) {
    const Result<RemoteCommand> remote = ParseRemoteCommand(c.arguments);
    ASSERT_TRUE(remote.ok()) << remote.error().message;
    EXPECT_EQ(remote->host, c.host);
    EXPECT_EQ(remote->command, c.command);
  }
}

TEST(RemoteShell, RefusesWhatNamesNoMachineOrNothingToRun) {
  EXPECT_THAT(ParseRemoteCommand({}).error().message, HasSubstr("no machine"));
  EXPECT_THAT(ParseRemoteCommand({"-x"}).error().message, HasSubstr("no machine"));
  EXPECT_THAT(ParseRemoteCommand({"-p", "gpt-1"}).error().message, HasSubstr("no machine"));
  EXPECT_THAT(ParseRemoteCommand({"gpt-1"}).error().message, HasSubstr("nothing to run"));
  EXPECT_THAT(ParseRemoteCommand({"gpt-1", "--daemonize"}).error().message,
              HasSubstr("nothing to run"));
  EXPECT_TRUE(ParseRemoteCommand({"gpt-1", std::string(core::kMaxRunCommand, 'x')}).ok());
  EXPECT_THAT(
      ParseRemoteCommand({"gpt-1", std::string(core::kMaxRunCommand + 1, 'x')}).error().message,
      HasSubstr("more than 8 KiB"));
}

}  // namespace
}  // namespace lockstep::agent
