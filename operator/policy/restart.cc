// A restart by spec.restartRequest. It is recorded before machine 0 hears of it, with the attempt
// of machine 0 that must carry it out. Generations of a later machine 0 are younger than the
// request, so each request is carried out once.
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

using core::RestartStatus;

// "alice: new learning rate"
std::string WordsOf(const RestartStatus& restart) {
  if (restart.requested_by.empty()) return restart.reason;
  return restart.requested_by + (restart.reason.empty() ? "" : ": " + restart.reason);
}

bool IsWithdrawn(const ReconcileContext& context, const RestartStatus& restart) {
  const std::optional<core::RestartRequest>& request = context.spec().restart_request;
  return !request || request->id != restart.id;
}

}  // namespace

bool RecordRestart(ReconcileContext& context) {
  const std::optional<core::RestartRequest>& request = context.spec().restart_request;
  const core::JobStatus& status = context.snapshot.status;
  if (!request || request->id.empty()) return false;
  if (status.restart && status.restart->id == request->id) return false;
  RestartStatus restart{.id = request->id,
                        .reason = request->reason,
                        .requested_by = request->requested_by,
                        .at_commit = request->at_commit,
                        .attempt = status.attempts.Of(0),
                        .asked = context.now.wall};
  // One that was to come at once, and has not, is carried out with this one.
  if (status.restart && !status.restart->done && !status.restart->at_commit) {
    restart.at_commit = false;
  }
  // No gang is there: the next one is younger than the request.
  if (status.attempts.empty()) restart.done = context.now.wall;
  const std::string words = WordsOf(restart);
  context.AddEvent(false, "RestartRequested",
                   std::string("a restart was requested") +
                       (restart.at_commit ? " at the next commit" : "") +
                       (words.empty() ? "" : " by " + words));
  context.next.restart = std::move(restart);
  context.WriteFirst();
  return true;
}

std::optional<core::DesiredState::Restart> WantedRestart(const ReconcileContext& context) {
  const std::optional<RestartStatus>& restart = context.snapshot.status.restart;
  if (!restart || restart->done || IsWithdrawn(context, *restart)) return std::nullopt;
  return core::DesiredState::Restart{restart->id, restart->attempt, restart->at_commit,
                                     WordsOf(*restart)};
}

void ObserveRestart(ReconcileContext& context) {
  std::optional<RestartStatus>& restart = context.next.restart;
  if (!restart || restart->done) return;
  const core::GangStatus* gang = Coordinator(context);
  const uint32_t attempt = context.snapshot.status.attempts.Of(0);
  const bool carried_out = gang != nullptr && gang->restarted == restart->id;
  const bool followed = attempt == 0 || attempt > restart->attempt;
  if (carried_out || followed) {
    restart->done = context.now.wall;
  } else if (IsWithdrawn(context, *restart)) {
    restart.reset();
  }
}

}  // namespace lockstep::control
