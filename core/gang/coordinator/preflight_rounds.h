// PreflightRounds: decides when the gang's machines are measured, and judges their figures
// (spec.preflight). The coordinator owns it and calls it while no rank runs. Pure.
//
// A round: each new machine measures itself (MEASURE, MEASURED). Then the links of new machines are
// measured, one at a time on each machine. Then the new machines are judged by their figures and
// the kept figures of the others. If a machine drops out, the round begins again.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_PREFLIGHT_ROUNDS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_PREFLIGHT_ROUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/preflight/preflight.h"

namespace lockstep::core {

// Time limits of the measurement of machines, and of links.
inline constexpr Duration kMeasureAlonePatience = seconds(15);
inline constexpr Duration kMeasureGpusPatience = seconds(45);  // of machines with GPUs
inline constexpr Duration kMeasureLinksPatience = seconds(25);

class PreflightRounds {
 public:
  struct Ask {
    uint32_t machine = 0;
    Measure measure;
  };
  // Machine i's attempt; 0: it cannot be asked.
  using Attempts = std::vector<uint32_t>;

  PreflightRounds(PreflightLimits limits, uint32_t machines);

  // The requests to send now, by machine.
  std::vector<Ask> Step(Time now, const Attempts& attempts);
  void OnMeasured(uint32_t machine, const Measured& measured);
  // Its requests may be lost with its last connection.
  void OnJoined(uint32_t machine);
  // Another agent stands in for the machine, perhaps with the same attempt.
  void OnReplaced(uint32_t machine);

  // Another obstacle keeps ranks from starting, so Step is not called. A round that takes too long
  // meanwhile is given up.
  void OnHindered(Time now);

  // Whether every one of these machines was measured and judged.
  bool Knows(const Attempts& attempts) const;
  // When Step must run even if no machine answers; kNever: not needed.
  Time deadline() const { return round_ ? round_->deadline : kNever; }
  bool measuring() const { return round_.has_value(); }

  // The slow machines found since the last call. Those that are `replaced` need another attempt.
  std::vector<SlowMachine> TakeFound() { return std::exchange(found_, {}); }
  // Why the job cannot continue: a machine that cannot be replaced is below the user's limit. "":
  // it can.
  const std::string& failure() const { return failure_; }
  // The latest figures, by machine.
  const std::vector<MachineFigures>& figures() const { return judged_; }
  PreflightStatus status(const Attempts& attempts) const;

 private:
  struct Known {
    uint32_t attempt = 0;  // 0: not measured
    Figures figures;       // without the link
    std::vector<GpuFigures> gpus;
  };
  using Pair = std::pair<uint32_t, uint32_t>;  // the lower machine first
  struct Round {
    explicit Round(uint64_t number) : id(number) {}
    uint64_t id;
    Time deadline{};
    bool linked = false;
    Attempts attempts;
    std::set<uint32_t> joined;  // the new machines
    std::vector<Pair> pairs;    // in the order of their measurement
    std::set<uint32_t> asked;   // `joined` and their partners
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
  std::vector<SlowMachine> slow_;  // the last kMaxSlowMachines of all
  std::string failure_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_PREFLIGHT_ROUNDS_H_
