// The field tables (base/fields.h) of the gang's messages, in the order of the wire. The records
// that JSON also carries have its names and forms here (docs/reference/protocol.md).
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGE_FIELDS_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGE_FIELDS_H_

#include <cstddef>
#include <tuple>

#include "base/fields.h"
#include "core/gang/protocol/generation_record.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

inline constexpr size_t kMaxBodyText = 1024;  // most bytes of a text in JSON

// ---- messages: the wire has no names and no forms ----

// Failures in a machine's own report: those of a list.
inline constexpr auto kDeathFields =
    std::tuple(Field{"rank", &Failure::rank}, Field{"cause", &Failure::cause},
               Field{"exitCode", &Failure::exit_code}, Field{"signal", &Failure::signal},
               Field{"at", &Failure::at}, Field{"byItself", &Failure::by_itself},
               Field{"stderr", &Failure::stderr_tail}, Field{"step", &Failure::step},
               Field{"lastStep", &Failure::last_step}, Field{"rule", &Failure::rule});

template <>
inline constexpr auto kFields<Whereabouts> =
    std::tuple(Field{"rank", &Whereabouts::rank}, Field{"place", &Whereabouts::place});

template <>
inline constexpr auto kFields<Parked> =
    std::tuple(Field{"ready", &Parked::ready}, Field{"whyNot", &Parked::why_not},
               Field{"saved", &Parked::saved});

template <>
inline constexpr auto kFields<Report> = std::tuple(
    Field{"generation", &Report::generation}, Field{"phase", &Report::phase},
    Field{"leaseExpired", &Report::lease_expired},
    Field{"leaseExpiredAt", &Report::lease_expired_at}, Field{"firstStep", &Report::first_step},
    Field{"lastStep", &Report::last_step}, Field{"unkillable", &Report::unkillable},
    Field{"binding", &Report::binding}, Field{"bindingReason", &Report::binding_reason},
    Field{"deaths", &Report::deaths}, Field{"whereabouts", &Report::whereabouts},
    Field{"warm", &Report::warm}, Field{"loaded", &Report::loaded},
    Field{"parked", &Report::parked}, Field{"finished", &Report::finished},
    Field{"decided", &Report::decided}, Field{"down", &Report::down}, Field{"kept", &Report::kept},
    Field{"noted", &Report::noted});

template <>
inline constexpr auto kFields<LeaseGrant> =
    std::tuple(Field{"present", &LeaseGrant::present}, Field{"echo", &LeaseGrant::echo},
               Field{"age", &LeaseGrant::age}, Field{"length", &LeaseGrant::length});

template <>
inline constexpr auto kFields<CheckpointId> = std::tuple(
    Field{"generation", &CheckpointId::generation}, Field{"number", &CheckpointId::number});

template <>
inline constexpr auto kFields<MemoryPart> =
    std::tuple(Field{"id", &MemoryPart::id}, Field{"machine", &MemoryPart::machine},
               Field{"name", &MemoryPart::name});

template <>
inline constexpr auto kFields<Hello> = std::tuple(
    Field{"jobUID", &Hello::job_uid}, Field{"machine", &Hello::machine},
    Field{"attempt", &Hello::attempt}, Field{"machines", &Hello::machines},
    Field{"processes", &Hello::processes}, Field{"machine0Attempt", &Hello::machine0_attempt},
    Field{"predecessorDead", &Hello::predecessor_dead}, Field{"draining", &Hello::draining},
    Field{"silence", &Hello::silence}, Field{"leaseLength", &Hello::lease_length},
    Field{"now", &Hello::now}, Field{"counters", &Hello::counters}, Field{"report", &Hello::report},
    Field{"address", &Hello::address});

template <>
inline constexpr auto kFields<Pong> =
    std::tuple(Field{"pingSent", &Pong::ping_sent}, Field{"now", &Pong::now},
               Field{"generation", &Pong::generation}, Field{"phase", &Pong::phase});

template <>
inline constexpr auto kFields<ReportMessage> = std::tuple(Field{"report", &ReportMessage::report});

template <>
inline constexpr auto kFields<StopRequest> =
    std::tuple(Field{"reason", &StopRequest::reason}, Field{"grace", &StopRequest::grace});

template <>
inline constexpr auto kFields<CommitRequest> =
    std::tuple(Field{"id", &CommitRequest::id}, Field{"generation", &CommitRequest::generation},
               Field{"memory", &CommitRequest::memory}, Field{"name", &CommitRequest::name},
               Field{"problem", &CommitRequest::problem});

template <>
inline constexpr auto kFields<Progress> =
    std::tuple(Field{"generation", &Progress::generation}, Field{"ranks", &Progress::ranks});

template <>
inline constexpr auto kFields<VerdictAck> =
    std::tuple(Field{"generation", &VerdictAck::generation});

template <>
inline constexpr auto kFields<Welcome> = std::tuple(
    Field{"machine0Attempt", &Welcome::machine0_attempt}, Field{"counters", &Welcome::counters});

template <>
inline constexpr auto kFields<Refused> =
    std::tuple(Field{"code", &Refused::code}, Field{"reason", &Refused::reason});

template <>
inline constexpr auto kFields<Ping> =
    std::tuple(Field{"sent", &Ping::sent}, Field{"machine0Attempt", &Ping::machine0_attempt},
               Field{"lease", &Ping::lease});

template <>
inline constexpr auto kFields<MachinePorts> =
    std::tuple(Field{"address", &MachinePorts::address}, Field{"first", &MachinePorts::first});

template <>
inline constexpr auto kFields<Start> = std::tuple(
    Field{"generation", &Start::generation}, Field{"masterAddress", &Start::master_address},
    Field{"masterPort", &Start::master_port}, Field{"resume", &Start::resume},
    Field{"restarts", &Start::restarts}, Field{"hangTimeout", &Start::hang_timeout},
    Field{"counters", &Start::counters}, Field{"lease", &Start::lease},
    Field{"memory", &Start::memory}, Field{"ports", &Start::ports}, Field{"code", &Start::code},
    Field{"members", &Start::members}, Field{"rules", &Start::rules},
    Field{"skipSteps", &Start::skip_steps});

template <>
inline constexpr auto kFields<Stop> =
    std::tuple(Field{"generation", &Stop::generation}, Field{"reason", &Stop::reason},
               Field{"grace", &Stop::grace}, Field{"evidence", &Stop::evidence},
               Field{"keep", &Stop::keep}, Field{"sure", &Stop::sure});

template <>
inline constexpr auto kFields<CommitReply> =
    std::tuple(Field{"id", &CommitReply::id}, Field{"granted", &CommitReply::granted},
               Field{"number", &CommitReply::number}, Field{"reason", &CommitReply::reason});

template <>
inline constexpr auto kFields<HeldParts> =
    std::tuple(Field{"address", &HeldParts::address}, Field{"parts", &HeldParts::parts});

template <>
inline constexpr auto kFields<FetchFailed> =
    std::tuple(Field{"part", &FetchFailed::part}, Field{"reason", &FetchFailed::reason});

template <>
inline constexpr auto kFields<Persisted> =
    std::tuple(Field{"id", &Persisted::id}, Field{"error", &Persisted::error},
               Field{"to", &Persisted::to}, Field{"machines", &Persisted::machines});

template <>
inline constexpr auto kFields<Fetch> =
    std::tuple(Field{"part", &Fetch::part}, Field{"address", &Fetch::address});

template <>
inline constexpr auto kFields<Keep> = std::tuple(Field{"ids", &Keep::ids});

template <>
inline constexpr auto kFields<Persist> =
    std::tuple(Field{"id", &Persist::id}, Field{"to", &Persist::to}, Field{"name", &Persist::name},
               Field{"machines", &Persist::machines});

template <>
inline constexpr auto kFields<Dismiss> = std::tuple(Field{"generation", &Dismiss::generation});

template <>
inline constexpr auto kFields<Figures> =
    std::tuple(Field{"products", &Figures::products}, Field{"memory", &Figures::memory},
               Field{"disk", &Figures::disk}, Field{"link", &Figures::link},
               Field{"gpuLink", &Figures::gpu_link});

template <>
inline constexpr auto kFields<Measured> =
    std::tuple(Field{"id", &Measured::id}, Field{"linked", &Measured::linked},
               Field{"figures", &Measured::figures}, Field{"address", &Measured::address},
               Field{"token", &Measured::token}, Field{"rates", &Measured::rates},
               Field{"gpus", &Measured::gpus});

template <>
inline constexpr auto kFields<Partner> =
    std::tuple(Field{"machine", &Partner::machine}, Field{"address", &Partner::address},
               Field{"token", &Partner::token});

template <>
inline constexpr auto kFields<Measure> =
    std::tuple(Field{"id", &Measure::id}, Field{"linked", &Measure::linked},
               Field{"alone", &Measure::alone}, Field{"partners", &Measure::partners});

template <>
inline constexpr auto kFields<Run> =
    std::tuple(Field{"generation", &Run::generation}, Field{"id", &Run::id},
               Field{"machine", &Run::machine}, Field{"command", &Run::command});

template <>
inline constexpr auto kFields<Ran> = std::tuple(
    Field{"generation", &Ran::generation}, Field{"id", &Ran::id}, Field{"machine", &Ran::machine},
    Field{"exitCode", &Ran::exit_code}, Field{"problem", &Ran::problem});

template <>
inline constexpr auto kFields<TableEntry> =
    std::tuple(Field{"key", &TableEntry::key}, Field{"value", &TableEntry::value});

template <>
inline constexpr auto kFields<Fence> = std::tuple(
    Field{"generation", &Fence::generation}, Field{"number", &Fence::number},
    Field{"part", &Fence::part}, Field{"last", &Fence::last}, Field{"entries", &Fence::entries});

template <>
inline constexpr auto kFields<FenceMore> =
    std::tuple(Field{"generation", &FenceMore::generation}, Field{"number", &FenceMore::number},
               Field{"part", &FenceMore::part});

template <>
inline constexpr auto kFields<TryPorts> =
    std::tuple(Field{"generation", &TryPorts::generation}, Field{"first", &TryPorts::first},
               Field{"count", &TryPorts::count});

template <>
inline constexpr auto kFields<PortsTried> =
    std::tuple(Field{"generation", &PortsTried::generation}, Field{"first", &PortsTried::first},
               Field{"taken", &PortsTried::taken});

template <>
inline constexpr auto kFields<StartAgain> =
    std::tuple(Field{"generation", &StartAgain::generation}, Field{"rank", &StartAgain::rank},
               Field{"died", &StartAgain::died});

template <>
inline constexpr auto kFields<UsageMessage> =
    std::tuple(Field{"usage", &UsageMessage::usage}, Field{"activity", &UsageMessage::activity});

template <>
inline constexpr auto kFields<Look> =
    std::tuple(Field{"generation", &Look::generation}, Field{"patience", &Look::patience});

template <>
inline constexpr auto kFields<Looked> =
    std::tuple(Field{"generation", &Looked::generation},
               Field{"whereabouts", &Looked::whereabouts, AtMost{kMaxWhereaboutsInReport}});

template <>
inline constexpr auto kFields<HeldCode> =
    std::tuple(Field{"address", &HeldCode::address}, Field{"digests", &HeldCode::digests},
               Field{"generation", &HeldCode::generation}, Field{"ran", &HeldCode::ran});

template <>
inline constexpr auto kFields<FetchCode> =
    std::tuple(Field{"digest", &FetchCode::digest}, Field{"address", &FetchCode::address});

template <>
inline constexpr auto kFields<CodeFailed> =
    std::tuple(Field{"digest", &CodeFailed::digest}, Field{"reason", &CodeFailed::reason});

// ---- both: in the order of the wire, with JSON's names and forms ----

template <>
inline constexpr auto kFields<NamedFigure> =
    std::tuple(Field{"name", &NamedFigure::name, Always{}, CutTo{kMaxFigureName}},
               Field{"value", &NamedFigure::value, Always{}});

template <>
inline constexpr auto kFields<RankProgress> = std::tuple(
    Field{"rank", &RankProgress::rank, Always{}}, Field{"step", &RankProgress::step, Always{}},
    Field{"totalSteps", &RankProgress::total_steps}, Field{"loss", &RankProgress::loss},
    Field{"tokensPerSecond", &RankProgress::tokens_per_second},
    Field{"waits", &RankProgress::waits}, Field{"waitedSeconds", &RankProgress::waited},
    Field{"throttledSeconds", &RankProgress::throttled}, Field{"", &RankProgress::known, Inline{}},
    Field{"gpu", &RankProgress::gpu}, Field{"gpuClock", &RankProgress::gpu_clock},
    Field{"figures", &RankProgress::figures, AtMost{kMaxNamedFigures}},
    Field{"source", &RankProgress::source});

template <>
inline constexpr auto kFields<GenerationRecord> = std::tuple(
    Field{"generation", &GenerationRecord::generation, Always{}},
    Field{"announced", &GenerationRecord::announced, Always{}, InSeconds{}},
    Field{"spawned", &GenerationRecord::spawned, Always{}, InSeconds{}},
    Field{"firstStep", &GenerationRecord::first_step, Always{}, InSeconds{}},
    Field{"halted", &GenerationRecord::halted, Always{}, InSeconds{}},
    Field{"died", &GenerationRecord::died, Always{}, InSeconds{}},
    Field{"stopSent", &GenerationRecord::stop_sent, Always{}, InSeconds{}},
    Field{"allStopped", &GenerationRecord::all_stopped, Always{}, InSeconds{}},
    Field{"ended", &GenerationRecord::ended, Always{}, InSeconds{}},
    Field{"stopReason", &GenerationRecord::stop_reason},
    Field{"resume", &GenerationRecord::resume, Always{}},
    Field{"resumedAt", &GenerationRecord::resumed_at, Always{}},
    Field{"lastStep", &GenerationRecord::last_step, Always{}},
    Field{"failure", &GenerationRecord::failure, Always{}}, Field{"warm", &GenerationRecord::warm},
    Field{"kept", &GenerationRecord::kept},
    Field{"loadedSeconds", &GenerationRecord::loaded, InSeconds{}},
    Field{"savedSeconds", &GenerationRecord::saved, InSeconds{}},
    Field{"members", &GenerationRecord::members}, Field{"code", &GenerationRecord::code});

template <>
inline constexpr auto kFields<Verdict> = std::tuple(
    Field{"generation", &Verdict::generation, Always{}},
    Field{"exitCode", &Verdict::exit_code, Always{}}, Field{"failure", &Verdict::failure, Always{}},
    Field{"reason", &Verdict::reason, Always{}, CutTo{kMaxBodyText}},
    Field{"ended", &Verdict::ended, AtMost{kMaxEnded}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGE_FIELDS_H_
