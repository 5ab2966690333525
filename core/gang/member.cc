#include "core/gang/member.h"

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/text/duration.h"
#include "core/exit_codes.h"
#include "core/gang/lease.h"
#include "core/gang/rules.h"

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
  heard_ = now;
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
  death.by_itself =
      !report_.lease_expired && evidence_until_ == kNever && (death.by_itself || !signalled_);
  if (death.stderr_tail.size() > kMaxStderrTail) death.stderr_tail.resize(kMaxStderrTail);
  if (IsAlone(death) && death.by_itself) {
    last_progress_.erase(static_cast<uint32_t>(death.rank));
    if (!signalled_ && report_.down.size() < kMaxDownInReport) {
      report_.down.push_back(std::move(death));
      SendReport();
      return Take();
    }
    death.by_itself = !signalled_;  // the others end for another reason
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
    last_progress_.erase(rank);
    const bool asked = !by_itself && signalled_;
    if (!asked || !Holds(Rule::kAskedExitsAreNoSuccess)) finished_.insert(rank);
    report_.finished = finished_.size() == config_.processes;
    const bool decides = !std::exchange(report_.decided, Decided()) && report_.decided;
    if ((report_.finished || decides) && phase() == MemberPhase::kRunning) {
      if (next_progress_ != kNever) SendProgress();  // the last steps, before the end
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
  if (generation == report_.generation && evidence_until_ != kNever) {
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

// Nobody is told by itself: the death that it comes before is, or the end of the generation.
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
  progress_[progress.rank] = progress;
  // Output may come after the rank's end.
  const bool counts = progress.source == StepSource::kReports || config_.output_counts;
  if (counts && !finished_.contains(progress.rank)) last_progress_[progress.rank] = now;
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
  if (next_progress_ == kNever) next_progress_ = now + kProgressInterval;
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
  if (!MayHaveLiveRanks(phase()) || keeping_) {
    actions_.emplace_back(AnswerCommit{id, false, 0, "no generation is running"});
    return Take();
  }
  request.id = next_commit_++;
  request.generation = report_.generation;
  if (welcomed_) Send(request);
  commits_[request.id] = {id, std::move(request)};
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

MemberActions Member::OnMeasured(Time now, Measured measured) {
  Begin(now);
  if (welcomed_) Send(std::move(measured));
  return Take();
}

MemberActions Member::OnTerminate(Time now, Duration grace) {
  Begin(now);
  if (!draining_ && phase() != MemberPhase::kExiting) {
    draining_ = true;
    drain_deadline_ = now + grace;
    leave_by_ = drain_deadline_ + kWriteSlack;
    if (welcomed_) {
      Send(StopRequest{StopReason::kDraining, grace});
    } else {
      StopRanks(now, drain_deadline_);
    }
    if (keeping_) StopRanks(now, now);
    CheckDrain(now);
  }
  return Take();
}

MemberActions Member::OnGuardKilled(Time now) {
  Begin(now);
  if (MayHaveLiveRanks(phase()) && !report_.lease_expired) {
    MarkLeaseExpired(std::min(now, lease_end_));
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
  if (now > stood_still_at_ + silence_limit_) stood_still_ = Duration::zero();
  stood_still_at_ = now;
  stood_still_ += duration;
  if (stood_still_ < silence_limit_ / 10) return Take();
  trusted_since_ = now;
  if (!MayHaveLiveRanks(phase())) StopRanks(now, now);
  if (!MayHaveLiveRanks(phase()) || report_.lease_expired) return Take();
  const std::string what = "it was stopped for " +
                           FormatDuration(std::chrono::floor<milliseconds>(stood_still_)) +
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
  pong_first_ = true;
  return Take();
}

MemberActions Member::OnTimer(Time now) {
  Begin(now);
  CheckHangs(now);
  if (now >= next_progress_) SendProgress();
  if (now >= evidence_until_) EndEvidence(now);
  if (now >= keep_until_) EndKeeping(now);
  if (draining_ && now >= drain_deadline_) {
    drain_deadline_ = kNever;
    StopRanks(now, now);
  }
  CheckLease(now);  // ranks that had finished needed none until they were stopped
  CheckDrain(now);
  CheckSilence(now);
  return Take();
}

void Member::SendProgress() {
  next_progress_ = kNever;
  if (!welcomed_) return;
  Progress message{report_.generation, {}};
  for (const auto& [rank, progress] : progress_) message.ranks.push_back(progress);
  Send(std::move(message));
}

Time Member::NextWake() const {
  Time wake = std::min(
      {next_progress_, evidence_until_, keep_until_, draining_ ? drain_deadline_ : kNever});
  if (Stays()) wake = std::min(wake, leave_by_);
  if (connected_ && config_.machine != 0) wake = std::min(wake, heard_ + silence_limit_);
  if (last_event_ != kNever) wake = std::min(wake, last_event_ + silence_limit_ / 10);
  if (HasRanks() && !report_.lease_expired) wake = std::min(wake, lease_end_);
  if (phase() == MemberPhase::kRunning && start_.hang_timeout > Duration::zero()) {
    for (const auto& [rank, at] : last_progress_) wake = std::min(wake, at + start_.hang_timeout);
  }
  return wake;
}

Duration Member::coordinator_silence(Time now) const {
  return last_ping_ == Time::min() ? Duration::zero() : now - last_ping_;
}

// ---- messages ----

void Member::Handle(Time now, const Welcome& message) {
  if (!Obey(now, message.machine0_attempt)) return;
  welcomed_ = true;
  last_ping_ = now;
  heard_ = now;
  counters_.Merge(message.counters);
  if (phase() == MemberPhase::kJoining) report_.phase = MemberPhase::kIdle;
  if (report_unsaid_) SendReport();
  SendMemory();
  SendFence();
  for (const auto& [wire_id, asked] : commits_) Send(asked.request);
  if (draining_ && drain_deadline_ != kNever) {
    Send(StopRequest{StopReason::kDraining, std::max(drain_deadline_ - now, Duration::zero())});
  }
}

void Member::Handle(Time now, const Refused& message) {
  StopRanks(now, now);
  Leave(kExitReplace, std::nullopt, "refused: " + message.reason);
}

void Member::Handle(Time now, const Ping& message) {
  if (!Obey(now, message.machine0_attempt)) return;
  last_ping_ = now;
  heard_ = now;
  if (message.lease.present) silence_limit_ = std::max(message.lease.length, kLeastSilence);
  AcceptGrant(message.lease);
  last_answer_ = now;
  Send(Pong{message.sent, now, report_.generation, phase()});
  if (std::exchange(pong_first_, false)) SendReport();
}

void Member::Handle(Time now, const Start& message) {
  if (!Obey(now, message.generation.attempt)) return;
  if (message.generation <= report_.generation) return;
  const bool begins = !draining_ && now < EndOf(message.lease);
  if (MayHaveLiveRanks(phase()) || (keeping_ && !begins)) {
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
  DropLaterThanStart();
  counters_.Merge(message.counters);
  signalled_ = false;
  kill_at_ = kNever;
  evidence_until_ = kNever;
  finished_.clear();
  runs_.clear();
  fence_.reset();
  fence_number_ = 0;
  progress_.clear();
  last_progress_.clear();
  last_answer_ = now;
  lease_end_ = EndOf(message.lease);
  lease_length_ = message.lease.length;
  if (draining_ || (Holds(Rule::kLeaseExpires) && !LeaseLive(now))) {
    report_.phase = MemberPhase::kStopped;
    if (!draining_) MarkLeaseExpired(now);
    SendReport();
    return;
  }
  // They said that they can, and have not had the time to say it of this generation.
  rejoin_ = {kept.begin(), kept.end()};
  left_.clear();
  keeping_ = false;
  report_.kept = kept;
  actions_.emplace_back(SetLease{lease_end_});
  actions_.emplace_back(Spawn{message, lease_end_, std::move(kept)});
}

void Member::Handle(Time now, const Stop& message) {
  if (message.generation < report_.generation) return;
  if (message.generation > report_.generation) {
    // Its START never came here, and cannot any more.
    if (HasRanks()) {
      refused_ = message.generation;
      return StopRanks(now, now);
    }
    report_ = Report{message.generation, MemberPhase::kStopped};
  } else if (phase() == MemberPhase::kFinished || MayHaveLiveRanks(phase())) {
    if (phase() == MemberPhase::kRunning && !signalled_ && message.evidence > Duration::zero()) {
      evidence_until_ = now + std::min(message.evidence, kMostEvidence);
      evidence_grace_ = message.grace;
      actions_.emplace_back(CollectEvidence{report_.generation, evidence_until_});
      return;
    }
    StopRanks(now, now + message.grace, message.keep);
    return;
  } else if (keeping_ && !message.keep) {
    return StopRanks(now, now);
  }
  SendReport();
}

void Member::Handle(Time now, const Look& message) {
  const bool runs = phase() == MemberPhase::kRunning && evidence_until_ == kNever;
  if (message.generation != report_.generation || !runs || signalled_) return;
  actions_.emplace_back(
      CollectEvidence{report_.generation, now + std::min(message.patience, kMostEvidence), true});
}

void Member::Handle(Time, const CommitReply& message) {
  auto it = commits_.find(message.id);
  if (it == commits_.end()) return;  // asked twice around a reconnect, and answered twice
  actions_.emplace_back(
      AnswerCommit{it->second.id, message.granted, message.number, message.reason});
  commits_.erase(it);
}

void Member::Handle(Time, const Fetch& message) {
  const bool held = std::ranges::find(parts_, message.part) != parts_.end();
  if (held) return SendMemory();
  actions_.emplace_back(FetchPart{message});
}

void Member::Handle(Time, const Keep& message) {
  const CheckpointId last = message.ids.empty() ? CheckpointId{} : std::ranges::max(message.ids);
  Drop([&](const MemoryPart& part) {
    return part.id < last && std::ranges::find(message.ids, part.id) == message.ids.end();
  });
}

void Member::Handle(Time, const Persist& message) { actions_.emplace_back(PersistPart{message}); }

void Member::Handle(Time, const Dismiss&) { dismissed_ = true; }

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
  if (!MayHaveLiveRanks(phase()) && keeping_) return StopRanks(now, now);
  if (!MayHaveLiveRanks(phase()) || report_.lease_expired) return;
  MarkLeaseExpired(lease_end_);
  actions_.emplace_back(
      MemberLog{"the lease of generation " + report_.generation.ToString() + " ran out"});
  StopRanks(now, now);
  SendReport();
}

void Member::CheckHangs(Time now) {
  if (phase() != MemberPhase::kRunning || start_.hang_timeout <= Duration::zero()) return;
  for (auto it = last_progress_.begin(); it != last_progress_.end();) {
    if (now < it->second + start_.hang_timeout) {
      ++it;
      continue;
    }
    if (report_.deaths.size() < kMaxDeathsInReport) {
      Failure hang;
      hang.rank = static_cast<int>(it->first);
      hang.cause = Cause::kHang;
      hang.at = now;
      hang.by_itself = !signalled_;
      report_.deaths.push_back(std::move(hang));
    }
    it = last_progress_.erase(it);
    SendReport();
  }
}

bool Member::Stays() const {
  return draining_ && phase() != MemberPhase::kExiting && phase() != MemberPhase::kFinished &&
         !HasRanks();
}

void Member::CheckDrain(Time now) {
  if (!Stays()) return;
  // What it holds of checkpoints in memory may have to be written first.
  if (!parts_.empty() && welcomed_ && !dismissed_ && now < leave_by_) return;
  Leave(kExitStopped, std::nullopt, "stopped on request");
}

// An agent that was stopped itself has not listened: it judges machine 0 by what it hears from now.
void Member::CheckAbsence(Time now) {
  if (last_event_ != kNever && now - last_event_ > silence_limit_ / 2) {
    heard_ = now;
    if (last_ping_ != Time::min()) last_ping_ = now;
  }
  last_event_ = now;
}

// A peer that vanished behind a partition never closes its end, and a member sends nothing that it
// was not asked for: without this it would wait there while machine 0's next attempt stands ready.
void Member::CheckSilence(Time now) {
  if (!connected_ || config_.machine == 0 || now < heard_ + silence_limit_) return;
  connected_ = false;
  welcomed_ = false;
  actions_.emplace_back(Disconnect{"machine 0 is silent"});
}

void Member::AcceptGrant(const LeaseGrant& grant) {
  if (!HasRanks()) return;
  if (Holds(Rule::kLapsedLeaseStaysLapsed) && report_.lease_expired) return;
  lease_length_ = std::max(lease_length_, grant.length);
  Time end = EndOf(grant);
  if (end <= lease_end_) return;
  lease_end_ = end;
  actions_.emplace_back(SetLease{lease_end_});
}

Time Member::EndOf(const LeaseGrant& grant) const {
  return grant.echo < trusted_since_ ? Time::min() : LeaseEnd(grant);
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
  evidence_until_ = kNever;
  StopRanks(now, now + evidence_grace_);
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
  hello.draining = draining_;
  hello.silence = last_answer_ == Time::min() ? Duration::zero() : now - last_answer_;
  hello.lease_length = lease_length_;
  hello.now = now;
  hello.counters = counters_;
  hello.report = report_;
  hello.address = config_.address;
  report_unsaid_ = false;
  actions_.emplace_back(SendToCoordinator{std::move(hello)});
}

void Member::SendReport() {
  if (phase() == MemberPhase::kExiting) return;  // its last word has been said
  if (pong_first_) return;
  report_unsaid_ = !welcomed_;
  if (welcomed_) Send(ReportMessage{report_});
}

void Member::Send(Message message) { actions_.emplace_back(SendToCoordinator{std::move(message)}); }

// What an earlier generation committed beyond the checkpoint that this one began from is outside of
// its line: no later one may find it whole.
void Member::DropLaterThanStart() {
  if (!Holds(Rule::kStartDropsLaterMemory)) return;
  Drop([this](const MemoryPart& part) {
    return part.id.generation < start_.generation && part.id > start_.memory;
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

void Member::SendMemory() {
  if (welcomed_ && !config_.memory_address.empty()) Send(Memory{config_.memory_address, parts_});
}

void Member::RefuseCommits(const std::string& reason) {
  for (const auto& [wire_id, asked] : commits_) {
    actions_.emplace_back(AnswerCommit{asked.id, false, 0, reason});
  }
  commits_.clear();
}

void Member::Leave(int code, std::optional<Verdict> verdict, std::string reason) {
  RefuseCommits("the agent is leaving");
  report_.phase = MemberPhase::kExiting;
  actions_.emplace_back(ExitAgent{code, std::move(verdict), std::move(reason)});
}

}  // namespace lockstep::core
