// StragglerFinder: finds the machine for which the others wait, from how long each rank says that
// it waited in its collectives: who comes last waits least. Pure; the coordinator owns it.
//
// One round is over when every machine has told of further steps. In it a machine's wait is that of
// the rank which waited least, in seconds a step; the last machine is the one of the least wait,
// and what it costs is how much longer the median of the others waited, as a share of a step. Over
// the last kRounds rounds, which are kLeastSteps steps at least, a machine is a straggler when it
// was the last of all in kShare of them and costs kCost in the median. It is one until that is less
// than kWell. Medians, so that a pause of one round, as for a checkpoint, says nothing; the share,
// so that noise, in which anybody may be last, says nothing either.
//
// A GPU is a reason where in half of these rounds it says that heat or hardware slows it, or its
// clock is below the gang's median by kLowClock. A power cap alone is none: under load
// most GPUs of a healthy gang say that they are at theirs.
#ifndef LOCKSTEP_CORE_GANG_STRAGGLERS_H_
#define LOCKSTEP_CORE_GANG_STRAGGLERS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

struct Straggler {
  uint32_t machine = 0;
  double cost = 0;        // of a step of the gang, 0 to 1
  int64_t steps = 0;      // that it was seen over
  std::string because{};  // what is known of the reason, for people; "" nothing

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

  // A generation of these machines begins: what was seen of others says nothing of it.
  void Begin(const Members& members);
  // What a rank said.
  void Learn(Time now, const RankProgress& rank);
  const std::optional<Straggler>& found() const { return found_; }

 private:
  // What one rank has told, since its generation began.
  struct Mark {
    int64_t steps = 0;
    double waited = 0;
    double throttled = 0;
    Time at{};
  };
  // What a rank's GPU was like at the end of a round.
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
    std::vector<double> seconds;    // that it took each machine
    std::vector<double> spread;     // of its ranks' waits, as a share of a step
    std::vector<Gpu> gpus;          // of each machine the slowest of those that are held back
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

#endif  // LOCKSTEP_CORE_GANG_STRAGGLERS_H_
