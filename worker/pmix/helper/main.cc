// lockstep-pmix: answers PMIx's clients, Open MPI's processes, for one machine's ranks of one
// generation. An agent starts it, tells it of the generation when there is one, and ends it with it
// (worker/agent/services/pmix_server.h). It is a program of its own so that the agent stays small,
// and lives on when the library doesn't.
#include <pmix.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "base/text/ascii.h"
#include "base/version.h"
#include "core/exit_codes.h"
#include "worker/pmix/helper/link.h"
#include "worker/pmix/helper/server.h"
#include "worker/pmix/message.h"

namespace {

using lockstep::Error;
using lockstep::ParseNumber;
using lockstep::Result;
using lockstep::Status;
using lockstep::pmix::JobShape;
using lockstep::pmix::Kind;
using lockstep::pmix::Link;
using lockstep::pmix::Message;
using lockstep::pmix::Server;

Status Serve(Server* server, Link* link) {
  Status done = server->Init();
  if (!done.ok()) return done;
  link->Send({.kind = Kind::kInitialized});
  while (true) {
    Result<std::optional<Message>> message = link->Receive();
    if (!message.ok()) return message.error();
    if (!*message) return {};
    switch ((*message)->kind) {
      case Kind::kBegin:
        done = server->Begin((*message)->bytes);
        break;
      case Kind::kFence:
        done = server->OnFence(**message);
        break;
      default:
        done = Error::Invalid("a message that an agent doesn't send");
    }
    if (!done.ok()) return done;
  }
}

int Run(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::printf("lockstep-pmix %s, %s\n", lockstep::kVersion, PMIx_Get_version());
    return 0;
  }
  const auto machine = argc == 5 ? ParseNumber<uint32_t>(argv[1]) : std::nullopt;
  const auto machines = argc == 5 ? ParseNumber<uint32_t>(argv[2]) : std::nullopt;
  const auto processes = argc == 5 ? ParseNumber<uint32_t>(argv[3]) : std::nullopt;
  if (!machine || !machines || !processes || *machine >= *machines || *processes == 0) {
    std::fputs(
        "lockstep-pmix MACHINE MACHINES PROCESSES FOLDER: lockstep-agent starts it, with a socket "
        "as descriptor 3\n",
        stderr);
    return lockstep::core::kExitConfiguration;
  }
  Link link(lockstep::pmix::kHelperFd);
  Server server(JobShape{*machine, *machines, *processes, argv[4]}, &link);
  const Status served = Serve(&server, &link);
  if (!served.ok()) link.Send({.kind = Kind::kProblem, .bytes = served.error().message});
  // At once: the library would wait for clients, and the agent removes the folder.
  _exit(served.ok() ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lockstep-pmix: %s\n", e.what());
    return 1;
  }
}
