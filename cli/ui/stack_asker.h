// StackAsker: asks a gang's agents where their ranks stand (lockstep-agent --evidence FOLDER, here
// or by kubectl in a pod), on the event loop, so that nothing blocks. One question is under way at
// a time, and a second caller gets the answer of the first. Bounded: kAtOnce programs, kPatience,
// kMostOfAnswer for each. Destroying it kills the programs. An answer holds kMostOfEvidence bytes
// of stacks, a share for each of its ranks.
#ifndef LOCKSTEP_CLI_UI_STACK_ASKER_H_
#define LOCKSTEP_CLI_UI_STACK_ASKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/process/process.h"
#include "cli/programs/evidence.h"

namespace lockstep::cli {

struct Stacks {
  std::vector<MachineEvidence> machines;
  std::vector<std::string> problems;  // one for each machine that gave no answer
};

inline constexpr size_t kMostOfEvidence = size_t{512} << 10;

// The answer of /api/stacks in the form of docs/internals/page.md; of one rank, or all.
std::string StacksJson(const Stacks& stacks, std::optional<uint32_t> rank);

class StackAsker {
 public:
  static constexpr size_t kAtOnce = 16;
  static constexpr Duration kPatience = seconds(15);
  static constexpr size_t kMostOfAnswer = size_t{8} << 20;

  using Take = std::function<void(const Stacks&)>;
  struct Machine {
    uint32_t index = 0;
    std::vector<std::string>
        argv;                  // the program's path and its arguments; empty: it cannot be asked
    std::string problem = {};  // why not
  };

  StackAsker(EventLoop* loop, Spawner* spawner) : loop_(loop), spawner_(spawner) {}
  ~StackAsker();
  StackAsker(const StackAsker&) = delete;
  StackAsker& operator=(const StackAsker&) = delete;

  // Calls back once, later.
  void Ask(std::vector<Machine> machines, Take take);

 private:
  struct Asked {
    uint32_t machine = 0;
    SpawnedProcess process;
    TimerId patience = 0;
    std::string answer;
    std::string words;
    std::string problem;  // why it was killed
  };
  using Place = std::list<Asked>::iterator;

  void StartMore();
  void Start(const Machine& machine);
  // Whether anything came.
  bool Read(Place asked);
  void Kill(Asked& asked, std::string problem);
  void OnEnd(Place asked);
  void Unwatch(Asked& asked);

  EventLoop* loop_;
  Spawner* spawner_;
  std::deque<Machine> waiting_;
  std::list<Asked> asked_;
  std::vector<Take> takers_;
  Stacks stacks_;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_STACK_ASKER_H_
