// What `lockstep plan` prints: pure functions from a plan to text.
#ifndef LOCKSTEP_CLI_JOB_PLAN_TEXT_H_
#define LOCKSTEP_CLI_JOB_PLAN_TEXT_H_

#include <optional>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "core/model/spec.h"
#include "core/plan/plan.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {

struct PlanView {
  core::TrainingJob job;
  core::Plan plan;
  core::Recommendation recommendation;
  std::vector<topology::BindingPlan> bindings;  // of the machines, on this computer
  std::string computer;                         // "8 cores, no GPU"
  std::string ignored;                          // fields that `lockstep run` passes over
};

std::string PlanTable(const PlanView& view);
OrderedJson PlanJson(const PlanView& view);
std::string RecommendationText(const PlanView& view);
// What to know of the job's shape on this computer, in one line without its end; empty: nothing.
std::string HintText(const core::Recommendation& recommendation);

// Any JSON as YAML, maps in their order.
std::string ToYaml(const OrderedJson& json);

// "exit code 2, 126, 127" and the like.
std::string Describe(const core::FailureRule& rule);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_JOB_PLAN_TEXT_H_
