// Scene: what Decide sees of one job, in the words of a test, and the job's life one decision after
// the other. It stands for the controller: memory is handed on, statuses are written.
//
//   Scene scene(MakeJob("gpt").Machines(2));
//   scene.Run();                                   // every machine runs its first attempt
//   scene.machine(1).end = Killed(9);
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

#include "base/fingerprint.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/status/status_api.h"
#include "operator/policy/decide.h"
#include "tests/operator/policy/make_job.h"

namespace lockstep::control {

class Scene {
 public:
  // `by`: how its names and its coordinator's address lead. By slices, their writes are among what
  // is decided.
  explicit Scene(core::TrainingJob job, LeadBy by = LeadBy::kItself)
      : job_(std::move(job)), lead_by_(by) {
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
  Notes& notes() { return snapshot_.notes; }
  // Another operator goes on with the job.
  void ForgetAll() {
    snapshot_.notes = {};
    snapshot_.memory = {};
  }
  Snapshot& snapshot() { return snapshot_; }

  void Pass(Duration time) {
    now.wall += time;
    now.boot += time;
  }

  // ---- what is seen of machines ----

  // It runs on node-<machine>.
  MachineObservation& AddMachine(int machine, uint32_t attempt) {
    MachineObservation seen;
    seen.name =
        "gpt-" + std::to_string(machine) + (attempt > 1 ? "-r" + std::to_string(attempt) : "");
    seen.uid = "uid-" + seen.name;
    seen.machine = machine;
    seen.attempt = attempt;
    seen.created = now.wall;
    seen.stage = Stage::kRunning;
    seen.ready = true;
    seen.started = now.wall;
    seen.address = "10.0.0.1";
    seen.node = "node-" + std::to_string(machine);
    machines_.push_back(std::move(seen));
    return machines_.back();
  }

  // Its current attempt.
  MachineObservation& machine(int index) {
    for (MachineObservation& seen : machines_) {
      if (seen.machine == index && seen.attempt == status().attempts.Of(index)) return seen;
    }
    ADD_FAILURE() << "machine " << index << " is not there";
    return machines_.emplace_back();
  }
  std::list<MachineObservation>& machines() { return machines_; }

  // A spare that is ready, on node spare-<number>.
  MachineObservation& AddSpare(int number) {
    MachineObservation seen;
    seen.name = "gpt-spare" + std::to_string(number);
    seen.uid = seen.name + "/" + std::to_string(++spares_made_);
    seen.spare = number;
    seen.created = now.wall;
    seen.stage = Stage::kRunning;
    seen.ready = true;
    seen.node = "spare-" + std::to_string(number);
    snapshot_.spares.push_back(std::move(seen));
    return snapshot_.spares.back();
  }
  std::vector<MachineObservation>& spares() { return snapshot_.spares; }
  void RemoveSpare(const std::string& uid) {
    std::erase_if(spares(), [&](const MachineObservation& seen) { return seen.uid == uid; });
  }
  void RemoveMachine(int index) {
    const std::string name = machine(index).name;
    machines_.remove_if([&](const MachineObservation& seen) { return seen.name == name; });
  }
  void RemoveMachines() { machines_.clear(); }

  void RemoveAddresses() {
    snapshot_.names.reset();
    snapshot_.coordinator_address.reset();
  }
  void AddAddresses() {
    snapshot_.names = Names{"uid-names", lead_by_};
    snapshot_.coordinator_address = {"uid-service", "10.96.0.7", lead_by_, status().attempts.Of(0)};
  }
  void Write(const WriteSlice& write) {
    Fingerprint print;
    for (const core::MachineEndpoint& each : write.endpoints) print.Add(each.uid).Add(each.address);
    snapshot_.slices[write.key] = {"uid-slice", print.value()};
  }

  // ---- the gang ----

  core::GangStatus& Report(core::CoordinatorPhase phase) {
    GangReport report;
    report.at = now.boot;
    report.status.job_uid = snapshot_.uid;
    report.status.coordinator = true;
    report.status.attempt = status().attempts.Of(0);
    report.status.machine0_attempt = report.status.attempt;
    report.status.phase = phase;
    for (int i = 0; i < status().attempts.size(); ++i) {
      core::GangStatus::MachineStatus machine;
      machine.index = static_cast<uint32_t>(i);
      machine.attempt = status().attempts.Of(i);
      machine.state = core::GangMachineState::kRunning;
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
    snapshot_.machines.assign(machines_.begin(), machines_.end());
    Decision decision = control::Decide(snapshot_, now);
    snapshot_.memory = decision.memory;
    if (decision.nothing_missing) snapshot_.notes.refusal.reset();
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

  // The machines that a decision wants, made and running.
  void Make(const Decision& decision) {
    for (const Action& action : decision.actions) {
      if (const auto* create = std::get_if<StartMachine>(&action)) {
        AddMachine(static_cast<int>(create->machine), create->attempt);
      } else if (const auto* spare = std::get_if<StartSpare>(&action)) {
        AddSpare(static_cast<int>(spare->number));
      } else if (std::holds_alternative<MakeKey>(action)) {
        notes().key_made = true;
      } else if (const auto* group = std::get_if<MakePodGroup>(&action)) {
        notes().grouped_in = group->epoch;
      } else if (const auto* left = std::get_if<DropPodGroup>(&action)) {
        notes().ungrouped = left->group.name;
      } else if (std::holds_alternative<MakeCoordinatorAddress>(action)) {
        AddAddresses();
      } else if (const auto* write = std::get_if<WriteSlice>(&action)) {
        Write(*write);
      } else if (std::holds_alternative<DropNames>(action)) {
        snapshot_.names.reset();
      } else if (std::holds_alternative<DropCoordinatorAddress>(action)) {
        snapshot_.coordinator_address.reset();
      } else if (const auto* point = std::get_if<MoveCoordinatorAddress>(&action)) {
        snapshot_.coordinator_address->attempt = point->attempt;
      } else if (const auto* gone = std::get_if<StopMachine>(&action)) {
        machines_.remove_if([&](const MachineObservation& seen) { return seen.uid == gone->uid; });
        RemoveSpare(gone->uid);
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
  LeadBy lead_by_;
  Snapshot snapshot_;
  std::list<MachineObservation> machines_;
  int spares_made_ = 0;
};

inline MachineEnd Exited(int code, std::string termination = {}) {
  MachineEnd end;
  end.exit_code = code;
  end.termination = std::move(termination);
  return end;
}
inline MachineEnd Killed(int signal) {
  MachineEnd end = Exited(128 + signal);
  end.signal = signal;
  return end;
}
inline MachineEnd OutOfMemory() {
  MachineEnd end = Exited(137);
  end.out_of_memory = true;
  return end;
}
// It failed before its agent ran, or over its head.
inline MachineEnd FailedAsAWhole(std::string reason, std::string message) {
  MachineEnd end;
  end.agent_ran = false;
  end.reason = std::move(reason);
  end.message = std::move(message);
  return end;
}
// One of its init containers did, wherever that runs.
inline MachineEnd InitFailed(std::string container, int code, std::string message) {
  MachineEnd end = FailedAsAWhole("", std::move(message));
  end.container = std::move(container);
  end.exit_code = code;
  end.payer = Payer::kSuspect;
  return end;
}
inline MachineEnd Evicted(std::string message) {
  MachineEnd end = FailedAsAWhole("Evicted", std::move(message));
  end.asked = true;
  end.asked_for = "Evicted";
  return end;
}
inline MachineEnd Misaligned(std::string message) {
  MachineEnd end = FailedAsAWhole("TopologyAffinityError", std::move(message));
  end.rejected = true;
  end.misaligned = true;
  return end;
}

// The agent of (machine, attempt) leaves with a verdict of machine 0's `generation`, and with what
// else stands in `termination`.
inline MachineEnd Verdict(int code, core::Generation generation, uint32_t machine, uint32_t attempt,
                          core::Termination termination = {}) {
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
