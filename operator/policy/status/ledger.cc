#include "core/status/ledger.h"

#include <algorithm>

#include "core/status/generation_span.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

using GenerationStatus = core::GangStatus::GenerationStatus;

std::vector<core::GenerationSpan> SpansOf(const ReconcileContext& context) {
  std::vector<core::GenerationSpan> spans;
  for (const GenerationStatus& each : LastGenerations(context)) {
    spans.push_back(
        core::SpanOf(each, [&](std::optional<Time> time) { return WallOf(context, time); }));
  }
  const core::GangStatus* report = LastReport(context);
  if (spans.empty() || report == nullptr || spans.back().generation != report->generation) {
    return spans;
  }
  for (const core::RankProgress& rank : report->progress) {
    if (rank.source == core::StepSource::kEpochs) continue;
    spans.back().last_step = std::max(spans.back().last_step, rank.step);
  }
  return spans;
}

core::LedgerMoment MomentOf(const ReconcileContext& context) {
  // Nothing was written since then.
  const core::JobStatus& before = context.snapshot.status;
  const auto pending = before.machines.by_state.find(core::MachineState::kPending);
  core::LedgerMoment moment;
  moment.now = context.now.wall;
  moment.machines = before.attempts.size();
  // The gang does not wait for a machine that is left out.
  const auto& elastic = before.elastic;
  const int left_out = elastic ? moment.machines - static_cast<int>(elastic->members.size()) : 0;
  moment.begun = before.timings.created.value_or(context.now.wall);
  moment.waits_for_nodes = pending != before.machines.by_state.end() && pending->second > left_out;
  return moment;
}

// Nothing before its machines are made, and nothing of one that has none.
core::Ledger* LedgerOf(ReconcileContext& context) {
  if (context.snapshot.status.attempts.empty()) return nullptr;
  std::optional<core::Ledger>& ledger = context.next.ledger;
  if (!ledger) ledger.emplace();
  return &*ledger;
}

// When machine 0 was last heard.
void HeardAt(const ReconcileContext& context, core::LedgerMoment& moment) {
  const std::optional<GangReport>& report = context.snapshot.coordinator;
  if (report) moment.now -= std::max(context.now.boot - report->at, Duration::zero());
}

}  // namespace

void AccountTime(ReconcileContext& context) {
  core::Ledger* ledger = LedgerOf(context);
  if (ledger == nullptr) return;
  const std::vector<core::GenerationSpan> spans = SpansOf(context);
  core::LedgerMoment moment = MomentOf(context);
  if (!spans.empty()) HeardAt(context, moment);
  core::Account(*ledger, spans, moment);
}

void AccountLossOfMachine0(ReconcileContext& context, core::Cause cause) {
  core::Ledger* ledger = LedgerOf(context);
  if (ledger == nullptr) return;
  AccountTime(context);
  core::AccountLoss(*ledger, cause, MomentOf(context));
}

void CloseAccounts(ReconcileContext& context) {
  core::Ledger* ledger = LedgerOf(context);
  if (ledger == nullptr) return;
  core::Account(*ledger, SpansOf(context), MomentOf(context));
  core::Pause(*ledger);
}

}  // namespace lockstep::control
