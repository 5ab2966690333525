#include <algorithm>

#include "core/model/launch.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

// An agent may lie.
constexpr Duration kMostSaved = hours(1);  // by one generation

void Count(core::PrestartStatus& status, const core::GangStatus::GenerationStatus& began) {
  if (!began.spawned || began.generation <= status.counted) return;
  status.counted = began.generation;
  ++(began.warm ? status.warm : status.cold);
  const Duration saved = std::clamp(began.saved, Duration::zero(), kMostSaved);
  if (began.warm) status.saved_milliseconds += saved / milliseconds(1);
}

}  // namespace

void ObservePrestart(ReconcileContext& context) {
  std::optional<core::PrestartStatus>& status = context.next.prestart;
  const bool wanted = core::PrestartOf(context.spec()) != core::Prestart::kNever;
  if (wanted && !status) status.emplace();
  if (!status) return;
  const core::GangStatus* gang = Coordinator(context);
  if (gang == nullptr && !context.machines.empty()) return;  // it is heard of in a moment
  status->ready = 0;
  status->reason.clear();
  if (gang == nullptr) return;
  status->ready =
      static_cast<int32_t>(std::min<int64_t>(gang->parked, core::WorldSize(context.spec())));
  status->reason = gang->parked_reason;
  for (const auto& each : gang->history) Count(*status, each);
}

}  // namespace lockstep::control
