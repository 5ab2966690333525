// Connections, joining, heartbeats and desired states. How a generation begins and runs is in
// coordinator_generations.cc, how it ends in coordinator_ends.cc.
#include "core/gang/coordinator/coordinator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/exit_codes.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {
namespace {

// Ranks of a large gang report steps many times a second.
constexpr Duration kStepEvery = seconds(1);

}  // namespace

Coordinator::Coordinator(CoordinatorConfig config, Time born)
    : config_(std::move(config)),
      born_(born),
      roster_(config_.machines, config_.attempts),
      lease_(config_.machines, config_.policy.machine_lost_after, born),
      stragglers_{.finder = StragglerFinder(config_.machines, config_.processes), .replaced = {}},
      fences_(config_.machines, config_.processes),
      alone_({.ranks = config_.alone, .processes = config_.processes, .names = config_.names},
             config_.policy, roster_, counters_, outbox_),
      launcher_(config_.launcher(), roster_, outbox_),
      copies_(config_.memory_copies, roster_, outbox_),
      folder_({.folder = config_.memory ? config_.checkpoint_path : "",
               .every = config_.persist_every,
               .patience = config_.object_store ? kUploadPatience : kPersistPatience},
              roster_, copies_, outbox_),
      ports_({.wanted = config_.ports,
              .one_computer = config_.one_computer,
              .machines = config_.machines,
              .processes = config_.processes},
             roster_, outbox_),
      codes_(config_.sync, config_.attempt, roster_, outbox_) {
  generation_.attempt = config_.attempt;
  if (!config_.elastic) orders_.members = orders_.witnesses = roster_.members();
  if (config_.preflight) preflight_.emplace(*config_.preflight, config_.machines);
}

// ---- events ----

CoordinatorActions Coordinator::OnMessage(Time now, ConnectionId connection,
                                          const Message& message) {
  if (phase_ == CoordinatorPhase::kDone) return {};
  CheckLease(now);
  Slot* slot = roster_.Of(connection);
  std::visit(
      [&]<typename Body>(const Body& body) {
        if constexpr (std::is_same_v<Body, Hello>) {
          Handle(now, connection, body);
        } else if (slot == nullptr) {
          outbox_.Add(CloseConnection{connection, std::string(Body::kKind.name) + " before HELLO"});
        } else if constexpr (Body::kKind.receiver != Receiver::kMember) {
          Handle(now, *slot, body);
        } else {
          outbox_.Add(CloseConnection{connection,
                                      std::string(Body::kKind.name) + " is not for a coordinator"});
        }
      },
      message);
  return Step(now);
}

CoordinatorActions Coordinator::OnDisconnect(Time now, ConnectionId connection) {
  if (Slot* slot = roster_.Of(connection); slot != nullptr) {
    roster_.Disconnect(*slot);
    outbox_.Change();
  }
  return Step(now);
}

CoordinatorActions Coordinator::OnPrepared(Time now, const Prepared& prepared) {
  if (phase_ == CoordinatorPhase::kPreparing && prepared.generation == generation_) {
    if (prepared.later != 0) {
      LeaveTo(prepared.later, "has begun generations already");
    } else if (prepared.taken != 0) {
      Log("other jobs used the numbers up to " + std::to_string(prepared.taken));
      generation_.n = std::max(generation_.n, prepared.taken);
      Wait();
    } else if (prepared.none_earlier) {
      FailWithoutEarlier(now, prepared.error);
    } else if (prepared.hopeless) {
      folder_.OnFolderUnusable();
      FailAsMisconfigured(now, 0, prepared.error);
    } else if (!prepared.error.empty()) {
      CouldNotPrepare(now, prepared.error);
    } else {
      preparation_.prepared = prepared;
      OnEarlierPrepared(prepared);
      folder_.OnGenerationFile(generation_, prepared.commit);
    }
  }
  return Step(now);
}

CoordinatorActions Coordinator::OnPortsFound(Time now, const FoundPorts& found) {
  if (phase_ == CoordinatorPhase::kPreparing) {
    if (const std::string why = ports_.OnFound(found); !why.empty()) CouldNotPrepare(now, why);
  }
  return Step(now);
}

CoordinatorActions Coordinator::OnPersisted(Time now, CheckpointId to, const std::string& error) {
  folder_.OnNamed(to, error);
  return Step(now);
}

Result<CoordinatorActions> Coordinator::OnDesiredState(Time now, const DesiredState& desired) {
  if (desired.job_uid != config_.job_uid) {
    return Error::Invalid("jobUID " + desired.job_uid + " is another job's");
  }
  // A higher epoch outranks what was said before a status went back.
  if (desired.epoch < orders_.epoch ||
      (desired.epoch == orders_.epoch && desired.observed_generation < orders_.observed)) {
    return Error::Conflict("epoch " + std::to_string(desired.epoch) + " or observedGeneration " +
                           std::to_string(desired.observed_generation) + " is older than one seen");
  }
  const bool some_members = !desired.members.empty();
  if (some_members && (!desired.members.Contains(0) || desired.members.last() >= roster_.size())) {
    return Error::Invalid("members " + desired.members.ToString() +
                          " are not machine 0 and some of " + std::to_string(roster_.size()));
  }
  if (some_members && !config_.elastic && desired.members.size() < roster_.size()) {
    return Error::Invalid("every generation of this job needs all machines");
  }
  orders_.epoch = desired.epoch;
  orders_.observed = desired.observed_generation;
  orders_.members = some_members ? desired.members : Members::All(config_.machines);
  orders_.witnesses = some_members ? desired.witnesses : orders_.members;
  counters_.Merge(desired.machine_failures);
  outbox_.Change();
  if (desired.health) {
    config_.hang_timeout = desired.health->hang_timeout;
    config_.restart_hangs = desired.health->restart_hangs;
  }
  if (desired.policy) {
    config_.policy = *desired.policy;
    JoinMetricRules(&config_.policy, desired.metric_rules);
    lease_.SetLength(now, desired.policy->machine_lost_after);
  }
  for (const DesiredState::Terminated& ended : desired.terminated) {
    if (ended.machine >= roster_.size()) continue;
    Slot& slot = roster_[ended.machine];
    if (slot.attempt != ended.attempt || slot.confirmed_dead) continue;
    slot.confirmed_dead = true;
    MarkLost(now, slot, ended.cause,
             ended.cause == Cause::kOutOfMemory ? "went over its memory limit" : "lost its agent");
    slot.report.phase = MemberPhase::kStopped;
  }
  for (Slot& slot : roster_) slot.fenced = 0;
  for (const DesiredState::Fenced& fenced : desired.fenced) {
    if (fenced.machine < roster_.size()) roster_[fenced.machine].fenced = fenced.attempt;
  }
  for (Slot& slot : roster_) ConfirmPredecessors(now, slot);
  orders_.stop = desired.stop;
  TakeCode(now, desired.code);
  if (orders_.stop) {
    if (Live()) {
      BeginStop(now, orders_.stop->reason, orders_.stop->grace);
      stopping_.words = orders_.stop->words;
    } else if (phase_ == CoordinatorPhase::kStopping &&
               (stopping_.keep || now + orders_.stop->grace < stopping_.kill_at)) {
      stopping_.keep = !Holds(Rule::kHeldKeepsNone);
      stopping_.kill_at = std::min(stopping_.kill_at, now + orders_.stop->grace);
      for (const Slot& slot : roster_.gang()) {
        Send(slot, Stop{generation_,
                        stopping_.reason,
                        std::max(stopping_.kill_at - now, Duration::zero()),
                        {},
                        stopping_.keep});
      }
    } else {
      for (const Slot& slot : roster_) StopKept(slot);
    }
  }
  TakeRestart(now, desired.restart);
  return Step(now);
}

Result<CoordinatorActions> Coordinator::OnCodeOffered(Time now, const CodeOffer& offer) {
  if (ending_.verdict || ending_.failing) return Error::Conflict("the job has ended");
  if (const Status offered = codes_.Offer(offer); !offered.ok()) return offered.error();
  return Step(now);
}

CoordinatorActions Coordinator::OnEditorLeft(Time now, const std::string& receiver) {
  orders_.code.OnEditorLeft(receiver);
  codes_.OnReceiverLeft(receiver);
  return Step(now);
}

CoordinatorActions Coordinator::OnTimer(Time now) { return Step(now); }

Time Coordinator::NextWake() const {
  if (phase_ == CoordinatorPhase::kDone) return kNever;
  Time wake = std::min({lease_.ping_due(), ending_.deadline, stopping_.settled_at});
  if (phase_ == CoordinatorPhase::kBackoff) wake = std::min(wake, setbacks_.until());
  if (phase_ == CoordinatorPhase::kPreparing) wake = std::min(wake, preparation_.slow_at);
  if (phase_ == CoordinatorPhase::kRunning) {
    wake = std::min({wake, hangs_.step_due, hangs_.finder.NextWake(config_.hang_timeout)});
  }
  wake = std::min(wake, folder_.NextWake(phase_ == CoordinatorPhase::kRunning));
  if (Live()) wake = std::min(wake, orders_.restart.due());
  if (Live()) wake = std::min(wake, alone_.NextWake(stopping_.settled_at != kNever));
  if (preflight_ && phase_ == CoordinatorPhase::kGathering)
    wake = std::min(wake, preflight_->deadline());
  if (SpreadsCode()) wake = std::min(wake, codes_.NextWake());
  return wake;
}

// ---- joining ----

bool Coordinator::Refuses(ConnectionId connection, const Hello& hello) {
  auto refuse = [&](RefusalCode code, std::string reason) {
    Log("machine " + std::to_string(hello.machine) + " attempt " + std::to_string(hello.attempt) +
        " refused: " + reason);
    outbox_.Add(SendTo{connection, Refused{code, reason}});
    outbox_.Add(CloseConnection{connection, std::move(reason)});
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
  const Slot& slot = roster_[hello.machine];
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
    return LeaveTo(hello.machine0_attempt, "exists");
  }
  outbox_.Change();
  Slot& slot = roster_[hello.machine];
  if (slot.connection != 0 && slot.connection != connection) {
    bool replaced = hello.attempt > slot.attempt;
    if (replaced) Send(slot, Refused{RefusalCode::kReplaced, "a higher attempt has joined"});
    outbox_.Add(CloseConnection{
        slot.connection, replaced ? "a higher attempt has joined" : "the agent connected again"});
    roster_.Disconnect(slot);
  }
  if (hello.attempt != slot.attempt) {
    Replace(now, slot, hello,
            "attempt " + std::to_string(hello.attempt) + " took the place of " +
                std::to_string(slot.attempt));
  } else if (hello.report.generation < slot.report.generation && !slot.confirmed_dead) {
    // An agent's report never goes back: this is another, and attempts are given out twice, as with
    // an etcd that was restored. Of the first one's death the operator knows nothing.
    Hello another = hello;
    another.predecessor_dead = false;
    Replace(now, slot, another,
            "another agent has the same attempt, " + std::to_string(slot.attempt));
  }
  if (slot.confirmed_dead) {
    // What was seen to end cannot come back; whoever this is, it is not trusted with a rank.
    outbox_.Add(CloseConnection{connection, "this attempt's container has ended"});
    return;
  }
  roster_.Connect(slot, connection);
  slot.draining = hello.draining;
  slot.leaving = false;
  slot.address = hello.address;
  lease_.OnHello(now, hello.machine);
  slot.lost = false;
  // An agent that no coordinator has welcomed was never measured. If its attempt was, an etcd that
  // was restored gave the attempt out twice.
  const bool fresh = hello.report.phase == MemberPhase::kJoining;
  if (preflight_ && fresh) preflight_->OnReplaced(slot.machine);
  if (preflight_) preflight_->OnJoined(slot.machine);
  slot.code.reset();
  slot.fetching_code.clear();
  slot.memory.reset();
  if (Holds(Rule::kCopiesComeAgain)) slot.fetching.reset();
  slot.dismissed = false;
  folder_.AskAgain(slot);
  ConfirmPredecessors(now, slot);
  HearPriorMember(now, slot, hello);
  Send(slot, Welcome{config_.attempt, counters_});
  PingOne(now, slot);
  ports_.AskAgain(slot);
  if (ending_.verdict) {
    Send(slot, *ending_.verdict);
    return;
  }
  slot.report = hello.report;
  Resynchronise(now, slot);
  if (Live() && slot.report.generation == generation_) launcher_.AskAgain(slot);
  CountSteps(hello.report);
  Apply(now, slot, hello.report);
}

// A new agent stands in for this machine.
void Coordinator::Replace(Time now, Slot& slot, const Hello& hello, const std::string& how) {
  slot.connection = 0;
  if (slot.attempt != 0 && !slot.confirmed_dead && Holds(Rule::kHigherAttemptStopsGang)) {
    MarkLost(now, slot, Cause::kMachineLost, "was replaced: " + how);
  }
  const bool answered = lease_.of(slot.machine).has_echo;
  roster_.Replace(slot, hello, answered, lease_.SilentSince(slot.machine) + lease_.LossLength(now));
  lease_.Reset(slot.machine);
  if (preflight_) preflight_->OnReplaced(slot.machine);
}

// The desired state also holds for agents that send HELLO later, because the operator does not
// repeat it.
void Coordinator::ConfirmPredecessors(Time now, Slot& slot) {
  const bool said = slot.attempt != 0 && slot.fenced == slot.attempt && !slot.twin;
  if (!said || slot.predecessor_confirmed) return;
  slot.predecessor_confirmed = true;
  slot.predecessor_out = Time::min();
  if (lease_.of(slot.machine).has_echo) {
    slot.older_out = std::min(slot.older_out, now + lease_.LossLength(now));
  }
}

// An agent that has taken part in a generation proves that its predecessors were fenced then. An
// agent that has answered this coordinator never answers an older one again.
void Coordinator::HearPriorMember(Time now, Slot& slot, const Hello& hello) {
  if (hello.report.generation.exists()) slot.predecessor_confirmed = true;
  if (lease_.of(slot.machine).has_echo || !slot.predecessor_confirmed) return;
  slot.older_out = now - hello.silence + std::max(hello.lease_length, lease_.LossLength(now));
}

// Messages may have been lost with the last connection: bring the member to this generation.
void Coordinator::Resynchronise(Time now, Slot& slot) {
  const Report& report = slot.report;
  bool current = report.generation == generation_;
  if (phase_ == CoordinatorPhase::kStopping && roster_.TakesPart(slot) &&
      slot.lost_in != generation_) {
    if (current || report.generation < generation_) {
      Send(slot, Stop{generation_,
                      stopping_.reason,
                      std::max(stopping_.kill_at - now, Duration::zero()),
                      {},
                      stopping_.keep});
    }
    return;
  }
  if (orders_.stop || KeptHaveOtherCode()) StopKept(slot);
  if (Live() && roster_.TakesPart(slot) && report.generation < generation_ &&
      Holds(Rule::kHigherAttemptStopsGang)) {
    // It was in this generation and knows nothing of it: the START was lost, or it is another agent
    // and the first one's ranks, of which nothing was heard, died with that.
    MarkLost(now, slot, Cause::kMachineLost, "came back without its ranks");
    slot.lost = false;  // it is here, and takes part in the next generation
    Send(slot, Stop{generation_, StopReason::kMachineLost, Duration::zero()});
    Log("machine " + std::to_string(slot.machine) + " came back without its ranks");
    return;
  }
  if (MayHaveLiveRanks(report.phase) && !(current && Live())) {
    Send(slot, Stop{report.generation, StopReason::kMachineLost, Duration::zero()});
  }
}

// ---- what members say ----

void Coordinator::Handle(Time now, Slot& slot, const Pong& pong) {
  slot.leaving = pong.phase == MemberPhase::kExiting;
  if (!lease_.OnPong(now, slot.machine, pong)) return;
  if (slot.predecessor_confirmed && slot.older_out == kNever) {
    slot.older_out = now + lease_.LossLength(now);  // confirmed since its HELLO
  }
  if (slot.lost && !slot.confirmed_dead) {
    slot.lost = false;  // taken back, until a higher attempt says HELLO
    outbox_.Change();
  }
}

void Coordinator::Handle(Time now, Slot& slot, const ReportMessage& message) {
  outbox_.Change();
  slot.report = message.report;
  CountSteps(message.report);
  Apply(now, slot, message.report);
}

void Coordinator::CountSteps(const Report& report) {
  if (history_.empty() || Record().generation != report.generation) return;
  GenerationRecord& record = Record();
  record.last_step = std::max(record.last_step, report.last_step);
  record.loaded = std::max(record.loaded, report.loaded);
  if (report.first_step == 0) return;
  record.resumed_at =
      record.resumed_at == 0 ? report.first_step : std::min(record.resumed_at, report.first_step);
}

void Coordinator::Handle(Time now, Slot& slot, const StopRequest& request) {
  slot.draining = request.reason == StopReason::kDraining;
  outbox_.Change();
  if (Live() && roster_.TakesPart(slot)) BeginStop(now, request.reason, request.grace);
}

void Coordinator::Handle(Time now, Slot& slot, const CommitRequest& request) {
  if (request.generation != generation_) {
    Send(slot, CommitReply{request.id, false, 0, "that generation has ended"});
    return;
  }
  if (request.memory) {
    // It asked for it itself, in this generation: no PING is needed.
    commits_.AskInMemory(slot.machine, request);
    return;
  }
  commits_.AskOnDisk(slot.machine, request.id, lease_.Stamp(now));
  PingAll(now);
}

void Coordinator::Handle(Time now, Slot& slot, const Progress& progress) {
  if (progress.generation != generation_) return;
  for (const RankProgress& rank : progress.ranks) {
    if (SlotOf(rank.rank) != &slot) continue;
    RankProgress& told = progress_[rank.rank] = rank;
    // An agent that lies must not make the status grow.
    if (told.figures.size() > kMaxNamedFigures) told.figures.resize(kMaxNamedFigures);
    std::erase_if(told.figures, [](const NamedFigure& figure) {
      return figure.name.size() > kMaxFigureName || !std::isfinite(figure.value);
    });
    const bool exact = rank.source != StepSource::kEpochs;
    if (exact && !history_.empty() && Record().generation == generation_) {
      Record().last_step = std::max(Record().last_step, rank.step);
    }
    stragglers_.finder.Update(now, rank);
  }
  if (hangs_.step_due == kNever) hangs_.step_due = now + kStepEvery;
  outbox_.Change();
}

// On one computer a watcher gets usage at once. On a cluster the next GET /status has it.
void Coordinator::Handle(Time now, Slot& slot, const UsageMessage& message) {
  slot.usage = message.usage;
  slot.usage.Saturate();
  hangs_.finder.OnActivity(now, slot.machine, message.activity);
  if (config_.one_computer) outbox_.Change();
}

void Coordinator::Handle(Time, Slot& slot, const Looked& looked) {
  if (looked.generation == generation_) hangs_.finder.OnPlaces(slot.machine, looked.whereabouts);
}

void Coordinator::Handle(Time, Slot& slot, const VerdictAck&) { slot.acked = true; }

void Coordinator::Handle(Time, Slot& slot, const HeldParts& memory) {
  copies_.OnHeld(slot, memory);
}

void Coordinator::Handle(Time, Slot& slot, const HeldCode& held) { codes_.OnHeld(slot, held); }

void Coordinator::Handle(Time now, Slot& slot, const CodeFailed& failed) {
  codes_.OnFailed(now, slot, failed);
}

void Coordinator::Handle(Time, Slot& slot, const FetchFailed& failed) {
  copies_.OnFetchFailed(slot, failed, phase_ == CoordinatorPhase::kPreparing);
}

void Coordinator::Handle(Time, Slot& slot, const Persisted& persisted) {
  folder_.OnPersisted(slot.machine, persisted);
}

void Coordinator::Handle(Time now, Slot& slot, const PortsTried& tried) {
  if (phase_ != CoordinatorPhase::kPreparing) return;
  const std::string why = ports_.OnTried(slot.machine, tried);
  if (!why.empty()) CouldNotPrepare(now, why);
}

void Coordinator::Handle(Time, Slot& slot, const Run& run) {
  launcher_.OnRun(slot, run, Live() && run.generation == generation_);
}

void Coordinator::Handle(Time, Slot& slot, const Ran& ran) {
  if (ran.generation == generation_) launcher_.OnRan(slot.machine, ran);
}

void Coordinator::Handle(Time, Slot& slot, const Fence& fence) {
  Result<KvsExchange::Answers> answers = fences_.OnFence(slot.machine, fence);
  if (!answers.ok()) {
    outbox_.Add(CloseConnection{slot.connection, answers.error().message});
    return;
  }
  for (auto& [machine, part] : *answers) Send(roster_[machine], std::move(part));
}

void Coordinator::Handle(Time, Slot& slot, const FenceMore& more) {
  if (std::optional<Fence> part = fences_.OnMore(more)) Send(slot, *std::move(part));
}

// ---- heartbeats and the lease ----

void Coordinator::PingAll(Time now) {
  lease_.OnPinged(now);
  for (const Slot& slot : roster_) PingOne(now, slot);
}

void Coordinator::PingOne(Time now, const Slot& slot) {
  if (slot.connection == 0) return;
  Time stamp = lease_.Stamp(now);
  Send(slot, Ping{stamp, config_.attempt, lease_.Grant(stamp, slot.machine)});
}

bool Coordinator::AllAnsweredSince(Time stamp) const {
  return std::ranges::all_of(roster_.gang(), [&](const Slot& slot) {
    const LeaseClock::Pulse& pulse = lease_.of(slot.machine);
    return pulse.answered_sent > stamp && pulse.answered_generation == generation_;
  });
}

void Coordinator::CheckLease(Time now) {
  if (Live() && !lease_.Live(now)) BeginStop(now, StopReason::kLeaseExpired, Duration::zero());
}

void Coordinator::CheckSilence(Time now) {
  lease_.OnStep(now);
  Duration limit = lease_.LossLength(now);
  for (Slot& slot : roster_) {
    if (slot.attempt == 0 || slot.lost) continue;
    const Duration silence = now - lease_.of(slot.machine).answered_at;
    if (silence < limit) continue;
    MarkLost(
        now, slot, Cause::kMachineLost,
        "fell silent for " + std::to_string(duration_cast<milliseconds>(silence).count()) + " ms");
  }
}

void Coordinator::MarkLost(Time now, Slot& slot, Cause cause, std::string how) {
  slot.lost = true;
  outbox_.Change();
  const bool runs = Live() || phase_ == CoordinatorPhase::kStopping;
  const bool involved = runs && roster_.TakesPart(slot);
  if (!involved || slot.has_stopped(generation_)) return;
  slot.lost_in = generation_;
  slot.lost_at = lease_.of(slot.machine).answered_at;
  slot.lost_cause = cause;
  slot.lost_how = std::move(how);
  if (Live()) BeginStop(now, StopReason::kMachineLost, config_.policy.restart_grace_period);
}

// ---- small things ----

CoordinatorActions Coordinator::Step(Time now) {
  if (phase_ == CoordinatorPhase::kDone) return outbox_.Take();
  CheckLease(now);
  CheckSilence(now);
  CheckSpawned(now);
  CheckSettled(now);
  CheckHangs(now);
  CheckAlone(now);
  folder_.CheckWriters(now);
  if (phase_ == CoordinatorPhase::kRunning) folder_.WriteNowAndThen(now);
  CheckFinished(now);
  CheckCommits(now);
  CheckRestart(now);
  CheckCode(now);
  CheckStopped(now);
  CheckLeaving(now);
  CheckReset(now);
  CheckPreparation(now);
  CheckPrepared(now);
  CheckCopies();
  AdoptMembers();
  TryStart(now);
  if (phase_ == CoordinatorPhase::kVerdict) {
    bool all = std::all_of(roster_.begin(), roster_.end(), [this](const Slot& slot) {
      const bool away = slot.connection == 0 && !roster_.TakesPart(slot);
      return slot.acked || slot.lost || away;
    });
    if (all || now >= ending_.deadline) {
      phase_ = CoordinatorPhase::kDone;
      ending_.deadline = kNever;
      outbox_.Add(ExitCoordinator{static_cast<int>(ending_.verdict->exit_code), "verdict"});
      return outbox_.Take();
    }
  }
  if (now >= lease_.ping_due()) PingAll(now);
  return outbox_.Take();
}

MachineView Coordinator::machine(Time now, uint32_t index) const {
  const Slot& slot = roster_[index];
  MachineView view;
  view.attempt = slot.attempt;
  view.connected = slot.connection != 0;
  view.lost = slot.lost;
  view.draining = slot.draining;
  view.replace = slot.replace || slot.straggles;
  view.slow = slot.slow;
  if (slot.attempt != 0) {
    view.silent_for = std::max(now - lease_.of(index).answered_at, Duration::zero());
  }
  view.generation = slot.report.generation;
  view.phase = slot.report.phase;
  view.binding = slot.report.binding;
  view.binding_reason = slot.report.binding_reason;
  view.parked = slot.report.parked;
  if (view.connected && !slot.lost && slot.usage.known()) view.usage = slot.usage;
  return view;
}

Coordinator::Slot* Coordinator::SlotOf(uint32_t rank) {
  const uint32_t place = rank / config_.processes;
  return place < roster_.members().size() ? &roster_[roster_.members().At(place)] : nullptr;
}

Time Coordinator::starts_again() const {
  return phase_ == CoordinatorPhase::kBackoff ? setbacks_.until() : kNever;
}

bool Coordinator::MayExit() const {
  return !Live() && phase_ != CoordinatorPhase::kStopping && phase_ != CoordinatorPhase::kVerdict;
}

}  // namespace lockstep::core
