// status.code: the code that users synced (spec.sync). A later machine 0 learns from it which code
// ranks must run.
#include <algorithm>

#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

// An agent may lie.
constexpr uint32_t kMostFiles = 20'000;

}  // namespace

void ObserveCode(ReconcileContext& context) {
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr || !gang->code || gang->code->digest.empty()) return;
  const core::SyncedCode& code = *gang->code;
  std::optional<core::CodeStatus>& status = context.next.code;
  // A new machine 0 that has not heard every machine may name older code.
  if (!code.generation.exists() || (status && code.generation < status->generation)) return;
  // Another machine 0 took it, and this one knows no more of it than the operator.
  if (status && status->digest == code.digest && code.by.empty()) return;
  const bool same = status && status->digest == code.digest;
  core::CodeStatus next{.digest = code.digest,
                        .files = static_cast<int32_t>(std::min<uint32_t>(code.files, kMostFiles)),
                        .by = code.by,
                        .since = WallOf(context, code.since),
                        .generation = code.generation};
  if (same && !next.since) next.since = status->since;
  if (status == next) return;
  if (!same) {
    context.AddEvent(false, "CodeSynced",
                     (code.by.empty() ? "somebody" : code.by) + " synced code " +
                         code.digest.substr(0, 12) + ", which runs from the next generation on");
  }
  status = std::move(next);
}

std::optional<core::DesiredState::Code> RecordedCode(const ReconcileContext& context) {
  const std::optional<core::CodeStatus>& code = context.snapshot.status.code;
  if (!context.spec().sync || !code) return std::nullopt;
  return core::DesiredState::Code{.digest = code->digest, .generation = code->generation};
}

}  // namespace lockstep::control
