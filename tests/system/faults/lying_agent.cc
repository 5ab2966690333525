// lockstep-lying-agent IP:PORT UID KIND: stands where machine 0's agent of a job should, and
// answers the operator with anything at all (tests/operator/gang/lying_agent.h); KIND: wild, or
// unreadable, that is without one status that can be read. The job's key is stdin, 32 bytes. Runs
// until it is killed.
#include "tests/operator/gang/lying_agent.h"

#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  lockstep::Key key{};
  if (argc != 4 || read(STDIN_FILENO, key.data(), key.size()) != lockstep::kKeySize) {
    std::fputs("usage: lockstep-lying-agent IP:PORT UID wild|unreadable < KEY\n", stderr);
    return 2;
  }
  auto loop = lockstep::EventLoop::Create();
  const auto endpoint = lockstep::ParseEndpoint(argv[1]);
  if (!loop.ok() || !endpoint.ok()) return 1;
  lockstep::gang::LyingAgent agent(loop->get(), argv[2], key, std::string(argv[3]) == "wild");
  const lockstep::Status listens = agent.Listen(*endpoint);
  if (!listens.ok()) {
    std::fprintf(stderr, "%s\n", listens.error().message.c_str());
    return 1;
  }
  (*loop)->Run();
}
