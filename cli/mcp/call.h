// Call: one call of a tool: runs its commands as processes of this program, all at once, and joins
// what they print. Destroying it kills them. One thread.
//
// Each command may run for `patience`. An answer has at most kMostOfAnswer bytes; a sentence says
// what is not shown. A process of its own for each command: a command that crashes or hangs costs
// its call alone, and can be cancelled at any point.
#ifndef LOCKSTEP_CLI_MCP_CALL_H_
#define LOCKSTEP_CLI_MCP_CALL_H_

#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/process/process.h"
#include "base/time.h"
#include "cli/mcp/protocol.h"
#include "cli/mcp/tools.h"

namespace lockstep::cli::mcp {

// What a command has printed.
struct Output {
  std::string text{};     // of standard output: kMostOfAnswer bytes of its start or end
  size_t bytes = 0;       // of all of it
  std::string words{};    // of standard error
  int code = 0;           // exit code; 128 + N: signal N
  std::string problem{};  // why there is no exit code; "": there is one
};

inline constexpr size_t kMostOfAnswer = size_t{48} << 10;

// Pure. An error if a command that is not optional failed.
ToolAnswer JoinOutputs(const std::vector<Command>& commands, const std::vector<Output>& outputs);

class Call {
 public:
  struct Programs {
    EventLoop* loop = nullptr;
    Spawner* spawner = nullptr;
    std::string self;  // this program's file
    Duration patience = seconds(60);
  };
  using Take = std::function<void(ToolAnswer)>;

  // Calls `take` once, later; it may destroy this.
  Call(Programs programs, std::vector<Command> commands, Take take);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  struct Running {
    size_t index = 0;
    SpawnedProcess process;
    TimerId patience = 0;
  };
  using Place = std::list<Running>::iterator;

  void Start(size_t index);
  // Whether anything came.
  bool Read(Place running);
  void OnEnd(Place running);
  void Unwatch(Running& running);
  void End();

  Programs programs_;
  std::vector<Command> commands_;
  std::vector<Output> outputs_;
  std::list<Running> running_;
  Take take_;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli::mcp

#endif  // LOCKSTEP_CLI_MCP_CALL_H_
