#include <unistd.h>

#include <memory>

#include "cli/commands/commands.h"
#include "cli/mcp/server.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

struct McpOptions {
  mcp::ServerOptions server;
  int timeout = 60;
};

}  // namespace

void AddMcp(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<McpOptions>();
  CLI::App* command = app.add_subcommand(
      "mcp", "Serve jobs to a coding agent by the Model Context Protocol, on stdin and stdout");
  command->add_flag("--allow-write", options->server.allow_write,
                    "Offer tools that change jobs, too: restart, suspend, resume, delete, submit");
  command
      ->add_option("--timeout", options->timeout, "Seconds after which a tool's command is killed")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  ClusterAddress& where = options->server.where;
  const char* group = "The cluster";
  command
      ->add_option("--kubeconfig", where.kubeconfig,
                   "Kubeconfig; default: $KUBECONFIG, else ~/.kube/config")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--context", where.context,
                   "Context of the kubeconfig; default: its current one")
      ->group(group);
  command
      ->add_option("-n,--namespace", where.name_space,
                   "Where a call names none. Default: the context's")
      ->group(group);
  command->footer(
      "A client starts it; docs/guides/agents.md has the lines for some.\n"
      "Exit codes: 0 its input has ended; 1 it could not start; 2 wrong usage.");
  command->callback([options, invocation] {
    if (isatty(STDIN_FILENO) == 1) {
      Say("mcp: a coding agent starts this command and speaks to it on standard input; see "
          "`lockstep mcp --help`");
      invocation->exit_code = core::kExitUsage;
      return;
    }
    options->server.timeout = seconds(options->timeout);
    invocation->exit_code = mcp::Serve(options->server);
  });
}

}  // namespace lockstep::cli
