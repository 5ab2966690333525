// MachineAttempts: the current attempt of each machine of a job. Status holds it as ranges:
// [{attempt: 1, machines: "0-2,4-7"}, {attempt: 5, machines: "3"}].
#ifndef LOCKSTEP_CORE_MODEL_MACHINE_ATTEMPTS_H_
#define LOCKSTEP_CORE_MODEL_MACHINE_ATTEMPTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/terms/members.h"

namespace lockstep::core {

// The machines of one attempt: "0-2,4-7".
struct AttemptRange {
  uint32_t attempt = 0;
  std::string machines;

  friend bool operator==(const AttemptRange&, const AttemptRange&) = default;
};

class MachineAttempts {
 public:
  static constexpr int kMost = Members::kMost;  // machines of a job

  // Replaces everything by machines 0 .. count - 1, all at `attempt`.
  void Reset(int count, uint32_t attempt);
  // `machine` is 0 .. kMost - 1, `attempt` not 0.
  void Set(int machine, uint32_t attempt);
  // Removes the attempt of `machine`.
  void Erase(int machine);
  // 0: the machine has none.
  uint32_t Of(int machine) const;
  // One more than the highest machine that has an attempt.
  int size() const { return static_cast<int>(attempts_.size()); }
  bool empty() const { return attempts_.empty(); }

  // Attempts ascend, and so do the machines of each.
  std::vector<AttemptRange> Ranges() const;
  // Invalid: an attempt of 0, a text that is no list of ranges, a machine beyond kMost or
  // named twice.
  static Result<MachineAttempts> FromRanges(const std::vector<AttemptRange>& ranges);

  friend bool operator==(const MachineAttempts&, const MachineAttempts&) = default;

 private:
  std::vector<uint32_t> attempts_;  // by machine; 0: none; the last is never 0
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_MACHINE_ATTEMPTS_H_
