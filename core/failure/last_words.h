// What a process says to stderr as it fails by itself: an uncaught exception, a panic, a failed
// assertion. It comes before the end of the process, and in another order than the ends of several:
// who has less to clean up is gone first.
#ifndef LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_
#define LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_

#include <string>
#include <string_view>

#include "base/time.h"
#include "core/failure/failure.h"

namespace lockstep::core {

// The part of `text` that reports the last failure. An exception that was raised while another one
// was handled belongs to it. If nothing in `text` begins a report, the part is all of it.
std::string_view LastWordsIn(std::string_view text);

// Whether such words begin in this line.
bool BeginsLastWords(std::string_view line);

// When they began, from the bytes of stderr as they come.
class LastWordsClock {
 public:
  void Feed(std::string_view bytes, Time now);
  Time began() const { return began_; }  // kNever: there were none

 private:
  void Line();

  std::string line_;  // its first kMaxLine bytes, without an end yet
  Time line_began_{};
  bool chained_ = false;  // the words that follow belong to those before
  Time began_ = kNever;
};

// A process whose words began no longer than this before its end has ended of what they tell.
inline constexpr Duration kWordsBeforeEnd = seconds(2);

// When the process began to die: at its last words, else when its end was noticed. No words
// foretell a signal from outside or a fault, so such an end counts from when it was noticed.
Time BeganToDie(const Failure& death, Time words_began);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_LAST_WORDS_H_
