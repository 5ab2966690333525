// The agent's loop, its connections and its end. Ranks and guard stand in machine_ranks.cc.
#include "tests/sim/machine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/sim/world.h"

namespace lockstep::sim {

namespace {

constexpr Duration kLeavePatience = seconds(35);  // as the agent's

std::vector<uint32_t> Deciders(const Shape& shape) {
  std::vector<uint32_t> ranks(shape.machine0_decides ? shape.processes : 0);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<uint32_t> AloneRanks(const Shape& shape) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < shape.machines * shape.processes; ++rank) {
    if (IsAlone(shape, rank)) ranks.push_back(rank);
  }
  return ranks;
}

core::MemberConfig MemberConfigOf(const World& world, Node node, const MachineSpec& spec) {
  core::MemberConfig config;
  config.job_uid = kJobUid;
  config.machine = spec.index;
  config.attempt = spec.attempt;
  config.machines = world.shape().machines;
  config.processes = world.shape().processes;
  config.machine0_attempt = spec.machine0_attempt;
  config.predecessor_dead = spec.predecessor_dead;
  config.address = std::to_string(node);
  if (world.shape().memory_every > 0) config.memory_address = std::to_string(node);
  if (world.shape().synced) config.code_address = std::to_string(node);
  config.deciders = Deciders(world.shape());
  config.alone = AloneRanks(world.shape());
  return config;
}

}  // namespace

Machine::Machine(World& world, Node node, const MachineSpec& spec, Clock clock)
    : world_(world),
      node_(node),
      spec_(spec),
      clock_(clock),
      born_(Local()),
      standstill_(core::SecondClock::kCounter, {Local(), world.now().count()}),
      member_(MemberConfigOf(world, node, spec)) {
  if (spec.index != 0) return;
  core::CoordinatorConfig config;
  config.job_uid = kJobUid;
  config.attempt = spec.attempt;
  config.machines = world.shape().machines;
  config.processes = world.shape().processes;
  config.deciders = Deciders(world.shape());
  config.alone = AloneRanks(world.shape());
  config.policy = world.op().policy_at_birth();
  config.grace = world.shape().grace;
  config.hang_timeout = world.shape().hang_timeout;
  config.predecessor_dead = spec.predecessor_dead;
  config.attempts = spec.attempts;
  config.memory = config.memory_copies = world.shape().memory_every > 0;
  if (world.shape().persists) config.checkpoint_path = "/ckpt";
  config.object_store = world.shape().object_store && !world.Mutated("StoreIsPassedOver");
  config.persist_every = world.shape().persist_every;
  config.ports = world.shape().ports;
  config.elastic = world.shape().elastic;
  config.sync = world.shape().synced;
  if (world.shape().preflight) config.preflight.emplace();
  coordinator_.emplace(std::move(config), Local());
}

void Machine::Boot() {
  InAgent([this] {
    world_.Log(Name(), " boots");
    Connect();
  });
}

std::string Machine::Name() const {
  return "m" + std::to_string(spec_.index) + "#" + std::to_string(spec_.attempt);
}

Time Machine::Local() const { return clock_.Local(world_.now()); }

// ---- the agent's loop ----

// The counter runs on while the machine stands still, and its clock with it.
void Machine::LookForStandstill() {
  const Duration still = standstill_.OnReading({Local(), world_.now().count()});
  if (still > Duration::zero()) CarryOut(member_.OnStoodStill(Local(), still));
}

void Machine::Settle() {
  while (!local_.empty() && alive_) {
    auto [up, message] = std::move(local_.front());
    local_.pop_front();
    if (up) {
      CarryOut(coordinator_->OnMessage(Local(), kLocalConnection, message));
    } else if (connection_ == kLocalConnection) {
      CarryOut(member_.OnMessage(Local(), message));
    }
  }
  if (!alive_) return;
  if (coordinator_ && coordinator_->phase() != phase_seen_) {
    phase_seen_ = coordinator_->phase();
    world_.Log(Name(), " coordinator ", core::ToString(phase_seen_), " ",
               coordinator_->generation());
    if (phase_seen_ == core::CoordinatorPhase::kHeld) world_.invariants().OnGangEnds(*this);
    world_.OnPhase(phase_seen_);
  }
  if (coordinator_) world_.invariants().OnCoordinator(*this);
  const bool may_leave = !coordinator_ || coordinator_->MayExit() || world_.now() >= leave_by_;
  if (leaving_ && may_leave) return Leave(leaving_->code);
  Arm();
}

void Machine::Arm() {
  Time next = member_.NextWake();
  if (coordinator_) next = std::min(next, coordinator_->NextWake());
  // No timer is finer; one that is never satisfied does not stop the world.
  Time at = std::max(clock_.True(next), world_.now() + microseconds(50));
  if (at >= wake_) return;
  wake_ = at;
  world_.queue().At(at, [this, at = at.count()] {
    if (wake_.count() != at) return;  // an earlier one was armed since
    wake_ = kNever;
    if (frozen_) return;  // armed again by the clock that goes on
    InAgent([this] { RunTimers(); });
  });
}

void Machine::RunTimers() {
  if (coordinator_ && coordinator_->NextWake() <= Local()) CarryOut(coordinator_->OnTimer(Local()));
  if (alive_ && member_.NextWake() <= Local()) CarryOut(member_.OnTimer(Local()));
}

void Machine::CarryOut(core::MemberActions actions) {
  for (core::MemberAction& action : actions) {
    std::visit([this](auto& body) { CarryOut(body); }, action);
    if (!alive_) return;
  }
}

void Machine::CarryOut(core::CoordinatorActions actions) {
  for (core::CoordinatorAction& action : actions) {
    std::visit([this](auto& body) { CarryOut(body); }, action);
    if (!alive_) return;
  }
}

// ---- connections ----

void Machine::Connect() {
  if (connecting_) return;
  connecting_ = true;
  if (coordinator_) {
    // Within the process; after a moment, so that a refusal cannot spin.
    world_.queue().After(milliseconds(1), [this] {
      InAgent([this] {
        connecting_ = false;
        connection_ = kLocalConnection;
        CarryOut(member_.OnConnected(Local()));
      });
    });
    return;
  }
  std::optional<Node> server = world_.op().Endpoint();
  Duration trip = server ? world_.network().Latency(node_, *server) * 3 : milliseconds(1);
  world_.queue().After(trip, [this, server] {
    InAgent([this, server] {
      connecting_ = false;
      bool there = server && world_.machine(*server).alive() && !world_.machine(*server).stopped();
      if (there && !world_.network().Blocked(node_, *server)) {
        connect_backoff_ = milliseconds(10);
        connection_ = world_.network().Connect(node_, *server);
        CarryOut(member_.OnConnected(Local()));
        return;
      }
      connect_backoff_ = std::min<Duration>(connect_backoff_ * 2, milliseconds(500));
      world_.queue().After(world_.random().Between(connect_backoff_ / 2, connect_backoff_),
                           [this] { InAgent([this] { Connect(); }); });
    });
  });
}

void Machine::OnMessage(core::ConnectionId id, core::Message message) {
  InAgent([this, id, message = std::move(message)] {
    if (id != connection_) return;
    CarryOut(member_.OnMessage(Local(), message));
  });
}

void Machine::OnDisconnected(core::ConnectionId id) {
  InAgent([this, id] {
    if (id != connection_) return;
    connection_ = 0;
    world_.Log(Name(), " is disconnected");
    CarryOut(member_.OnDisconnected(Local()));
    if (alive_ && !leaving_) Connect();
  });
}

void Machine::OnMessageFromPeer(core::ConnectionId id, core::Message message) {
  InAgent([this, id, message = std::move(message)] {
    CarryOut(coordinator_->OnMessage(Local(), id, message));
  });
}

void Machine::OnPeerGone(core::ConnectionId id) {
  InAgent([this, id] { CarryOut(coordinator_->OnDisconnect(Local(), id)); });
}

void Machine::CarryOut(core::SendToCoordinator& action) {
  if (connection_ == 0) return;
  if (std::holds_alternative<core::Pong>(action.message)) {
    uint32_t attempt = world_.AttemptBehind(connection_, *this);
    auto it = std::find_if(pongs_.begin(), pongs_.end(),
                           [&](const auto& pong) { return pong.first == attempt; });
    if (it == pongs_.end()) {
      pongs_.emplace_back(attempt, world_.now());
    } else {
      it->second = world_.now();
    }
  } else {
    world_.Log(Name(), " -> ", core::NameOf(action.message), " ", core::ToString(member_.phase()),
               " ", member_.generation());
  }
  if (connection_ == kLocalConnection) {
    local_.emplace_back(true, std::move(action.message));
  } else {
    world_.network().SendUp(connection_, std::move(action.message));
  }
}

void Machine::CarryOut(core::Disconnect& action) {
  world_.Log(Name(), " disconnects: ", action.reason);
  if (connection_ == 0) return;
  if (connection_ == kLocalConnection) {
    connection_ = 0;
    local_.clear();
    CarryOut(coordinator_->OnDisconnect(Local(), kLocalConnection));
  } else {
    world_.network().CloseUp(connection_);
    connection_ = 0;
  }
  if (!alive_) return;
  CarryOut(member_.OnDisconnected(Local()));
  if (action.final) return;
  world_.queue().After(milliseconds(50), [this] {
    InAgent([this] {
      if (connection_ == 0) Connect();
    });
  });
}

void Machine::CarryOut(core::SendTo& action) {
  if (!std::holds_alternative<core::Ping>(action.message)) {
    world_.Log(Name(), " <- ", core::NameOf(action.message), " to #", action.connection);
  }
  Node to =
      action.connection == kLocalConnection ? node_ : world_.network().ClientOf(action.connection);
  if (const auto* start = std::get_if<core::Start>(&action.message)) {
    world_.invariants().OnStart(*this, to, *start);
  } else if (const auto* measure = std::get_if<core::Measure>(&action.message)) {
    if (measure->alone) world_.invariants().OnAskedToMeasure(node_, to);
  } else if (const auto* reply = std::get_if<core::CommitReply>(&action.message)) {
    if (reply->granted) {
      const std::string name = world_.machine(to).MemoryCommit(reply->id);
      world_.invariants().OnCommitGranted(*this, name);
    }
  } else if (const auto* verdict = std::get_if<core::Verdict>(&action.message)) {
    world_.invariants().OnVerdict(*verdict);
    world_.invariants().OnGangEnds(*this);
  }
  if (action.connection == kLocalConnection) {
    local_.emplace_back(false, std::move(action.message));
  } else {
    world_.network().SendDown(action.connection, std::move(action.message));
  }
}

void Machine::CarryOut(core::CloseConnection& action) {
  world_.Log(Name(), " closes #", action.connection, ": ", action.reason);
  if (action.connection != kLocalConnection) return world_.network().CloseDown(action.connection);
  world_.queue().After(Duration::zero(), [this] { OnDisconnected(kLocalConnection); });
}

void Machine::TakeCode(const std::string& digest) {
  InAgent([this, digest] {
    if (!coordinator_) return;
    const std::optional<core::SyncedCode> code = coordinator_->code();
    const core::CodeOffer offer{.digest = digest,
                                .replaces = code->next.empty() ? code->digest : code->next,
                                .files = 1,
                                .by = "alice",
                                .words = "model.py"};
    if (!coordinator_->AllowsCode(offer).ok()) return;
    world_.Log(Name(), " gets code ", digest);
    HoldCode(digest);
    Result<core::CoordinatorActions> actions = coordinator_->OnCodeOffered(Local(), offer);
    if (actions.ok()) CarryOut(std::move(*actions));
  });
}

void Machine::OnDesiredState(const core::DesiredState& desired) {
  InAgent([this, desired] {
    if (!coordinator_) return;
    Result<core::CoordinatorActions> actions = coordinator_->OnDesiredState(Local(), desired);
    if (!actions.ok()) {
      world_.Log(Name(), " PUT /gang: ", actions.error().message);
      return;
    }
    world_.op().OnDesiredStateTaken(node_, desired);
    CarryOut(std::move(*actions));
  });
}

// ---- the end of the agent, and stops ----

void Machine::CarryOut(core::ExitAgent& action) {
  world_.Log(Name(), " wants to leave with ", action.code, ": ", action.reason);
  if (leaving_) return;
  leaving_ = std::move(action);
  leave_by_ = world_.now() + kLeavePatience;
  world_.queue().At(leave_by_, [this] { InAgent([] {}); });
}

void Machine::CarryOut(core::ExitCoordinator& action) {
  world_.Log(Name(), " coordinator is done with ", action.code, ": ", action.reason);
  if (coordinator_->verdict() && action.code != 75) {
    leaving_ = core::ExitAgent{action.code, coordinator_->verdict(), action.reason};
  }
  needs_epoch_ = action.needs_epoch;
  Leave(action.code);
}

void Machine::CarryOut(core::MemberLog& action) { world_.Log(Name(), " says: ", action.line); }

void Machine::CarryOut(core::CoordinatorLog& action) { world_.Log(Name(), " says: ", action.line); }

void Machine::Leave(int code) {
  exit_code_ = code;
  if (leaving_ && leaving_->code == code) verdict_ = leaving_->verdict;
  world_.Log(Name(), " exits with ", code);
  world_.invariants().OnAgentExit(*this);
  alive_ = false;
  KillAll();
  world_.network().CloseAll(node_);
  CheckTerminated();
}

void Machine::Kill(bool out_of_memory) {
  if (!alive_) return;
  if (frozen_) {
    world_.queue().At(stopped_until_, [this, out_of_memory] { Kill(out_of_memory); });
    return;
  }
  world_.Log(Name(), out_of_memory ? " is out of memory" : " is killed");
  exit_code_ = 137;
  out_of_memory_ = out_of_memory;
  alive_ = false;
  KillAll();
  world_.network().CloseAll(node_);
  CheckTerminated();
}

void Machine::CheckTerminated() {
  if (alive_ || !processes_.empty() || terminated()) return;
  terminated_at_ = world_.now();
  world_.Log(Name(), " container is terminated");
  world_.op().OnTerminated(*this);
}

void Machine::Terminate(Duration grace, bool evidence) {
  asked_to_leave_ = true;
  asked_in_the_open_ |= evidence;
  InAgent([this, grace] {
    world_.Log(Name(), " gets SIGTERM");
    // Its peers may fail before its request arrives.
    world_.invariants().OnApplicationFault();
    CarryOut(member_.OnTerminate(Local(), grace));
  });
}

void Machine::Stop(Duration duration) {
  // A guard and its agent do not fail together: nothing else would be left to keep the lease.
  const bool guarded = guard_alive_ && !guard_stopped_;
  if (!alive_ || (!guarded && !world_.Mutated("GuardAndAgentStop"))) return;
  world_.Log(Name(), " is stopped");
  stopped_ = true;
  stopped_until_ = std::max(stopped_until_, world_.now() + duration);
  world_.queue().At(stopped_until_, [this] { Resume(); });
}

void Machine::Freeze(Duration duration) {
  if (!alive_ || stopped_ || guard_stopped_) return;
  world_.Log(Name(), " stands still, and its clock");
  frozen_ = guard_stopped_ = stopped_ = true;
  stopped_until_ = world_.now() + duration;
  world_.queue().At(stopped_until_, [this, duration, shown = Local()] {
    frozen_ = false;
    clock_.Shift(shown - Local());
    woke_ = Waking{world_.now(), duration, world_.NextPid()};
    GuardGoesOn();
    Resume();
  });
}

void Machine::JumpAhead(Duration by) {
  if (!alive_ || stopped_) return;
  world_.Log(Name(), " clock jumps ahead");
  clock_.Shift(by);
  ArmGuard();
  InAgent([this] { RunTimers(); });
}

void Machine::Resume() {
  if (!alive_ || !stopped_ || world_.now() < stopped_until_) return;
  world_.Log(Name(), " goes on");
  stopped_ = false;
  // Those of a machine whose clock stood still with it are not due yet.
  const bool due = woke_.at != world_.now();
  if (!due) Arm();
  bool timers_first = world_.random().Chance(50);
  if (due && timers_first) InAgent([this] { RunTimers(); });
  std::vector<std::function<void()>> backlog = std::exchange(backlog_, {});
  for (std::function<void()>& event : backlog) InAgent(event);
  if (due && !timers_first) InAgent([this] { RunTimers(); });
}

void Machine::FailRank(uint32_t local_rank, int exit_code, int signal) {
  const uint32_t rank = member_.first_rank() + local_rank;
  for (const Process& process : processes_) {
    if (process.rank != rank || process.killed != kNever || process.terminated) continue;
    if (process.left) return EndProcess(process.pid, exit_code, signal);
    world_.invariants().OnProcessFault(process.generation, rank, exit_code, signal);
    return EndProcess(process.pid, exit_code, signal);
  }
}

void Machine::SlowDeath(Duration delay, Duration duration) {
  death_delay_ = delay;
  death_delay_until_ = world_.now() + duration;
}

void Machine::SlowSpawn(Duration most, Duration duration) {
  spawn_delay_ = most;
  spawn_delay_until_ = world_.now() + duration;
}

void Machine::Unalign() {
  world_.Log(Name(), " finds its ranks bound otherwise");
  InAgent([this] { CarryOut(member_.OnBound(Local(), spawning_, core::Binding::kPartial, "")); });
}

// ---- what others see ----

bool Machine::Counts(const Process& process) const {
  return process.killed == kNever || world_.now() < process.lease_end;
}

Time Machine::last_pong(uint32_t machine0_attempt) const {
  for (const auto& [attempt, at] : pongs_) {
    if (attempt == machine0_attempt) return at;
  }
  return Time::min();
}

Time Machine::left(core::Generation generation) const {
  for (const auto& [mine, at] : left_) {
    if (mine == generation) return at;
  }
  return kNever;
}

void Machine::MarkLeft(core::Generation generation) {
  if (left(generation) == kNever) left_.emplace_back(generation, world_.now());
}

}  // namespace lockstep::sim
