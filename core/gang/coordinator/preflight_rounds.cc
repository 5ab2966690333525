#include "core/gang/coordinator/preflight_rounds.h"

#include <algorithm>
#include <cmath>

namespace lockstep::core {
namespace {

// Out of no budget: where the third is slow as well, another will hardly be faster.
constexpr int kMostSlowReplaced = 2;

}  // namespace

PreflightRounds::PreflightRounds(PreflightLimits limits, uint32_t machines)
    : limits_(limits), known_(machines), judged_(machines) {}

std::vector<PreflightRounds::Ask> PreflightRounds::Step(Time now, const Attempts& attempts) {
  if (round_) {
    const bool torn = std::ranges::any_of(round_->asked, [&](uint32_t machine) {
      return attempts[machine] != round_->attempts[machine];
    });
    if (torn) round_.reset();
  }
  if (round_ && now >= round_->deadline) round_->silent.merge(round_->awaited);
  if (round_ && round_->awaited.empty()) {
    if (!round_->linked) {
      std::vector<Ask> asks = AskForLinks(now);
      if (!asks.empty()) return asks;
    }
    Finish();
  }
  if (round_ || !failure_.empty()) return {};
  std::set<uint32_t> joined;
  for (uint32_t machine = 0; machine < attempts.size(); ++machine) {
    const bool is_new = attempts[machine] != 0 && attempts[machine] != known_[machine].attempt;
    if (is_new) joined.insert(machine);
  }
  if (joined.empty()) return {};
  return Begin(now, attempts, std::move(joined));
}

std::vector<PreflightRounds::Ask> PreflightRounds::Begin(Time now, const Attempts& attempts,
                                                         std::set<uint32_t> joined) {
  round_.emplace(++last_id_);
  round_->deadline = now + (limits_.gpus ? kMeasureGpusPatience : kMeasureAlonePatience);
  round_->attempts = attempts;
  round_->asked = joined;
  for (const auto& pairs : PairRounds(static_cast<int>(known_.size()), kMostPairRounds)) {
    for (const auto& [low, high] : pairs) {
      const Pair pair(low, high);
      if (attempts[pair.first] == 0 || attempts[pair.second] == 0) continue;
      if (!joined.contains(pair.first) && !joined.contains(pair.second)) continue;
      round_->pairs.push_back(pair);
      round_->asked.insert({pair.first, pair.second});
    }
  }
  round_->joined = std::move(joined);
  round_->awaited = round_->asked;
  std::vector<Ask> asks;
  for (const uint32_t machine : round_->asked) {
    asks.push_back({machine, {round_->id, false, round_->joined.contains(machine)}});
  }
  return asks;
}

std::vector<PreflightRounds::Ask> PreflightRounds::AskForLinks(Time now) {
  round_->linked = true;
  round_->deadline = now + kMeasureLinksPatience;
  std::map<uint32_t, Measure> measures;
  for (const auto& [low, high] : round_->pairs) {
    for (const auto& [one, other] : {Pair(low, high), Pair(high, low)}) {
      if (!round_->alone.contains(one) || !round_->alone.contains(other)) continue;
      const Measured& there = round_->alone[other];
      measures[one].partners.push_back({other, there.address, there.token});
      round_->partners[one].push_back(other);
    }
  }
  std::vector<Ask> asks;
  for (auto& [machine, measure] : measures) {
    measure.id = round_->id;
    measure.linked = true;
    measure.alone = false;
    round_->awaited.insert(machine);
    asks.push_back({machine, std::move(measure)});
  }
  return asks;
}

void PreflightRounds::OnMeasured(uint32_t machine, const Measured& measured) {
  if (!round_ || measured.id != round_->id || measured.linked != round_->linked) return;
  if (round_->awaited.erase(machine) == 0) return;
  if (!measured.linked) {
    Measured& alone = round_->alone[machine] = measured;
    for (const FigureKind& kind : kFigureKinds) {
      if (!std::isfinite(alone.figures.*kind.value)) alone.figures.*kind.value = kNotMeasured;
    }
    if (alone.gpus.size() > kMaxGpus) alone.gpus.resize(kMaxGpus);
    for (GpuFigures& gpu : alone.gpus) {
      if (!std::isfinite(gpu.products)) gpu.products = kNotMeasured;
      if (gpu.fault.size() > kMaxGpuFault) gpu.fault.resize(kMaxGpuFault);
    }
    return;
  }
  const std::vector<uint32_t>& partners = round_->partners[machine];
  for (size_t i = 0; i < std::min(partners.size(), measured.rates.size()); ++i) {
    const auto [low, high] = std::minmax(machine, partners[i]);
    // Both ends tell of it, and one may have come late.
    double& rate = round_->rates[{low, high}];
    if (std::isfinite(measured.rates[i])) rate = std::max(rate, measured.rates[i]);
  }
}

void PreflightRounds::OnJoined(uint32_t machine) {
  if (round_ && round_->awaited.contains(machine)) round_.reset();
}

void PreflightRounds::OnReplaced(uint32_t machine) {
  known_[machine].attempt = 0;
  if (round_ && round_->asked.contains(machine)) round_.reset();
}

void PreflightRounds::OnHindered(Time now) {
  if (now >= deadline()) round_.reset();
}

void PreflightRounds::Finish() {
  const Round round = *std::exchange(round_, std::nullopt);
  for (const uint32_t machine : round.joined) {
    const auto measured = round.alone.find(machine);
    const bool answered = measured != round.alone.end();
    known_[machine] = {round.attempts[machine], answered ? measured->second.figures : Figures{},
                       answered ? measured->second.gpus : std::vector<GpuFigures>{}};
    std::erase_if(rates_, [machine](const auto& link) {
      return link.first.first == machine || link.first.second == machine;
    });
  }
  for (const auto& [pair, rate] : round.rates) rates_[pair] = rate;
  for (uint32_t machine = 0; machine < known_.size(); ++machine) {
    judged_[machine] = {known_[machine].figures, known_[machine].gpus};
    std::vector<double> links;
    for (const auto& [pair, rate] : rates_) {
      if (pair.first == machine || pair.second == machine) links.push_back(rate);
    }
    judged_[machine].figures.link = MedianLink(std::move(links));
  }
  Judge(limits_, &judged_);
  // If half of them have no figure, no machine is to blame.
  const bool silence_tells = 2 * round.silent.size() < round.asked.size();
  for (const uint32_t machine : round.joined) {
    MachineFigures& own = judged_[machine];
    if (silence_tells && round.silent.contains(machine)) {
      own.slow.insert(own.slow.begin(), "it did not answer in time");
    }
    if (!own.well()) Find(machine, own.Reasons(), own.below_least);
  }
}

// Machine 0 takes what is known of the others with it: it is replaced once, as the first attempt.
void PreflightRounds::Find(uint32_t machine, std::string because, bool below_least) {
  SlowMachine slow{machine, known_[machine].attempt, std::move(because)};
  slow.replaced = replaced_ < kMostSlowReplaced && (machine != 0 || slow.attempt == 1);
  if (slow.replaced) ++replaced_;
  if (!slow.replaced && below_least && failure_.empty()) {
    failure_ =
        "machine " + std::to_string(machine) +
        " is slower than spec.preflight allows, and so were the replacements of slow machines: " +
        slow.because;
  }
  if (slow.because.size() > kMaxSlowReason) slow.because.resize(kMaxSlowReason);
  if (slow_.size() == kMaxSlowMachines) slow_.erase(slow_.begin());
  slow_.push_back(slow);
  found_.push_back(std::move(slow));
}

bool PreflightRounds::Knows(const Attempts& attempts) const {
  if (round_) return false;
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (attempts[i] == 0 || known_[i].attempt != attempts[i]) return false;
  }
  return true;
}

PreflightStatus PreflightRounds::status(const Attempts& attempts) const {
  PreflightStatus status;
  status.typical = TypicalInWords(judged_);
  status.slow = slow_;
  if (measuring()) {
    status.state = PreflightState::kMeasuring;
  } else if (Knows(attempts)) {
    const bool some = std::ranges::any_of(
        slow_, [&](const SlowMachine& slow) { return attempts[slow.machine] == slow.attempt; });
    status.state = some ? PreflightState::kSlow : PreflightState::kPassed;
  }
  return status;
}

}  // namespace lockstep::core
