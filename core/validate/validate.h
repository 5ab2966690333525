// The rules that a TrainingJob must keep to run. All rules are checked and all errors returned.
#ifndef LOCKSTEP_CORE_VALIDATE_VALIDATE_H_
#define LOCKSTEP_CORE_VALIDATE_VALIDATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/spec.h"
#include "core/text/problem.h"

namespace lockstep::core {

enum class Target : uint8_t {
  kLocal,    // `lockstep run` on this computer
  kCluster,  // Kubernetes
};

// Problems are in the order of the file. `gpus`: how many this computer has, for kLocal; absent:
// not checked.
std::vector<Problem> Validate(const TrainingJob& job, Target target,
                              std::optional<int> gpus = std::nullopt);

// The set fields that `lockstep run` ignores: "image, placement". Empty: there are none.
std::string IgnoredLocally(const TrainingJob& job);

// All fields that mean nothing to `lockstep run`: "image", "placement" with all of its fields.
std::vector<std::string_view> ClusterFields();

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_VALIDATE_VALIDATE_H_
