#include "cli/try_log.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostShown = 12;

std::string Digits(double value) {
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.6g", value);
  return {text.data(), static_cast<size_t>(size)};
}

std::string Count(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string StepOf(int64_t step, int64_t total) {
  std::string text = std::to_string(step);
  if (total > 0) text += " of " + std::to_string(total);
  return text;
}

// "[m0 r3] step 10": 3, and the rest.
std::optional<int> TakePrefix(std::string_view* line) {
  if (!line->starts_with("[m")) return std::nullopt;
  const size_t end = line->find("] ");
  const size_t mark = line->find(" r");
  if (end == std::string_view::npos || mark == std::string_view::npos || mark > end) {
    return std::nullopt;
  }
  int rank = 0;
  for (const char c : line->substr(mark + 2, end - mark - 2)) {
    if (c < '0' || c > '9' || rank > 1'000'000) return std::nullopt;
    rank = rank * 10 + (c - '0');
  }
  line->remove_prefix(end + 2);
  return rank;
}

struct NamedFigure {
  const char* name;
  std::optional<double> core::LineFigures::* value;
};
constexpr NamedFigure kFigures[] = {
    {"loss", &core::LineFigures::loss},
    {"accuracy", &core::LineFigures::accuracy},
    {"learning_rate", &core::LineFigures::learning_rate},
    {"gradient_norm", &core::LineFigures::gradient_norm},
    {"tokens_per_second", &core::LineFigures::tokens_per_second},
    {"samples_per_second", &core::LineFigures::samples_per_second},
    {"teraflops", &core::LineFigures::teraflops},
    {"mfu", &core::LineFigures::mfu},
};

}  // namespace

TryLog::TryLog(std::shared_ptr<const std::vector<core::CompiledPattern>> patterns)
    : patterns_(std::move(patterns)) {}

void TryLog::Feed(std::string_view bytes) {
  for (const std::string& line : cutter_.Feed(bytes, seconds(1))) OnLine(line);
}

void TryLog::Finish() {
  for (const std::string& line : cutter_.Finish()) OnLine(line);
}

void TryLog::OnLine(std::string_view line) {
  ++lines_;
  const int rank = TakePrefix(&line).value_or(-1);
  auto found = ranks_.find(rank);
  if (found == ranks_.end()) {
    if (ranks_.size() >= kMostRanks) return;
    found = ranks_
                .emplace(rank, core::ProgressScanner(
                                   core::ScannerOptions{.patterns = patterns_, .explain = true}))
                .first;
  }
  found->second.Scan(line);
}

// The first rank with progress; without any, the first rank.
const core::ProgressScanner* TryLog::Best(int* rank) const {
  for (const auto& [number, scanner] : ranks_) {
    if (!scanner.progress()) continue;
    *rank = number;
    return &scanner;
  }
  if (ranks_.empty()) return nullptr;
  *rank = ranks_.rbegin()->first;
  return &ranks_.rbegin()->second;
}

std::string TryLog::Text(const std::string& name) const {
  int rank = -1;
  const core::ProgressScanner* const scanner = Best(&rank);
  std::string text = name + ": " + Count(lines_, "line");
  if (rank >= 0) text += "; shown is rank " + std::to_string(rank);
  text += "\n";
  const std::vector<core::SeriesView> views =
      scanner == nullptr ? std::vector<core::SeriesView>() : scanner->Explain();
  if (scanner == nullptr || !scanner->progress()) {
    text += "no progress is found\n";
  } else {
    const core::OutputProgress& progress = *scanner->progress();
    text += "step    " + StepOf(progress.step, progress.total);
    if (progress.derived) text += "  (computed from epochs)";
    text += "\n";
    if (progress.epoch) text += "epoch   " + std::to_string(*progress.epoch) + "\n";
    for (const NamedFigure& figure : kFigures) {
      const std::optional<double>& value = progress.figures.*figure.value;
      if (value) text += std::string(figure.name) + "  " + Digits(*value) + "\n";
    }
    for (const core::SeriesView& view : views) {
      if (!view.chosen) continue;
      text += "found by \"" + view.pattern + "\" in " + Count(view.lines, "line") + " such as\n  " +
              core::OneLine(view.example) + "\n";
    }
  }
  size_t shown = 0;
  for (const bool believed : {true, false}) {
    bool first = true;
    for (const core::SeriesView& view : views) {
      if (view.chosen || view.believed != believed) continue;
      if (++shown > kMostShown) break;
      if (std::exchange(first, false)) {
        text +=
            believed ? "also accepted, but not used:\n" : "looks like progress, but is rejected:\n";
      }
      text += "  " + Count(view.lines, "line") + ", \"" + view.pattern + "\", last " +
              StepOf(view.step, view.total);
      if (!view.why_not.empty()) text += ": " + core::OneLine(view.why_not);
      text += "\n    " + core::OneLine(view.example) + "\n";
    }
  }
  return text;
}

OrderedJson TryLog::ToJson() const {
  int rank = -1;
  const core::ProgressScanner* const scanner = Best(&rank);
  OrderedJson json = {{"lines", lines_}, {"progress", nullptr}, {"series", OrderedJson::array()}};
  if (scanner == nullptr) return json;
  if (scanner->progress()) {
    const core::OutputProgress& progress = *scanner->progress();
    OrderedJson found = {{"step", progress.step}};
    if (progress.total > 0) found["total"] = progress.total;
    if (progress.epoch) found["epoch"] = *progress.epoch;
    for (const NamedFigure& figure : kFigures) {
      const std::optional<double>& value = progress.figures.*figure.value;
      if (value && std::isfinite(*value)) found[figure.name] = *value;
      if (value && !std::isfinite(*value)) found[figure.name] = Digits(*value);
    }
    found["derived"] = progress.derived;
    found["pattern"] = progress.pattern;
    if (rank >= 0) found["rank"] = rank;
    json["progress"] = std::move(found);
  }
  for (const core::SeriesView& view : scanner->Explain()) {
    OrderedJson series = {{"pattern", view.pattern},   {"lines", view.lines},
                          {"step", view.step},         {"total", view.total},
                          {"believed", view.believed}, {"used", view.chosen}};
    if (!view.why_not.empty()) series["why"] = core::OneLine(view.why_not);
    series["example"] = core::OneLine(view.example);
    json["series"].push_back(std::move(series));
  }
  return json;
}

}  // namespace lockstep::cli
