// HangFinder: suspects a hang of a gang whose step stands still, and says by how long it stands and
// by what the kernel counts of its ranks' processes. Pure; the coordinator owns it.
//
// A gap is the longest time between two changes of the gang's step. The step stands still for too
// long
//
//   if no rank works for                 max(1 min, 3 gaps)
//   if some ranks work and others don't  max(10 min, 10 gaps)
//   if all ranks work                    max(30 min, 10 gaps)
//   if it is not known who works         max(1 min, 3 gaps)
//   in any case, if hangTimeout is set   half of hangTimeout, at least 5 s
//
// The step is not judged before its second change, after the last step, or while it is unknown.
// Evaluation, checkpoints and compilation work, so that they stay below these limits. A rank that
// waits for something outside of the job looks like a hang.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_HANGS_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_HANGS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text/enum_names.h"
#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/terms/members.h"

namespace lockstep::core {

enum class GangActivity : uint8_t { kUnknown, kQuiet, kSomeWork, kAllWork };
template <>
inline constexpr auto kEnumNames<GangActivity> =
    std::to_array<EnumName<GangActivity>>({{GangActivity::kUnknown, "Unknown"},
                                           {GangActivity::kQuiet, "Quiet"},
                                           {GangActivity::kSomeWork, "SomeWork"},
                                           {GangActivity::kAllWork, "AllWork"}});

struct SuspectedHang {
  int64_t step = 0;  // at which the gang stands
  Duration limit{};  // that has passed
  GangActivity activity = GangActivity::kUnknown;
  std::string who{};     // "rank 0 works, the others wait"
  std::string places{};  // "ranks 0-2 are in …, rank 3 is in …"; "": not known

  friend bool operator==(const SuspectedHang&, const SuspectedHang&) = default;
};

// The step of a gang: of the slowest rank that reports, or if none does, that prints.
struct GangStep {
  int64_t step = 0;     // 0: not known
  int64_t total = 0;    // 0: not known
  bool counts = false;  // for hangTimeout
};
GangStep StepOf(const std::map<uint32_t, RankProgress>& ranks, bool output_counts);

class HangFinder {
 public:
  static constexpr Duration kQuietLimit = minutes(1);
  static constexpr Duration kSomeWorkLimit = minutes(10);
  static constexpr Duration kAllWorkLimit = minutes(30);
  static constexpr Duration kRestartLimit = minutes(10);
  static constexpr int kGaps = 3;
  static constexpr int kManyGaps = 10;
  static constexpr int kEnoughChanges = 2;
  static constexpr Duration kNearest = seconds(5);
  // Machines tell their activity each 5 s. What is older says nothing of now.
  static constexpr Duration kFresh = seconds(30);
  static constexpr Duration kPatience = seconds(8);

  // A generation of these machines begins.
  void Begin(const Members& members);
  void OnStep(Time now, const GangStep& gang);
  void OnActivity(Time now, uint32_t machine, const RankActivity& activity);
  // Where ranks of this machine were found after a hang was suspected.
  void OnPlaces(uint32_t machine, const std::vector<Whereabouts>& places);

  // Each is told once for each hang.
  enum class News : uint8_t {
    kNone,
    kSuspected,  // look where its ranks are
    kLookedAt,   // all machines said where, or had kPatience for it: it is in found()
  };
  News Judge(Time now, Duration hang_timeout);
  // For how long no rank has worked, if that is long enough to restart the gang.
  std::optional<Duration> RestartDue(Time now) const;
  // When Judge or RestartDue may say something else, if nothing is heard.
  Time NextWake(Duration hang_timeout) const;

  // A hang that was suspected, and whose ranks were looked at.
  const std::optional<SuspectedHang>& found() const { return found_; }

 private:
  struct Pace {
    int64_t step = 0;
    Time moved_at{};
    Duration longest_gap{};
    int changes = 0;
    bool counts = false;
  };
  struct Machine {
    Time at{};
    RankActivity activity;
  };
  struct Due {
    Time at = kNever;
    Duration limit{};
  };

  GangActivity ActivityAt(Time now) const;
  Due DueAt(Time now, Duration hang_timeout) const;
  Duration Limit(Duration shortest, int gaps) const;
  void Forget();
  Time quiet_since() const { return std::max(pace_->moved_at, worked_at_); }
  std::string WhoWorks() const;

  Members members_;
  std::optional<Pace> pace_;
  std::map<uint32_t, Machine> machines_;
  Time worked_at_ = Time::min();  // when a rank was last seen to work
  Time heard_at_ = Time::min();
  std::optional<SuspectedHang> suspected_;
  Time show_at_ = kNever;
  std::vector<Whereabouts> places_;
  std::set<uint32_t> looked_;
  std::optional<SuspectedHang> found_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_HANGS_H_
