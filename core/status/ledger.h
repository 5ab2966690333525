// Ledger: how a job's machines spent their time since its first pods: productive, or lost, by
// activity and cause. It is in status, so it outlives operators, coordinators and the list of
// generations. It only grows, from the records of the gang's generations. Pure.
//
//   Account(ledger, generations, {.now = now, .machines = 4, .begun = timings.created});
//
// Invariant: the sum of all activities is the time of all machines from `since` to `through`,
// without suspensions. The sum of all causes is the lost part of it. Times are whole milliseconds,
// so that rounding loses none.
//
// Only steps show that time was productive. If neither a generation nor the job before it has
// reported steps, its time is neither productive nor lost, but unknown.
//
// The time of a running generation is not final: a program may still report a first step, or may
// hang. Its part is also in `open`, and is subtracted and computed again each time, until the
// generation has ended.
#ifndef LOCKSTEP_CORE_STATUS_LEDGER_H_
#define LOCKSTEP_CORE_STATUS_LEDGER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text/enum_names.h"
#include "base/wall_time.h"
#include "core/failure/failure.h"
#include "core/terms/generation.h"

namespace lockstep::core {

// In the order of a generation's life; all but the first two are losses.
enum class Activity : uint8_t {
  kProductive,          // steps that were never done before
  kUnknown,             // ranks ran, and no step of the job was ever known
  kWaitingForNodes,     // some machine has no node
  kWaitingForMachines,  // images, agents, leases, backoff
  kSpawn,               // announcement to the last process started
  kStartUp,             // to the first step: imports, compilers
  kWarmStartUp,         // the same, if all processes started from parked interpreters
  kCheckpointLoad,      // of either, what the slowest process says it loaded the checkpoint for
  kRedone,              // steps that were done before
  kHang,                // no step for hangTimeout
  kDetect,              // a failure, or a machine's last answer, to the stop
  kStop,                // to the last process's end
};
template <>
inline constexpr auto kEnumNames<Activity> =
    std::to_array<EnumName<Activity>>({{Activity::kProductive, "Productive"},
                                       {Activity::kUnknown, "Unknown"},
                                       {Activity::kWaitingForNodes, "WaitingForNodes"},
                                       {Activity::kWaitingForMachines, "WaitingForMachines"},
                                       {Activity::kSpawn, "Spawn"},
                                       {Activity::kStartUp, "StartUp"},
                                       {Activity::kWarmStartUp, "WarmStartUp"},
                                       {Activity::kCheckpointLoad, "CheckpointLoad"},
                                       {Activity::kRedone, "Redone"},
                                       {Activity::kHang, "Hang"},
                                       {Activity::kDetect, "Detect"},
                                       {Activity::kStop, "Stop"}});

bool IsLoss(Activity activity);

// Machine-time in milliseconds; what is 0 is not there.
struct LedgerSums {
  std::map<Activity, int64_t> activities;
  std::map<Cause, int64_t> lost_to;  // kNone: the job's first start

  int64_t total() const;
  int64_t of(Activity activity) const;
  int64_t lost() const;  // neither productive nor unknown
  friend bool operator==(const LedgerSums&, const LedgerSums&) = default;
};

struct Ledger {
  // The part that is not final: since the last generation's end.
  struct Open {
    WallTime since{};
    Cause cause = Cause::kNone;      // of the last generation's end
    Generation generation{};         // that came since; none: it is waited for
    int64_t last_step = 0;           // of that generation
    int64_t nodes_milliseconds = 0;  // in which some machine had no node
    LedgerSums sums{};

    friend bool operator==(const Open&, const Open&) = default;
  };
  std::optional<WallTime> since{};
  std::optional<WallTime> through{};
  int64_t elapsed_milliseconds = 0;  // between the two, less what the job was suspended
  LedgerSums sums{};
  std::string goodput{};      // productive / all: "97.3%"; kUnknownGoodput: no step was known
  int64_t furthest_step = 0;  // that any generation reached
  Generation settled{};       // the last generation that is
  std::optional<Open> open{};

  bool step_known() const;  // of any generation
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

// For a job without a known step.
inline constexpr const char* kUnknownGoodput = "unknown";

// One generation, in wall time; what has not happened, or is not known, is absent.
struct GenerationSpan {
  Generation generation{};
  std::optional<WallTime> announced{};
  std::optional<WallTime> spawned{};
  std::optional<WallTime> first_step{};
  std::optional<WallTime> halted{};  // it came to nothing from here on
  std::optional<WallTime> stop_sent{};
  std::optional<WallTime> ended{};
  bool over = false;  // it ended, and not well
  Cause cause = Cause::kNone;
  int64_t resumed_at = 0;  // the first step that it reported; 0: none
  int64_t last_step = 0;
  bool warm = false;  // all its processes started from parked interpreters
  Duration loaded{};  // part of the time to the first step that loaded the checkpoint
};

struct LedgerMoment {
  WallTime now{};
  int machines = 0;              // of the gang, since the last call
  WallTime begun{};              // the gang was made; counts where nothing is open
  bool waits_for_nodes = false;  // since the last call
};

// All time until moment.now. `generations` in their order; those that are settled are passed over.
void Account(Ledger& ledger, const std::vector<GenerationSpan>& generations,
             const LedgerMoment& moment);
// The coordinator is lost with its knowledge, so the time since the last call counts as lost.
void AccountLoss(Ledger& ledger, Cause cause, const LedgerMoment& moment);
// The gang is dissolved. What the job's machines do next begins when it is made again.
void Pause(Ledger& ledger);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_STATUS_LEDGER_H_
