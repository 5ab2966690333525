#include "cli/run/output/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/run/output/history.h"
#include "cli/run/output/ledger_text.h"
#include "cli/run/output/preflight_text.h"
#include "cli/run/output/prestart_text.h"
#include "cli/run/output/usage_text.h"

namespace lockstep::cli {
namespace {

constexpr int kMinRows = 2;
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kYellow = "\x1b[33m";
constexpr const char* kRed = "\x1b[31m";
constexpr const char* kReset = "\x1b[0m";

const char* ColorOf(core::MachineState state) {
  if (state >= core::MachineState::kRunning) return kGreen;
  return state <= core::MachineState::kFailed ? kRed : kYellow;
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

// "-": none was reported.
std::string FigureOf(const std::optional<core::GangProgress>& progress, const std::string& name) {
  if (!progress) return "-";
  const auto found = std::ranges::find(progress->figures, name, &core::NamedFigure::name);
  return found == progress->figures.end() ? "-" : Number(found->value, "%.4g");
}

std::string UpperCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return 'a' <= c && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  return text;
}

std::string Headline(const TableView& view) {
  const core::JobStatus& status = view.status;
  std::string line = view.job.metadata.name + "  " + core::ToString(status.state);
  if (status.gang_generation.exists()) line += "  generation " + status.gang_generation.ToString();
  line += "  restarts " + std::to_string(status.restarts.total);
  if (const auto progress = core::Summarize(view.progress)) {
    line += "  step " + StepOf(*progress);
    if (progress->total_steps > 0) {
      line += " " + std::to_string(100 * progress->step / progress->total_steps) + "%";
    }
    if (progress->source != core::StepSource::kReports) line += " (read from its output)";
    if (progress->loss) line += "  loss " + Number(*progress->loss, "%.4g");
    for (const std::string& name : view.show) line += "  " + name + " " + FigureOf(progress, name);
    if (const auto rate = view.rate.steps_per_second()) line += "  " + Rate(*rate) + " steps/s";
    if (const auto remaining = view.rate.Remaining()) line += "  eta " + Brief(*remaining);
  }
  return line + "  up " + Brief(view.elapsed);
}

using Cells = std::vector<std::string>;
constexpr std::array kHeadings = {"MACHINE", "RANKS", "STATE", "STEP", "LOSS", "TOKENS/S"};
// Behind these stands a column for each known figure with a heading.
constexpr size_t kFirstKnown = kHeadings.size();
constexpr auto kKnownColumns = static_cast<size_t>(std::ranges::count_if(
    core::kKnownFigures, [](const core::KnownFigure& figure) { return !figure.heading.empty(); }));

template <typename Visitor>
void ForEachKnownColumn(Visitor visitor) {
  for (const core::KnownFigure& figure : core::kKnownFigures) {
    if (!figure.heading.empty()) visitor(figure);
  }
}

Cells CellsOf(const TableView& view, const core::MachineStatus& machine) {
  const int64_t processes = core::ProcessesStarted(view.job.spec);
  const int64_t ranks = view.job.spec.processes_per_machine;
  const auto index = static_cast<uint32_t>(machine.index);
  const auto& elastic = view.status.elastic;
  const int64_t place = elastic ? elastic->members.PlaceOf(index) : index;
  const bool left_out = elastic && !elastic->members.Contains(index);
  const int64_t first = place * ranks;
  Cells cells{std::to_string(machine.index),
              left_out ? "-" : Range(first, first + ranks - 1),
              core::ToString(machine.state),
              "-",
              "-",
              "-"};
  std::vector<core::RankProgress> its;
  for (const core::RankProgress& rank : view.progress) {
    if (!left_out && rank.rank / processes == place) its.push_back(rank);
  }
  const auto progress = core::Summarize(its);
  if (progress) {
    cells[3] = StepOf(*progress);
    if (progress->loss) cells[4] = Number(*progress->loss, "%.4g");
    if (progress->tokens_per_second > 0) cells[5] = Rate(progress->tokens_per_second);
  }
  ForEachKnownColumn([&](const core::KnownFigure& figure) {
    const double value = progress ? progress->known.*figure.value : 0;
    cells.push_back(value > 0 ? Number(figure.scale * value, figure.format) : "-");
  });
  for (const std::string& name : view.show) cells.push_back(FigureOf(progress, name));
  if (view.wide) {
    const auto usage = view.usage.find(machine.index);
    const bool none = usage == view.usage.end();
    for (std::string& cell : UsageCells(none ? std::nullopt : std::optional(usage->second))) {
      cells.push_back(std::move(cell));
    }
  }
  cells.push_back(machine.node);
  if (machine.replacements > 0) {
    cells.back() += cells.back().empty() ? "" : ", ";
    cells.back() += "attempt " + std::to_string(view.status.attempts.Of(machine.index));
  }
  return cells;
}

// Of most programs nobody says these: such a column is left out.
bool IsShown(const std::vector<Cells>& rows, size_t column) {
  if (column < kFirstKnown || column >= kFirstKnown + kKnownColumns) return true;
  return std::any_of(rows.begin() + 1, rows.end(),
                     [column](const Cells& row) { return row[column] != "-"; });
}

// Those that have room, the worst of all, in order of machine.
std::vector<core::MachineStatus> Choose(const core::JobStatus& status, size_t room) {
  std::vector<core::MachineStatus> chosen = status.machine_statuses;  // worst first
  chosen.resize(std::min(chosen.size(), room));
  std::ranges::sort(chosen, {}, &core::MachineStatus::index);
  return chosen;
}

}  // namespace

std::vector<std::string> RenderTable(const TableView& view, TerminalSize size, bool color) {
  std::vector<std::string> lines;
  lines.push_back(Paint(Fit(Headline(view), size.columns), kBold, color));
  if (!view.status.reason.empty()) {
    lines.push_back(Paint(Fit("  " + view.status.reason, size.columns), kYellow, color));
  }
  auto room = static_cast<size_t>(std::max(size.lines / 2 - 4, kMinRows));
  const std::vector<core::MachineStatus> machines = Choose(view.status, room);
  std::vector<Cells> cells = {{kHeadings.begin(), kHeadings.end()}};
  ForEachKnownColumn(
      [&](const core::KnownFigure& figure) { cells.front().emplace_back(figure.heading); });
  for (const std::string& name : view.show) cells.front().push_back(UpperCase(name));
  if (view.wide) cells.front().insert(cells.front().end(), kUsageHeads.begin(), kUsageHeads.end());
  cells.front().emplace_back();
  for (const auto& machine : machines) cells.push_back(CellsOf(view, machine));
  std::vector<size_t> widths(cells.front().size());
  for (const Cells& row : cells) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (size_t r = 0; r < cells.size(); ++r) {
    std::string line = " ";
    for (size_t i = 0; i < widths.size(); ++i) {
      if (!IsShown(cells, i)) continue;
      line += " " + cells[r][i] + std::string(widths[i] - cells[r][i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    line = Fit(line, size.columns);
    lines.push_back(Paint(line, r == 0 ? kDim : ColorOf(machines[r - 1].state), color));
  }
  if (const auto all = static_cast<size_t>(view.status.machines.desired); machines.size() < all) {
    lines.push_back(Paint(
        Fit("  ... and " + std::to_string(all - machines.size()) + " machines more", size.columns),
        kDim, color));
  }
  if (const std::string line = PrestartLine(view.status); !line.empty()) {
    lines.push_back(Paint(Fit("  " + line, size.columns), kDim, color));
  }
  for (const std::string& line : PreflightLines(view.status)) {
    lines.push_back(Paint(Fit("  " + line, size.columns), kDim, color));
  }
  for (const std::string& line : LedgerLines(view.status, view.now)) {
    lines.push_back(Paint(Fit("  " + line, size.columns), kDim, color));
  }
  return lines;
}

}  // namespace lockstep::cli
