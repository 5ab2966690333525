#include "core/failure/last_words.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/failure/peer_loss.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxLine = 512;

constexpr auto kBeginnings = std::to_array<std::string_view>({
    "Traceback (most recent call last):",  // Python
    "Fatal Python error: ",                // its interpreter's own
    "terminate called ",                   // C++: an uncaught exception
    ": Assertion `",                       // C's assert()
    "panicked at ",                        // Rust
    "panic: ",                             // Go
});

// Between two tracebacks of Python that are one.
constexpr auto kLinks = std::to_array<std::string_view>({
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
});

template <size_t n>
bool HasOneOf(std::string_view text, const std::array<std::string_view, n>& words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace

bool BeginsLastWords(std::string_view line) { return HasOneOf(line, kBeginnings); }

std::string_view LastWordsIn(std::string_view text) {
  size_t begin = 0;
  bool chained = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (HasOneOf(line, kLinks)) {
      chained = true;
    } else if (HasOneOf(line, kBeginnings)) {
      if (!std::exchange(chained, false)) begin = at;
    }
    at = end + 1;
  }
  return text.substr(begin);
}

void LastWordsClock::Feed(std::string_view bytes, Time now) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    if (line_.empty()) line_began_ = now;
    line_.append(bytes.substr(0, std::min(end, kMaxLine - line_.size())));
    if (end == bytes.size()) return;
    Line();
    bytes.remove_prefix(end + 1);
  }
}

void LastWordsClock::Line() {
  if (HasOneOf(line_, kLinks)) {
    chained_ = true;
  } else if (HasOneOf(line_, kBeginnings)) {
    if (!std::exchange(chained_, false)) began_ = line_began_;
  }
  line_.clear();
}

Time BeganToDie(const Failure& death, Time words_began) {
  const bool foretold = death.by_itself && !IsNeverAReaction(death) && words_began <= death.at &&
                        death.at - words_began <= kWordsBeforeEnd;
  return foretold ? words_began : death.at;
}

}  // namespace lockstep::core
