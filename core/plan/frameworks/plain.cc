#include "core/plan/frameworks/framework_plan.h"

namespace lockstep::core {

// framework: None has the ranks' common variables alone.
const FrameworkPlan& PlainPlan() {
  static constexpr FrameworkPlan kPlan{};
  return kPlan;
}

}  // namespace lockstep::core
