// The spellings of progress that are known: RE2 patterns with the groups step, total, epoch and
// epochs, compiled once for a process.
#ifndef LOCKSTEP_CORE_SCAN_PATTERNS_H_
#define LOCKSTEP_CORE_SCAN_PATTERNS_H_

#include <re2/re2.h>
#include <re2/set.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::core {

// The text that must be beside the count to make the line a candidate.
enum class Beside : uint8_t {
  kNothing,
  kFigure,  // a loss, a rate, a learning rate, a step time or the like
  kLoss,
};

enum class ShapeKind : uint8_t {
  kUser,
  kGlobalStep,
  kEpochIteration,
  kIteration,
  kEpochCount,  // an epoch, then a bare count of a total
  kBar,
  kKeras,
  kStep,
  kCount,  // a count that has no name
  kRound,
  kTable,
  kEpoch,
};

struct Shape {
  const char* name;  // shown by `lockstep plan --try-log`
  ShapeKind kind;
  int rank;  // of two series the one with the lower rank is preferred
  Beside beside;
  const char* regex;
};

// A spelling with its groups' numbers; 0: it has no such group.
struct CompiledPattern {
  std::string name;
  ShapeKind kind = ShapeKind::kUser;
  int rank = 0;
  Beside beside = Beside::kNothing;
  std::unique_ptr<re2::RE2> regex;
  int step = 0;
  int total = 0;
  int epoch = 0;
  int epochs = 0;
  int loss = 0;
  int about = 0;  // a bar's description
};

inline constexpr size_t kMaxUserPatterns = 8;
inline constexpr size_t kMaxUserPattern = 256;  // bytes

// A pattern of spec.progress.patterns. Invalid says what is wrong with it.
Result<CompiledPattern> CompileUserPattern(const std::string& text);

// The built-in ones. Threads may share it.
class Patterns {
 public:
  // The figures that a line may have besides a shape, in the order of kFigures in patterns.cc.
  enum Figure : uint8_t {
    kTokensPerSecond,
    kSamplesPerSecond,
    kMfu,
    kTeraflops,
    kAccuracy,
    kGradientNorm,
    kLearningRate,
    kRatePerSecond,
    kStepTime,
    kRemaining,
    kPerplexity,
    kFigureCount,
  };
  enum Extra : uint8_t {
    kLossWord,     // the line may hold a loss
    kLossRecord,   // a dict of figures that begins with the loss
    kEvaluation,   // figures of an evaluation
    kTotalSteps,   // a total on a separate line
    kTotalEpochs,  // likewise
    kEpochLine,    // an epoch and nothing else
    kTableHeader,  // names of columns
    kExtraCount,
  };
  // The patterns that a line matches.
  struct Matches {
    std::vector<int> shapes;  // indices, ascending
    std::array<bool, kFigureCount> figures{};
    std::array<bool, kExtraCount> extras{};
    bool any() const;
  };

  static const Patterns& BuiltIn();

  Matches Match(std::string_view line) const;
  const CompiledPattern& shape(int index) const { return shapes_[static_cast<size_t>(index)]; }
  const re2::RE2& figure(Figure figure) const { return *figures_[figure]; }
  const re2::RE2& extra(Extra extra) const { return *extras_[extra]; }
  // Words that tell of something else than a step of training, before the count or in a bar's
  // description.
  const re2::RE2& other_words() const { return *other_words_; }
  const re2::RE2& other_bars() const { return *other_bars_; }
  const re2::RE2& training_bars() const { return *training_bars_; }
  const re2::RE2& bar_epoch() const { return *bar_epoch_; }

 private:
  Patterns();

  std::vector<CompiledPattern> shapes_;
  std::vector<std::unique_ptr<re2::RE2>> figures_;
  std::vector<std::unique_ptr<re2::RE2>> extras_;
  std::unique_ptr<re2::RE2> other_words_;
  std::unique_ptr<re2::RE2> other_bars_;
  std::unique_ptr<re2::RE2> training_bars_;
  std::unique_ptr<re2::RE2> bar_epoch_;
  std::unique_ptr<re2::RE2::Set> set_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_SCAN_PATTERNS_H_
