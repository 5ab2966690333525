// The frameworks of spec.framework, each with its name and what rules and agents ask of it. The
// variables of its processes are in core/plan/frameworks/.
#ifndef LOCKSTEP_CORE_MODEL_FRAMEWORK_H_
#define LOCKSTEP_CORE_MODEL_FRAMEWORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/text/enum_names.h"

namespace lockstep::core {

enum class Framework : uint8_t { kTorch, kAccelerate, kJax, kTensorFlow, kMpi, kHorovod, kNone };

struct FrameworkRow {
  Framework framework;
  const char* name;
  bool elastic;       // its next generation may have another number of ranks
  bool roles;         // its ranks may have roles
  bool meets_by_tcp;  // its ranks connect to MASTER_ADDR:MASTER_PORT, or to each other
  bool ports;         // each rank gets a port of its own (ProcessIdentity::endpoints)
};

inline constexpr auto kFrameworks = std::to_array<FrameworkRow>({
    {.framework = Framework::kTorch,
     .name = "Torch",
     .elastic = true,
     .roles = true,
     .meets_by_tcp = true,
     .ports = false},
    {.framework = Framework::kAccelerate,
     .name = "Accelerate",
     .elastic = true,
     .roles = true,
     .meets_by_tcp = true,
     .ports = false},
    {.framework = Framework::kJax,
     .name = "Jax",
     .elastic = true,
     .roles = true,
     .meets_by_tcp = true,
     .ports = false},
    {.framework = Framework::kTensorFlow,
     .name = "TensorFlow",
     .elastic = false,
     .roles = true,
     .meets_by_tcp = false,
     .ports = true},
    {.framework = Framework::kMpi,
     .name = "Mpi",
     .elastic = false,
     .roles = false,
     .meets_by_tcp = false,
     .ports = false},
    {.framework = Framework::kHorovod,
     .name = "Horovod",
     .elastic = false,
     .roles = false,
     .meets_by_tcp = true,
     .ports = false},
    {.framework = Framework::kNone,
     .name = "None",
     .elastic = true,
     .roles = true,
     .meets_by_tcp = false,
     .ports = false},
});

template <>
inline constexpr auto kEnumNames<Framework> = [] {
  std::array<EnumName<Framework>, kFrameworks.size()> names{};
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = {kFrameworks[i].framework, kFrameworks[i].name};
  return names;
}();

constexpr const FrameworkRow& RowOf(Framework framework) {
  static_assert(NamesEveryValue<Framework>());
  return kFrameworks[static_cast<size_t>(framework)];
}

// "Torch, Jax or None": those for which `wanted` is true; of all of them without it.
std::string ListFrameworks(bool FrameworkRow::* wanted = nullptr);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_FRAMEWORK_H_
