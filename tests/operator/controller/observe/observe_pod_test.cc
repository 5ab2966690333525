#include "operator/controller/observe/observe_pod.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using Kind = kube::ContainerState::Kind;

kube::PodView RunningPod() {
  kube::PodView pod;
  pod.meta.name = "gpt-1-r2";
  pod.meta.uid = "uid";
  pod.meta.created = WallTime(hours(1));
  pod.machine = 1;
  pod.attempt = 2;
  pod.phase = kube::PodPhase::kRunning;
  pod.scheduled = true;
  pod.ready = true;
  pod.node = "a";
  pod.pod_ip = "10.0.0.1";
  pod.worker.kind = Kind::kRunning;
  pod.worker.started = WallTime(hours(2));
  return pod;
}

kube::PodView EndedPod(int code, const char* reason) {
  kube::PodView pod = RunningPod();
  pod.worker.kind = Kind::kTerminated;
  pod.worker.exit_code = code;
  pod.worker.reason = reason;
  return pod;
}

// Kubelet had not begun its containers, or they are gone.
kube::PodView FailedPod(const char* reason) {
  kube::PodView pod = RunningPod();
  pod.phase = kube::PodPhase::kFailed;
  pod.worker = {};
  pod.reason = reason;
  pod.message = "for people";
  return pod;
}

TEST(ObservePod, ARunningPodIsARunningMachine) {
  const MachineObservation seen = ObservationOf(RunningPod(), NodeState::kUnreachable);
  EXPECT_EQ(seen.name, "gpt-1-r2");
  EXPECT_EQ(seen.uid, "uid");
  EXPECT_EQ(seen.machine, 1);
  EXPECT_EQ(seen.attempt, 2U);
  EXPECT_EQ(seen.created, WallTime(hours(1) + seconds(1)));  // at the end of the second it names
  EXPECT_EQ(seen.started, WallTime(hours(2)));
  EXPECT_EQ(seen.stage, Stage::kRunning);
  EXPECT_TRUE(seen.ready);
  EXPECT_EQ(seen.address, "10.0.0.1");
  EXPECT_EQ(seen.node, "a");
  EXPECT_EQ(seen.node_state, NodeState::kUnreachable);
  EXPECT_FALSE(seen.over());
  EXPECT_FALSE(seen.all_ended);
  EXPECT_FALSE(seen.trouble);
  EXPECT_FALSE(seen.leave_by);
}

TEST(ObservePod, APodIsPlacedOnceItHasANodeOrTheSchedulerSaysSo) {
  kube::PodView pod = RunningPod();
  pod.worker = {};
  EXPECT_EQ(ObservationOf(pod).stage, Stage::kPlaced);
  pod.scheduled = false;
  EXPECT_EQ(ObservationOf(pod).stage, Stage::kPlaced);
  pod.node.clear();
  pod.schedule_message = "0/3 nodes are available";
  EXPECT_EQ(ObservationOf(pod).stage, Stage::kUnplaced);
  EXPECT_EQ(ObservationOf(pod).unplaced_because, "0/3 nodes are available");
  pod.scheduled = true;
  EXPECT_EQ(ObservationOf(pod).stage, Stage::kPlaced);
}

TEST(ObservePod, ADeletionIsARequestToLeaveByItsTime) {
  kube::PodView pod = RunningPod();
  pod.meta.deleted = WallTime(hours(3));
  EXPECT_EQ(ObservationOf(pod).leave_by, WallTime(hours(3)));
}

TEST(ObservePod, AnEndedWorkerIsAnEndThoughASidecarRunsOn) {
  kube::PodView pod = EndedPod(75, "Error");
  pod.worker.message = "told";
  const MachineObservation seen = ObservationOf(pod);
  ASSERT_TRUE(seen.over());
  EXPECT_FALSE(seen.all_ended);
  EXPECT_TRUE(seen.end->agent_ran);
  EXPECT_EQ(seen.end->exit_code, 75);
  EXPECT_EQ(seen.end->termination, "told");
  EXPECT_EQ(seen.end->reason, "") << "Error says no more than the code";
  EXPECT_FALSE(seen.end->asked || seen.end->rejected || seen.end->out_of_memory);
  pod.phase = kube::PodPhase::kSucceeded;
  EXPECT_TRUE(ObservationOf(pod).all_ended);
}

TEST(ObservePod, AnUnusualReasonOfAnExitIsKept) {
  EXPECT_EQ(ObservationOf(EndedPod(128, "StartError")).end->reason, "StartError");
}

TEST(ObservePod, OnlyAKilledContainerWasOutOfMemory) {
  EXPECT_TRUE(ObservationOf(EndedPod(137, "OOMKilled")).end->out_of_memory);
  EXPECT_FALSE(ObservationOf(EndedPod(137, "Error")).end->out_of_memory);
  EXPECT_FALSE(ObservationOf(EndedPod(143, "OOMKilled")).end->out_of_memory)
      << "one rank was, earlier; the container was asked to leave";
}

TEST(ObservePod, AFailedPodWithoutAWorkerTellsItsOwnReason) {
  const MachineEnd end = *ObservationOf(FailedPod("UnexpectedAdmissionError")).end;
  EXPECT_FALSE(end.agent_ran);
  EXPECT_EQ(end.reason, "UnexpectedAdmissionError");
  EXPECT_EQ(end.message, "for people");
}

TEST(ObservePod, WhatTheClusterAskedToLeaveDidNotFail) {
  for (const char* reason :
       {"Evicted", "Preempted", "Preempting", "Shutdown", "NodeShutdown", "Terminated"}) {
    const MachineEnd end = *ObservationOf(FailedPod(reason)).end;
    EXPECT_TRUE(end.asked && !end.rejected) << reason;
    EXPECT_EQ(end.asked_for, reason);
  }
  kube::PodView pod = EndedPod(137, "Error");
  EXPECT_FALSE(ObservationOf(pod).end->asked);
  pod.disruption = "PreemptionByScheduler";
  EXPECT_TRUE(ObservationOf(pod).end->asked);
  EXPECT_EQ(ObservationOf(pod).end->asked_for, "PreemptionByScheduler");
}

TEST(ObservePod, KubeletsRefusalsAreRejectionsAndTwoOfThemOfAlignment) {
  for (const char* reason : {"UnexpectedAdmissionError", "NodeAffinity", "OutOfcpu", "OutOfmemory",
                             "OutOfpods", "OutOfephemeral-storage", "OutOfnvidia.com/gpu"}) {
    const MachineEnd end = *ObservationOf(FailedPod(reason)).end;
    EXPECT_TRUE(end.rejected && !end.misaligned && !end.asked) << reason;
  }
  for (const char* reason : {"TopologyAffinityError", "SMTAlignmentError"}) {
    const MachineEnd end = *ObservationOf(FailedPod(reason)).end;
    EXPECT_TRUE(end.rejected && end.misaligned) << reason;
  }
  EXPECT_FALSE(ObservationOf(FailedPod("DeadlineExceeded")).end->rejected);
}

TEST(ObservePod, AnInitContainerThatFailedIsQuotedWithNameCodeAndWords) {
  kube::PodView pod = FailedPod("");
  pod.message.clear();
  pod.init_name = "fetch";
  pod.init.kind = Kind::kTerminated;
  pod.init.exit_code = 3;
  pod.init.reason = "Error";
  pod.init.message = "no such bucket";
  const MachineEnd end = *ObservationOf(pod).end;
  EXPECT_FALSE(end.agent_ran || end.asked || end.rejected || end.out_of_memory);
  EXPECT_EQ(end.container, "fetch");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.reason, "");
  EXPECT_EQ(end.message, "no such bucket");
  EXPECT_EQ(end.termination, "") << "no agent wrote it";
  EXPECT_EQ(end.payer, Payer::kSuspect);
  pod.init.exit_code = 137;
  pod.init.reason = "OOMKilled";
  EXPECT_TRUE(ObservationOf(pod).end->out_of_memory);
}

TEST(ObservePod, AnAgentThatTheRuntimeCouldNotStartDidNotRun) {
  kube::PodView pod = EndedPod(128, "StartError");
  pod.worker.message = "exec /lockstep/lockstep-agent: exec format error";
  const MachineEnd end = *ObservationOf(pod).end;
  EXPECT_FALSE(end.agent_ran);
  EXPECT_EQ(end.container, "worker");
  EXPECT_EQ(end.message, pod.worker.message);
  EXPECT_EQ(end.payer, Payer::kSuspect);
}

TEST(ObservePod, APodThatBrokeItsOwnLimitsIsTheJobsThoughItsAgentWasAskedToLeave) {
  kube::PodView pod = EndedPod(143, "Error");
  pod.reason = "Evicted";
  pod.message = "Usage of EmptyDir volume \"data\" exceeds the limit \"1Gi\". ";
  pod.disruption = "TerminationByKubelet";
  const MachineEnd end = *ObservationOf(pod).end;
  EXPECT_TRUE(end.agent_ran);
  EXPECT_FALSE(end.asked);
  EXPECT_EQ(end.payer, Payer::kJob);
  EXPECT_EQ(end.reason, "Evicted");
  EXPECT_EQ(end.message, pod.message);
}

TEST(ObservePod, AContainerThatCannotStartIsTroubleAndOneOnItsWayIsNone) {
  kube::PodView pod = RunningPod();
  pod.worker = {};
  pod.worker.kind = Kind::kWaiting;
  for (const char* reason : {"", "PodInitializing", "ContainerCreating"}) {
    pod.worker.reason = reason;
    EXPECT_FALSE(ObservationOf(pod).trouble) << reason;
  }
  pod.init_name = "fetch";
  pod.init.kind = Kind::kWaiting;
  pod.init.reason = "ImagePullBackOff";
  pod.init.message = "not found";
  EXPECT_EQ(ObservationOf(pod).trouble,
            (StartTrouble{false, "ImagePullBackOff", "not found", "fetch"}));
  pod.worker.reason = "CreateContainerConfigError";
  pod.worker.message = "secret \"token\" not found";
  EXPECT_EQ(ObservationOf(pod).trouble, (StartTrouble{true, "CreateContainerConfigError",
                                                      "secret \"token\" not found", "worker"}));
}

TEST(ObservePod, ANodeIsGoneOutOfServiceOrOutOfReach) {
  kube::NodeView node;
  EXPECT_EQ(StateOf(&node), NodeState::kWell);
  node.unreachable = true;
  EXPECT_EQ(StateOf(&node), NodeState::kUnreachable);
  node.out_of_service = true;
  EXPECT_EQ(StateOf(&node), NodeState::kOutOfService);
  EXPECT_EQ(StateOf(nullptr), NodeState::kGone);
}

TEST(ObservePod, WhatKueueHoldsBackSaysWhichSettingIsMissing) {
  kube::PodView pod = RunningPod();
  pod.schedule_message = "Scheduling is blocked due to non-empty scheduling gates";
  EXPECT_EQ(ObservationOf(pod, NodeState::kWell).unplaced_because, pod.schedule_message);
  pod.taken = true;
  const std::string why = ObservationOf(pod, NodeState::kWell).unplaced_because;
  EXPECT_NE(why.find("externalFrameworks"), std::string::npos);
  EXPECT_NE(why.find("kueue.x-k8s.io/queue-name"), std::string::npos);
}

TEST(ObservePod, APodThatSucceededSaysThatItsAgentExitedWithZeroThoughNoContainerIsListed) {
  kube::PodView pod = FailedPod("");
  pod.phase = kube::PodPhase::kSucceeded;
  const MachineEnd end = *ObservationOf(pod).end;
  EXPECT_TRUE(end.agent_ran);
  EXPECT_EQ(end.exit_code, 0);
}

}  // namespace
}  // namespace lockstep::control
