// The tools of `lockstep mcp`: what a client reads about them, and the commands of this program
// that carry them out. Pure.
#ifndef LOCKSTEP_CLI_MCP_TOOLS_H_
#define LOCKSTEP_CLI_MCP_TOOLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/json.h"

namespace lockstep::cli::mcp {

// One command of this program.
struct Command {
  std::vector<std::string> words{};  // behind the program's name
  std::string input{};               // on its standard input
  std::string title{};               // above its output; "": none
  bool keeps_end = false;            // if its output is too long, its end is shown, else its start
  bool optional = false;             // if it fails, its error is shown and the tool succeeds
};

struct ToolOptions {
  bool allow_write = false;
  std::vector<std::string> cluster{};  // words for the cluster's address, without the namespace
  std::string name_space{};            // ""  : the context's
  std::vector<std::string> runs{};     // names of the runs on this computer
};

// The tools that may be called, as a client reads them.
OrderedJson ListTools(const ToolOptions& options);

bool IsTool(std::string_view name, const ToolOptions& options);

// The commands that answer a call, which run at once. Invalid: wrong arguments; it names them.
Result<std::vector<Command>> CommandsOf(std::string_view tool, const Json& arguments,
                                        const ToolOptions& options);

}  // namespace lockstep::cli::mcp

#endif  // LOCKSTEP_CLI_MCP_TOOLS_H_
