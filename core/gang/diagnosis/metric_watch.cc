#include "core/gang/diagnosis/metric_watch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::core {

std::string FigureText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

namespace {

std::string WhatBroke(const FailureRule& rule, int64_t step, double value, int64_t last) {
  std::string text = rule.metric + " was " + FigureText(value) + " at step " + std::to_string(step);
  if (last > step) text += ", and bad up to step " + std::to_string(last);
  if (rule.above) text += " (rule: above " + FigureText(*rule.above) + ")";
  if (!rule.rises_by.empty()) {
    text +=
        " (rule: rises by " + rule.rises_by + " within " + std::to_string(rule.within) + " steps)";
  }
  return text;
}

}  // namespace

void MetricWatch::Begin(std::vector<FailureRule> rules) {
  rules_ = std::move(rules);
  states_.clear();
}

bool MetricWatch::IsBad(const FailureRule& rule, const State& state, double value) {
  if (!std::isfinite(value)) return true;
  if (rule.above) return value > *rule.above;
  const std::optional<double> factor = FactorOf(rule.rises_by);
  if (!factor || state.lowest.empty() || state.lowest.front().value <= 0) return false;
  return value > *factor * state.lowest.front().value;
}

// Samples that a later and lower one follows are never the lowest again.
void MetricWatch::Remember(const FailureRule& rule, State& state, Sample sample) {
  while (!state.lowest.empty() && state.lowest.back().value >= sample.value) {
    state.lowest.pop_back();
  }
  state.lowest.push_back(sample);
  while (state.lowest.front().step <= sample.step - rule.within) state.lowest.pop_front();
  if (state.lowest.size() > kMostSamples) state.lowest.pop_back();
}

std::vector<BrokenRule> MetricWatch::OnFigures(uint32_t rank, int64_t step,
                                               const std::vector<NamedFigure>& figures) {
  std::vector<BrokenRule> broken;
  if (step <= 0) return broken;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const FailureRule& rule = rules_[i];
    const auto figure = std::ranges::find(figures, rule.metric, &NamedFigure::name);
    if (figure == figures.end()) continue;
    State& state = states_[{rank, i}];
    if (step < state.last_step) {
      const bool broken_before = state.broken;
      state = State();
      state.broken = broken_before;
    }
    state.last_step = step;
    if (state.broken) continue;
    if (!IsBad(rule, state, figure->value)) {
      state.bad_since = 0;
      if (!rule.rises_by.empty()) Remember(rule, state, {step, figure->value});
      continue;
    }
    if (state.bad_since == 0) {
      state.bad_since = step;
      state.bad_value = figure->value;
    }
    if (step - state.bad_since + 1 < rule.for_steps) continue;
    state.broken = true;
    BrokenRule found;
    found.action = ActionOf(rule);
    found.failure.cause = Cause::kBrokenMetric;
    found.failure.rank = static_cast<int>(rank);
    found.failure.step = state.bad_since;
    found.failure.last_step = step;
    found.failure.rule = static_cast<int>(i);
    found.failure.stderr_tail = WhatBroke(rule, state.bad_since, state.bad_value, step);
    broken.push_back(std::move(found));
  }
  return broken;
}

}  // namespace lockstep::core
