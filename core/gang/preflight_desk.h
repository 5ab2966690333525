// PreflightDesk: when the gang's machines are measured and by what they are judged
// (spec.preflight). The coordinator owns it and asks it while no rank runs. Pure.
//
// A round: each machine that is new measures itself (MEASURE, MEASURED), then the links that a new
// machine has a part in are measured, of each machine one at a time; then the new ones are judged,
// by their figures and what is kept of the others. A round that a machine drops out of is begun
// again.
#ifndef LOCKSTEP_CORE_GANG_PREFLIGHT_DESK_H_
#define LOCKSTEP_CORE_GANG_PREFLIGHT_DESK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/gang/messages.h"
#include "core/preflight/preflight.h"

namespace lockstep::core {

// How long machines may take for themselves, and for the links.
inline constexpr Duration kMeasureAlonePatience = seconds(15);
inline constexpr Duration kMeasureGpusPatience = seconds(45);  // for themselves, with GPUs
inline constexpr Duration kMeasureLinksPatience = seconds(25);

class PreflightDesk {
 public:
  struct Ask {
    uint32_t machine = 0;
    Measure measure;
  };
  // Machine i's attempt, or 0: it can't be asked.
  using Attempts = std::vector<uint32_t>;

  PreflightDesk(PreflightLimits limits, uint32_t machines);

  // Whom to ask for what now.
  std::vector<Ask> Step(Time now, const Attempts& attempts);
  void OnMeasured(uint32_t machine, const Measured& measured);
  // What was asked on its last connection may be lost.
  void OnJoined(uint32_t machine);
  // Another agent stands in for it, perhaps under the same attempt.
  void OnReplaced(uint32_t machine);

  // Something else keeps ranks from starting, so that Step is not asked; a round that takes too
  // long meanwhile is given up.
  void OnHindered(Time now);

  // Every one of these machines was measured and judged.
  bool Knows(const Attempts& attempts) const;
  // When Step has something to do though nobody answers; kNever: it has not.
  Time deadline() const { return round_ ? round_->deadline : kNever; }
  bool measuring() const { return round_.has_value(); }

  // What was found since this was last asked: of those that are `replaced` another attempt is
  // wanted.
  std::vector<SlowMachine> TakeFound() { return std::exchange(found_, {}); }
  // Why the job can't go on: a machine that can't be replaced is below what the user set. "": it
  // can.
  const std::string& failure() const { return failure_; }
  // By machine, as last judged.
  const std::vector<MachineFigures>& figures() const { return judged_; }
  PreflightStatus status(const Attempts& attempts) const;

 private:
  struct Known {
    uint32_t attempt = 0;  // 0: not measured
    Figures figures;       // but for the link
    std::vector<GpuFigures> gpus;
  };
  using Pair = std::pair<uint32_t, uint32_t>;  // the lower machine first
  struct Round {
    explicit Round(uint64_t number) : id(number) {}
    uint64_t id;
    Time deadline{};
    bool linked = false;
    Attempts attempts;
    std::set<uint32_t> joined;  // those that are new
    std::vector<Pair> pairs;    // in the order of their measurement
    std::set<uint32_t> asked;   // `joined`, and their partners
    std::set<uint32_t> awaited;
    std::set<uint32_t> silent;
    std::map<uint32_t, Measured> alone;
    std::map<uint32_t, std::vector<uint32_t>> partners;
    std::map<Pair, double> rates;
  };

  std::vector<Ask> Begin(Time now, const Attempts& attempts, std::set<uint32_t> joined);
  std::vector<Ask> AskForLinks(Time now);
  void Finish();
  void Find(uint32_t machine, std::string because, bool below_least);

  PreflightLimits limits_;
  std::vector<Known> known_;
  std::map<Pair, double> rates_;
  std::vector<MachineFigures> judged_;
  std::optional<Round> round_;
  uint64_t last_id_ = 0;
  int replaced_ = 0;
  std::vector<SlowMachine> found_;
  std::vector<SlowMachine> slow_;  // all of them, the last kMaxSlowMachines
  std::string failure_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PREFLIGHT_DESK_H_
