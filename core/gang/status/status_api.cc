#include "core/gang/status/status_api.h"

#include <algorithm>

#include "core/gang/status/fields.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/text/text.h"

namespace lockstep::core {

const char* ToString(const GangPhase& phase) {
  return std::visit([](auto value) { return ToString(value); }, phase);
}

// The two share names: without knowing who answers, a name is a coordinator's where it can be.
template <>
struct AsText<GangPhase> {
  static std::string Format(const GangPhase& phase) { return ToString(phase); }
  static Result<GangPhase> Parse(std::string_view text) {
    if (const auto phase = ParseEnum<CoordinatorPhase>(text)) return GangPhase(*phase);
    if (const auto phase = ParseEnum<MemberPhase>(text)) return GangPhase(*phase);
    return Error::Invalid("is not a known phase");
  }
};

namespace {

constexpr size_t kMaxHistoryInStatus = 16;
constexpr size_t kMaxBindingReasons = 8;  // one is enough to act on
constexpr size_t kMaxTerminationBody = 4096;
constexpr size_t kShortMessage = 256;

// An agent may lie. What it says is held to what the fields of a status take, and to what can be
// reckoned with: one number beyond that would make the status unwritable, and a verdict unending.

constexpr int kMostExitCode = 255;
constexpr Duration kLongestLimit = hours(24 * 365);
constexpr int kMostSignal = 64;
constexpr int64_t kMostSteps = int64_t{1} << 53;

void SaturateSteps(int64_t& steps) { steps = std::clamp<int64_t>(steps, 0, kMostSteps); }

void Saturate(Failure& failure) {
  failure.machine = std::max(failure.machine, -1);
  failure.rank = std::max(failure.rank, -1);
  failure.exit_code = std::clamp(failure.exit_code, -1, kMostExitCode);
  failure.signal = std::clamp(failure.signal, 0, kMostSignal);
}

void Saturate(std::vector<GenerationRecord>& records) {
  for (GenerationRecord& each : records) {
    SaturateSteps(each.resumed_at);
    SaturateSteps(each.last_step);
    Saturate(each.failure);
  }
}

void Saturate(GangStatus& status) {
  status.counters.Saturate();
  Saturate(status.last_failure);
  for (RankProgress& rank : status.progress) {
    SaturateSteps(rank.step);
    SaturateSteps(rank.total_steps);
  }
  if (!IsWhole(status.by_machine)) status.by_machine = {};
  for (int64_t& step : status.by_machine.step) SaturateSteps(step);
  for (int64_t& step : status.by_machine.step_most) SaturateSteps(step);
  for (GangStatus::MachineStatus& machine : status.machines) {
    if (machine.usage) machine.usage->Saturate();
  }
  Saturate(status.history);
  if (status.straggler) {
    double& cost = status.straggler->cost;
    cost = cost > 0 ? std::min(cost, 1.0) : 0;  // of no number, too
    SaturateSteps(status.straggler->steps);
  }
  if (status.hang) {
    SaturateSteps(status.hang->step);
    status.hang->limit = std::clamp<Duration>(status.hang->limit, Duration::zero(), kLongestLimit);
  }
  if (!status.verdict) return;
  status.verdict->exit_code = std::min<uint32_t>(status.verdict->exit_code, kMostExitCode);
  Saturate(status.verdict->failure);
}

void Saturate(Termination& termination) {
  // Never a success that was not told.
  int& code = termination.exit_code;
  if (code < 0 || code > kMostExitCode) code = kMostExitCode;
  Saturate(termination.failure);
  Saturate(termination.ended);
  if (termination.counters) termination.counters->Saturate();
  if (!termination.progress) return;
  SaturateSteps(termination.progress->step);
  SaturateSteps(termination.progress->total_steps);
}

GangMachineState StateOf(MemberPhase phase) {
  static_assert(static_cast<int>(GangMachineState::kLost) == kMemberPhaseCount);
  return static_cast<GangMachineState>(phase);
}

}  // namespace

GangStatus StatusOf(const Coordinator& coordinator, Time now, Time born, bool by_machine) {
  GangStatus status;
  const CoordinatorConfig& config = coordinator.config();
  status.version = coordinator.version();
  status.job_uid = config.job_uid;
  status.attempt = config.attempt;
  status.coordinator = true;
  status.machine0_attempt = config.attempt;
  status.epoch = coordinator.desired_epoch();
  status.observed_generation = coordinator.desired_observed();
  status.restarted = coordinator.restarted();
  status.phase = coordinator.phase();
  status.reason = coordinator.Reason();
  if (coordinator.starts_again() != kNever) status.starts_again = coordinator.starts_again() - born;
  status.generation = coordinator.generation();
  status.counters = coordinator.counters();
  status.commits = coordinator.commits();
  size_t reasons = 0;
  for (uint32_t i = 0; i < config.machines; ++i) {
    MachineView view = coordinator.machine(now, i);
    GangStatus::MachineStatus machine;
    machine.index = i;
    machine.attempt = view.attempt;
    machine.state = view.attempt == 0 ? GangMachineState::kAbsent
                    : view.lost       ? GangMachineState::kLost
                    : view.draining   ? GangMachineState::kDraining
                                      : StateOf(view.phase);
    machine.silent_for = view.silent_for;
    machine.connected = view.connected;
    machine.replace = view.replace;
    machine.slow = std::move(view.slow);
    machine.binding = view.binding;
    if (i < kMaxMachinesWithUsage) machine.usage = view.usage;
    if (reasons < kMaxBindingReasons && !view.binding_reason.empty()) {
      machine.binding_reason = std::move(view.binding_reason);
      ++reasons;
    }
    status.machines.push_back(std::move(machine));
    status.parked += view.parked.ready;
    if (status.parked_reason.empty() && !view.parked.why_not.empty()) {
      status.parked_reason = "machine " + std::to_string(i) + ": " + view.parked.why_not;
    }
  }
  for (const auto& [rank, progress] : coordinator.progress()) {
    if (status.progress.size() == kMaxProgressInStatus) break;
    status.progress.push_back(progress);
    if (status.progress.size() > kMaxRanksWithFigures) status.progress.back().figures.clear();
  }
  const auto& history = coordinator.history();
  if (by_machine && coordinator.progress().size() > kMaxProgressInStatus) {
    status.by_machine = ProgressByMachine(coordinator.progress(), config.processes,
                                          history.empty() ? Members() : history.back().members);
  }
  size_t first = history.size() > kMaxHistoryInStatus ? history.size() - kMaxHistoryInStatus : 0;
  for (size_t i = first; i < history.size(); ++i) {
    status.history.push_back(history[i].Shifted(-born));
  }
  status.last_failure = coordinator.last_failure();
  status.straggler = coordinator.straggler();
  status.hang = coordinator.hang();
  status.noted_metric = coordinator.noted_metric();
  status.preflight = coordinator.preflight();
  status.verdict = coordinator.verdict();
  if (status.verdict) status.verdict->ended.clear();  // `history` has them
  status.unwritten = coordinator.unwritten();
  status.code = coordinator.code();
  if (status.code && status.code->since) *status.code->since -= born;
  return status;
}

GangStatus StatusOf(const Member& member, Time now) {
  GangStatus status;
  const MemberConfig& config = member.config();
  status.job_uid = config.job_uid;
  status.machine = config.machine;
  status.attempt = config.attempt;
  status.machine0_attempt = member.machine0_attempt();
  status.phase = member.phase();
  status.reason = member.welcomed() ? "" : "not connected to machine 0";
  status.generation = member.generation();
  status.counters = member.counters();
  GangStatus::MachineStatus self;
  self.index = config.machine;
  self.attempt = config.attempt;
  self.state = StateOf(member.phase());
  self.connected = member.welcomed();
  self.binding = member.report().binding;
  self.binding_reason = member.report().binding_reason;
  status.parked = member.report().parked.ready;
  status.parked_reason = member.report().parked.why_not;
  GangStatus::MachineStatus machine0;
  machine0.attempt = member.machine0_attempt();
  machine0.silent_for = member.coordinator_silence(now);
  machine0.connected = member.welcomed();
  machine0.state = member.welcomed() ? GangMachineState::kRunning : GangMachineState::kLost;
  status.machines = {std::move(machine0), std::move(self)};
  for (const auto& [rank, progress] : member.progress()) status.progress.push_back(progress);
  return status;
}

std::string ToJson(const GangStatus& status) { return WriteJson(WriteRecord(status)); }

Result<GangStatus> ParseGangStatus(std::string_view json) {
  Result<GangStatus> status = ParseRecord<GangStatus>(json, kMaxStatusBody, "");
  if (!status.ok()) return status;
  Saturate(*status);
  if (!status->coordinator) {
    if (const auto phase = ParseEnum<MemberPhase>(ToString(status->phase))) status->phase = *phase;
  }
  return status;
}

// By numbers: agents that are older than the names read nothing else.
std::string ToJson(const DesiredState& desired) {
  return WriteJson(RecordWriter(Defaults::kOmit, SignalsAs::kNumbers).Write(desired));
}

Result<DesiredState> ParseDesiredState(std::string_view json) {
  return ParseRecord<DesiredState>(json, kMaxGangBody, "");
}

std::string ToJson(const Termination& termination) {
  std::string text = WriteJson(WriteRecord(termination));
  // Escapes can make six bytes of one; the stderr tail is what can be done without.
  Termination less = termination;
  const auto shorten_tail = [&](size_t least) {
    std::string& tail = less.failure.stderr_tail;
    while (text.size() > kMaxTerminationMessage && tail.size() > least) {
      tail.erase(0, (tail.size() + 1) / 2);
      text = WriteJson(WriteRecord(less));
    }
  };
  shorten_tail(kShortMessage);
  while (text.size() > kMaxTerminationMessage && !less.ended.empty()) {
    less.ended.erase(less.ended.begin());
    text = WriteJson(WriteRecord(less));
  }
  shorten_tail(0);
  if (text.size() > kMaxTerminationMessage && less.progress) {
    less.progress->figures.clear();
    text = WriteJson(WriteRecord(less));
  }
  if (text.size() > kMaxTerminationMessage) {
    less.failure.message = CutText(less.failure.message, kShortMessage);
    less.reason.clear();
    less.doubt.clear();
    text = WriteJson(WriteRecord(less));
  }
  return text;
}

Result<Termination> ParseTermination(std::string_view json) {
  Result<Termination> termination = ParseRecord<Termination>(json, kMaxTerminationBody, "");
  if (termination.ok()) Saturate(*termination);
  return termination;
}

bool VerdictCounts(const Termination& termination, uint32_t current_attempt,
                   uint32_t highest_machine0_attempt) {
  return termination.verdict && termination.attempt == current_attempt &&
         termination.generation.attempt >= highest_machine0_attempt;
}

}  // namespace lockstep::core
