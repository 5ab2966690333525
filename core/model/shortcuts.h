// image, command, args, workingDir, env and envFrom are shortcuts into the pod template's `worker`
// container; imagePullSecrets, priorityClassName and schedulerName into its pod. Whichever of the
// two places is used, the job means the same.
#ifndef LOCKSTEP_CORE_MODEL_SHORTCUTS_H_
#define LOCKSTEP_CORE_MODEL_SHORTCUTS_H_

#include <string>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::core {

inline constexpr const char* kWorkerContainer = "worker";

// Moves what only the template says into the spec's own fields, with its place. A field that both
// say stays in both: Validate refuses it.
void LiftShortcuts(Node& document);

// A shortcut that the template still says, and where.
struct DoubledShortcut {
  std::string field;  // by the spec's name
  std::string place;  // "worker container" or "pod"
};
std::vector<DoubledShortcut> DoubledShortcuts(const Spec& spec);

// The template's `worker` container; null when there is none.
const Node* WorkerContainer(const Spec& spec);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_SHORTCUTS_H_
