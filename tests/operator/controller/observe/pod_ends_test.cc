#include "operator/controller/observe/pod_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "operator/controller/observe/observe_pod.h"

namespace lockstep::control {
namespace {

using Of = PodEnd::Of;
using What = PodEnd::Sort;

struct Word {
  Of of;
  const char* reason;
  const char* message;
  What sort;
  Payer payer;
};

// What Kubernetes 1.33 to 1.36 and containerd write, with messages as they write them: kubelet's
// lifecycle, eviction, nodeshutdown, preemption, sysctl, images, kuberuntime and volumemanager.
const std::vector<Word>& Words() {
  static const std::vector<Word> words = {
      {Of::kPod, "Evicted",
       "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", What::kLost,
       Payer::kJob},
      {Of::kPod, "Evicted", "Container worker exceeded its local ephemeral storage limit \"1Gi\". ",
       What::kLost, Payer::kJob},
      {Of::kPod, "Evicted",
       "Usage of EmptyDir volume \"lockstep-shm\" exceeds the limit \"64Mi\". ", What::kLost,
       Payer::kJob},
      {Of::kPod, "Evicted",
       "The node was low on resource: memory. Threshold quantity: 100Mi, available: 1Mi. Container "
       "worker was using 9Gi, request is 1Gi, has larger consumption of memory. ",
       What::kAsked, Payer::kSuspect},
      {Of::kPod, "Evicted",
       "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 1Mi. "
       "Container worker was using 90Gi, request is 0, has larger consumption of "
       "ephemeral-storage. ",
       What::kAsked, Payer::kSuspect},
      {Of::kPod, "Evicted",
       "The node was low on resource: pids. Threshold quantity: 9, available: 0. ", What::kAsked,
       Payer::kMachine},
      {Of::kPod, "Evicted", "The node had condition: [DiskPressure]. ", What::kAsked,
       Payer::kMachine},
      {Of::kPod, "Preempting", "Preempted in order to admit critical pod", What::kAsked,
       Payer::kMachine},
      {Of::kPod, "Terminated", "Pod was terminated in response to imminent node shutdown.",
       What::kAsked, Payer::kMachine},
      {Of::kPod, "NodeShutdown", "Pod was rejected as the node is shutting down.", What::kAsked,
       Payer::kMachine},
      {Of::kPod, "NodeLost", "Node a which was running pod gpt-0 is unresponsive", What::kLost,
       Payer::kMachine},
      {Of::kPod, "DeadlineExceeded",
       "Pod was active on the node longer than the specified deadline", What::kLost, Payer::kJob},
      {Of::kPod, "TopologyAffinityError", "Resources cannot be allocated with Topology locality",
       What::kMisaligned, Payer::kMachine},
      {Of::kPod, "SMTAlignmentError",
       "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2", What::kMisaligned,
       Payer::kMachine},
      {Of::kPod, "OutOfcpu", "Node didn't have enough resource: cpu", What::kRefused,
       Payer::kMachine},
      {Of::kPod, "OutOfmemory", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "OutOfpods", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "OutOfephemeral-storage", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "OutOfnvidia.com/gpu", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present",
       What::kRefused, Payer::kMachine},
      {Of::kPod, "NodeAffinity", "Predicate NodeAffinity failed", What::kRefused, Payer::kMachine},
      {Of::kPod, "NodeName", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "NodePorts", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "TaintToleration", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "VolumeAttachmentLimitExceeded", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "InvalidNodeInfo", "Kubelet cannot get node info.", What::kRefused,
       Payer::kMachine},
      {Of::kPod, "UnknownReason", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "UnexpectedPredicateFailureType", "", What::kRefused, Payer::kMachine},
      {Of::kPod, "AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host",
       What::kRefused, Payer::kSuspect},
      {Of::kPod, "SysctlForbidden", "forbidden sysctl: \"net.core.somaxconn\" not allowlisted",
       What::kRefused, Payer::kSuspect},
      {Of::kPod, "SysctlUnsupported", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS",
       What::kRefused, Payer::kSuspect},
      {Of::kPod, "PodOSSelectorNodeLabelDoesNotMatch", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "InitContainerRestartPolicyForbidden", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "SupplementalGroupsPolicyNotSupported", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "PodLevelResourcesNotSupported", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "PodFeatureUnsupported", "", What::kRefused, Payer::kSuspect},
      {Of::kPod, "WrittenByNobodyYet", "", What::kLost, Payer::kSuspect},
      {Of::kContainer, "OOMKilled", "", What::kOutOfMemory, Payer::kJob},
      {Of::kContainer, "Error", "no such bucket", What::kLost, Payer::kSuspect},
      {Of::kContainer, "StartError", "exec: \"fetch\": executable file not found in $PATH",
       What::kLost, Payer::kSuspect},
      {Of::kContainer, "ContainerCannotRun", "", What::kLost, Payer::kSuspect},
      {Of::kContainer, "ContainerStatusUnknown",
       "The container could not be located when the pod was terminated", What::kLost,
       Payer::kMachine},
      {Of::kContainer, "Unknown", "", What::kLost, Payer::kMachine},
      {Of::kWaiting, "InvalidImageName", "", What::kDoesNotStart, Payer::kJob},
  };
  return words;
}

TEST(PodEnds, EveryReasonThatKubeletGivesHasARow) {
  for (const Word& word : Words()) {
    const PodEnd& row = FindPodEnd(word.of, word.reason, word.message);
    EXPECT_EQ(row.sort, word.sort) << word.reason << ": " << word.message;
    EXPECT_EQ(row.payer, word.payer) << word.reason << ": " << word.message;
  }
  for (const char* reason :
       {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError",
        "RegistryUnavailable", "SignatureValidationFailed", "ImageVolumeMountFailed",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
        "PreCreateHookError", "PreStartHookError", "PostStartHookError", "CrashLoopBackOff"}) {
    const PodEnd& row = FindPodEnd(Of::kWaiting, reason, "");
    EXPECT_EQ(row.reason, reason);
    EXPECT_EQ(row.sort, What::kDoesNotStart);
    EXPECT_EQ(row.payer, Payer::kSuspect);
  }
}

TEST(PodEnds, NoRowIsHiddenByOneBeforeIt) {
  for (const PodEnd& row : PodEnds()) {
    EXPECT_EQ(&FindPodEnd(row.of, row.reason, row.words), &row) << row.reason;
  }
}

std::string ReasonText(const PodEnd& row) {
  if (row.reason == "*") return "any other";
  std::string text = "`" + std::string(row.reason) + "`";
  if (!row.words.empty()) text += ", with “" + std::string(row.words) + "”";
  return text;
}

const char* WhereText(const PodEnd& row) {
  switch (row.of) {
    case Of::kPod:
      return "the pod's reason";
    case Of::kContainer:
      return "a container that ended";
    case Of::kWaiting:
      return "a container that waits";
  }
  return "";
}

const char* SortText(const PodEnd& row) {
  switch (row.sort) {
    case What::kLost:
      return "replaced";
    case What::kAsked:
      return "replaced: it was asked to leave";
    case What::kRefused:
      return "replaced, on another node if one fits";
    case What::kMisaligned:
      return "replaced, on another node if one fits; condition `TopologyAligned` is False";
    case What::kOutOfMemory:
      return "replaced; cause `OutOfMemory`";
    case What::kDoesNotStart:
      return "after `startTimeout` replaced, on another node if one fits";
  }
  return "";
}

std::string PayerText(const PodEnd& row) {
  if (row.payer == Payer::kJob) return "maxRestarts";
  const std::string first = row.sort == What::kAsked ? "nothing" : "maxMachineReplacements";
  return row.payer == Payer::kMachine ? first : first + "; repeated: maxRestarts";
}

TEST(PodEnds, StandInTheDocumentationAsInTheTable) {
  // A row for all neighbours that are alike but for their reason.
  std::string rows, before;
  for (const PodEnd& row : PodEnds()) {
    const std::string rest = std::string(" | ") + SortText(row) + " | " + PayerText(row) + " |\n";
    if (WhereText(row) + rest == before) {
      rows.insert(rows.size() - rest.size(), ", " + std::string(ReasonText(row)));
    } else {
      rows += std::string("| ") + WhereText(row) + " | " + ReasonText(row) + rest;
      before = WhereText(row) + rest;
    }
  }
  std::ifstream file("docs/reference/pod-ends.md");  // ctest runs it in the root
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(page, testing::HasSubstr(rows)) << "the rows of docs/reference/pod-ends.md";
}

}  // namespace
}  // namespace lockstep::control
