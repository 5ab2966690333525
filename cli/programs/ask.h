// Programs that are asked something: each prints its answer and ends, many at once.
#ifndef LOCKSTEP_CLI_PROGRAMS_ASK_H_
#define LOCKSTEP_CLI_PROGRAMS_ASK_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::cli {

struct Question {
  std::string who;  // for messages: "machine 0", "pod gpt-0", "node n1"
  std::vector<std::string> argv;
};

struct Answer {
  std::string text;   // of standard output
  std::string words;  // of standard error, without blanks at its end
  bool late = false;  // it was killed, for it had not ended in time
};

struct AskOptions {
  Duration patience = seconds(40);  // for each
  size_t at_once = 16;
  std::vector<std::string> env;  // "NAME=value"
};

// Calls `take` with each question's index and answer, in the order in which they end. NotFound,
// Unavailable: its program could not be started.
Status AskAll(const std::vector<Question>& questions, const AskOptions& options,
              const std::function<void(size_t, const Result<Answer>&)>& take);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRAMS_ASK_H_
