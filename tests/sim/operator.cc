#include "tests/sim/operator.h"

#include <algorithm>

#include "operator/policy/policies.h"
#include "operator/policy/status/status_policies.h"
#include "tests/sim/world.h"

namespace lockstep::sim {

core::Spec Operator::SpecOf() const {
  const Shape& shape = world_.shape();
  core::Spec spec;
  spec.num_machines = static_cast<int32_t>(shape.machines);
  spec.processes_per_machine = static_cast<int32_t>(shape.processes);
  spec.grace_period = shape.grace;
  spec.health.hang_timeout = shape.hang_timeout;
  spec.health.start_timeout = shape.start_timeout;
  spec.topology.policy = core::TopologyPolicy::kRequired;
  spec.failure_policy.machine_lost_after = shape.lost_after;
  spec.failure_policy.max_restarts = shape.max_restarts;
  spec.failure_policy.restart_grace_period = shape.restart_grace;
  spec.failure_policy.max_machine_replacements = 20;
  spec.failure_policy.node_health = shape.moves_never ? core::NodeHealth::kIgnore
                                    : shape.moves_now ? core::NodeHealth::kNow
                                                      : core::NodeHealth::kAtCheckpoint;
  spec.preflight.enabled = shape.preflight;
  if (shape.synced) spec.sync.emplace();
  if (shape.elastic) {
    spec.elastic = core::Elastic{
        .sizes = {}, .shrink_after = shape.shrink_after, .grow_after = shape.grow_after};
  }
  if (shape.memory_every > 0) spec.checkpoint.memory.size = Quantity::FromUnits(1 << 20);
  if (shape.persists) spec.checkpoint.path = "/ckpt";
  spec.checkpoint.persist_every = shape.persist_every;
  return spec;
}

void Operator::Judge(const core::JobStatus& before, const core::JobStatus& after) {
  Invariants& invariants = world_.invariants();
  if (!AtLeast(after.counters, before.counters)) {
    invariants.Violate("CountersNeverFall", "status lowers a counter");
  }
  if (after.epoch < before.epoch) invariants.Violate("EpochsNeverFall", "status lowers its epoch");
  if (before.verdict && after.verdict != before.verdict) {
    invariants.Violate("VerdictIsFinal", "status changes its verdict");
  }
  JudgeLedger(before, after);
  if (after.elastic && decided_.insert(after.elastic->members.ToString()).second) {
    world_.Log("operator: generations now have machines ", after.elastic->members.ToString());
  }
  if (before.attempts.empty() != after.attempts.empty()) {
    world_.Log("operator: the gang ", before.attempts.empty() ? "begins" : "is released",
               ", epoch ", after.epoch);
  }
  uint32_t unasked = 0;  // that left all the same
  for (int i = 0; i < after.attempts.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const uint32_t old = before.attempts.Of(i);
    const uint32_t next = after.attempts.Of(i);
    highest_[index] = std::max(highest_[index], next);
    if (old == 0 || next == old) continue;
    world_.Log("operator: machine ", i, " becomes attempt ", next);
    const Machine* current = nullptr;
    for (const auto& machine : world_.machines()) {
      const MachineSpec& spec = machine->spec();
      if (spec.index == index && spec.attempt == old) current = machine.get();
    }
    invariants.OnReplacement(index, current);
    const bool left = current != nullptr && current->terminated() && current->exit_code() == 143;
    // Replaced for its silence before its end was seen: SilentOnHealthyNodes has it once that is.
    const bool judged_later = after.elastic && after.elastic->silent.Of(i) == old;
    if (left && !current->asked_in_the_open() && !judged_later) ++unasked;
  }
  const uint32_t silent = SilentOnHealthyNodes(before, after);
  if (after.counters.replacements < before.counters.replacements + unasked + silent) {
    invariants.Violate("WhoLeavesUnaskedIsCharged", "a replacement costs nothing");
  }
  if (finished_ != kNever || !control::IsFinished(after)) return;
  world_.Log("operator: the job has ended: ", after.reason);
  finished_ = world_.now();
  if (!after.verdict || !after.verdict->generation.exists()) return;
  verdict_.emplace();
  verdict_->generation = after.verdict->generation;
  verdict_->exit_code = static_cast<uint32_t>(after.verdict->exit_code);
  invariants.OnCounted(*verdict_);
}

uint32_t Operator::SilentOnHealthyNodes(const core::JobStatus& before,
                                        const core::JobStatus& after) const {
  if (!before.elastic || !after.elastic || before.attempts.empty()) return 0;
  uint32_t count = 0;
  for (int i = 0; i < before.elastic->silent.size(); ++i) {
    const uint32_t attempt = before.elastic->silent.Of(i);
    if (attempt == 0 || after.elastic->silent.Of(i) == attempt) continue;
    if (!nodes_lost_.contains({static_cast<uint32_t>(i), attempt})) ++count;
  }
  return count;
}

// All that the gang's machines did is accounted for, once, and nothing more.
void Operator::JudgeLedger(const core::JobStatus& before, const core::JobStatus& after) {
  if (!after.ledger || after.ledger == before.ledger) return;
  const core::Ledger& next = *after.ledger;
  const core::Ledger last =
      before.ledger.value_or(core::Ledger{.since = next.since, .through = next.since});
  const int64_t held = next.elapsed_milliseconds - last.elapsed_milliseconds;
  int64_t by_cause = 0;
  for (const auto& [cause, lost] : next.sums.lost_to) by_cause += lost;
  const bool negative =
      std::ranges::any_of(next.sums.activities, [](const auto& each) { return each.second < 0; });
  const bool whole = next.sums.total() - last.sums.total() == held * before.attempts.size() &&
                     held <= (*next.through - *last.through) / milliseconds(1) && held >= 0 &&
                     next.sums.lost() == by_cause && !negative;
  // A gang that stood before and after stood all the time between.
  const bool stood = !last.open || held == (*next.through - *last.through) / milliseconds(1);
  if (!whole || !stood || *next.through > WallOf(world_.now())) {
    world_.invariants().Violate("TimeIsAccountedForOnce",
                                "after " + core::ToJson(before) + " comes " + core::ToJson(after));
  }
}

void Operator::JudgeMade(uint32_t machine, uint32_t attempt, const core::JobStatus& known,
                         const core::JobStatus& recorded) {
  Invariants& invariants = world_.invariants();
  const std::string name =
      "attempt " + std::to_string(attempt) + " of machine " + std::to_string(machine);
  if (control::IsFinished(known)) {
    invariants.Violate("VerdictIsFinal", name + " is made after the verdict");
  }
  if (attempt > recorded.epoch && !went_back()) {
    invariants.Violate("RecordedBeforeMade", name + " is made before its epoch");
  }
  // One that was superseded meanwhile obtains nothing any more.
  const bool current = recorded.attempts.Of(static_cast<int>(machine)) == attempt;
  if (!made_.insert({machine, attempt}).second && current) {
    invariants.Violate("AttemptsAreUnique", name + " is made a second time");
  }
}

void Operator::JudgeGoingBack(const core::JobStatus& restored) {
  went_back_at_ = world_.now();
  std::erase_if(made_, [&](const auto& each) { return each.second > restored.created_epoch; });
}

std::optional<control::GangReport> Operator::Ask(const Machine* machine) const {
  if (machine == nullptr || !machine->alive() || machine->stopped()) return std::nullopt;
  if (world_.network().Blocked(machine->node(), kOperatorNode)) return std::nullopt;
  control::GangReport report;
  report.at = kBoot + world_.now();
  const core::Coordinator* coordinator = machine->coordinator();
  report.status = coordinator != nullptr
                      ? core::StatusOf(*coordinator, machine->Local(), machine->born())
                      : core::StatusOf(machine->member(), machine->Local());
  return report;
}

bool Operator::Say(Machine& machine, const core::DesiredState& desired) {
  taken_ = false;
  machine.OnDesiredState(desired);
  return taken_;
}

void Operator::OnDesiredStateTaken(Node node, const core::DesiredState& desired) {
  taken_ = true;
  told_[node].Merge(desired.machine_failures);
}

const core::Counters& Operator::told(Node node) const {
  static const core::Counters kNothing;
  const auto found = told_.find(node);
  return found == told_.end() ? kNothing : found->second;
}

control::MachineEnd EndOf(const Machine& machine) {
  control::MachineEnd end;
  end.exit_code = machine.exit_code();
  end.out_of_memory = machine.out_of_memory();
  core::Termination termination;
  termination.exit_code = machine.exit_code();
  termination.machine = machine.spec().index;
  termination.attempt = machine.spec().attempt;
  termination.needs_epoch = machine.needs_epoch();
  if (const std::optional<core::Verdict>& verdict = machine.verdict()) {
    termination.generation = verdict->generation;
    termination.verdict = true;
    termination.reason = verdict->reason;
    termination.failure = verdict->failure;
  }
  if (termination.verdict || termination.needs_epoch != 0) {
    end.termination = core::ToJson(termination);
  }
  return end;
}

}  // namespace lockstep::sim
