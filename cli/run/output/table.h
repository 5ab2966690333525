// The live table: a pure function from what is known of the run to lines of a terminal.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_TABLE_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "core/gang/diagnosis/progress.h"
#include "core/model/spec.h"
#include "core/status/status.h"

namespace lockstep::cli {

// The job's status as it was decided last, and what agents tell between two decisions.
struct TableView {
  const core::TrainingJob& job;
  const core::JobStatus& status;
  std::vector<core::RankProgress> progress;
  const core::RateMeter& rate;
  Duration elapsed{};
  WallTime now{};
  bool wide = false;                       // with what machines use
  std::map<int32_t, core::Usage> usage{};  // by machine
  std::vector<std::string> show{};         // named figures with a column, as programs report them
};

struct TerminalSize {
  int columns = 80;
  int lines = 24;
};

// No line is wider than the terminal, and there are at most half as many as it has. The machines
// that do worst are shown when there is no room for all.
std::vector<std::string> RenderTable(const TableView& view, TerminalSize size, bool color);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_TABLE_H_
