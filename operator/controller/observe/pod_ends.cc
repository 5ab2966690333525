#include "operator/controller/observe/pod_ends.h"

#include <algorithm>
#include <array>

namespace lockstep::control {
namespace {

using enum PodEnd::Of;
using enum PodEnd::Sort;
using enum Payer;

// clang-format off
constexpr auto kRows = std::to_array<PodEnd>({
    // The job's own limits. Kubelet also calls these evictions.
    {kPod, "Evicted", "exceeded its local ephemeral storage limit", kLost, kJob},
    {kPod, "Evicted", "exceeds the total limit of containers", kLost, kJob},
    {kPod, "Evicted", "Usage of EmptyDir volume", kLost, kJob},
    {kPod, "DeadlineExceeded", "", kLost, kJob},
    // A node that ran out of memory, disk, inodes or PIDs, and this pod had more than it asked for.
    {kPod, "Evicted", "has larger consumption of", kAsked, kSuspect},
    {kPod, "Evicted", "", kAsked, kMachine},
    {kPod, "Preempting", "", kAsked, kMachine},
    {kPod, "Preempted", "", kAsked, kMachine},
    {kPod, "Terminated", "", kAsked, kMachine},
    {kPod, "Shutdown", "", kAsked, kMachine},
    {kPod, "NodeShutdown", "", kAsked, kMachine},
    {kPod, "NodeLost", "", kLost, kMachine},
    // Kubelet does not admit it: for what the node has.
    {kPod, "TopologyAffinityError", "", kMisaligned, kMachine},
    {kPod, "SMTAlignmentError", "", kMisaligned, kMachine},
    {kPod, "OutOf*", "", kRefused, kMachine},
    {kPod, "UnexpectedAdmissionError", "", kRefused, kMachine},
    {kPod, "NodeAffinity", "", kRefused, kMachine},
    {kPod, "NodeName", "", kRefused, kMachine},
    {kPod, "NodePorts", "", kRefused, kMachine},
    {kPod, "TaintToleration", "", kRefused, kMachine},
    {kPod, "VolumeAttachmentLimitExceeded", "", kRefused, kMachine},
    {kPod, "InvalidNodeInfo", "", kRefused, kMachine},
    {kPod, "UnknownReason", "", kRefused, kMachine},
    {kPod, "UnexpectedPredicateFailureType", "", kRefused, kMachine},
    // Likewise: for what the pod asks for, which another node may have.
    {kPod, "AppArmor", "", kRefused, kSuspect},
    {kPod, "SysctlForbidden", "", kRefused, kSuspect},
    {kPod, "SysctlUnsupported", "", kRefused, kSuspect},
    {kPod, "PodOSNotSupported", "", kRefused, kSuspect},
    {kPod, "PodOSSelectorNodeLabelDoesNotMatch", "", kRefused, kSuspect},
    {kPod, "InitContainerRestartPolicyForbidden", "", kRefused, kSuspect},
    {kPod, "SupplementalGroupsPolicyNotSupported", "", kRefused, kSuspect},
    {kPod, "PodLevelResourcesNotSupported", "", kRefused, kSuspect},
    {kPod, "PodFeatureUnsupported", "", kRefused, kSuspect},
    {kPod, "*", "", kLost, kSuspect},
    {kContainer, "OOMKilled", "", kOutOfMemory, kJob},
    {kContainer, "ContainerStatusUnknown", "", kLost, kMachine},
    {kContainer, "Unknown", "", kLost, kMachine},
    {kContainer, "StartError", "", kLost, kSuspect},
    {kContainer, "ContainerCannotRun", "", kLost, kSuspect},
    {kContainer, "*", "", kLost, kSuspect},
    {kWaiting, "InvalidImageName", "", kDoesNotStart, kJob},
    {kWaiting, "ErrImagePull", "", kDoesNotStart, kSuspect},
    {kWaiting, "ImagePullBackOff", "", kDoesNotStart, kSuspect},
    {kWaiting, "ErrImageNeverPull", "", kDoesNotStart, kSuspect},
    {kWaiting, "ImageInspectError", "", kDoesNotStart, kSuspect},
    {kWaiting, "RegistryUnavailable", "", kDoesNotStart, kSuspect},
    {kWaiting, "SignatureValidationFailed", "", kDoesNotStart, kSuspect},
    {kWaiting, "ImageVolumeMountFailed", "", kDoesNotStart, kSuspect},
    {kWaiting, "CreateContainerConfigError", "", kDoesNotStart, kSuspect},
    {kWaiting, "CreateContainerError", "", kDoesNotStart, kSuspect},
    {kWaiting, "RunContainerError", "", kDoesNotStart, kSuspect},
    {kWaiting, "PreCreateHookError", "", kDoesNotStart, kSuspect},
    {kWaiting, "PreStartHookError", "", kDoesNotStart, kSuspect},
    {kWaiting, "PostStartHookError", "", kDoesNotStart, kSuspect},
    {kWaiting, "CrashLoopBackOff", "", kDoesNotStart, kSuspect},
    {kWaiting, "*", "", kDoesNotStart, kSuspect},
});
// clang-format on

bool Matches(std::string_view pattern, std::string_view reason) {
  if (!pattern.ends_with('*')) return pattern == reason;
  pattern.remove_suffix(1);
  return reason.starts_with(pattern);
}

}  // namespace

std::span<const PodEnd> PodEnds() { return kRows; }

const PodEnd& FindPodEnd(PodEnd::Of of, std::string_view reason, std::string_view message) {
  return *std::ranges::find_if(kRows, [&](const PodEnd& row) {
    return row.of == of && Matches(row.reason, reason) &&
           message.find(row.words) != std::string_view::npos;
  });
}

}  // namespace lockstep::control
