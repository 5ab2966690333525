#include "tests/sim/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <sstream>

#include "core/gang/rules.h"
#include "tests/sim/random.h"

namespace lockstep::sim {

namespace {

using core::CoordinatorPhase;
using core::Rule;

constexpr std::array<const char*, kFaultKindCount> kNames = {
    "exit",        "signal",      "spawn-failure", "hang",      "kill-agent",    "oom",
    "stop-agent",  "kill-guard",  "cut",           "partition", "delay",         "slow-death",
    "slow-spawn",  "drain",       "suspend",       "set-l",     "operator-down", "operator-pause",
    "slow-volume", "late-rename", "stale-service"};

// Separate streams of one seed.
constexpr uint64_t kShapeStream = 0x5ca1ab1e;
constexpr uint64_t kFaultStream = 0xfa017;

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
    for (int kind = 0; kind < kFaultKindCount; ++kind) {
      if (random.Chance(share)) mix.kinds.push_back(static_cast<FaultKind>(kind));
    }
  }
  mix.most = 2 + random.Below(6);
  mix.phase_triggered = random.Below(60);
  mix.machine0 = 20 + random.Below(50);
  return mix;
}

// Only the odds differ; every schedule that a mutant meets, a plain run meets some day as well.
Mix LeaningMix(const std::string& mutant) {
  using enum FaultKind;
  auto is = [&](Rule rule) { return mutant == ToString(rule); };
  if (is(Rule::kRefuseLowerCoordinator) || is(Rule::kCoordinatorFencesItself) ||
      is(Rule::kHigherMachine0KillsRanks) || is(Rule::kWaitForOldCoordinator)) {
    return {{kPartition, kStopAgent, kStaleService, kCut, kKillAgent, kDelay}, 5, 20, 60};
  }
  if (is(Rule::kHigherAttemptWins) || is(Rule::kHigherAttemptStopsGang) ||
      is(Rule::kWaitForPredecessor)) {
    return {{kPartition, kStopAgent, kOperatorPause, kKillAgent, kCut, kExit}, 5, 20, 20};
  }
  if (is(Rule::kLowerLWaits)) return {{kSetL, kPartition, kStopAgent}, 4, 0, 20};
  if (is(Rule::kCommitNeedsFreshAnswers) || is(Rule::kCommitNeedsLease)) {
    return {{kPartition, kStopAgent, kKillAgent, kDelay, kSlowVolume}, 4, 10, 40};
  }
  if (is(Rule::kLeaseGuardsAnnouncement)) {
    return {{kSlowVolume, kStopAgent, kExit, kPartition}, 5, 50, 60};
  }
  if (is(Rule::kWaitForStopped)) return {{kExit, kSlowDeath, kSignal, kDrain}, 4, 20, 30};
  return {{kPartition, kStopAgent, kDelay, kCut, kExit}, 5, 20, 30};
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
    case FaultKind::kSuspend:
      fault.arg = random.Below(2);
      fault.duration = random.Between(milliseconds(100), seconds(6));
      break;
    case FaultKind::kStopAgent:
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

bool Milliseconds(std::string text, Duration& value) {
  if (text.size() < 3 || !text.ends_with("ms")) return false;
  double amount = 0;
  if (!Number(text.substr(0, text.size() - 2), amount)) return false;
  value = Duration(static_cast<int64_t>(amount * 1e6));
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
    if (!good) return Error::Invalid("cannot read " + word + " in: " + line);
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
    if (!fault.phase) last = std::max(last, fault.at + milliseconds(300));
  }
  shape.steps = std::max<int64_t>(5, last / shape.step) + random.Below(20);
  shape.commit_every = 1 + random.Below(5);
  shape.max_restarts = static_cast<int>(1 + random.Below(6));
  shape.peers_fail = random.Chance(50);
  shape.network = random.Between(microseconds(100), milliseconds(random.Chance(20) ? 20 : 2));
  shape.skew = random.Chance(30) ? 0 : 50'000;
  if (Has(faults, FaultKind::kHang)) shape.hang_timeout = seconds(3);
  return shape;
}

Schedule DrawSchedule(uint64_t seed, const std::string& mutant) {
  Random random(seed ^ kFaultStream);
  Schedule schedule{seed, mutant, {}};
  Shape shape = DrawShape(seed, {});
  bool lean = !mutant.empty() && random.Chance(80);
  Mix mix = lean ? LeaningMix(mutant) : AnyMix(random);
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
    switch (random.Below(4)) {
      case 0:
        at += random.Between(Duration::zero(), milliseconds(20));
        break;
      case 1:
        at += random.Between(Duration::zero(), lost_after / 2);
        break;
      case 2:
        at += random.Between(lost_after * 7 / 10, lost_after * 13 / 10);
        break;
      default:
        at += random.Between(Duration::zero(), lost_after * 2);
    }
  }
  return schedule;
}

std::string Format(const Schedule& schedule) {
  std::string text = "seed " + std::to_string(schedule.seed) + "\n";
  if (!schedule.mutant.empty()) text += "mutant " + schedule.mutant + "\n";
  for (const Fault& fault : schedule.faults) text += "fault " + fault.ToString() + "\n";
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
  if (!listed) schedule = DrawSchedule(schedule.seed, schedule.mutant);
  return schedule;
}

}  // namespace lockstep::sim
