// The field tables (base/fields.h) of the records of `GET /status`, `PUT /gang` and the termination
// message (docs/reference/protocol.md).
#ifndef LOCKSTEP_CORE_GANG_STATUS_FIELDS_H_
#define LOCKSTEP_CORE_GANG_STATUS_FIELDS_H_

#include <cstddef>
#include <tuple>

#include "base/fields.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/diagnosis/hangs.h"
#include "core/gang/diagnosis/machine_progress.h"
#include "core/gang/diagnosis/progress.h"
#include "core/gang/diagnosis/stragglers.h"
#include "core/gang/protocol/message_fields.h"
#include "core/gang/status/status_api.h"
#include "core/terms/members.h"

namespace lockstep::core {

inline constexpr size_t kMaxBodyMachines = Members::kMost;

template <>
inline constexpr auto kFields<Straggler> = std::tuple(
    Field{"machine", &Straggler::machine, Always{}}, Field{"cost", &Straggler::cost, Always{}},
    Field{"steps", &Straggler::steps, Always{}},
    Field{"because", &Straggler::because, CutTo{kMaxBodyText}});

template <>
inline constexpr auto kFields<SuspectedHang> =
    std::tuple(Field{"step", &SuspectedHang::step, Always{}},
               Field{"limitSeconds", &SuspectedHang::limit, Always{}, InSeconds{}},
               Field{"activity", &SuspectedHang::activity, Always{}},
               Field{"who", &SuspectedHang::who, CutTo{kMaxBodyText}},
               Field{"places", &SuspectedHang::places, CutTo{kMaxBodyText}});

template <>
inline constexpr auto kFields<GangProgress> = std::tuple(
    Field{"step", &GangProgress::step, Always{}}, Field{"totalSteps", &GangProgress::total_steps},
    Field{"loss", &GangProgress::loss}, Field{"tokensPerSecond", &GangProgress::tokens_per_second},
    Field{"", &GangProgress::known, Inline{}},
    Field{"figures", &GangProgress::figures, AtMost{kMaxNamedFigures}},
    Field{"source", &GangProgress::source});

template <>
inline constexpr auto kFields<GangStatus::MachineStatus> = std::tuple(
    Field{"index", &GangStatus::MachineStatus::index, Always{}},
    Field{"attempt", &GangStatus::MachineStatus::attempt, Always{}},
    Field{"state", &GangStatus::MachineStatus::state, Always{}},
    Field{"silentForSeconds", &GangStatus::MachineStatus::silent_for, Always{}, InSeconds{}},
    Field{"connected", &GangStatus::MachineStatus::connected, Always{}},
    Field{"replace", &GangStatus::MachineStatus::replace, Always{}},
    Field{"slow", &GangStatus::MachineStatus::slow, CutTo{kMaxBodyText}},
    Field{"binding", &GangStatus::MachineStatus::binding},
    Field{"bindingReason", &GangStatus::MachineStatus::binding_reason},
    Field{"usage", &GangStatus::MachineStatus::usage});

template <>
inline constexpr auto kFields<MachineProgress> = std::tuple(
    Field{"machine", &MachineProgress::machine, AtMost{kMaxBodyMachines}},
    Field{"ranks", &MachineProgress::ranks, AtMost{kMaxBodyMachines}},
    Field{"step", &MachineProgress::step, AtMost{kMaxBodyMachines}},
    Field{"stepMost", &MachineProgress::step_most, AtMost{kMaxBodyMachines}},
    Field{"loss", &MachineProgress::loss, AtMost{kMaxBodyMachines}},
    Field{"lossMost", &MachineProgress::loss_most, AtMost{kMaxBodyMachines}},
    Field{"tokensPerSecond", &MachineProgress::tokens_per_second, AtMost{kMaxBodyMachines}},
    Field{"waits", &MachineProgress::waits, AtMost{kMaxBodyMachines}},
    Field{"waitedSeconds", &MachineProgress::waited, AtMost{kMaxBodyMachines}},
    Field{"waitedSecondsMost", &MachineProgress::waited_most, AtMost{kMaxBodyMachines}});

template <>
inline constexpr auto kFields<SyncedCode> = std::tuple(
    Field{"digest", &SyncedCode::digest, CutTo{kMaxCodeDigest}}, Field{"files", &SyncedCode::files},
    Field{"by", &SyncedCode::by, CutTo{kMaxBodyText}},
    Field{"since", &SyncedCode::since, InSeconds{}}, Field{"generation", &SyncedCode::generation},
    Field{"next", &SyncedCode::next, CutTo{kMaxCodeDigest}},
    Field{"nextBy", &SyncedCode::next_by, CutTo{kMaxBodyText}},
    Field{"missing", &SyncedCode::missing, CutTo{kMaxBodyText}},
    Field{"dropped", &SyncedCode::dropped, CutTo{kMaxCodeDigest}},
    Field{"problem", &SyncedCode::problem, CutTo{kMaxBodyText}}, Field{"lost", &SyncedCode::lost},
    Field{"broken", &SyncedCode::broken});

template <>
inline constexpr auto kFields<GangStatus> = std::tuple(
    Field{"version", &GangStatus::version, Always{}},
    Field{"jobUID", &GangStatus::job_uid, Always{}},
    Field{"machine", &GangStatus::machine, Always{}},
    Field{"attempt", &GangStatus::attempt, Always{}},
    Field{"coordinator", &GangStatus::coordinator, Always{}},
    Field{"machine0Attempt", &GangStatus::machine0_attempt, Always{}},
    Field{"epoch", &GangStatus::epoch},
    Field{"observedGeneration", &GangStatus::observed_generation},
    Field{"restarted", &GangStatus::restarted}, Field{"phase", &GangStatus::phase, Always{}},
    Field{"reason", &GangStatus::reason, Always{}, CutTo{kMaxBodyText}},
    Field{"startsAgain", &GangStatus::starts_again, Always{}, InSeconds{}},
    Field{"generation", &GangStatus::generation, Always{}},
    Field{"counters", &GangStatus::counters, Whole{}}, Field{"commits", &GangStatus::commits},
    Field{"machines", &GangStatus::machines, Always{}, AtMost{kMaxBodyMachines}},
    Field{"progress", &GangStatus::progress, Always{}, AtMost{kMaxProgressInStatus}},
    Field{"byMachine", &GangStatus::by_machine},
    Field{"history", &GangStatus::history, Always{}, AtMost{kMaxHistory}},
    Field{"lastFailure", &GangStatus::last_failure, Always{}},
    Field{"straggler", &GangStatus::straggler}, Field{"hang", &GangStatus::hang},
    Field{"notedMetric", &GangStatus::noted_metric}, Field{"parked", &GangStatus::parked},
    Field{"preflight", &GangStatus::preflight},
    Field{"parkedReason", &GangStatus::parked_reason, CutTo{kMaxBodyText}},
    Field{"verdict", &GangStatus::verdict},
    Field{"unwritten", &GangStatus::unwritten, CutTo{kMaxBodyText}},
    Field{"doubt", &GangStatus::doubt, CutTo{kMaxBodyText}}, Field{"code", &GangStatus::code});

template <>
inline constexpr auto kFields<DesiredState::DesiredStop> =
    std::tuple(Field{"reason", &DesiredState::DesiredStop::reason, Required{}},
               Field{"deadlineSeconds", &DesiredState::DesiredStop::grace, Always{}, InSeconds{}},
               Field{"words", &DesiredState::DesiredStop::words, CutTo{kMaxBodyText}});

template <>
inline constexpr auto kFields<DesiredState::Restart> =
    std::tuple(Field{"id", &DesiredState::Restart::id, Required{}},
               Field{"attempt", &DesiredState::Restart::attempt, Always{}},
               Field{"atCommit", &DesiredState::Restart::at_commit},
               Field{"words", &DesiredState::Restart::words, CutTo{kMaxBodyText}});

template <>
inline constexpr auto kFields<DesiredState::Code> =
    std::tuple(Field{"digest", &DesiredState::Code::digest, Required{}},
               Field{"watched", &DesiredState::Code::watched},
               Field{"generation", &DesiredState::Code::generation});

template <>
inline constexpr auto kFields<DesiredState::Health> =
    std::tuple(Field{"hangTimeout", &DesiredState::Health::hang_timeout, Always{}},
               Field{"restartHangs", &DesiredState::Health::restart_hangs});

template <>
inline constexpr auto kFields<DesiredState::Terminated> =
    std::tuple(Field{"machine", &DesiredState::Terminated::machine, Always{}},
               Field{"attempt", &DesiredState::Terminated::attempt, Always{}},
               Field{"cause", &DesiredState::Terminated::cause, Always{}});

template <>
inline constexpr auto kFields<DesiredState::Fenced> =
    std::tuple(Field{"machine", &DesiredState::Fenced::machine, Always{}},
               Field{"attempt", &DesiredState::Fenced::attempt, Always{}});

template <>
inline constexpr auto kFields<DesiredState> = std::tuple(
    Field{"jobUID", &DesiredState::job_uid, Required{}},
    Field{"epoch", &DesiredState::epoch, Required{}},
    Field{"observedGeneration", &DesiredState::observed_generation, Always{}},
    Field{"failurePolicy", &DesiredState::policy, Whole{}},
    Field{"metricRules", &DesiredState::metric_rules, AtMost{64}},
    Field{"health", &DesiredState::health},
    Field{"machineFailures", &DesiredState::machine_failures, Whole{}},
    Field{"stop", &DesiredState::stop, Always{}}, Field{"restart", &DesiredState::restart},
    Field{"code", &DesiredState::code},
    Field{"terminated", &DesiredState::terminated, Always{}, AtMost{kMaxBodyMachines}},
    Field{"fenced", &DesiredState::fenced, Always{}, AtMost{kMaxBodyMachines}},
    Field{"members", &DesiredState::members}, Field{"witnesses", &DesiredState::witnesses});

template <>
inline constexpr auto kFields<Termination> = std::tuple(
    Field{"exitCode", &Termination::exit_code, Always{}},
    Field{"generation", &Termination::generation, Always{}},
    Field{"machine", &Termination::machine, Always{}},
    Field{"attempt", &Termination::attempt, Always{}},
    Field{"verdict", &Termination::verdict, Always{}},
    Field{"needsEpoch", &Termination::needs_epoch},
    Field{"reason", &Termination::reason, Always{}, CutTo{kMaxBodyText}},
    Field{"lastFailure", &Termination::failure, Always{}},
    Field{"counters", &Termination::counters, Whole{}}, Field{"progress", &Termination::progress},
    Field{"unwritten", &Termination::unwritten, CutTo{kMaxBodyText / 4}},
    Field{"doubt", &Termination::doubt, CutTo{kMaxBodyText}},
    Field{"ended", &Termination::ended, AtMost{kMaxEnded}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_STATUS_FIELDS_H_
