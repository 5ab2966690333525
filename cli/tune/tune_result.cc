#include "cli/tune/tune_result.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

#include "base/text/columns.h"
#include "cli/machine/svg.h"

namespace lockstep::cli {
namespace {

// Three digits that count: "0.0123", "1.23", "12.3", "1,230" is "1230".
std::string Short(double value) {
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : value >= 0.1 ? 3 : 4;
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string Interval(const numa::Summary& summary) {
  if (summary.count < 2) return "";
  return Short(summary.low) + " to " + Short(summary.high);
}

std::string Percent(double share) {
  std::array<char, 32> text{};
  snprintf(text.data(), text.size(), "%.0f %%", share * 100);
  return text.data();
}

const TuneRow* BaseOf(const std::vector<TuneRow>& rows, const TuneSetting& setting) {
  const TuneRow* base = nullptr;
  for (const TuneRow& row : rows) {
    if (row.work.count == 0 || !row.setting.IsLike(setting)) continue;
    if (base == nullptr || row.setting.ranks() < base->setting.ranks()) base = &row;
  }
  return base;
}

void Choose(TuneReport* report) {
  const std::vector<TuneRow>& rows = report->rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].work.count == 0) continue;
    if (!report->best || rows[i].work.median > rows[*report->best].work.median) report->best = i;
  }
  if (!report->best) return;
  const TuneRow& best = rows[*report->best];
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool overlaps = rows[i].work.count > 0 && rows[i].work.high >= best.work.low;
    if (!overlaps || rows[i].setting.ranks() >= best.setting.ranks()) continue;
    if (!report->smaller || rows[i].setting.ranks() < rows[*report->smaller].setting.ranks()) {
      report->smaller = i;
    }
  }
}

std::string Conclusion(const TuneReport& report) {
  std::string text;
  for (const TuneRow& row : report.rows) {
    if (!row.failed.empty()) text += ToString(row.setting) + ": " + row.failed + "\n";
  }
  if (!report.best) return text + "No setting has a figure.\n";
  const TuneRow& best = report.rows[*report.best];
  text += "Most work: " + ToString(best.setting) + ".\n";
  if (report.smaller) {
    text += ToString(report.rows[*report.smaller].setting) +
            ": not shown to do less, with fewer ranks; the intervals overlap.\n";
  }
  if (best.work.count < 3) text += "Fewer than 3 trials: the intervals say little.\n";
  return text;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

Result<Stretch> MeasureStretch(const Json& series, bool reported, const StretchLimits& limits) {
  const auto column = [&series](const char* name) {
    const auto found = series.find(name);
    return found == series.end() || !found->is_array() ? Json::array() : *found;
  };
  const Json times = column("t");
  const Json steps = column("step");
  const Json tokens = column("tokensPerSecond");
  std::vector<std::pair<double, double>> points;
  double tokens_sum = 0;
  int tokens_count = 0;
  for (size_t i = 0; i < times.size() && i < steps.size(); ++i) {
    if (!times[i].is_number() || !steps[i].is_number()) continue;
    const double since = times[i].get<double>() - times[0].get<double>() - Seconds(limits.warm_up);
    if (since < 0 || since > Seconds(limits.length)) continue;
    points.emplace_back(since, steps[i].get<double>());
    if (i < tokens.size() && tokens[i].is_number()) {
      tokens_sum += tokens[i].get<double>();
      ++tokens_count;
    }
  }
  if (points.size() < kFewestPoints) {
    return Error::NotFound("progress was seen " + std::to_string(points.size()) + " times in " +
                           Short(Seconds(limits.length)) + " s after the warm-up, fewer than " +
                           std::to_string(kFewestPoints) + ": measure longer, with --seconds");
  }
  double mean_time = 0;
  double mean_step = 0;
  for (const auto& [time, step] : points) {
    mean_time += time / static_cast<double>(points.size());
    mean_step += step / static_cast<double>(points.size());
  }
  double covariance = 0;
  double variance = 0;
  for (const auto& [time, step] : points) {
    covariance += (time - mean_time) * (step - mean_step);
    variance += (time - mean_time) * (time - mean_time);
  }
  if (variance <= 0 || points.back().second <= points.front().second) {
    return Error::Invalid("steps did not grow after the warm-up");
  }
  Stretch stretch{.steps_per_second = covariance / variance, .tokens_per_second = {}};
  if (reported && tokens_count > 0) stretch.tokens_per_second = tokens_sum / tokens_count;
  return stretch;
}

TuneReport Conclude(std::vector<TuneRow> rows, StepWork work, uint64_t seed) {
  TuneReport report;
  report.seed = seed;
  bool any = false;
  bool tokens = true;  // every stretch has them
  for (const TuneRow& row : rows) {
    for (const Stretch& stretch : row.stretches) tokens &= stretch.tokens_per_second.has_value();
    any |= !row.stretches.empty();
  }
  tokens &= any;
  report.unit = tokens ? "tokens/s" : work == StepWork::kPerProcess ? "steps/s x ranks" : "steps/s";
  for (TuneRow& row : rows) {
    const double factor =
        work == StepWork::kPerProcess ? static_cast<double>(row.setting.ranks()) : 1;
    std::vector<double> steps;
    std::vector<double> amounts;
    for (const Stretch& stretch : row.stretches) {
      steps.push_back(stretch.steps_per_second);
      amounts.push_back(tokens ? *stretch.tokens_per_second : stretch.steps_per_second * factor);
    }
    row.steps = numa::Summarize(steps, seed);
    row.work = numa::Summarize(amounts, seed);
  }
  report.rows = std::move(rows);
  for (TuneRow& row : report.rows) {
    const TuneRow* base = BaseOf(report.rows, row.setting);
    if (row.work.count == 0 || base == nullptr || base->work.median <= 0) continue;
    const double each = row.work.median / static_cast<double>(row.setting.ranks());
    row.efficiency = each / (base->work.median / static_cast<double>(base->setting.ranks()));
  }
  Choose(&report);
  return report;
}

std::string TuneTable(const TuneReport& report) {
  std::vector<std::vector<std::string>> lines = {{"MACHINES", "PROCESSES", "THREADS", "BIND",
                                                  "MEMORY", "STEPS/S", report.unit, "95 %",
                                                  "EFFICIENCY"}};
  std::ranges::transform(lines[0][6], lines[0][6].begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const TuneRow& row = report.rows[i];
    std::vector<std::string> line = {
        std::to_string(row.setting.machines), std::to_string(row.setting.processes),
        row.setting.threads ? std::to_string(*row.setting.threads) : "-",
        std::string(core::ToString(row.setting.bind)),
        std::string(core::ToString(row.setting.memory_policy))};
    if (row.work.count == 0) {
      line.emplace_back(row.failed.empty() ? "not tried" : "failed");
    } else {
      line.insert(line.end(), {Short(row.steps.median), Short(row.work.median), Interval(row.work),
                               row.efficiency ? Percent(*row.efficiency) : "-"});
      if (report.best == i) line.emplace_back("most");
    }
    lines.push_back(std::move(line));
  }
  return AlignColumns(lines, "") + "\n" + Conclusion(report);
}

OrderedJson TuneJson(const TuneReport& report) {
  const auto summary = [](const numa::Summary& of) -> OrderedJson {
    return {{"trials", of.count}, {"median", of.median}, {"low95", of.low},
            {"high95", of.high},  {"least", of.least},   {"most", of.most}};
  };
  OrderedJson json = {
      {"unit", report.unit}, {"seed", report.seed}, {"interrupted", report.interrupted}};
  json["best"] = report.best ? OrderedJson(*report.best) : OrderedJson();
  json["fewerRanks"] = report.smaller ? OrderedJson(*report.smaller) : OrderedJson();
  json["settings"] = OrderedJson::array();
  for (const TuneRow& row : report.rows) {
    OrderedJson each = {{"numMachines", row.setting.machines},
                        {"processesPerMachine", row.setting.processes}};
    each["threads"] = row.setting.threads ? OrderedJson(*row.setting.threads) : OrderedJson();
    each["bind"] = core::ToString(row.setting.bind);
    each["memoryPolicy"] = core::ToString(row.setting.memory_policy);
    if (!row.failed.empty()) each["failed"] = row.failed;
    if (row.work.count > 0) {
      each["stepsPerSecond"] = summary(row.steps);
      each["work"] = summary(row.work);
    }
    each["efficiency"] = row.efficiency ? OrderedJson(*row.efficiency) : OrderedJson();
    json["settings"].push_back(std::move(each));
  }
  return json;
}

std::string TuneHtml(const TuneReport& report, const std::string& job) {
  constexpr double kBars = 420, kBar = 22, kGap = 12, kWidth = 460;
  double most = 0;
  for (const TuneRow& row : report.rows) most = std::max({most, row.work.high, row.work.median});
  Svg svg;
  double y = 40;
  svg.Text(8, 24, report.unit + " of " + job + "; thin lines: 95 %", 15);
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const TuneRow& row = report.rows[i];
    svg.Text(8, y + 16, ToString(row.setting), 12);
    if (row.work.count == 0) {
      svg.Text(kBars, y + 16, row.failed.empty() ? "not tried" : row.failed, 12, false, "#cf222e");
    } else {
      const auto x = [&](double value) { return kBars + value / most * kWidth; };
      svg.Box(kBars, y, x(row.work.median) - kBars, kBar, report.best == i ? "#2b7ac4" : "#b6d4f0");
      svg.Box(x(row.work.low), y + kBar / 2 - 1, x(row.work.high) - x(row.work.low), 2, "#1f2328");
      const std::string share = row.efficiency ? ", " + Percent(*row.efficiency) : "";
      svg.Text(kBars + kWidth + 12, y + 16, Short(row.work.median) + share, 12);
    }
    y += kBar + kGap;
  }
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>lockstep tune: " +
         Escaped(job) + "</title></head>\n<body>" + svg.Finish(kBars + kWidth + 180, y + 8) +
         "<pre>" + Escaped(TuneTable(report)) + "</pre></body></html>\n";
}

}  // namespace lockstep::cli
