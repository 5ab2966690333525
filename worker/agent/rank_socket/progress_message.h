// One line that a training process writes to its agent's socket, as a typed value. Pure; fuzzed.
//
//   {"rank": 3, "step": 10, "loss": 2.5, "tokens": 4096, "total_steps": 1000}   progress, heartbeat
//   {"rank": 0, "id": 7, "commit": "step-1200"}                                 may this be kept?
//   {"rank": 0, "id": 7, "commit": "step-1200", "memory": true}                 in memory
//   {"rank": 0, "id": 7, "commit": "step-1200", "generation": "1-3"}            if it still runs
//   {"rank": 0, "id": 8, "latest": true}                                        resume from where?
//   {"rank": 0, "id": 3, "rejoin": "1-3"}                                       when does it end?
//   {"rank": 0, "id": 4, "left": "1-3"}                                         what comes next?
//   {"rank": 3, "generation": "1-3", "place": "allreduce 17"}                   where it failed
//   {"rank": 3, "id": 5, "done": "1-3", "pid": 471}                             its program has
//   ended
//   {"id": 9, "evidence": true}                                                 where are the
//   ranks?
//   {"id": 9, "gang": true, "after": 71}                                        how is the gang?
//   {"id": 9, "code": "DIGEST", "incoming": "incoming-71", "by": "alice", ...}  new code
//   {"id": 9, "editor_left": "incoming-71"}                                     no more of it
//   {"id": 1, "run": "WORDS", "host": "gpt-1", "generation": "1-3"}             a launcher's
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_PROGRESS_MESSAGE_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_PROGRESS_MESSAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/text/json.h"

namespace lockstep::agent {

inline constexpr size_t kMaxProgressLine = size_t{64} << 10;  // bytes, newline included
inline constexpr size_t kMaxMetrics = 64;                     // of one line; the rest is left out

struct ProgressReport {
  uint32_t rank = 0;
  int64_t step = 0;                       // 0: not said
  int64_t total_steps = 0;                // 0: not said
  double loss = 0;                        // NaN: not said
  double tokens = 0;                      // processed by this process in this step
  std::map<std::string, double> metrics;  // all other finite numbers, by name
  // Figures that are not finite, the loss among them: the texts "NaN", "Infinity", "-Infinity".
  std::map<std::string, double> broken = {};
};

struct CommitQuestion {
  uint32_t rank = 0;
  uint64_t id = 0;
  std::string name;  // one path component
  bool memory = false;
  std::string generation = {};  // in which it was written; "": not said
};

// This process can take part in the generation after this one, and wants to hear of its end.
struct RejoinQuestion {
  uint32_t rank = 0;
  uint64_t id = 0;
  std::string generation;
};

// Nothing of it acts in this generation any more; it waits for the next.
struct LeftQuestion {
  uint32_t rank = 0;
  uint64_t id = 0;
  std::string generation;
};

// Where this rank stood when it lost its peers, or waited for them too long.
struct PlaceReport {
  uint32_t rank = 0;
  std::string generation;
  std::string place;
};

// The program of this process has come to its end; what is left is the interpreter's exit.
struct DoneReport {
  uint32_t rank = 0;
  uint64_t id = 0;
  std::string generation;
  int64_t pid = 0;
};

struct LatestQuestion {
  uint32_t rank = 0;
  uint64_t id = 0;
};

struct EvidenceQuestion {
  uint64_t id = 0;
};

// How the gang is, if that is another version than `after`.
struct GangQuestion {
  uint64_t id = 0;
  uint64_t after = 0;  // 0: any
};

// A version of the code that --sync-receive has brought.
struct CodeQuestion {
  uint64_t id = 0;
  std::string digest;
  std::string incoming;  // its folder, below the store's
  std::string replaces;  // as core::CodeOffer has it, and what follows
  std::string by;
  std::string words;
  bool watched = false;
};

// The user who edited the code has left.
struct EditorLeft {
  uint64_t id = 0;
  std::string receiver;  // `incoming` of its questions
};

// Run this on that machine (remote_shell.h).
struct RunQuestion {
  uint64_t id = 0;
  std::string command;
  std::string host;
  std::string generation;  // in which it was asked
};

using ProgressMessage =
    std::variant<ProgressReport, CommitQuestion, LatestQuestion, EvidenceQuestion, GangQuestion,
                 RunQuestion, RejoinQuestion, LeftQuestion, PlaceReport, DoneReport, CodeQuestion,
                 EditorLeft>;

// `line` without its newline. Invalid says what is wrong with it.
Result<ProgressMessage> ParseProgressMessage(std::string_view line);

// The answers, newline included.
std::string CommitAnswer(uint64_t id, const std::string& final_path);
std::string CommitRefusal(uint64_t id, const std::string& reason);
std::string LatestAnswer(uint64_t id, const std::string& path);  // "": none
std::string EvidenceAnswer(uint64_t id, const Result<std::string>& file);
// "" as the file: nothing has changed.
std::string GangAnswer(uint64_t id, uint64_t version, const Result<std::string>& file);
std::string RunAnswer(uint64_t id, uint32_t exit_code, const std::string& problem);
std::string EndedAnswer(uint64_t id, const std::string& generation);
// `changes`: of its environment, by name; null: gone.
std::string NextAnswer(uint64_t id, const std::string& generation, const Json& changes);
std::string DoneAnswer(uint64_t id);
// NotFound: some contents are not here. Unavailable: it may be asked again in a moment.
std::string CodeAnswer(uint64_t id, const Status& taken);
std::string RejoinRefusal(uint64_t id, const std::string& reason);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_PROGRESS_MESSAGE_H_
