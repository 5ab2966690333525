#include "cli/cluster/commands.h"

#include <optional>
#include <type_traits>
#include <variant>

#include "cli/cluster/here.h"

namespace lockstep::cli {
namespace {

template <typename What>
constexpr bool kLooksHere = std::is_same_v<What, StatusCommand> ||
                            std::is_same_v<What, LogsCommand> || std::is_same_v<What, WhyCommand>;

}  // namespace

int RunClusterCommand(const ClusterCommand& command) {
  const auto run = [&](const auto& what) -> Result<int> {
    using What = std::decay_t<decltype(what)>;
    if constexpr (std::is_same_v<What, ListCommand>) {
      if (what.here) return ListHere(what);
    } else if constexpr (kLooksHere<What>) {
      const std::optional<Result<int>> here = command.here_first ? LookHere(what) : std::nullopt;
      if (here) return *here;
    }
    if constexpr (std::is_same_v<What, SubmitCommand>) {
      return Submit(command.where, what);
    } else if constexpr (std::is_same_v<What, DebugCommand>) {
      return Debug(command.where, what);
    } else if constexpr (std::is_same_v<What, SyncCommand>) {
      return Sync(command.where, what);
    } else if constexpr (std::is_same_v<What, UiCommand>) {
      return Ui(command.where, what);
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
