// Connections, joining, heartbeats and desired states. What becomes of a generation stands in
// coordinator_generations.cc.
#include "core/gang/coordinator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/exit_codes.h"
#include "core/gang/lease.h"
#include "core/gang/rules.h"

namespace lockstep::core {

namespace {

// A clock offset older than this yields to any newer one: clocks drift apart by up to 5 %.
constexpr Duration kClockSampleLife = seconds(30);

}  // namespace

GenerationRecord GenerationRecord::Shifted(Duration by) const {
  GenerationRecord shifted = *this;
  for (std::optional<Time>* time :
       {&shifted.announced, &shifted.spawned, &shifted.first_step, &shifted.died,
        &shifted.stop_sent, &shifted.all_stopped, &shifted.ended}) {
    if (*time) **time += by;
  }
  return shifted;
}

Coordinator::Coordinator(CoordinatorConfig config, Time born)
    : config_(std::move(config)),
      born_(born),
      slots_(config_.machines),
      lease_length_(config_.policy.machine_lost_after),
      last_step_(born),
      ping_due_(born) {
  generation_.attempt = config_.attempt;
  for (size_t i = 0; i < std::min(slots_.size(), config_.attempts.size()); ++i) {
    slots_[i].lowest = config_.attempts[i];
  }
}

// ---- events ----

CoordinatorActions Coordinator::OnMessage(Time now, ConnectionId connection,
                                          const Message& message) {
  if (phase_ == CoordinatorPhase::kDone) return {};
  CheckLease(now);
  if (const auto* hello = std::get_if<Hello>(&message)) {
    Handle(now, connection, *hello);
    return Step(now);
  }
  auto it = machine_of_.find(connection);
  if (it == machine_of_.end()) {
    actions_.emplace_back(
        CloseConnection{connection, std::string(NameOf(message)) + " before HELLO"});
    return Step(now);
  }
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { Handle(now, it->second, body); }) {
          Handle(now, it->second, body);
        } else {
          actions_.emplace_back(CloseConnection{
              connection, std::string(NameOf(message)) + " is not for a coordinator"});
        }
      },
      message);
  return Step(now);
}

CoordinatorActions Coordinator::OnDisconnect(Time now, ConnectionId connection) {
  auto it = machine_of_.find(connection);
  if (it != machine_of_.end()) {
    slots_[it->second].connection = 0;
    machine_of_.erase(it);
    ++version_;
  }
  return Step(now);
}

CoordinatorActions Coordinator::OnPrepared(Time now, const Prepared& prepared) {
  if (phase_ == CoordinatorPhase::kPreparing && prepared.generation == generation_) {
    if (prepared.taken != 0) {
      Log("other jobs have the numbers up to " + std::to_string(prepared.taken));
      generation_.n = std::max(generation_.n, prepared.taken);
      Wait();
    } else if (prepared.hopeless) {
      FailAsMisconfigured(now, prepared.error);
    } else if (!prepared.error.empty()) {
      last_decision_ =
          "generation " + generation_.ToString() + " could not be prepared: " + prepared.error;
      Log(last_decision_);
      backoff_ = BackoffAfter(++unprepared_);
      backoff_until_ = now + backoff_;
      Wait();
    } else if (Obstacle(now) == CoordinatorPhase::kPreparing) {
      Announce(now, prepared);
    } else {
      Wait();
    }
  }
  return Step(now);
}

Result<CoordinatorActions> Coordinator::OnDesiredState(Time now, const DesiredState& desired) {
  if (desired.job_uid != config_.job_uid) {
    return Error::Invalid("jobUID " + desired.job_uid + " is another job's");
  }
  if (desired.epoch < desired_epoch_ || desired.observed_generation < desired_observed_) {
    return Error::Conflict("epoch " + std::to_string(desired.epoch) + " or observedGeneration " +
                           std::to_string(desired.observed_generation) + " is older than one seen");
  }
  desired_epoch_ = desired.epoch;
  desired_observed_ = desired.observed_generation;
  counters_.Merge(desired.machine_failures);
  ++version_;
  if (desired.health) config_.hang_timeout = desired.health->hang_timeout;
  if (desired.policy) {
    config_.policy = *desired.policy;
    Duration length = desired.policy->machine_lost_after;
    if (length < lease_length_) {
      old_length_ = std::max(LossLength(now), lease_length_);
      old_length_out_ = now + old_length_;
    }
    lease_length_ = length;
  }
  for (const DesiredState::Terminated& ended : desired.terminated) {
    if (ended.machine >= slots_.size()) continue;
    Slot& slot = slots_[ended.machine];
    if (slot.attempt != ended.attempt || slot.confirmed_dead) continue;
    slot.confirmed_dead = true;
    MarkLost(now, slot, ended.cause,
             ended.cause == Cause::kOutOfMemory ? "went over its memory limit" : "lost its agent");
    slot.report.phase = MemberPhase::kStopped;
  }
  for (const DesiredState::Fenced& fenced : desired.fenced) {
    if (fenced.machine >= slots_.size()) continue;
    Slot& slot = slots_[fenced.machine];
    if (slot.attempt != fenced.attempt || slot.predecessor_confirmed) continue;
    slot.predecessor_confirmed = true;
    slot.predecessor_out = Time::min();
    if (slot.has_echo) slot.older_out = std::min(slot.older_out, now + LossLength(now));
  }
  desired_stop_ = desired.stop;
  if (desired_stop_) {
    if (Live()) {
      BeginStop(now, desired_stop_->reason, desired_stop_->grace);
    } else if (phase_ == CoordinatorPhase::kStopping && now + desired_stop_->grace < kill_at_) {
      kill_at_ = now + desired_stop_->grace;
      for (const Slot& slot : slots_) {
        Send(slot, Stop{generation_, stop_reason_, desired_stop_->grace});
      }
    }
  }
  return Step(now);
}

CoordinatorActions Coordinator::OnTimer(Time now) { return Step(now); }

Time Coordinator::NextWake() const {
  if (phase_ == CoordinatorPhase::kDone) return kNever;
  Time wake = std::min(ping_due_, verdict_deadline_);
  if (phase_ == CoordinatorPhase::kBackoff) wake = std::min(wake, backoff_until_);
  return wake;
}

// ---- joining ----

bool Coordinator::Refuses(ConnectionId connection, const Hello& hello) {
  auto refuse = [&](RefusalCode code, std::string reason) {
    Log("machine " + std::to_string(hello.machine) + " attempt " + std::to_string(hello.attempt) +
        " refused: " + reason);
    actions_.emplace_back(SendTo{connection, Refused{code, reason}});
    actions_.emplace_back(CloseConnection{connection, std::move(reason)});
    return true;
  };
  if (hello.job_uid != config_.job_uid) {
    return refuse(RefusalCode::kWrongJob, "this is job " + config_.job_uid);
  }
  if (hello.machines != config_.machines || hello.processes != config_.processes) {
    return refuse(RefusalCode::kWrongShape, "this job has " + std::to_string(config_.machines) +
                                                " machines of " +
                                                std::to_string(config_.processes) + " processes");
  }
  if (hello.machine >= config_.machines || hello.attempt == 0) {
    return refuse(
        RefusalCode::kNoSuchMachine,
        "machines are 0.." + std::to_string(config_.machines - 1) + " and attempts count from 1");
  }
  const Slot& slot = slots_[hello.machine];
  uint32_t current = std::max(slot.attempt, slot.lowest);
  if (hello.attempt < current && Holds(Rule::kHigherAttemptWins)) {
    return refuse(RefusalCode::kLowerAttempt,
                  "attempt " + std::to_string(current) + " of this machine exists");
  }
  return false;
}

void Coordinator::Handle(Time now, ConnectionId connection, const Hello& hello) {
  if (Refuses(connection, hello)) return;
  counters_.Merge(hello.counters);
  if (hello.machine0_attempt > config_.attempt && Holds(Rule::kCoordinatorFencesItself)) {
    phase_ = CoordinatorPhase::kDone;
    actions_.emplace_back(ExitCoordinator{
        kExitReplace,
        "fenced: attempt " + std::to_string(hello.machine0_attempt) + " of machine 0 exists"});
    return;
  }
  ++version_;
  Slot& slot = slots_[hello.machine];
  if (slot.connection != 0 && slot.connection != connection) {
    bool replaced = hello.attempt > slot.attempt;
    if (replaced) Send(slot, Refused{RefusalCode::kReplaced, "a higher attempt has joined"});
    actions_.emplace_back(CloseConnection{
        slot.connection, replaced ? "a higher attempt has joined" : "the agent connected again"});
    machine_of_.erase(slot.connection);
  }
  if (hello.attempt != slot.attempt) Replace(now, slot, hello);
  if (slot.confirmed_dead) {
    // What was seen to end cannot come back; whoever this is, it is not trusted with a rank.
    actions_.emplace_back(CloseConnection{connection, "this attempt's container has ended"});
    return;
  }
  machine_of_.erase(connection);
  machine_of_[connection] = hello.machine;
  slot.connection = connection;
  slot.draining = hello.draining;
  slot.answered_at = std::max(slot.answered_at, now);
  slot.lost = false;
  Witness(now, slot, hello);
  Send(slot, Welcome{config_.attempt, counters_});
  PingOne(now, slot);
  if (verdict_) {
    Send(slot, *verdict_);
    return;
  }
  slot.report = hello.report;
  Resynchronise(now, slot, hello.machine);
  CountSteps(hello.report);
  Apply(now, hello.machine, hello.report);
}

// A new agent stands in for this machine.
void Coordinator::Replace(Time now, Slot& slot, const Hello& hello) {
  slot.connection = 0;
  if (slot.attempt != 0 && !slot.confirmed_dead && Holds(Rule::kHigherAttemptStopsGang)) {
    MarkLost(now, slot, Cause::kMachineLost,
             "was replaced: attempt " + std::to_string(hello.attempt) + " took the place of " +
                 std::to_string(slot.attempt));
  }
  Slot fresh;
  fresh.attempt = hello.attempt;
  fresh.lowest = slot.lowest;
  fresh.predecessor_confirmed = hello.predecessor_dead;
  fresh.lost_in = slot.lost_in;
  fresh.lost_cause = slot.lost_cause;
  fresh.lost_how = slot.lost_how;
  if (slot.has_echo) fresh.older_out = slot.older_out;
  if (!hello.predecessor_dead) {
    bool answered = slot.answered_sent != Time::min();
    Time silent_since = answered ? slot.answered_sent : std::max(born_, slot.answered_at);
    fresh.predecessor_out = std::max(slot.predecessor_out, silent_since + LossLength(now));
  }
  slot = std::move(fresh);
}

// An agent that has taken part in a generation proves that its predecessors were fenced then; and
// whoever has answered us once never answers an older coordinator again.
void Coordinator::Witness(Time now, Slot& slot, const Hello& hello) {
  if (hello.report.generation.exists()) slot.predecessor_confirmed = true;
  if (slot.has_echo || !slot.predecessor_confirmed) return;
  slot.older_out = now - hello.silence + std::max(hello.lease_length, LossLength(now));
}

// Messages may have been lost with the last connection: bring the member to this generation.
void Coordinator::Resynchronise(Time now, Slot& slot, uint32_t machine) {
  const Report& report = slot.report;
  bool current = report.generation == generation_;
  if (phase_ == CoordinatorPhase::kStopping && slot.lost_in != generation_) {
    if (current || report.generation < generation_) {
      Send(slot, Stop{generation_, stop_reason_, std::max(kill_at_ - now, Duration::zero())});
    }
    return;
  }
  if (Live() && report.generation < generation_ && Holds(Rule::kHigherAttemptStopsGang)) {
    // It stood in this generation once and knows nothing of it: its ranks died with its memory;
    // or the START was lost, which stopping the whole gang mends as well.
    MarkLost(now, slot, Cause::kMachineLost, "came back without its ranks");
    slot.lost = false;  // it is here, and takes part in the next generation
    Send(slot, Stop{generation_, StopReason::kMachineLost, Duration::zero()});
    Log("machine " + std::to_string(machine) + " came back without its ranks");
    return;
  }
  if (MayHaveLiveRanks(report.phase) && !(current && Live())) {
    Send(slot, Stop{report.generation, StopReason::kMachineLost, Duration::zero()});
  }
}

// ---- what members say ----

void Coordinator::Handle(Time now, uint32_t machine, const Pong& pong) {
  Slot& slot = slots_[machine];
  if (pong.ping_sent > last_stamp_ || pong.ping_sent < slot.answered_sent) return;
  slot.answered_sent = pong.ping_sent;
  slot.answered_at = now;
  slot.answered_generation = pong.generation;
  slot.has_echo = true;
  slot.echo = pong.now;
  if (slot.lost && !slot.confirmed_dead) {
    slot.lost = false;  // taken back, until a higher attempt says HELLO
    ++version_;
  }
  Duration uncertainty = (now - pong.ping_sent) / 2;
  if (uncertainty <= slot.clock_uncertainty || now - slot.clock_measured > kClockSampleLife) {
    slot.clock_uncertainty = uncertainty;
    slot.clock_offset = pong.now - (pong.ping_sent + uncertainty);
    slot.clock_measured = now;
  }
}

void Coordinator::Handle(Time now, uint32_t machine, const ReportMessage& message) {
  ++version_;
  slots_[machine].report = message.report;
  CountSteps(message.report);
  Apply(now, machine, message.report);
}

void Coordinator::CountSteps(const Report& report) {
  if (history_.empty() || Record().generation != report.generation) return;
  GenerationRecord& record = Record();
  record.last_step = std::max(record.last_step, report.last_step);
  if (report.first_step == 0) return;
  record.resumed_at =
      record.resumed_at == 0 ? report.first_step : std::min(record.resumed_at, report.first_step);
}

void Coordinator::Handle(Time now, uint32_t machine, const StopRequest& request) {
  slots_[machine].draining = request.reason == StopReason::kDraining;
  ++version_;
  if (Live()) BeginStop(now, request.reason, request.grace);
}

void Coordinator::Handle(Time now, uint32_t machine, const CommitRequest& request) {
  if (request.generation != generation_) {
    Send(slots_[machine], CommitReply{request.id, false, 0, "that generation has ended"});
    return;
  }
  commits_.push_back({machine, request.id, Stamp(now)});
  PingAll(now);
}

void Coordinator::Handle(Time, uint32_t, const Progress& progress) {
  if (progress.generation != generation_) return;
  for (const RankProgress& rank : progress.ranks) progress_[rank.rank] = rank;
  ++version_;
}

void Coordinator::Handle(Time, uint32_t machine, const VerdictAck&) {
  slots_[machine].acked = true;
}

// ---- heartbeats and the lease ----

void Coordinator::PingAll(Time now) {
  ping_due_ = now + PingInterval(lease_length_);
  for (Slot& slot : slots_) PingOne(now, slot);
}

void Coordinator::PingOne(Time now, Slot& slot) {
  if (slot.connection == 0) return;
  Time stamp = Stamp(now);
  Send(slot, Ping{stamp, config_.attempt, Grant(stamp, slot)});
}

Time Coordinator::Stamp(Time now) {
  last_stamp_ = std::max(now, last_stamp_ + nanoseconds(1));
  return last_stamp_;
}

Time Coordinator::Oldest() const {
  Time oldest = kNever;
  for (const Slot& slot : slots_) oldest = std::min(oldest, slot.answered_sent);
  return oldest;
}

LeaseGrant Coordinator::Grant(Time stamp, const Slot& slot) const {
  Time oldest = Holds(Rule::kLeaseFromOldestAnswer) ? Oldest() : slot.answered_sent;
  if (!slot.has_echo || oldest == Time::min()) return {};
  if (!Holds(Rule::kLeaseFromSending)) {
    oldest = kNever;
    for (const Slot& other : slots_) oldest = std::min(oldest, other.answered_at);
  }
  return {true, slot.echo, stamp - oldest, lease_length_};
}

bool Coordinator::LeaseLive(Time now) const {
  Time oldest = Oldest();
  return oldest != Time::min() && now < oldest + LeaseShare(lease_length_);
}

Duration Coordinator::LossLength(Time now) const {
  bool old_runs = now < old_length_out_ && Holds(Rule::kLowerLWaits);
  return old_runs ? std::max(old_length_, lease_length_) : lease_length_;
}

void Coordinator::CheckLease(Time now) {
  if (Live() && !LeaseLive(now)) BeginStop(now, StopReason::kLeaseExpired, Duration::zero());
}

// Who was stopped itself heard nobody: it judges on fresh answers only.
void Coordinator::CheckAbsence(Time now) {
  if (now - last_step_ > lease_length_ / 2) {
    for (Slot& slot : slots_) slot.answered_at = std::max(slot.answered_at, now);
  }
  last_step_ = now;
}

void Coordinator::CheckSilence(Time now) {
  Duration limit = LossLength(now);
  for (Slot& slot : slots_) {
    if (slot.attempt == 0 || slot.lost || now - slot.answered_at < limit) continue;
    MarkLost(now, slot, Cause::kMachineLost,
             "fell silent for " +
                 std::to_string(duration_cast<milliseconds>(now - slot.answered_at).count()) +
                 " ms");
  }
}

void Coordinator::MarkLost(Time now, Slot& slot, Cause cause, std::string how) {
  slot.lost = true;
  ++version_;
  bool involved = Live() || phase_ == CoordinatorPhase::kStopping;
  bool confirmed =
      slot.report.generation == generation_ && slot.report.phase == MemberPhase::kStopped;
  if (!involved || confirmed) return;
  slot.lost_in = generation_;
  slot.lost_cause = cause;
  slot.lost_how = std::move(how);
  if (Live()) BeginStop(now, StopReason::kMachineLost, config_.policy.restart_grace_period);
}

// ---- small things ----

CoordinatorActions Coordinator::Step(Time now) {
  if (phase_ == CoordinatorPhase::kDone) return std::exchange(actions_, {});
  CheckLease(now);
  CheckAbsence(now);
  CheckSilence(now);
  CheckSpawned(now);
  CheckFinished(now);
  CheckCommits(now);
  CheckStopped(now);
  CheckReset(now);
  TryStart(now);
  if (phase_ == CoordinatorPhase::kVerdict) {
    bool all = std::all_of(slots_.begin(), slots_.end(),
                           [](const Slot& slot) { return slot.acked || slot.lost; });
    if (all || now >= verdict_deadline_) {
      phase_ = CoordinatorPhase::kDone;
      verdict_deadline_ = kNever;
      actions_.emplace_back(ExitCoordinator{static_cast<int>(verdict_->exit_code), "verdict"});
      return std::exchange(actions_, {});
    }
  }
  if (now >= ping_due_) PingAll(now);
  return std::exchange(actions_, {});
}

void Coordinator::Send(const Slot& slot, Message message) {
  if (slot.connection != 0) actions_.emplace_back(SendTo{slot.connection, std::move(message)});
}

void Coordinator::Log(std::string line) { actions_.emplace_back(CoordinatorLog{std::move(line)}); }

MachineView Coordinator::machine(Time now, uint32_t index) const {
  const Slot& slot = slots_.at(index);
  MachineView view;
  view.attempt = slot.attempt;
  view.connected = slot.connection != 0;
  view.lost = slot.lost;
  view.draining = slot.draining;
  view.replace = slot.replace;
  if (slot.attempt != 0) view.silent_for = std::max(now - slot.answered_at, Duration::zero());
  view.generation = slot.report.generation;
  view.phase = slot.report.phase;
  view.binding = slot.report.binding;
  view.binding_reason = slot.report.binding_reason;
  return view;
}

Time Coordinator::starts_again() const {
  return phase_ == CoordinatorPhase::kBackoff ? backoff_until_ : kNever;
}

bool Coordinator::MayExit() const {
  return !Live() && phase_ != CoordinatorPhase::kStopping && phase_ != CoordinatorPhase::kVerdict;
}

}  // namespace lockstep::core
