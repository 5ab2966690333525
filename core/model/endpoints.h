// Endpoints: where a job's names and the address of its coordinator lead, in the slices in which
// they are written down. Plain values.
#ifndef LOCKSTEP_CORE_MODEL_ENDPOINTS_H_
#define LOCKSTEP_CORE_MODEL_ENDPOINTS_H_

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep::core {

// One attempt of a machine, as others reach it.
struct MachineEndpoint {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  std::string address;
  std::string node;
  std::string name;  // of its pod
  std::string uid;   // likewise

  friend bool operator==(const MachineEndpoint&, const MachineEndpoint&) = default;
};

// Which of a job's slices: the coordinator's, or one of its names', of one IP family.
struct SliceKey {
  bool coordinator = false;
  uint32_t number = 0;  // of the names': machines number * kMachinesASlice and those after
  bool ipv6 = false;

  friend auto operator<=>(const SliceKey&, const SliceKey&) = default;
};

// The API server takes at most 1,000.
inline constexpr uint32_t kMachinesASlice = 500;

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_ENDPOINTS_H_
