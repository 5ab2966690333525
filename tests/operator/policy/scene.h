// Scene: what Decide sees of one job, in the words of a test, and the job's life one decision after
// the other. It stands for the controller: memory is handed on, statuses are written.
//
//   Scene scene(MakeJob("gpt").Machines(2));
//   scene.Run();                                   // every machine runs its first attempt
//   scene.pod(1).worker = Killed(9);
//   Decision decision = scene.Decide();
//   EXPECT_EQ(decision.intent->attempts.Of(1), 2);
#ifndef LOCKSTEP_TESTS_OPERATOR_POLICY_SCENE_H_
#define LOCKSTEP_TESTS_OPERATOR_POLICY_SCENE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/gang/bodies.h"
#include "core/gang/coordinator.h"
#include "operator/policy/decide.h"
#include "tests/operator/policy/make_job.h"

namespace lockstep::control {

class Scene {
 public:
  explicit Scene(core::TrainingJob job) : job_(std::move(job)) {
    snapshot_.namespace_name = job_.metadata.name_space;
    snapshot_.uid = job_.metadata.uid;
    snapshot_.generation = 1;
    snapshot_.agent = {.image = "agent:1", .plan_version = 1, .key_version = 1};
    snapshot_.replacements_allowed = 10;
    snapshot_.created = now.wall;
  }

  Now now{.wall = WallTime(hours(24 * 365 * 50)), .boot = hours(1)};

  core::Spec& spec() { return job_.spec; }
  core::JobStatus& status() { return snapshot_.status; }
  Memory& memory() { return snapshot_.memory; }
  Snapshot& snapshot() { return snapshot_; }

  void Pass(Duration time) {
    now.wall += time;
    now.boot += time;
  }

  // ---- objects ----

  // A pod that runs on node-<machine>.
  kube::PodView& AddPod(int machine, uint32_t attempt) {
    kube::PodView pod;
    pod.meta.name =
        "gpt-" + std::to_string(machine) + (attempt > 1 ? "-r" + std::to_string(attempt) : "");
    pod.meta.uid = "uid-" + pod.meta.name;
    pod.meta.owner_uid = snapshot_.uid;
    pod.meta.created = now.wall;
    pod.job = job_.metadata.name;
    pod.machine = machine;
    pod.attempt = attempt;
    pod.phase = kube::PodPhase::kRunning;
    pod.scheduled = true;
    pod.ready = true;
    pod.node = "node-" + std::to_string(machine);
    pod.pod_ip = "10.0.0.1";
    pod.worker.kind = kube::ContainerState::Kind::kRunning;
    pod.worker.started = now.wall;
    pods_.push_back(std::move(pod));
    return pods_.back();
  }

  // Of the machine's current attempt.
  kube::PodView& pod(int machine) {
    for (kube::PodView& pod : pods_) {
      if (pod.machine == machine && pod.attempt == status().attempts.Of(machine)) return pod;
    }
    ADD_FAILURE() << "machine " << machine << " has no pod";
    return pods_.emplace_back();
  }
  std::list<kube::PodView>& pods() { return pods_; }
  void RemovePod(int machine) {
    const std::string name = pod(machine).meta.name;
    pods_.remove_if([&](const kube::PodView& pod) { return pod.meta.name == name; });
  }
  void RemovePods() { pods_.clear(); }

  void RemoveServices() {
    headless_.reset();
    coordinator_.reset();
  }
  void AddServices() {
    headless_.emplace();
    coordinator_.emplace();
    coordinator_->meta.uid = "uid-service";
    coordinator_->cluster_ip = "10.96.0.7";
    coordinator_->selector_attempt = status().attempts.Of(0);
  }

  // ---- the gang ----

  core::GangStatus& Report(core::CoordinatorPhase phase) {
    GangReport report;
    report.at = now.boot;
    report.status.job_uid = snapshot_.uid;
    report.status.coordinator = true;
    report.status.attempt = status().attempts.Of(0);
    report.status.machine0_attempt = report.status.attempt;
    report.status.phase = core::ToString(phase);
    for (int i = 0; i < status().attempts.size(); ++i) {
      core::GangStatus::MachineStatus machine;
      machine.index = static_cast<uint32_t>(i);
      machine.attempt = status().attempts.Of(i);
      machine.state = "Running";
      machine.connected = true;
      report.status.machines.push_back(machine);
    }
    snapshot_.coordinator = std::move(report);
    return snapshot_.coordinator->status;
  }
  void Running() {
    Report(core::CoordinatorPhase::kRunning).generation = {status().attempts.Of(0), 1};
  }

  // What `machine`, not the coordinator, says of machine 0.
  core::GangStatus::MachineStatus& MemberReport(int machine, Duration machine0_silent) {
    GangReport report;
    report.at = now.boot;
    report.status.job_uid = snapshot_.uid;
    report.status.machine = static_cast<uint32_t>(machine);
    report.status.attempt = status().attempts.Of(machine);
    report.status.machine0_attempt = status().attempts.Of(0);
    core::GangStatus::MachineStatus seen;
    seen.attempt = status().attempts.Of(0);
    seen.silent_for = machine0_silent;
    report.status.machines.push_back(seen);
    snapshot_.member = std::move(report);
    return snapshot_.member->status.machines.front();
  }

  // ---- decisions ----

  Decision Decide() {
    snapshot_.job = &job_;
    snapshot_.headless = headless_ ? &*headless_ : nullptr;
    snapshot_.coordinator_service = coordinator_ ? &*coordinator_ : nullptr;
    snapshot_.pods.clear();
    for (const kube::PodView& pod : pods_) snapshot_.pods.push_back(&pod);
    Decision decision = control::Decide(snapshot_, now);
    snapshot_.memory = decision.memory;
    return decision;
  }

  // Decides until there is something to do beyond writing status, or nothing at all.
  Decision Settle() {
    for (int i = 0; i < 20; ++i) {
      Decision decision = Decide();
      if (decision.intent) {
        status() = *decision.intent;
      } else if (!decision.actions.empty() || !decision.status) {
        return decision;
      } else {
        status() = *decision.status;
      }
    }
    ADD_FAILURE() << "it writes and writes";
    return {};
  }

  // The pods that a decision wants, made and running.
  void Make(const Decision& decision) {
    for (const Action& action : decision.actions) {
      if (const auto* create = std::get_if<CreatePod>(&action)) {
        AddPod(static_cast<int>(create->machine), create->attempt);
      } else if (std::holds_alternative<CreateKeySecret>(action)) {
        memory().key_made = true;
      } else if (std::holds_alternative<CreateCoordinatorService>(action)) {
        AddServices();
      } else if (const auto* point = std::get_if<PointCoordinatorService>(&action)) {
        coordinator_->selector_attempt = point->attempt;
      } else if (const auto* gone = std::get_if<DeletePod>(&action)) {
        pods_.remove_if([&](const kube::PodView& pod) { return pod.meta.uid == gone->uid; });
      } else {
        continue;
      }
    }
  }

  // From nothing to a gang that runs, with all of it in status.
  void Run() {
    for (int i = 0; i < 3; ++i) Make(Settle());
    Running();
    Make(Settle());
    EXPECT_EQ(status().state, core::JobState::kRunning);
  }

 private:
  core::TrainingJob job_;
  Snapshot snapshot_;
  std::list<kube::PodView> pods_;
  std::optional<kube::ServiceView> headless_;
  std::optional<kube::ServiceView> coordinator_;
};

inline kube::ContainerState Exited(int code, std::string message = {}) {
  kube::ContainerState state;
  state.kind = kube::ContainerState::Kind::kTerminated;
  state.exit_code = code;
  state.reason = code == 0 ? "Completed" : "Error";
  state.message = std::move(message);
  return state;
}
inline kube::ContainerState Killed(int signal) {
  kube::ContainerState state = Exited(128 + signal);
  state.signal = signal;
  return state;
}
inline kube::ContainerState OutOfMemory() {
  kube::ContainerState state = Exited(137);
  state.reason = "OOMKilled";
  return state;
}

// The agent of (machine, attempt) leaves with a verdict of machine 0's `generation`, and with what
// else stands in `termination`.
inline kube::ContainerState Verdict(int code, core::Generation generation, uint32_t machine,
                                    uint32_t attempt, core::Termination termination = {}) {
  termination.exit_code = code;
  termination.generation = generation;
  termination.machine = machine;
  termination.attempt = attempt;
  termination.verdict = true;
  if (code != 0) {
    termination.failure.cause = core::Cause::kProcessExit;
    termination.failure.machine = static_cast<int>(machine);
    termination.failure.message = "rank 1 exited with code 3";
  }
  return Exited(code, core::ToJson(termination));
}

template <typename T>
std::vector<T> All(const Decision& decision) {
  std::vector<T> found;
  for (const Action& action : decision.actions) {
    if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
  }
  return found;
}

// Not to be written but the progress of time.
inline bool WritesNothing(const Decision& decision) {
  return !decision.intent && !decision.status && decision.actions.empty();
}

}  // namespace lockstep::control

#endif  // LOCKSTEP_TESTS_OPERATOR_POLICY_SCENE_H_
