#include "cli/cluster/commands.h"

#include <type_traits>
#include <variant>

namespace lockstep::cli {

int RunClusterCommand(const ClusterCommand& command) {
  const auto run = [&](const auto& what) -> Result<int> {
    if constexpr (std::is_same_v<std::decay_t<decltype(what)>, SubmitCommand>) {
      return Submit(command.where, what);
    } else if constexpr (std::is_same_v<std::decay_t<decltype(what)>, DebugCommand>) {
      return Debug(command.where, what);
    } else {
      Result<std::unique_ptr<Connection>> cluster = Connection::Open(command.where);
      if (!cluster.ok()) return cluster.error();
      return Run(**cluster, what);
    }
  };
  const Result<int> code = std::visit(run, command.what);
  return code.ok() ? *code : Fail(code.error());
}

}  // namespace lockstep::cli
