// Last words: the stderr output of a process that fails by itself, such as an uncaught exception, a
// panic or a failed assertion. Last words come before the end of the process. They order failures
// better than the ends do, because a process with less to clean up ends earlier.
#ifndef LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_
#define LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_

#include <string>
#include <string_view>

#include "base/time.h"
#include "core/failure/failure.h"

namespace lockstep::core {

// The part of `text` that reports the last failure. An exception that was raised while another one
// was handled belongs to it. If no report begins in `text`, the part is all of it.
std::string_view LastWordsIn(std::string_view text);

// Whether last words begin in this line.
bool BeginsLastWords(std::string_view line);

// Finds the time at which last words began, from the bytes of stderr as they arrive.
class LastWordsClock {
 public:
  void Feed(std::string_view bytes, Time now);
  Time began() const { return began_; }  // kNever: no last words yet

 private:
  void Line();

  std::string line_;  // the first kMaxLine bytes of a line that has not ended
  Time line_began_{};
  bool chained_ = false;  // the next words belong to the previous ones
  Time began_ = kNever;
};

// Last words explain the end of a process only if they began no longer than this before it.
inline constexpr Duration kWordsBeforeEnd = seconds(2);

// When the process began to die: at its last words, else when its end was noticed. A signal from
// outside or a fault has no last words, so such an end counts from when it was noticed.
Time BeganToDie(const Failure& death, Time words_began);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_
