#include "worker/agent/rank_socket/remote_shell.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/text/json.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/rank_socket/ask_agent.h"

namespace lockstep::agent {
namespace {

// Of ssh, and followed by a value.
constexpr std::string_view kWithValue = "BbcDEeFIiJLlmOopQRSWw";

int NeverBegan(const std::string& why) {
  std::fprintf(stderr, "lockstep: %s\n", why.c_str());
  return core::kExitNeverBegan;
}

}  // namespace

Result<RemoteCommand> ParseRemoteCommand(const std::vector<std::string>& arguments) {
  auto word = arguments.begin();
  while (word != arguments.end() && word->starts_with('-')) {
    const bool has_value = word->size() == 2 && kWithValue.find((*word)[1]) != std::string::npos;
    ++word;
    if (has_value && word != arguments.end()) ++word;
  }
  if (word == arguments.end()) return Error::Invalid("the launcher named no machine");
  RemoteCommand remote;
  remote.host = word->substr(word->find('@') + 1);
  for (++word; word != arguments.end(); ++word) {
    if (*word == "--daemonize") continue;
    remote.command += (remote.command.empty() ? "" : " ") + *word;
  }
  if (remote.command.empty()) {
    return Error::Invalid("the launcher named nothing to run on " + remote.host);
  }
  if (remote.command.size() > core::kMaxRunCommand) {
    return Error::Invalid("the launcher's command for " + remote.host + " has more than 8 KiB");
  }
  return remote;
}

int RemoteShellMain(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc < 4) return NeverBegan("--rsh wants SOCKET GENERATION [options] HOST WORDS...");
  const Result<RemoteCommand> remote = ParseRemoteCommand({arguments.begin() + 4, arguments.end()});
  if (!remote.ok()) return NeverBegan(remote.error().message);
  const Json question = {
      {"id", 1}, {"run", remote->command}, {"host", remote->host}, {"generation", arguments[3]}};
  const Result<Json> answer = AskAgent(arguments[2], question, kNoPatience);
  if (!answer.ok()) return NeverBegan(answer.error().message);
  const std::string problem = answer->value("problem", "");
  if (!problem.empty())
    std::fprintf(stderr, "lockstep: %s: %s\n", remote->host.c_str(), problem.c_str());
  return answer->value("exitCode", static_cast<int>(core::kExitNeverBegan));
}

}  // namespace lockstep::agent
