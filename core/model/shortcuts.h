// image, command, args, workingDir, env and envFrom are shortcuts for fields of the pod template's
// `worker` container; imagePullSecrets, priorityClassName and schedulerName for fields of its pod.
// A job means the same whichever of the two places it uses.
#ifndef LOCKSTEP_CORE_MODEL_SHORTCUTS_H_
#define LOCKSTEP_CORE_MODEL_SHORTCUTS_H_

#include <string>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::core {

inline constexpr const char* kWorkerContainer = "worker";
// The init container that copies the agent's file.
inline constexpr const char* kInstallContainer = "lockstep-install";

// Moves fields that only the template has into the spec, with their places. A field that stands in
// both is left in both, and Validate refuses it.
void LiftShortcuts(Node& document);

// A shortcut's field that is still in the template.
struct DoubledShortcut {
  std::string field;  // by the spec's name
  std::string place;  // "worker container" or "pod"
};
std::vector<DoubledShortcut> DoubledShortcuts(const Spec& spec);

// The template's `worker` container; null when there is none.
const Node* WorkerContainer(const Spec& spec);

// The resource claims (DRA) of the template's `worker` container; null when there are none.
const Node* WorkerClaims(const Spec& spec);
// By resourcesPerProcess.gpu or by a resource claim: what a driver hands out by claims counts as
// GPUs.
bool AsksForGpus(const Spec& spec);
// Also where it is the built-in trainer that must have one (device Cuda).
bool UsesGpus(const Spec& spec);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_SHORTCUTS_H_
