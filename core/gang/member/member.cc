#include "core/gang/member/member.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/text/duration.h"
#include "core/exit_codes.h"
#include "core/gang/protocol/lease.h"
#include "core/gang/protocol/resume.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

constexpr Duration kProgressInterval = milliseconds(500);
// Whatever machine 0 says: its agents would look for its silence without pause.
constexpr Duration kLeastSilence = milliseconds(100);
constexpr Duration kMostEvidence = seconds(10);
// How long after the grace period an agent that got SIGTERM may write checkpoints from memory; the
// pod has 15 s.
constexpr Duration kWriteSlack = seconds(10);

}  // namespace

Member::Member(MemberConfig config)
    : config_(std::move(config)),
      machine0_attempt_(std::max(config_.machine0_attempt,
                                 config_.machine == 0 ? config_.attempt : uint32_t{0})) {}

// ---- events ----

MemberActions Member::OnConnected(Time now) {
  Begin(now);
  connected_ = true;
  welcomed_ = false;
  heard_.at = now;
  SendHello(now);
  return Take();
}

MemberActions Member::OnDisconnected(Time now) {
  Begin(now);
  connected_ = false;
  welcomed_ = false;
  CheckDrain(now);
  return Take();
}

MemberActions Member::OnMessage(Time now, const Message& message) {
  if (Holds(Rule::kLapsedLeaseStaysLapsed)) Begin(now);
  std::visit(
      [this, now]<typename Body>(const Body& body) {
        if constexpr (Body::kKind.receiver != Receiver::kCoordinator) {
          // Machine 0 waits for acknowledgements, and must not look silent meanwhile.
          constexpr bool kHeartbeat = std::is_same_v<Body, Ping>;
          if (kHeartbeat || phase() != MemberPhase::kExiting) Handle(now, body);
        } else {
          actions_.emplace_back(Disconnect{"the peer sent a message that only members send"});
        }
      },
      message);
  Begin(now);
  CheckDrain(now);
  return Take();
}

MemberActions Member::OnSpawned(Time now, Generation generation, bool warm) {
  Begin(now);
  if (generation == report_.generation && phase() == MemberPhase::kStarting) {
    report_.phase = report_.finished ? MemberPhase::kFinished : MemberPhase::kRunning;
    report_.warm = warm;
    SendReport();
  }
  return Take();
}

MemberActions Member::OnBound(Time now, Generation generation, Binding binding,
                              std::string reason) {
  Begin(now);
  if (generation == report_.generation && MayHaveLiveRanks(phase())) {
    report_.binding = binding;
    if (reason.size() > kMaxBindingReason) reason.resize(kMaxBindingReason);
    report_.binding_reason = std::move(reason);
    SendReport();
  }
  return Take();
}

MemberActions Member::OnParked(Time now, Generation generation, Parked parked) {
  Begin(now);
  if (parked.why_not.size() > kMaxParkedReason) parked.why_not.resize(kMaxParkedReason);
  if (generation == report_.generation && parked != report_.parked) {
    report_.parked = std::move(parked);
    if (phase() != MemberPhase::kStarting) SendReport();  // that it runs is said in a moment
  }
  return Take();
}

MemberActions Member::OnProcessDied(Time now, Generation generation, Failure death) {
  Begin(now);
  if (generation != report_.generation) return Take();
  const bool waited = !MayHaveLiveRanks(phase());  // for the next generation
  SpareNoMore(static_cast<uint32_t>(death.rank));
  if (waited) return Take();
  // What the guard killed did not die by itself, nor did what dies while we look where it hangs;
  // what died just before we signalled it did.
  death.by_itself = !report_.lease_expired && stopping_.evidence_until == kNever &&
                    (death.by_itself || !stopping_.signalled);
  if (death.stderr_tail.size() > kMaxStderrTail) death.stderr_tail.resize(kMaxStderrTail);
  if (IsAlone(death) && death.by_itself) {
    progress_.last.erase(static_cast<uint32_t>(death.rank));
    if (!stopping_.signalled && report_.down.size() < kMaxDownInReport) {
      report_.down.push_back(std::move(death));
      SendReport();
      return Take();
    }
    death.by_itself = !stopping_.signalled;  // the others end for another reason
  }
  if (report_.deaths.size() < kMaxDeathsInReport) {
    report_.deaths.push_back(std::move(death));
    if (report_.deaths.back().by_itself) SendReport();
  }
  return Take();
}

MemberActions Member::OnProcessFinished(Time now, Generation generation, uint32_t rank,
                                        bool by_itself) {
  Begin(now);
  if (generation == report_.generation) {
    SpareNoMore(rank);
    progress_.last.erase(rank);
    const bool asked = !by_itself && stopping_.signalled;
    if (!asked || !Holds(Rule::kAskedExitsAreNoSuccess)) finished_.insert(rank);
    report_.finished = finished_.size() == config_.processes;
    const bool decides = !std::exchange(report_.decided, Decided()) && report_.decided;
    if ((report_.finished || decides) && phase() == MemberPhase::kRunning) {
      if (progress_.next != kNever) SendProgress();  // the last steps, before the end
      if (report_.finished) report_.phase = MemberPhase::kFinished;
      SendReport();
    }
  }
  return Take();
}

// Whether it is of a rank that can be started again alone: one that ran.
bool Member::IsAlone(const Failure& death) const {
  const bool ran = death.cause == Cause::kProcessExit || death.cause == Cause::kProcessSignal ||
                   death.cause == Cause::kOutOfMemory;
  return ran &&
         std::ranges::find(config_.alone, static_cast<uint32_t>(death.rank)) != config_.alone.end();
}

bool Member::Decided() const {
  if (config_.deciders.empty()) return report_.finished;
  return std::ranges::all_of(config_.deciders, [this](uint32_t rank) {
    return rank / config_.processes != first_rank() / config_.processes || finished_.contains(rank);
  });
}

MemberActions Member::OnUnkillable(Time now, Generation generation) {
  Begin(now);
  if (generation == report_.generation && !report_.unkillable) {
    report_.unkillable = true;
    SendReport();
  }
  return Take();
}

MemberActions Member::OnEvidence(Time now, Generation generation,
                                 std::vector<Whereabouts> whereabouts) {
  Begin(now);
  if (generation == report_.generation && stopping_.evidence_until != kNever) {
    if (whereabouts.size() > kMaxWhereaboutsInReport) whereabouts.resize(kMaxWhereaboutsInReport);
    report_.whereabouts = std::move(whereabouts);
    EndEvidence(now);
  }
  return Take();
}

MemberActions Member::OnLooked(Time now, Generation generation,
                               std::vector<Whereabouts> whereabouts) {
  Begin(now);
  if (generation != report_.generation || !welcomed_) return Take();
  if (whereabouts.size() > kMaxWhereaboutsInReport) whereabouts.resize(kMaxWhereaboutsInReport);
  Send(Looked{generation, std::move(whereabouts)});
  return Take();
}

// It is not reported by itself, but with the death that follows it or with the end of the
// generation.
MemberActions Member::OnPlace(Time now, Whereabouts whereabouts) {
  Begin(now);
  const bool ours = whereabouts.rank / config_.processes == first_rank() / config_.processes;
  if (!ours || !MayHaveLiveRanks(phase())) return Take();
  if (whereabouts.place.size() > kMaxPlace) whereabouts.place.resize(kMaxPlace);
  auto& all = report_.whereabouts;
  const auto known = std::ranges::find(all, whereabouts.rank, &Whereabouts::rank);
  if (known != all.end()) {
    *known = std::move(whereabouts);
  } else if (all.size() < kMaxWhereaboutsInReport) {
    all.push_back(std::move(whereabouts));
  }
  return Take();
}

MemberActions Member::OnProgress(Time now, const RankProgress& progress) {
  Begin(now);
  progress_.of[progress.rank] = progress;
  // Output may come after the rank's end.
  const bool counts = progress.source == StepSource::kReports || config_.output_counts;
  if (counts && !finished_.contains(progress.rank)) progress_.last[progress.rank] = now;
  // What is computed from epochs is no step to resume from.
  const bool exact = progress.source != StepSource::kEpochs;
  if (exact) report_.last_step = std::max(report_.last_step, progress.step);
  const auto loaded =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(progress.loaded));
  const bool first = exact && report_.first_step == 0 && progress.step > 0;
  if (first) report_.first_step = progress.step;
  if (first || loaded > report_.loaded) {
    report_.loaded = std::max(report_.loaded, loaded);
    SendReport();
  }
  if (progress_.next == kNever) progress_.next = now + kProgressInterval;
  return Take();
}

MemberActions Member::OnFigures(Time now, uint32_t rank, int64_t step,
                                const std::vector<NamedFigure>& figures) {
  Begin(now);
  if (!MayHaveLiveRanks(phase())) return Take();
  for (BrokenRule& broken : metrics_.OnFigures(rank, step, figures)) {
    broken.failure.at = now;
    broken.failure.by_itself = !stopping_.signalled;
    const bool note = broken.action == FailureAction::kReport;
    std::vector<Failure>& list = note ? report_.noted : report_.deaths;
    if (list.size() >= (note ? 1 : kMaxDeathsInReport)) continue;
    list.push_back(std::move(broken.failure));
    SendReport();
  }
  return Take();
}

MemberActions Member::OnUsage(Time now, const Usage& usage, const RankActivity& activity) {
  Begin(now);
  if (welcomed_) Send(UsageMessage{usage, activity});
  return Take();
}

MemberActions Member::OnCommit(Time now, uint64_t id) { return AskToCommit(now, id, {}); }

MemberActions Member::OnMemoryCommit(Time now, uint64_t id, std::string name, std::string problem) {
  CommitRequest request;
  request.memory = true;
  request.name = std::move(name);
  request.problem = std::move(problem);
  return AskToCommit(now, id, std::move(request));
}

MemberActions Member::AskToCommit(Time now, uint64_t id, CommitRequest request) {
  Begin(now);
  // Who leaves its generation may wait for the answer first.
  if (!MayHaveLiveRanks(phase()) || rejoin_.keeping) {
    actions_.emplace_back(AnswerCommit{id, false, 0, "no generation is running"});
    return Take();
  }
  request.id = commits_.next_id++;
  request.generation = report_.generation;
  if (welcomed_) Send(request);
  commits_.asked[request.id] = {id, std::move(request)};
  return Take();
}

MemberActions Member::OnPartHeld(Time now, MemoryPart part) {
  Begin(now);
  if (std::ranges::find(parts_, part) == parts_.end()) parts_.push_back(std::move(part));
  // A START came while it was on its way.
  DropLaterThanStart();
  SendMemory();
  return Take();
}

MemberActions Member::OnFetchFailed(Time now, MemoryPart part, std::string reason) {
  Begin(now);
  if (welcomed_) Send(FetchFailed{std::move(part), std::move(reason)});
  return Take();
}

MemberActions Member::OnPersisted(Time now, Persisted persisted) {
  Begin(now);
  if (welcomed_) Send(std::move(persisted));
  return Take();
}

MemberActions Member::OnAnswer(Time now, Message answer) {
  Begin(now);
  if (welcomed_) Send(std::move(answer));
  return Take();
}

MemberActions Member::OnTerminate(Time now, Duration grace) {
  Begin(now);
  if (!drain_.begun && phase() != MemberPhase::kExiting) {
    drain_.begun = true;
    drain_.deadline = now + grace;
    drain_.leave_by = drain_.deadline + kWriteSlack;
    if (welcomed_) {
      Send(StopRequest{StopReason::kDraining, grace});
    } else {
      StopRanks(now, drain_.deadline);
    }
    if (rejoin_.keeping) StopRanks(now, now);
    CheckDrain(now);
  }
  return Take();
}

MemberActions Member::OnGuardKilled(Time now) {
  Begin(now);
  if (MayHaveLiveRanks(phase()) && !report_.lease_expired) {
    MarkLeaseExpired(std::min(now, lease_.end));
    StopRanks(now, now);
    SendReport();
  }
  StopRanks(now, now);
  return Take();
}

// Less than a tenth of L in the length of one is within what L leaves beyond the lease.
MemberActions Member::OnStoodStill(Time now, Duration duration) {
  if (!Holds(Rule::kStandstillEndsLease)) return {};
  Begin(now);
  if (now > standstill_.at + heard_.silence_limit) standstill_.duration = Duration::zero();
  standstill_.at = now;
  standstill_.duration += duration;
  if (standstill_.duration < heard_.silence_limit / 10) return Take();
  lease_.trusted_since = now;
  if (!MayHaveLiveRanks(phase())) StopRanks(now, now);
  if (!MayHaveLiveRanks(phase()) || report_.lease_expired) return Take();
  const std::string what = "it was stopped for " +
                           FormatDuration(std::chrono::floor<milliseconds>(standstill_.duration)) +
                           " without a trace in its clock, as happens to a paused virtual machine";
  actions_.emplace_back(
      MemberLog{"the lease of generation " + report_.generation.ToString() + " ends: " + what});
  if (report_.deaths.size() < kMaxDeathsInReport) {
    Failure cause;  // of no rank; the root cause says it of the machine
    cause.rank = static_cast<int>(first_rank());
    cause.cause = Cause::kLeaseExpired;
    cause.at = now;
    cause.stderr_tail = what;
    report_.deaths.push_back(std::move(cause));
  }
  MarkLeaseExpired(now);
  StopRanks(now, now);
  standstill_.pong_first = true;
  return Take();
}

MemberActions Member::OnTimer(Time now) {
  Begin(now);
  CheckHangs(now);
  if (now >= progress_.next) SendProgress();
  if (now >= stopping_.evidence_until) EndEvidence(now);
  if (now >= rejoin_.until) EndKeeping(now);
  if (drain_.begun && now >= drain_.deadline) {
    drain_.deadline = kNever;
    StopRanks(now, now);
  }
  CheckLease(now);  // ranks that had finished needed none until they were stopped
  CheckDrain(now);
  CheckSilence(now);
  return Take();
}

void Member::SendProgress() {
  progress_.next = kNever;
  if (!welcomed_) return;
  Progress message{report_.generation, {}};
  for (const auto& [rank, progress] : progress_.of) message.ranks.push_back(progress);
  Send(std::move(message));
}

Time Member::NextWake() const {
  Time wake = std::min({progress_.next, stopping_.evidence_until, rejoin_.until,
                        drain_.begun ? drain_.deadline : kNever});
  if (Stays()) wake = std::min(wake, drain_.leave_by);
  if (connected_ && config_.machine != 0) wake = std::min(wake, heard_.at + heard_.silence_limit);
  if (heard_.last_event != kNever)
    wake = std::min(wake, heard_.last_event + heard_.silence_limit / 10);
  if (HasRanks() && !report_.lease_expired) wake = std::min(wake, lease_.end);
  if (phase() == MemberPhase::kRunning && start_.hang_timeout > Duration::zero()) {
    for (const auto& [rank, at] : progress_.last) wake = std::min(wake, at + start_.hang_timeout);
  }
  return wake;
}

Duration Member::coordinator_silence(Time now) const {
  return heard_.last_ping == Time::min() ? Duration::zero() : now - heard_.last_ping;
}

// ---- messages ----

void Member::Handle(Time now, const Welcome& message) {
  if (!Obey(now, message.machine0_attempt)) return;
  welcomed_ = true;
  heard_.last_ping = now;
  heard_.at = now;
  counters_.Merge(message.counters);
  if (phase() == MemberPhase::kJoining) report_.phase = MemberPhase::kIdle;
  if (report_unsaid_) SendReport();
  SendMemory();
  SendCode();
  SendFence();
  for (const auto& [wire_id, asked] : commits_.asked) Send(asked.request);
  if (drain_.begun && drain_.deadline != kNever) {
    Send(StopRequest{StopReason::kDraining, std::max(drain_.deadline - now, Duration::zero())});
  }
}

void Member::Handle(Time now, const Refused& message) {
  StopRanks(now, now);
  Leave(kExitReplace, std::nullopt, "refused: " + message.reason);
}

void Member::Handle(Time now, const Ping& message) {
  if (!Obey(now, message.machine0_attempt)) return;
  heard_.last_ping = now;
  heard_.at = now;
  if (message.lease.present) heard_.silence_limit = std::max(message.lease.length, kLeastSilence);
  AcceptGrant(message.lease);
  heard_.last_answer = now;
  Send(Pong{message.sent, now, report_.generation, phase()});
  if (std::exchange(standstill_.pong_first, false)) SendReport();
}

void Member::Handle(Time now, const Start& message) {
  if (!Obey(now, message.generation.attempt)) return;
  if (message.generation <= report_.generation) return;
  const bool other_code = message.code != start_.code && Holds(Rule::kKeptHaveTheCode);
  const bool begins = !drain_.begun && now < EndOf(message.lease) && !other_code;
  if (MayHaveLiveRanks(phase()) || (rejoin_.keeping && !begins)) {
    actions_.emplace_back(MemberLog{"START " + message.generation.ToString() +
                                    " refused: ranks of " + report_.generation.ToString() +
                                    " are alive"});
    refused_ = message.generation;
    StopRanks(now, now);
    return;
  }
  RefuseCommits("another generation has begun");
  std::vector<uint32_t> kept = std::move(report_.kept);
  report_ = Report{message.generation, MemberPhase::kStarting};
  start_ = message;
  asked_to_fetch_.clear();
  DropLaterThanStart();
  counters_.Merge(message.counters);
  stopping_.signalled = false;
  stopping_.kill_at = kNever;
  stopping_.evidence_until = kNever;
  finished_.clear();
  runs_.clear();
  fence_.waiting.reset();
  fence_.number = 0;
  progress_.of.clear();
  progress_.last.clear();
  metrics_.Begin(message.rules, StepInName(message.resume).value_or(0));
  heard_.last_answer = now;
  lease_.end = EndOf(message.lease);
  lease_.length = message.lease.length;
  const bool lacks_code = LacksCode(message.code);
  if (drain_.begun || lacks_code || (Holds(Rule::kLeaseExpires) && !LeaseLive(now))) {
    report_.phase = MemberPhase::kStopped;
    if (lacks_code) {
      actions_.emplace_back(MemberLog{"START " + message.generation.ToString() + " names code " +
                                      message.code + ", which is not here"});
    } else if (!drain_.begun) {
      MarkLeaseExpired(now);
    }
    SendReport();
    SendCode();
    return;
  }
  if (!message.code.empty()) {
    code_.generation = message.generation;
    code_.ran = message.code;
    if (!Holds(Rule::kStartNamesCode) && !code_.digests.empty()) {
      start_.code = code_.digests.back();
    }
  }
  // They said that they can, and have not had the time to say it of this generation.
  rejoin_.ranks = {kept.begin(), kept.end()};
  rejoin_.left.clear();
  rejoin_.keeping = false;
  report_.kept = kept;
  actions_.emplace_back(SetLease{lease_.end});
  actions_.emplace_back(Spawn{start_, lease_.end, std::move(kept)});
}

void Member::Handle(Time now, const Stop& message) {
  if (message.generation < report_.generation) return;
  if (message.generation > report_.generation) {
    // Its START never came here and can no longer come.
    if (HasRanks()) {
      refused_ = message.generation;
      return StopRanks(now, now);
    }
    report_ = Report{message.generation, MemberPhase::kStopped};
  } else if (phase() == MemberPhase::kFinished || MayHaveLiveRanks(phase())) {
    if (phase() == MemberPhase::kRunning && !stopping_.signalled &&
        message.evidence > Duration::zero()) {
      stopping_.evidence_until = now + std::min(message.evidence, kMostEvidence);
      stopping_.evidence_grace = message.grace;
      actions_.emplace_back(CollectEvidence{report_.generation, stopping_.evidence_until});
      return;
    }
    StopRanks(now, now + message.grace, message.keep, message.sure);
    return;
  } else if (rejoin_.keeping && !message.keep) {
    return StopRanks(now, now);
  }
  SendReport();
}

void Member::Handle(Time now, const Look& message) {
  const bool runs = phase() == MemberPhase::kRunning && stopping_.evidence_until == kNever;
  if (message.generation != report_.generation || !runs || stopping_.signalled) return;
  actions_.emplace_back(
      CollectEvidence{report_.generation, now + std::min(message.patience, kMostEvidence), true});
}

void Member::Handle(Time, const CommitReply& message) {
  auto it = commits_.asked.find(message.id);
  if (it == commits_.asked.end()) return;  // asked twice around a reconnect, and answered twice
  actions_.emplace_back(
      AnswerCommit{it->second.id, message.granted, message.number, message.reason});
  commits_.asked.erase(it);
}

void Member::Handle(Time, const Fetch& message) {
  if (message.address.empty()) asked_to_fetch_.push_back(message.part);
  const bool held = std::ranges::find(parts_, message.part) != parts_.end();
  if (held) return SendMemory();
  actions_.emplace_back(FetchPart{message});
}

void Member::Handle(Time, const FetchCode& message) {
  if (std::ranges::find(code_.digests, message.digest) != code_.digests.end()) return SendCode();
  actions_.emplace_back(FetchVersion{message});
}

void Member::Handle(Time, const Keep& message) {
  const CheckpointId last = message.ids.empty() ? CheckpointId{} : std::ranges::max(message.ids);
  Drop([&](const MemoryPart& part) {
    return part.id < last && std::ranges::find(message.ids, part.id) == message.ids.end();
  });
}

void Member::Handle(Time, const Persist& message) { actions_.emplace_back(PersistPart{message}); }

void Member::Handle(Time, const Dismiss&) { drain_.dismissed = true; }

// Nothing is measured beside ranks.
void Member::Handle(Time, const Measure& message) {
  if (!MayHaveLiveRanks(phase())) actions_.emplace_back(MeasureMachine{message});
}

void Member::Handle(Time now, const Verdict& message) {
  if (!Obey(now, message.generation.attempt) || message.generation < report_.generation) return;
  Send(VerdictAck{message.generation});
  StopRanks(now, now);
  Leave(static_cast<int>(message.exit_code), message, "verdict");
}

// ---- steps ----

void Member::Begin(Time now) {
  CheckLease(now);
  CheckAbsence(now);
}

MemberActions Member::Take() { return std::exchange(actions_, {}); }

void Member::CheckLease(Time now) {
  if (!Holds(Rule::kLeaseExpires) || LeaseLive(now)) return;
  if (!MayHaveLiveRanks(phase()) && rejoin_.keeping) return StopRanks(now, now);
  if (!MayHaveLiveRanks(phase()) || report_.lease_expired) return;
  MarkLeaseExpired(lease_.end);
  actions_.emplace_back(
      MemberLog{"the lease of generation " + report_.generation.ToString() + " ran out"});
  StopRanks(now, now);
  SendReport();
}

void Member::CheckHangs(Time now) {
  if (phase() != MemberPhase::kRunning || start_.hang_timeout <= Duration::zero()) return;
  for (auto it = progress_.last.begin(); it != progress_.last.end();) {
    if (now < it->second + start_.hang_timeout) {
      ++it;
      continue;
    }
    if (report_.deaths.size() < kMaxDeathsInReport) {
      Failure hang;
      hang.rank = static_cast<int>(it->first);
      hang.cause = Cause::kHang;
      hang.at = now;
      hang.by_itself = !stopping_.signalled;
      report_.deaths.push_back(std::move(hang));
    }
    it = progress_.last.erase(it);
    SendReport();
  }
}

bool Member::Stays() const {
  return drain_.begun && phase() != MemberPhase::kExiting && phase() != MemberPhase::kFinished &&
         !HasRanks();
}

void Member::CheckDrain(Time now) {
  if (!Stays()) return;
  // What it holds of checkpoints in memory may have to be written first.
  if (!parts_.empty() && welcomed_ && !drain_.dismissed && now < drain_.leave_by) return;
  Leave(kExitStopped, std::nullopt, "stopped on request");
}

// An agent that was stopped itself has not listened: it judges machine 0 by what it hears from now.
void Member::CheckAbsence(Time now) {
  if (heard_.last_event != kNever && now - heard_.last_event > heard_.silence_limit / 2) {
    heard_.at = now;
    if (heard_.last_ping != Time::min()) heard_.last_ping = now;
  }
  heard_.last_event = now;
}

// A peer that vanished behind a partition never closes its end, and a member sends nothing that it
// was not asked for: without this it would wait there while machine 0's next attempt stands ready.
void Member::CheckSilence(Time now) {
  if (!connected_ || config_.machine == 0 || now < heard_.at + heard_.silence_limit) return;
  connected_ = false;
  welcomed_ = false;
  actions_.emplace_back(Disconnect{"machine 0 is silent"});
}

void Member::AcceptGrant(const LeaseGrant& grant) {
  if (!HasRanks()) return;
  if (Holds(Rule::kLapsedLeaseStaysLapsed) && report_.lease_expired) return;
  lease_.length = std::max(lease_.length, grant.length);
  Time end = EndOf(grant);
  if (end <= lease_.end) return;
  lease_.end = end;
  actions_.emplace_back(SetLease{lease_.end});
}

Time Member::EndOf(const LeaseGrant& grant) const {
  return grant.echo < lease_.trusted_since ? Time::min() : LeaseEnd(grant);
}

bool Member::Obey(Time now, uint32_t machine0_attempt) {
  if (machine0_attempt < machine0_attempt_ && Holds(Rule::kRefuseLowerCoordinator)) {
    actions_.emplace_back(Disconnect{"coordinator of attempt " + std::to_string(machine0_attempt) +
                                     " refused: attempt " + std::to_string(machine0_attempt_) +
                                     " of machine 0 is known"});
    return false;
  }
  machine0_attempt_ = std::max(machine0_attempt_, machine0_attempt);
  if (report_.generation.exists() && report_.generation.attempt < machine0_attempt_) {
    StopRanks(now, now);
  }
  return true;
}

void Member::MarkLeaseExpired(Time at) {
  report_.lease_expired = true;
  report_.lease_expired_at = at;
}

void Member::EndEvidence(Time now) {
  stopping_.evidence_until = kNever;
  StopRanks(now, now + stopping_.evidence_grace);
}

void Member::SendHello(Time now) {
  Hello hello;
  hello.job_uid = config_.job_uid;
  hello.machine = config_.machine;
  hello.attempt = config_.attempt;
  hello.machines = config_.machines;
  hello.processes = config_.processes;
  hello.machine0_attempt = machine0_attempt_;
  hello.predecessor_dead = config_.predecessor_dead;
  hello.draining = drain_.begun;
  hello.silence = heard_.last_answer == Time::min() ? Duration::zero() : now - heard_.last_answer;
  hello.lease_length = lease_.length;
  hello.now = now;
  hello.counters = counters_;
  hello.report = report_;
  hello.address = config_.address;
  report_unsaid_ = false;
  actions_.emplace_back(SendToCoordinator{std::move(hello)});
}

void Member::SendReport() {
  if (phase() == MemberPhase::kExiting) return;  // its last word has been said
  if (standstill_.pong_first) return;
  report_unsaid_ = !welcomed_;
  if (welcomed_) Send(ReportMessage{report_});
}

void Member::Send(Message message) { actions_.emplace_back(SendToCoordinator{std::move(message)}); }

// Commits of an earlier generation after the checkpoint that this one began from are outside of its
// line, so no later generation may find them complete. What is fetched from the object store since
// is the next one's, and can have a later id than what lay in memory.
void Member::DropLaterThanStart() {
  if (!Holds(Rule::kStartDropsLaterMemory)) return;
  Drop([this](const MemoryPart& part) {
    const bool asked = std::ranges::find(asked_to_fetch_, part) != asked_to_fetch_.end();
    return !asked && part.id.generation < start_.generation && part.id > start_.memory;
  });
}

template <typename Unwanted>
void Member::Drop(Unwanted unwanted) {
  DropParts dropped;
  std::ranges::copy_if(parts_, std::back_inserter(dropped.parts), unwanted);
  if (dropped.parts.empty()) return;
  std::erase_if(parts_, unwanted);
  actions_.emplace_back(std::move(dropped));
  SendMemory();
}

void Member::SendCode() {
  if (!welcomed_ || config_.code_address.empty()) return;
  HeldCode held = code_;
  held.address = config_.code_address;
  Send(std::move(held));
}

bool Member::LacksCode(const std::string& digest) const {
  return !digest.empty() && Holds(Rule::kCodeBeforeRanks) &&
         std::ranges::find(code_.digests, digest) == code_.digests.end();
}

void Member::SendMemory() {
  if (welcomed_ && !config_.memory_address.empty()) Send(HeldParts{config_.memory_address, parts_});
}

void Member::RefuseCommits(const std::string& reason) {
  for (const auto& [wire_id, asked] : commits_.asked) {
    actions_.emplace_back(AnswerCommit{asked.id, false, 0, reason});
  }
  commits_.asked.clear();
}

void Member::Leave(int code, std::optional<Verdict> verdict, std::string reason) {
  RefuseCommits("the agent is leaving");
  report_.phase = MemberPhase::kExiting;
  actions_.emplace_back(ExitAgent{code, std::move(verdict), std::move(reason)});
}

}  // namespace lockstep::core
