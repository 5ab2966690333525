#include "tests/sim/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <sstream>

#include "tests/sim/random.h"

namespace lockstep::sim {

namespace {

using core::CoordinatorPhase;

constexpr std::array<const char*, kFaultKindCount> kNames = {
    "exit",          "signal",        "spawn-failure",  "hang",        "kill-agent",
    "oom",           "stop-agent",    "kill-guard",     "cut",         "partition",
    "delay",         "slow-death",    "slow-spawn",     "drain",       "suspend",
    "set-l",         "operator-down", "operator-pause", "slow-volume", "late-rename",
    "stale-service", "delete-node",   "no-room",        "term-agent",  "stop-guard",
    "greed",         "go-back",       "unalign",        "freeze",      "jump-ahead",
    "force-delete",  "evict-spare",   "stuck-spare",    "preempt",     "sick-node"};

// Separate streams of one seed.
constexpr uint64_t kShapeStream = 0x5ca1ab1e;
constexpr uint64_t kFaultStream = 0xfa017;
constexpr uint64_t kSpareStream = 0x59a2e;
constexpr uint64_t kDeathStream = 0xdea7;
constexpr uint64_t kQueueStream = 0x60e0e;
constexpr uint64_t kSickStream = 0x51c;

bool Has(const std::vector<Fault>& faults, FaultKind kind) {
  return std::any_of(faults.begin(), faults.end(),
                     [kind](const Fault& fault) { return fault.kind == kind; });
}

Duration Millis(uint32_t n) { return milliseconds(n); }

// One way of being unkind: which kinds, how many, how close together.
struct Mix {
  std::vector<FaultKind> kinds;
  uint32_t most = 6;
  uint32_t phase_triggered = 30;  // percent
  uint32_t machine0 = 35;         // percent of faults that hit machine 0
};

Mix AnyMix(Random& random) {
  Mix mix;
  while (mix.kinds.size() < 2) {
    mix.kinds.clear();
    uint32_t share = 15 + random.Below(50);
    for (int kind = 0; kind < kDrawnFaultKinds; ++kind) {
      if (random.Chance(share)) mix.kinds.push_back(static_cast<FaultKind>(kind));
    }
  }
  mix.most = 2 + random.Below(6);
  mix.phase_triggered = random.Below(60);
  mix.machine0 = 20 + random.Below(50);
  return mix;
}

// Faults that follow each other in a way that a rule was made for. Times are percent of L.
struct Step {
  FaultKind kind;
  uint32_t at_low;  // after the step before began, or after the phase was entered
  uint32_t at_high;
  uint32_t for_low;
  uint32_t for_high;
  bool machine0;
  uint32_t arg_low;
  uint32_t arg_high;
  std::optional<CoordinatorPhase> phase = std::nullopt;
  uint32_t entry = 1;
};

// Only the odds differ; every schedule that a mutant meets, a plain run meets some day as well.
std::vector<Step> RecipeFor(const Schedule& schedule) {
  using enum FaultKind;
  using enum CoordinatorPhase;
  if (schedule.Off("WaitForPredecessor")) {
    return {{kStopAgent, 10, 60, 95, 115, false, 0, 0},
            {kPartition, 100, 112, 90, 150, false, 7, 7}};
  }
  if (schedule.Off("WaitForWitness")) {
    // A whole gang that its operator cannot reach, and takes for dead, for it was asked to leave.
    return {{kPartition, 50, 100, 1500, 2500, true, 2, 2},
            {kPartition, 0, 5, 1500, 2500, false, 2, 2},
            {kSuspend, 5, 50, 100, 300, true, 0, 0},
            {kCut, 1200, 1500, 0, 0, true, 0, 0}};
  }
  if (schedule.Off("WitnessesTookPart") || schedule.Off("WitnessesStay")) {
    // A gang of one goes on behind a partition, which begins when the machine that was left out has
    // joined it again, and before it takes part. The last fault only makes the job long enough.
    return {{kNoRoom, 10, 60, 70, 150, true, 0, 0},
            {kKillAgent, 1, 10, 0, 0, false, 0, 0},
            {kPartition, 70, 200, 1200, 1800, true, 3, 3},
            {kCut, 600, 900, 0, 0, false, 0, 0}};
  }
  if (schedule.Off("SilenceIsCharged")) {
    return {{kStopAgent, 50, 150, 200, 400, false, 0, 0}, {kCut, 200, 400, 0, 0, false, 0, 0}};
  }
  if (schedule.Off("LeftOutAreOut")) {
    // Ranks live behind a partition, while their machine is made anew, is lost and left out.
    return {{kPartition, 50, 150, 300, 400, false, 5, 5},
            {kDeleteNode, 1, 5, 0, 0, false, 3000, 5000},
            {kNoRoom, 10, 30, 300, 400, true, 0, 0},
            {kKillAgent, 1, 5, 0, 0, false, 0, 0}};
  }
  if (schedule.Off("LapsedLeaseStaysLapsed")) {
    return {{kStopAgent, 0, 60, 75, 95, false, 0, 0, kRunning}};
  }
  if (schedule.Off("LeaseGuardsAnnouncement")) {
    return {{kExit, 20, 60, 0, 0, false, 3, 3},
            {kStopAgent, 0, 0, 85, 100, true, 0, 0, kPreparing, 2}};
  }
  if (schedule.Off("LeaseFromSending")) {
    return {{kDelay, 10, 60, 300, 600, true, 500, 1500},
            {kPartition, 100, 200, 100, 300, false, 1, 1}};
  }
  if (schedule.Off("CommitNeedsLease")) {
    return {{kDelay, 10, 60, 100, 300, false, 200, 600},
            {kDrain, 5, 20, 0, 0, false, 3000, 5000},
            {kStopAgent, 0, 20, 150, 400, true, 0, 0, kStopping, 1}};
  }
  if (schedule.Off("CoordinatorFencesItself")) {
    return {{kPartition, 10, 60, 103, 130, true, 1, 1},
            {kPartition, 0, 5, 300, 500, true, 2, 2},
            {kStaleService, 100, 160, 100, 300, true, 0, 0},
            {kCut, 10, 60, 0, 0, true, 0, 0}};
  }
  if (schedule.Off("HigherAttemptStopsGang")) {
    return {{kKillAgent, 0, 60, 0, 0, true, 0, 0, kRunning},
            {kCut, 0, 0, 0, 0, true, 0, 0, kFencing}};
  }
  if (schedule.Off("HigherAttemptWins")) {
    // The lower one comes back while the higher one is cut off, its ranks alive.
    return {{kPartition, 0, 10, 200, 230, false, 1, 1, kRunning},
            {kPartition, 12, 20, 400, 600, false, 2, 2, kRunning},
            {kPartition, 185, 215, 110, 160, false, 1, 1, kRunning}};
  }
  if (schedule.Off("CopiesComeAgain")) {
    return {{kCut, 50, 60, 0, 0, false, 0, 0},  // one while a copy is on its way
            {kCut, 1, 9, 0, 0, false, 0, 0},
            {kCut, 1, 9, 0, 0, false, 0, 0},
            {kUnalign, 150, 200, 0, 0, true, 0, 0}};
  }
  if (schedule.Off("LeadsOnOldCaches")) return {{kOperatorDown, 0, 50, 0, 2, true, 0, 0}};
  if (schedule.Off("PredecessorsSeenDead")) {
    return {{kDeleteNode, 10, 100, 0, 0, false, 500, 1000}, {kCut, 0, 20, 0, 0, false, 0, 0}};
  }
  if (schedule.Off("LongLeaseRecorded")) {
    return {{kSetL, 1, 5, 0, 0, true, 8000, 9000},
            {kPartition, 100, 150, 400, 600, true, 7, 7},
            {kSetL, 1, 30, 0, 0, true, 2000, 2000},
            {kKillAgent, 95, 125, 0, 0, false, 0, 0}};
  }
  if (schedule.Off("VoidVerdicts")) {
    return {{kDelay, 10, 40, 300, 300, true, 30, 60},
            {kExit, 5, 30, 0, 0, false, 2, 2},
            {kCut, 0, 0, 0, 0, true, 0, 0, kVerdict, 1},
            {kPartition, 0, 0, 140, 220, true, 7, 7, kVerdict, 1}};
  }
  if (schedule.Off("GoneMeansDead")) {
    return {{kDeleteNode, 10, 100, 0, 0, true, 0, 500}, {kDeleteNode, 0, 5, 0, 0, false, 0, 500}};
  }
  if (schedule.Off("LaterAttemptsCount")) {
    return {{kGoBack, 5, 50, 300, 600, true, 0, 500},
            {kKillAgent, 50, 150, 0, 0, true, 0, 0},
            {kKillAgent, 50, 100, 0, 0, true, 0, 0}};
  }
  if (schedule.Off("MeasuredBeforeStart")) {
    return {{kSlowVolume, 0, 1, 200, 400, true, 2000, 8000},
            {kKillAgent, 0, 5, 0, 0, false, 0, 0, kPreparing}};
  }
  if (schedule.Off("KeptHaveLeft")) return {{kSignal, 20, 60, 0, 0, false, 9, 9}};
  if (schedule.Off("HeldKeepsNone")) {
    return {{kSignal, 20, 60, 0, 0, false, 9, 9},
            {kSuspend, 0, 5, 100, 300, true, 0, 0, kStopping, 1}};
  }
  if (schedule.Off("AskedNeedsEvidence")) return {{kTermAgent, 10, 60, 0, 0, false, 0, 0}};
  if (schedule.Off("SparesAreNotAwaited")) return {{kKillAgent, 100, 200, 0, 0, false, 0, 0}};
  if (schedule.Off("OneBucketForAll")) return {{kGreed, 10, 60, 100, 200, true, 0, 0}};
  if (schedule.Off("ClockFreezes")) {
    return {{kFreeze, 50, 100, 105, 200, false, 0, 0}, {kPartition, 1, 5, 300, 500, false, 7, 7}};
  }
  if (schedule.Off("ClockJumpsAhead")) {
    return {{kPartition, 50, 100, 150, 250, false, 7, 7},
            {kJumpAhead, 5, 20, 0, 0, true, 5000, 20000}};
  }
  if (schedule.Off("GuardAndAgentStop")) {
    return {{kStopGuard, 10, 60, 200, 400, false, 0, 0, kRunning},
            {kStopAgent, 61, 62, 200, 400, false, 0, 0, kRunning}};
  }
  if (schedule.Off("GangBehindAPartition")) {
    return {{kPartition, 50, 100, 1500, 2500, true, 2, 2},
            {kPartition, 0, 5, 1500, 2500, false, 2, 2},
            {kForceDelete, 10, 50, 0, 0, true, 0, 500},
            {kForceDelete, 0, 5, 0, 0, false, 0, 500}};
  }
  if (schedule.Off("LowerLWaits")) {
    return {{kSetL, 1, 5, 0, 0, true, 5000, 9000},
            {kPartition, 100, 150, 100, 200, false, 1, 1},
            {kSetL, 1, 30, 0, 0, true, 2000, 2000}};
  }
  return {};
}

std::vector<Fault> Cook(Random& random, const std::vector<Step>& recipe, const Shape& shape) {
  auto between = [&](uint32_t low, uint32_t high) {
    return random.Between(shape.lost_after * low / 100, shape.lost_after * high / 100);
  };
  uint32_t victim = 1 + random.Below(shape.machines - 1);
  std::vector<Fault> faults;
  Time at{};
  for (const Step& step : recipe) {
    Fault fault;
    fault.kind = step.kind;
    fault.phase = step.phase;
    fault.entry = step.entry;
    Duration after = between(step.at_low, step.at_high);
    if (step.phase) {
      fault.at = after + random.Between(Duration::zero(), milliseconds(4));
    } else {
      fault.at = at = at + after;
    }
    fault.duration = between(step.for_low, step.for_high);
    fault.machine = step.machine0 ? 0 : victim;
    fault.arg = step.arg_low + random.Below(step.arg_high - step.arg_low + 1);
    faults.push_back(fault);
  }
  return faults;
}

// Together, within a lease, about a lease apart, or anywhere.
Duration GapAfter(Random& random, Duration lost_after) {
  switch (random.Below(4)) {
    case 0:
      return random.Between(Duration::zero(), milliseconds(20));
    case 1:
      return random.Between(Duration::zero(), lost_after / 2);
    case 2:
      return random.Between(lost_after * 7 / 10, lost_after * 13 / 10);
    default:
      return random.Between(Duration::zero(), lost_after * 2);
  }
}

void DrawDetails(Random& random, Fault& fault, Duration lost_after) {
  static constexpr std::array<uint32_t, 6> kCodes = {1, 3, 1, 134, 75, 2};
  static constexpr std::array<uint32_t, 3> kSignals = {SIGKILL, SIGSEGV, SIGABRT};
  auto about_l = [&] {  // shorter and longer than a lease
    return random.Chance(40) ? random.Between(Duration::zero(), lost_after)
                             : random.Between(lost_after * 7 / 10, lost_after * 5 / 2);
  };
  switch (fault.kind) {
    case FaultKind::kExit:
      fault.arg = kCodes.at(random.Below(random.Chance(10) ? 6 : 5));
      break;
    case FaultKind::kSignal:
      fault.arg = kSignals.at(random.Below(3));
      break;
    case FaultKind::kPartition:
      fault.arg = std::array<uint32_t, 5>{1, 1, 3, 3, 2}.at(random.Below(5)) |
                  (random.Chance(50) ? kReset : 0U);
      fault.duration = about_l();
      break;
    case FaultKind::kDelay:
      fault.arg = 20 + random.Below(3000);
      fault.duration = about_l();
      break;
    case FaultKind::kSlowDeath:
      fault.arg = random.Chance(5) ? 40'000 : 50 + random.Below(4000);
      fault.duration = lost_after + about_l();
      break;
    case FaultKind::kSlowSpawn:
      fault.arg = 100 + random.Below(3000);
      fault.duration = lost_after + about_l();
      break;
    case FaultKind::kSlowVolume:
      fault.arg = 100 + random.Below(random.Chance(30) ? 8000 : 2000);
      fault.duration = lost_after + about_l();
      break;
    case FaultKind::kDrain:
      fault.arg = random.Below(3) * random.Below(1500);
      break;
    case FaultKind::kSetL:
      fault.arg = random.Chance(50) ? 2000 + random.Below(2000) : 5000 + random.Below(10'000);
      break;
    case FaultKind::kDeleteNode:
      fault.arg = random.Below(1000);
      break;
    case FaultKind::kGoBack:
      fault.duration = random.Between(milliseconds(100), seconds(20));
      fault.arg = random.Below(1000);
      break;
    case FaultKind::kNoRoom:
      fault.duration = random.Between(milliseconds(100), seconds(12));
      break;
    case FaultKind::kSuspend:
      fault.duration = random.Between(milliseconds(100), seconds(6));
      break;
    case FaultKind::kStopAgent:
    case FaultKind::kStopGuard:
    case FaultKind::kGreed:
    case FaultKind::kOperatorDown:
    case FaultKind::kOperatorPause:
    case FaultKind::kLateRename:
    case FaultKind::kStaleService:
      fault.duration = about_l();
      break;
    default:
      break;
  }
}

std::string Milliseconds(Duration duration) {
  std::ostringstream text;
  text << static_cast<double>(duration.count()) / 1e6 << "ms";
  return text.str();
}

template <typename T>
bool Number(const std::string& text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool Milliseconds(const std::string& text, Duration& value) {
  if (text.size() < 3 || !text.ends_with("ms")) return false;
  double amount = 0;
  if (!Number(text.substr(0, text.size() - 2), amount)) return false;
  value = Duration(std::llround(amount * 1e6));
  return true;
}

bool Phase(const std::string& text, Fault& fault) {
  size_t slash = text.find('/');
  if (slash == std::string::npos || !Number(text.substr(slash + 1), fault.entry)) return false;
  for (int i = 0; i < core::kCoordinatorPhaseCount; ++i) {
    auto phase = static_cast<CoordinatorPhase>(i);
    if (text.substr(0, slash) == ToString(phase)) fault.phase = phase;
  }
  return fault.phase.has_value();
}

Error Unreadable(const std::string& word, const std::string& line) {
  return Error::Invalid("cannot read " + word + " in: " + line);
}

}  // namespace

const char* ToString(FaultKind kind) { return kNames.at(static_cast<size_t>(kind)); }

std::string Fault::ToString() const {
  std::ostringstream text;
  text.precision(12);
  text << sim::ToString(kind);
  if (phase) text << " on=" << core::ToString(*phase) << '/' << entry;
  text << " at=" << Milliseconds(at) << " for=" << Milliseconds(duration) << " machine=" << machine
       << " rank=" << local_rank << " arg=" << arg;
  return text.str();
}

Result<Fault> ParseFault(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  Fault fault;
  auto name = std::find(kNames.begin(), kNames.end(), word);
  if (name == kNames.end()) return Error::Invalid("no fault is called " + word);
  fault.kind = static_cast<FaultKind>(name - kNames.begin());
  while (words >> word) {
    size_t equals = word.find('=');
    std::string key = word.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    bool good = (key == "on" && Phase(value, fault)) ||
                (key == "at" && Milliseconds(value, fault.at)) ||
                (key == "for" && Milliseconds(value, fault.duration)) ||
                (key == "machine" && Number(value, fault.machine)) ||
                (key == "rank" && Number(value, fault.local_rank)) ||
                (key == "arg" && Number(value, fault.arg));
    if (!good) return Unreadable(word, line);
  }
  return fault;
}

Shape DrawShape(uint64_t seed, const std::vector<Fault>& faults) {
  Random random(seed ^ kShapeStream);
  Shape shape;
  shape.machines = 2 + random.Below(3);
  shape.processes = 1 + random.Below(2);
  shape.lost_after = random.Chance(12) ? seconds(15) : seconds(2);
  shape.grace = random.Between(milliseconds(50), seconds(2));
  shape.restart_grace = random.Chance(25) ? Millis(200) : Duration::zero();
  shape.step = random.Between(milliseconds(30), milliseconds(150));
  // The job outlasts the faults.
  Time last{};
  for (const Fault& fault : faults) {
    const bool sick = fault.kind == FaultKind::kSickNode;
    if (!fault.phase) last = std::max(last, fault.at + (sick ? seconds(4) : milliseconds(300)));
  }
  shape.steps = std::max<int64_t>(5, last / shape.step) + random.Below(20);
  shape.commit_every = 1 + random.Below(5);
  // Drawn from no stream: what is drawn after it stays as it was.
  if (seed % 3 == 2) {
    shape.memory_every = 1 + static_cast<int64_t>(seed / 3 % 3);
    shape.persists = seed / 9 % 2 == 0;
    if (shape.persists) shape.persist_every = milliseconds(700) * (seed / 18 % 3);
    shape.object_store = shape.persists && seed / 54 % 2 == 1;
    if (shape.object_store) shape.commit_every = std::numeric_limits<int64_t>::max();
  }
  if (Has(faults, FaultKind::kSickNode)) {
    shape.moves_now = seed % 2 == 1;
    shape.moves_never = seed % 7 == 2;
    // Of a job that never commits no machine moves at a checkpoint.
    if (seed % 3 == 0) shape.commit_every = std::numeric_limits<int64_t>::max();
  }
  shape.machine0_decides = seed % 4 == 1;  // likewise
  shape.ports = seed % 5 == 3;
  shape.preflight = seed % 8 == 2;
  shape.synced = seed % 7 == 5;
  shape.max_restarts = static_cast<int>(1 + random.Below(6));
  shape.peers_fail = random.Chance(50);
  shape.network = random.Between(microseconds(100), milliseconds(random.Chance(20) ? 20 : 2));
  shape.skew = random.Chance(30) ? 0 : 50'000;
  shape.start_timeout = seconds(4);
  if (Has(faults, FaultKind::kHang)) shape.hang_timeout = seconds(3);
  shape.in_place = seed % 5 == 1;
  shape.alone =
      !shape.in_place && seed % 7 == 2 && shape.memory_every == 0 && !Has(faults, FaultKind::kHang);
  // Of what is made for one number of machines it has nothing.
  shape.elastic = seed % 6 == 4 && shape.memory_every == 0 && !shape.machine0_decides &&
                  !shape.ports && !shape.preflight && !shape.alone;
  shape.shrink_after = milliseconds(100 + 400 * static_cast<int64_t>(seed / 6 % 4));
  shape.grow_after = milliseconds(300) * (seed / 24 % 3);
  return shape;
}

bool Schedule::Off(const std::string& name) const {
  std::istringstream names(mutant);
  std::string one;
  while (std::getline(names, one, '+')) {
    if (one == name) return true;
  }
  return false;
}

namespace {

// Every third cluster has spares, to which things happen as well.
void DrawSpares(Schedule& schedule) {
  Random random(schedule.seed ^ kSpareStream);
  const bool wanted = schedule.Off("SparesLeaveAtTheEnd") || schedule.Off("SparesAreNotAwaited");
  if (!schedule.cluster || !(wanted || random.Chance(33))) return;
  schedule.spares = 1 + random.Below(2);
  for (uint32_t i = 0; i < schedule.spares; ++i) {
    if (random.Chance(40)) continue;
    Fault fault;
    fault.kind = random.Chance(50) ? FaultKind::kEvictSpare : FaultKind::kStuckSpare;
    fault.at = random.Between(milliseconds(100), seconds(6));
    schedule.faults.push_back(fault);
  }
}

// Where ranks can outlive a generation, one dies, and often another while the gang gets over it.
void DrawDeaths(Schedule& schedule) {
  using enum CoordinatorPhase;
  static constexpr std::array<CoordinatorPhase, 4> kRecovery = {kStopping, kPreparing, kStarting,
                                                                kRunning};
  Random random(schedule.seed ^ kDeathStream);
  const Shape shape = DrawShape(schedule.seed, {});
  if (!shape.in_place || random.Chance(25)) return;
  const uint32_t deaths = 1 + random.Below(3);
  for (uint32_t i = 0; i < deaths; ++i) {
    Fault fault;
    fault.kind = FaultKind::kSignal;
    fault.arg = SIGKILL;
    fault.machine = random.Below(shape.machines);
    fault.local_rank = random.Below(shape.processes);
    fault.phase = i == 0 ? kRunning : kRecovery.at(random.Below(4));
    fault.entry = fault.phase == kRunning ? 1 + std::min(i, 1U) : 1;
    fault.at = random.Between(milliseconds(1), milliseconds(random.Chance(50) ? 20 : 400));
    schedule.faults.push_back(fault);
  }
}

// A machine is lost and finds no node for so long that it gives its share of the quota back; about
// when.
Time DrawLeftOut(Schedule& schedule, Random& random) {
  const Shape shape = DrawShape(schedule.seed, {});
  Fault lost;
  lost.kind = FaultKind::kKillAgent;
  lost.machine = random.Below(shape.machines);
  lost.at = random.Between(milliseconds(300), seconds(4));
  Fault full;
  full.kind = FaultKind::kNoRoom;
  full.at = lost.at - milliseconds(1);
  full.duration =
      shape.lost_after + 2 * shape.shrink_after + random.Between(seconds(1), seconds(4));
  schedule.faults.push_back(lost);
  schedule.faults.push_back(full);
  return lost.at + shape.lost_after + shape.shrink_after;
}

// Every fifth job of a cluster is in a queue. A restored API server brings admissions back that its
// queue has since given to others: what comes of that is no matter of the job's.
void DrawQueue(Schedule& schedule) {
  Random random(schedule.seed ^ kQueueStream);
  const bool slices = schedule.Off("QuotaAskedForSince");
  const bool wanted =
      schedule.Off("AdmittedBeforeMade") || schedule.Off("LeftBeforeReleased") || slices;
  if (!schedule.cluster || !(wanted || random.Chance(20))) return;
  if (Has(schedule.faults, FaultKind::kGoBack)) return;
  schedule.queued = true;
  schedule.slices = DrawShape(schedule.seed, {}).elastic && (slices || random.Chance(75));
  Time from = milliseconds(100);
  if (schedule.slices && (slices || random.Chance(75))) from = DrawLeftOut(schedule, random);
  const uint32_t preemptions = wanted ? 1 : random.Below(3);
  for (uint32_t i = 0; i < preemptions; ++i) {
    Fault fault;
    fault.kind = FaultKind::kPreempt;
    fault.at = from + random.Between(Duration::zero(), schedule.slices ? seconds(2) : seconds(8));
    fault.duration = random.Between(milliseconds(100), seconds(6));
    schedule.faults.push_back(fault);
  }
}

// In every eleventh cluster nodes fall sick, and most recover.
void DrawSickness(Schedule& schedule) {
  const bool wanted = schedule.Off("MovesNeedAPlace") || schedule.Off("MovesAwaitACommit") ||
                      schedule.Off("MovesAsPolicySays");
  const bool draws = wanted || schedule.seed % 11 == 3;
  if (!schedule.cluster || !draws) return;
  Random random(schedule.seed ^ kSickStream);
  const uint32_t count = 1 + random.Below(3);
  for (uint32_t i = 0; i < count; ++i) {
    Fault fault;
    fault.kind = FaultKind::kSickNode;
    fault.machine = random.Below(4);
    fault.at = random.Between(milliseconds(100), seconds(6));
    fault.duration = random.Between(milliseconds(500), seconds(random.Chance(50) ? 5 : 60));
    schedule.faults.push_back(fault);
  }
}

Schedule DrawFaults(uint64_t seed, const std::string& mutant, bool cluster) {
  Random random(seed ^ kFaultStream);
  Schedule schedule{.seed = seed, .mutant = mutant, .faults = {}, .cluster = cluster};
  Shape shape = DrawShape(seed, {});
  if (!mutant.empty() && random.Chance(60)) {
    std::vector<Step> recipe = RecipeFor(schedule);
    if (!recipe.empty()) {
      schedule.faults = Cook(random, recipe, shape);
      return schedule;
    }
  }
  Mix mix = AnyMix(random);
  Duration lost_after = shape.lost_after;
  Time at = random.Between(milliseconds(50), seconds(3));
  uint32_t count = std::max(2U, 2 + random.Below(mix.most - 1));
  for (uint32_t i = 0; i < count; ++i) {
    Fault fault;
    do {
      fault.kind = mix.kinds.at(random.Below(static_cast<uint32_t>(mix.kinds.size())));
    } while (i == 1 && fault.kind == schedule.faults[0].kind);
    fault.machine = random.Chance(mix.machine0) ? 0 : random.Below(shape.machines);
    fault.local_rank = random.Below(shape.processes);
    fault.at = at;
    if (random.Chance(mix.phase_triggered)) {
      // Every phase but the last.
      fault.phase = static_cast<CoordinatorPhase>(random.Below(core::kCoordinatorPhaseCount - 1));
      fault.entry = 1 + random.Below(3);
      fault.at = random.Between(Duration::zero(), milliseconds(random.Chance(50) ? 2 : 100));
    }
    DrawDetails(random, fault, lost_after);
    if (fault.kind == FaultKind::kSetL) lost_after = Millis(fault.arg);
    schedule.faults.push_back(fault);
    at += GapAfter(random, lost_after);
  }
  return schedule;
}

}  // namespace

Schedule DrawSchedule(uint64_t seed, const std::string& mutant, bool cluster) {
  Schedule schedule = DrawFaults(seed, mutant, cluster);
  DrawSpares(schedule);
  DrawDeaths(schedule);
  DrawQueue(schedule);
  DrawSickness(schedule);
  return schedule;
}

std::string Format(const Schedule& schedule) {
  std::string text = "seed " + std::to_string(schedule.seed);
  text += "\n";
  if (!schedule.mutant.empty()) text.append("mutant ").append(schedule.mutant).append("\n");
  if (schedule.cluster) text += "cluster\n";
  if (schedule.queued) text += "queued\n";
  if (schedule.slices) text += "slices\n";
  if (schedule.spares > 0) text += "spares " + std::to_string(schedule.spares) + "\n";
  for (const Fault& fault : schedule.faults)
    text.append("fault ").append(fault.ToString()).append("\n");
  return text;
}

Result<Schedule> ParseSchedule(const std::string& text) {
  Schedule schedule;
  bool seeded = false;
  bool listed = false;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    line = line.substr(0, line.find('#'));
    size_t space = line.find(' ');
    std::string key = line.substr(0, space);
    std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key.empty()) continue;
    if (key == "seed" && Number(value, schedule.seed)) {
      seeded = true;
    } else if (key == "cluster") {
      schedule.cluster = true;
    } else if (key == "queued") {
      schedule.queued = true;
    } else if (key == "slices") {
      schedule.slices = true;
    } else if (key == "spares") {
      if (!Number(value, schedule.spares)) return Error::Invalid("cannot read: " + line);
    } else if (key == "mutant") {
      schedule.mutant = value;
    } else if (key == "fault") {
      Result<Fault> fault = ParseFault(value);
      if (!fault.ok()) return fault.error();
      schedule.faults.push_back(*fault);
      listed = true;
    } else {
      return Error::Invalid("cannot read: " + line);
    }
  }
  if (!seeded) return Error::Invalid("a case needs a line: seed N");
  if (!listed) schedule = DrawSchedule(schedule.seed, schedule.mutant, schedule.cluster);
  return schedule;
}

}  // namespace lockstep::sim
