// What a framework adds to the environment of a job's processes: its variables, each named once
// with what becomes of the user's value, and the function that sets them. One file a framework.
#ifndef LOCKSTEP_CORE_PLAN_FRAMEWORKS_FRAMEWORK_PLAN_H_
#define LOCKSTEP_CORE_PLAN_FRAMEWORKS_FRAMEWORK_PLAN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/model/spec.h"
#include "core/plan/environment.h"

namespace lockstep::core {

// Collects variables in the order in which they are set.
class Collector {
 public:
  explicit Collector(Variables& variables) : variables_(variables) {}

  void Set(std::string name, std::string value) {
    variables_.emplace_back(std::move(name), std::move(value));
  }
  void Set(std::string name, int64_t value) { Set(std::move(name), std::to_string(value)); }
  void SetUnlessEmpty(std::string name, const std::string& value) {
    if (!value.empty()) Set(std::move(name), value);
  }

 private:
  Variables& variables_;
};

// What becomes of a value that the user gives the variable in spec.env.
enum class UsersValue : uint8_t {
  kWins,     // it stays
  kRefused,  // the job is refused, because each process needs its own value
};

struct OwnVariable {
  std::string_view name;
  UsersValue users_value;
};

struct FrameworkPlan {
  // Variables of this framework. What is said here of a variable holds for jobs of every framework;
  // a variable in no list replaces the user's value.
  std::span<const OwnVariable> variables;
  // Names by which another launcher of this framework tells a process who it is (leftovers.h),
  // beside those that begin as a launcher's family.
  std::span<const std::string_view> leftovers;
  // For one process of a rank; null: nothing.
  void (*set_for_rank)(const Spec& spec, const ProcessIdentity& id, Collector& env) = nullptr;
  // For each process that Lockstep starts, launchers as well; null: nothing.
  void (*set_always)(const ProcessIdentity& id, Collector& env) = nullptr;
};

const FrameworkPlan& TorchPlan();
const FrameworkPlan& AcceleratePlan();
const FrameworkPlan& JaxPlan();
const FrameworkPlan& TensorFlowPlan();
const FrameworkPlan& MpiPlan();
const FrameworkPlan& HorovodPlan();
const FrameworkPlan& PlainPlan();

inline const FrameworkPlan& PlanOf(Framework framework) {
  switch (framework) {
    case Framework::kTorch:
      return TorchPlan();
    case Framework::kAccelerate:
      return AcceleratePlan();
    case Framework::kJax:
      return JaxPlan();
    case Framework::kTensorFlow:
      return TensorFlowPlan();
    case Framework::kMpi:
      return MpiPlan();
    case Framework::kHorovod:
      return HorovodPlan();
    case Framework::kNone:
      return PlainPlan();
  }
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_FRAMEWORKS_FRAMEWORK_PLAN_H_
