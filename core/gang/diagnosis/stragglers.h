// StragglerFinder: finds the machine that the others wait for, from the time that each rank reports
// to have waited in collectives. The rank that comes last waits least. Pure; the coordinator owns
// it.
//
// A round ends when every machine has reported further steps. A machine's wait in a round is the
// least wait of its ranks, in seconds a step. The machine with the least wait is the last. Its cost
// is the extra wait of the others' median, as a share of a step. A machine is a straggler if it was
// last in kShare of the last kRounds rounds (at least kLeastSteps steps) with a median cost of
// kCost. It stays one until the cost is below kWell. Medians ignore a pause of one round, as for a
// checkpoint. The share ignores noise, in which any machine may be last.
//
// A GPU is the reason if, in half of these rounds, it reports that heat or hardware slows it, or
// its clock is below the gang's median by kLowClock. A power cap alone is no reason, because most
// GPUs of a healthy gang are at their cap under load.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_STRAGGLERS_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_STRAGGLERS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

struct Straggler {
  uint32_t machine = 0;
  double cost = 0;        // of a step of the gang, 0 to 1
  int64_t steps = 0;      // steps of the observation
  std::string because{};  // the reason, for users; "": not known

  friend bool operator==(const Straggler&, const Straggler&) = default;
};

class StragglerFinder {
 public:
  static constexpr size_t kRounds = 30;
  static constexpr int64_t kLeastSteps = 20;
  static constexpr double kShare = 0.9;
  static constexpr double kCost = 0.1;
  static constexpr double kWell = 0.05;
  static constexpr double kLowClock = 0.05;

  StragglerFinder(uint32_t machines, uint32_t processes) : processes_(processes) {
    Begin(Members::All(machines));
  }

  // A generation of these machines begins: earlier observations no longer count.
  void Begin(const Members& members);
  // A rank's report.
  void Update(Time now, const RankProgress& rank);
  const std::optional<Straggler>& found() const { return found_; }

 private:
  // One rank's totals since its generation began.
  struct Mark {
    int64_t steps = 0;
    double waited = 0;
    double throttled = 0;
    Time at{};
  };
  // The state of a rank's GPU at the end of a round.
  struct Gpu {
    uint32_t rank = 0;
    int32_t number = -1;  // -1: not said
    GpuClock clock;
    double median = 0;  // hertz, of all GPUs of the gang

    bool HeldBack() const;
    std::string InWords() const;
  };
  struct Rank {
    Mark now;
    Mark before;  // when the last round was over
    Gpu gpu;
  };
  struct MachineRanks {
    std::map<uint32_t, Rank> ranks;
  };
  struct Round {
    uint32_t last = 0;
    std::vector<double> costs;      // of each machine, as a share of a step; less than 0 for most
    std::vector<double> throttled;  // seconds, of each machine
    std::vector<double> seconds;    // time of a step on each machine
    std::vector<double> spread;     // of its ranks' waits, as a share of a step
    std::vector<Gpu> gpus;          // on each machine the slowest GPU that is held back
    int64_t steps = 0;
  };

  bool IsOver() const;
  Round Take();
  void Judge();
  std::vector<Gpu> HeldBackGpus() const;
  std::string Because(uint32_t place) const;

  uint32_t processes_;
  Members members_;
  std::vector<MachineRanks> machines_;  // by their places among the members
  std::deque<Round> rounds_;
  std::optional<Straggler> found_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_STRAGGLERS_H_
