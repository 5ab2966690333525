#include "cli/run/table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "cli/run/history.h"

namespace lockstep::cli {
namespace {

constexpr int kMinRows = 2;
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kReset = "\x1b[0m";

bool IsWell(const std::string& state) { return state == "Running" || state == "Finished"; }

const char* ColorOf(const std::string& state) {
  if (IsWell(state) || state == "Succeeded") return kGreen;
  if (state == "Lost" || state == "Failed") return kRed;
  return kYellow;
}

std::string Number(double value, const char* format) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string Rate(double value) {
  if (value >= 1e6) return Number(value / 1e6, "%.2fM");
  if (value >= 1e4) return Number(value / 1e3, "%.1fk");
  return Number(value, value < 10 ? "%.2f" : "%.0f");
}

std::string StepOf(const core::GangProgress& progress) {
  std::string text = std::to_string(progress.step);
  if (progress.total_steps > 0) text += "/" + std::to_string(progress.total_steps);
  return text;
}

std::string Range(int64_t first, int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

// Cut to `columns`; text without escapes and of one byte a column.
std::string Fit(std::string text, int columns) {
  auto width = static_cast<size_t>(std::max(columns, 1));
  for (char& c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte >= 127) c = '?';
  }
  if (text.size() <= width) return text;
  if (width <= 3) return text.substr(0, width);
  return text.substr(0, width - 3) + "...";
}

std::string Paint(const std::string& text, const char* paint, bool color) {
  return color ? paint + text + kReset : text;
}

std::string Headline(const TableView& view) {
  std::string line = view.job + "  " + view.state;
  if (!view.generation.empty()) line += "  generation " + view.generation;
  line += "  restarts " + std::to_string(view.restarts);
  if (view.progress) {
    line += "  step " + StepOf(*view.progress);
    if (view.progress->total_steps > 0) {
      line += " " + std::to_string(100 * view.progress->step / view.progress->total_steps) + "%";
    }
    if (view.progress->loss) line += "  loss " + Number(*view.progress->loss, "%.4g");
  }
  if (view.steps_per_second) line += "  " + Rate(*view.steps_per_second) + " steps/s";
  if (view.remaining) line += "  eta " + Brief(*view.remaining);
  return line + "  up " + Brief(view.elapsed);
}

using Cells = std::array<std::string, 7>;

Cells CellsOf(const TableRow& row) {
  Cells cells{std::to_string(row.machine),
              Range(row.first_rank, row.last_rank),
              row.state,
              "-",
              "-",
              "-",
              row.note};
  if (row.progress) {
    cells[3] = StepOf(*row.progress);
    if (row.progress->loss) cells[4] = Number(*row.progress->loss, "%.4g");
    if (row.progress->tokens_per_second > 0) cells[5] = Rate(row.progress->tokens_per_second);
  }
  return cells;
}

// The rows that have room, in order of machine; those not well are chosen first.
std::vector<TableRow> Choose(const std::vector<TableRow>& rows, size_t room) {
  std::vector<TableRow> chosen = rows;
  if (chosen.size() <= room) return chosen;
  std::sort(chosen.begin(), chosen.end(), [](const TableRow& a, const TableRow& b) {
    return std::pair(IsWell(a.state), a.machine) < std::pair(IsWell(b.state), b.machine);
  });
  chosen.resize(room);
  std::sort(chosen.begin(), chosen.end(),
            [](const TableRow& a, const TableRow& b) { return a.machine < b.machine; });
  return chosen;
}

}  // namespace

std::vector<std::string> RenderTable(const TableView& view, TerminalSize size, bool color) {
  std::vector<std::string> lines;
  lines.push_back(Paint(Fit(Headline(view), size.columns), kBold, color));
  if (!view.reason.empty()) {
    lines.push_back(Paint(Fit("  " + view.reason, size.columns), kYellow, color));
  }
  auto room = static_cast<size_t>(std::max(size.lines / 2 - 4, kMinRows));
  std::vector<TableRow> rows = Choose(view.rows, room);
  std::vector<Cells> cells = {{"MACHINE", "RANKS", "STATE", "STEP", "LOSS", "TOKENS/S", ""}};
  for (const TableRow& row : rows) cells.push_back(CellsOf(row));
  std::array<size_t, 7> widths{};
  for (const Cells& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t r = 0; r < cells.size(); ++r) {
    std::string line = " ";
    for (size_t i = 0; i < widths.size(); ++i) {
      line += " " + cells[r][i] + std::string(widths[i] - cells[r][i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    line = Fit(line, size.columns);
    lines.push_back(Paint(line, r == 0 ? kDim : ColorOf(rows[r - 1].state), color));
  }
  if (rows.size() < view.rows.size()) {
    lines.push_back(
        Paint(Fit("  ... and " + std::to_string(view.rows.size() - rows.size()) + " machines more",
                  size.columns),
              kDim, color));
  }
  return lines;
}

}  // namespace lockstep::cli
