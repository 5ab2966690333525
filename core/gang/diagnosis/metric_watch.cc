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

void MetricWatch::Begin(std::vector<FailureRule> rules, int64_t from) {
  rules_ = std::move(rules);
  from_ = from;
  states_.clear();
}

bool MetricWatch::IsBad(const FailureRule& rule, State& state, Sample sample) {
  if (!std::isfinite(sample.value)) return true;
  if (rule.above) return sample.value > *rule.above;
  if (rule.rises_by.empty()) return false;
  std::deque<Sample>& lowest = state.lowest;
  const int64_t now = state.bad_since > 0 ? state.bad_since : sample.step;
  while (!lowest.empty() && lowest.front().step <= now - rule.within) lowest.pop_front();
  const std::optional<double> factor = FactorOf(rule.rises_by);
  if (!factor || lowest.empty() || lowest.front().value <= 0) return false;
  return sample.value > *factor * lowest.front().value;
}

// Samples that a later and lower one follows are never the lowest again.
void MetricWatch::Remember(State& state, Sample sample) {
  while (!state.lowest.empty() && state.lowest.back().value >= sample.value) {
    state.lowest.pop_back();
  }
  state.lowest.push_back(sample);
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
    if (!IsBad(rule, state, {step, figure->value})) {
      state.bad_since = 0;
      state.good = true;
      if (!rule.rises_by.empty()) Remember(state, {step, figure->value});
      continue;
    }
    if (state.bad_since == 0) {
      state.bad_since = step;
      state.bad_value = figure->value;
    }
    if (step - state.bad_since + 1 < rule.for_steps) continue;
    state.broken = true;
    broken.push_back({ActionOf(rule), FailureOf(rank, i, state)});
  }
  return broken;
}

Failure MetricWatch::FailureOf(uint32_t rank, size_t rule, const State& state) const {
  const bool goes_back = ActionOf(rules_[rule]) == FailureAction::kRestartFromEarlier;
  const bool from_the_start = goes_back && !state.good && from_ > 0;
  Failure failure;
  failure.cause = Cause::kBrokenMetric;
  failure.rank = static_cast<int>(rank);
  failure.step = from_the_start ? std::min(from_, state.bad_since) : state.bad_since;
  failure.last_step = state.last_step;
  failure.rule = static_cast<int>(rule);
  failure.stderr_tail = WhatBroke(rules_[rule], state.bad_since, state.bad_value, state.last_step);
  return failure;
}

std::vector<Failure> MetricWatch::Open() const {
  std::vector<Failure> open;
  for (const auto& [of, state] : states_) {
    const bool goes_back = ActionOf(rules_[of.second]) == FailureAction::kRestartFromEarlier;
    if (!goes_back || state.broken || state.bad_since == 0) continue;
    open.push_back(FailureOf(of.first, of.second, state));
  }
  return open;
}

}  // namespace lockstep::core
