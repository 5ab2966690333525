// The live table: a pure function from what is known of the run to lines of a terminal.
#ifndef LOCKSTEP_CLI_RUN_TABLE_H_
#define LOCKSTEP_CLI_RUN_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/progress.h"

namespace lockstep::cli {

struct TableRow {
  uint32_t machine = 0;
  int64_t first_rank = 0;
  int64_t last_rank = 0;
  std::string state;
  std::string note;  // why it is not well; "" when it is
  std::optional<core::GangProgress> progress;
};

struct TableView {
  std::string job;
  std::string state;
  std::string reason;
  std::string generation;  // "" before the first
  int restarts = 0;
  Duration elapsed{};
  std::optional<core::GangProgress> progress;
  std::optional<double> steps_per_second;
  std::optional<Duration> remaining;
  std::vector<TableRow> rows;
};

struct TerminalSize {
  int columns = 80;
  int lines = 24;
};

// No line is wider than the terminal, and there are at most half as many as it has. Machines that
// are not well come first when there is no room for all.
std::vector<std::string> RenderTable(const TableView& view, TerminalSize size, bool color);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_TABLE_H_
