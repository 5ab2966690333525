// lockstep-agent: process 1 of each machine's container. Its configuration and its wire format
// stand in docs/reference/protocol.md, its exit codes in core/exit_codes.h.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/process/stop_signals.h"
#include "base/result.h"
#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "base/version.h"
#include "core/exit_codes.h"
#include "core/plan/agent_config.h"
#include "worker/agent/agent.h"
#include "worker/agent/evidence/ask.h"
#include "worker/agent/far_end.h"
#include "worker/agent/install.h"
#include "worker/agent/measure/measure_child.h"
#include "worker/agent/processes/guard.h"
#include "worker/agent/rank_socket/remote_shell.h"
#include "worker/agent/spare.h"
#include "worker/agent/sync_receive.h"

namespace {

using lockstep::Error;
using lockstep::Result;

constexpr char kUsage[] =
    "lockstep-agent [--config-fd N | --spare | --install FOLDER | --evidence FOLDER |\n"
    "                --status [--follow] FOLDER | --sync-receive FOLDER | --facts |\n"
    "                --remote [--no-pid-namespace] | --version | --help]\n"
    "\n"
    "Runs one machine of a TrainingJob: meets the other machines' agents, starts this machine's\n"
    "processes, restarts the gang in place. Its configuration is one JSON object, which it reads\n"
    "from the inherited descriptor N, or from LOCKSTEP_CONFIG in its environment with the key in\n"
    "a file. With --spare it holds a node for a machine that may be lost, and waits for SIGTERM.\n"
    "With --install it only copies itself to FOLDER/lockstep-agent.\n"
    "With --evidence it asks the agent of that run folder where its processes are, and prints the\n"
    "answer. That is safe on a healthy job.\n"
    "With --status it asks machine 0's agent how the gang is, and with --follow prints each "
    "change.\n"
    "With --sync-receive it takes code from `kubectl lockstep sync` and hands it to machine 0's\n"
    "agent.\n"
    "`lockstep run` uses --facts and --remote on other computers, through srun or ssh.\n"
    "\n"
    "Exit codes: 0 all done; 70 the user's processes failed for good; 75 temporary (a peer lost,\n"
    "or fenced); 77 hang; 78 configuration; 143 stopped on request.\n";

// `starter` becomes the descriptor that the configuration came by, if that is a socket: then it
// hears the last message, too.
Result<std::string> ConfigText(int argc, char** argv, lockstep::UniqueFd* starter) {
  if (argc == 3 && std::strcmp(argv[1], "--config-fd") == 0) {
    const auto number = lockstep::ParseNumber<int>(argv[2]);
    if (!number || *number < 0) {
      return Error::Invalid("--config-fd wants the number of an open descriptor");
    }
    // All of it until its end, so that nothing of the key stays in a pipe.
    lockstep::UniqueFd fd(*number);
    Result<std::string> text =
        lockstep::ReadToEnd(fd.get(), "the configuration", lockstep::core::kMaxAgentConfig);
    struct stat info{};
    if (fstat(fd.get(), &info) == 0 && S_ISSOCK(info.st_mode)) *starter = std::move(fd);
    return text;
  }
  const char* text = std::getenv("LOCKSTEP_CONFIG");
  if (argc == 1 && text != nullptr) return std::string(text);
  const std::string what = argc > 1 ? "unknown arguments, from \"" + std::string(argv[1]) + "\" on"
                                    : std::string("no configuration was given");
  return Error::Invalid(what + "\n\n" + kUsage);
}

int Fail(const Error& error) {
  std::fprintf(stderr, "lockstep-agent: %s\n", error.message.c_str());
  // Another machine may do what this one can't.
  return error.kind == lockstep::ErrorKind::kBroken ? lockstep::core::kExitReplace
                                                    : lockstep::core::kExitConfiguration;
}

// Ranks have the agent's user. They may read neither its environment, which can hold credentials of
// an object store, nor its memory, which holds the gang's key; and no core is written of it.
lockstep::Status HideFromOtherProcesses() {
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return lockstep::ErrnoError("prctl", errno);
  return {};
}

int Run(int argc, char** argv) {
  if (argc >= 2 && std::strcmp(argv[1], lockstep::agent::kGuardArgument) == 0) {
    return lockstep::agent::GuardMain(argc, argv);
  }
  if (argc >= 2 && std::strcmp(argv[1], lockstep::agent::kMeasureArgument) == 0) {
    return lockstep::agent::MeasureMain(argc, argv);
  }
  if (argc >= 2 && std::strcmp(argv[1], lockstep::agent::kRemoteShellArgument) == 0) {
    return lockstep::agent::RemoteShellMain(argc, argv);
  }
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("lockstep-agent %s\n", lockstep::kVersion);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "--install") == 0) {
    const lockstep::Status installed = lockstep::agent::InstallSelf(argv[2]);
    return installed.ok() ? 0 : Fail(installed.error());
  }
  if (argc == 3 && std::strcmp(argv[1], "--evidence") == 0) {
    const lockstep::Status hidden = HideFromOtherProcesses();
    if (!hidden.ok()) return Fail(hidden.error());
    const Result<std::string> evidence = lockstep::agent::AskForEvidence(argv[2]);
    if (!evidence.ok()) return Fail(evidence.error());
    std::fputs(evidence->c_str(), stdout);
    return 0;
  }
  if (argc == 3 && std::strcmp(argv[1], "--sync-receive") == 0) {
    const lockstep::Status hidden = HideFromOtherProcesses();
    if (!hidden.ok()) return Fail(hidden.error());
    const lockstep::Status received = lockstep::agent::ReceiveCode(argv[2]);
    return received.ok() ? 0 : Fail(received.error());
  }
  const bool follows = argc == 4 && std::strcmp(argv[2], "--follow") == 0;
  if ((argc == 3 || follows) && std::strcmp(argv[1], "--status") == 0) {
    const lockstep::Status hidden = HideFromOtherProcesses();
    if (!hidden.ok()) return Fail(hidden.error());
    const lockstep::Status printed = lockstep::agent::PrintGang(argv[argc - 1], follows);
    return printed.ok() ? 0 : Fail(printed.error());
  }
  if (argc == 2 && std::strcmp(argv[1], "--facts") == 0) {
    const lockstep::Status printed = lockstep::agent::PrintFacts();
    return printed.ok() ? 0 : Fail(printed.error());
  }
  const bool no_namespace = argc == 3 && std::strcmp(argv[2], "--no-pid-namespace") == 0;
  if ((argc == 2 || no_namespace) && std::strcmp(argv[1], "--remote") == 0) {
    return lockstep::agent::RunAsFarEnd(!no_namespace);
  }
  if (argc == 2 && std::strcmp(argv[1], "--spare") == 0) {
    return lockstep::agent::WaitAsSpare();
  }
  // Each program that it starts is as it always was.
  const lockstep::Status hidden = HideFromOtherProcesses();
  if (!hidden.ok()) return Fail(hidden.error());
  // Until the loop listens: a pod that is deleted at once would else live on for its whole grace.
  lockstep::KeepStopSignals();
  lockstep::UniqueFd starter;
  Result<std::string> text = ConfigText(argc, argv, &starter);
  if (!text.ok()) return Fail(text.error());
  Result<lockstep::core::AgentConfig> config = lockstep::core::ParseAgentConfig(*text);
  if (!config.ok()) return Fail(config.error());
  unsetenv("LOCKSTEP_CONFIG");
  auto agent =
      lockstep::agent::Agent::Create(std::move(*config), std::move(starter), "/proc/self/exe");
  if (!agent.ok()) return Fail(agent.error());
  int code = (*agent)->Run();
  // Everything has been written. A thread that hangs on a dead file server must not hold the exit.
  _exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lockstep-agent: %s\n", e.what());
    return lockstep::core::kExitReplace;  // what failed was the agent, not the job
  }
}
