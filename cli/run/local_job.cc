#include "cli/run/local_job.h"

#include <algorithm>
#include <climits>
#include <ranges>

#include "operator/policy/decide.h"
#include "operator/policy/policies.h"

namespace lockstep::cli {
namespace {

constexpr Duration kStopSlack = seconds(15);  // beyond the grace period, for agents to leave

}  // namespace

LocalJob::LocalJob(core::TrainingJob job, uint32_t epoch, std::vector<MachinePlace> places,
                   control::Now start)
    : job_(std::move(job)), places_(std::move(places)), machines_(start) {
  // What only a cluster honours is not to be decided by.
  job_.spec.managed_by = control::kManager;
  job_.spec.suspend = false;
  job_.spec.restart_request.reset();
  job_.spec.clean_pod_policy = core::CleanPodPolicy::kRunning;
  job_.spec.ttl_seconds_after_finished.reset();
  status_.epoch = epoch;
}

void LocalJob::Suspend() {
  job_.spec.suspend = true;
  ++generation_;
}

void LocalJob::RequestRestart(core::RestartRequest request) {
  request.id = std::to_string(++restarts_);
  job_.spec.restart_request = std::move(request);
  ++generation_;
}

void LocalJob::SetCode(core::CodeStatus code, bool watched) {
  status_.code = std::move(code);
  watched_ = watched;
  ++generation_;
}

void LocalJob::Hold(std::string words) {
  if (!hold_) held_since_ = ++generation_;
  hold_ = std::move(words);
}

// Machine 0 may have been held before, and have gone on since: its answer must be younger than its
// order.
bool LocalJob::held() const {
  const core::GangStatus* now = gang();
  return hold_ && now != nullptr && now->epoch == status_.epoch &&
         now->observed_generation >= held_since_ &&
         now->phase == core::GangPhase(core::CoordinatorPhase::kHeld);
}

void LocalJob::OnEnd(uint32_t machine, control::MachineEnd end) {
  machines_.Ended(machine, std::move(end));
}

void LocalJob::OnLostTouch(uint32_t machine, Time at) {
  unsure_until_[machine] = at + job_.spec.failure_policy.machine_lost_after;
}

void LocalJob::SetUnschedulable(core::Members machines) { unschedulable_ = std::move(machines); }

bool LocalJob::PredecessorsDead(uint32_t machine, Time now) const {
  const auto unsure = unsure_until_.find(machine);
  return unsure == unsure_until_.end() || now >= unsure->second;
}

// An end that nobody saw is one to the policies, which would tell the gang that the dead are dead.
void LocalJob::TellNoEndOfTheUnsure(Time now) {
  const auto unsure = [&](const auto& each) { return !PredecessorsDead(each.machine, now); };
  std::erase_if(desired_->terminated, unsure);
  std::erase_if(desired_->fenced, unsure);
}

bool LocalJob::OnStatus(const core::GangStatus& status, Time at) {
  if (status.machine != 0) {
    member_ = control::GangReport{status, at};
    return true;
  }
  const AgentProcess* zero = machine0();
  if (zero == nullptr || status.attempt != zero->attempt) return false;
  member_.reset();
  coordinator_ = control::GangReport{status, at};
  if (status_.code && !status_.code->generation.exists()) {
    const auto first =
        std::ranges::find(status.history, status_.code->digest, &core::GenerationRecord::code);
    if (first != status.history.end()) status_.code->generation = first->generation;
  }
  return true;
}

bool LocalJob::OnAccepted(bool accepted) { return std::exchange(accepted_, accepted) != accepted; }

const AgentProcess* LocalJob::machine0() const {
  const auto newest =
      std::ranges::find(machines_.processes() | std::views::reverse, 0U, &AgentProcess::machine);
  return newest == machines_.processes().rend() ? nullptr : &*newest;
}

const core::GangStatus* LocalJob::gang() const {
  const AgentProcess* zero = machine0();
  const bool counts = coordinator_ && zero != nullptr && !zero->end &&
                      coordinator_->status.attempt == zero->attempt;
  return counts ? &coordinator_->status : nullptr;
}

bool LocalJob::over() const {
  const bool ended = control::IsFinished(status_) || status_.state == core::JobState::kSuspended;
  return ended && !machines_.running();
}

bool LocalJob::stopping() const { return job_.spec.suspend || control::IsFinished(status_); }

control::Snapshot LocalJob::TakeSnapshot() const {
  control::Snapshot snapshot;
  snapshot.job = &job_;
  snapshot.uid = job_.metadata.uid;
  snapshot.generation = generation_;
  snapshot.status = status_;
  snapshot.machines = machines_.Observe(places_);
  snapshot.spares = machines_.ObserveSpares();
  snapshot.names = {.uid = "", .by = control::LeadBy::kItself};
  snapshot.coordinator_address = {
      .uid = "", .address = places_.front().address, .by = control::LeadBy::kItself};
  snapshot.coordinator = coordinator_;
  snapshot.member = member_;
  snapshot.desired_state_accepted = accepted_;
  snapshot.notes.key_made = true;
  snapshot.memory = memory_;
  snapshot.replacements_allowed = INT_MAX;
  return snapshot;
}

LocalStep LocalJob::Decide(Time now) {
  LocalStep step;
  for (const uint32_t machine : machines_.Overdue(now)) {
    step.signals.push_back({machine, true, "it did not exit in time"});
  }
  control::Decision decision = control::Decide(TakeSnapshot(), machines_.At(now));
  memory_ = std::move(decision.memory);
  step.more = machines_.ForgetStopped();
  if (decision.desired) {
    desired_ = std::move(decision.desired);
    TellNoEndOfTheUnsure(now);
    if (hold_ && !desired_->stop) {
      desired_->stop = core::DesiredState::DesiredStop{core::StopReason::kRestarted,
                                                       job_.spec.grace_period, *hold_};
    }
    if (status_.code) desired_->code = core::DesiredState::Code{status_.code->digest, watched_};
  }
  if (decision.intent) {
    step.before = std::exchange(status_, std::move(*decision.intent));
    step.events = std::move(decision.events);
    step.more = true;
    return step;
  }
  if (decision.status) {
    status_ = std::move(*decision.status);
    step.events = std::move(decision.events);
    step.more = true;
  }
  for (const uint32_t machine : machines_.Place(unschedulable_, now)) {
    step.start.push_back(machine);
    step.more = true;
  }
  // Who has been told of the verdict has had its time to leave, and has nothing to save.
  const bool told = status_.verdict && status_.verdict->generation.exists();
  const Duration patience = told ? Duration::zero() : job_.spec.grace_period + kStopSlack;
  for (const control::Action& action : decision.actions) {
    if (const auto* start = std::get_if<control::StartMachine>(&action)) {
      if (!machines_.IsFree(start->machine)) continue;
      if (unschedulable_.Contains(start->machine)) {
        machines_.Waits(start->machine, start->attempt, now);
      } else {
        machines_.Started(start->machine, start->attempt, now);
        step.start.push_back(start->machine);
      }
      step.more = true;
    } else if (const auto* spare = std::get_if<control::StartSpare>(&action)) {
      const uint32_t machine = kFirstSpare + spare->number;
      if (!machines_.IsFree(machine)) continue;
      machines_.Started(machine, ++spares_started_, now);
      step.start.push_back(machine);
      step.more = true;
    } else if (const auto* stop = std::get_if<control::StopMachine>(&action)) {
      const auto [machine, signal] = machines_.Stop(*stop, now, patience);
      if (signal == StopSignal::kNone) continue;
      step.signals.push_back({machine, signal == StopSignal::kKill, "another takes its place"});
      step.more = true;
    }
  }
  step.wake = std::min(decision.wake, machines_.NextKill());
  for (const auto& [machine, until] : unsure_until_) {
    if (until > now) step.wake = std::min(step.wake, until);
  }
  return step;
}

}  // namespace lockstep::cli
