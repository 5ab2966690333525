// Finds the possible progress in one line of a program's output, before any is accepted. Pure.
#ifndef LOCKSTEP_CORE_SCAN_LINE_READER_H_
#define LOCKSTEP_CORE_SCAN_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/scan/patterns.h"

namespace lockstep::core {

inline constexpr size_t kMaxScannedLine = 512;  // bytes; what follows is not looked at

// The figures beside the count in a line; nullopt: none.
struct LineFigures {
  std::optional<double> loss;
  std::optional<double> tokens_per_second;
  std::optional<double> samples_per_second;
  std::optional<double> mfu;  // a share
  std::optional<double> teraflops;
  std::optional<double> accuracy;
  std::optional<double> gradient_norm;
  std::optional<double> learning_rate;
  bool any_loss =
      false;         // also one of the losses of which the whole consists, or a boosting metric
  bool any = false;  // also a rate or a time that is not kept
};

struct LineReading {
  const CompiledPattern* shape = nullptr;  // null: figures alone
  std::optional<int64_t> step;
  std::optional<int64_t> total;
  std::optional<int64_t> epoch;
  std::optional<int64_t> epochs;
  std::string skeleton;  // equal for lines of one print statement
  std::string other;     // the word that shows that the line is not about training
  LineFigures figures;
};

// The other kinds of a line.
struct LineContext {
  bool loss_record = false;  // figures of the last step
  bool evaluation = false;
  bool table_header = false;
  std::optional<int64_t> total_steps;
  std::optional<int64_t> total_epochs;
  std::optional<int64_t> epoch;  // a line with an epoch alone, with `epochs`
  std::optional<int64_t> epochs;
};

struct LineSaid {
  std::optional<LineReading> reading;
  LineContext context;
  bool has_loss = false;  // with `reading` or without
  LineFigures figures;
};

// Without color codes and control characters, cut at kMaxScannedLine.
std::string PlainLine(std::string_view line);

// `line` as PlainLine returns it. `own`: the user's patterns, which win.
LineSaid ReadLine(std::string_view line, const std::vector<CompiledPattern>& own);

// The loss that a line names first; `any`: also of a part of the whole.
struct LossSaid {
  std::optional<double> whole;
  bool any = false;
};
LossSaid FindLoss(std::string_view line);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_SCAN_LINE_READER_H_
