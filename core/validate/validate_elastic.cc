#include <algorithm>

#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kElastic = "spec.elastic";

void ValidateSizes(Validator& validator, const Spec& spec) {
  const Elastic& elastic = *spec.elastic;
  if (elastic.min_machines > spec.num_machines) {
    validator.Error(kElastic + ".minMachines", "must be at most numMachines",
                    std::to_string(elastic.min_machines));
    return;
  }
  const std::vector<int32_t>& sizes = elastic.sizes;
  if (std::ranges::adjacent_find(sizes, std::ranges::greater_equal()) != sizes.end()) {
    validator.Error(kElastic + ".sizes", "must ascend, as in [2, 4, 8]");
  }
  if (std::ranges::any_of(sizes, [&](int32_t size) {
        return size < elastic.min_machines || size > spec.num_machines;
      })) {
    validator.Error(kElastic + ".sizes", "must lie between minMachines and numMachines");
  }
  if (std::ranges::any_of(sizes, [&](int32_t size) { return !DealsOutBatch(spec, size); })) {
    validator.Error(kElastic + ".sizes",
                    "must be numbers of machines among whose processes "
                    "spec.trainer.globalBatchSize divides evenly, in micro-batches");
  }
}

// Settings for one number of machines.
void ValidateCompany(Validator& validator, const Spec& spec) {
  if (!RowOf(spec.framework).elastic) {
    validator.Error("spec.framework", "must be " + ListFrameworks(&FrameworkRow::elastic) +
                                          " with spec.elastic, whose generations have different "
                                          "numbers of ranks");
  }
  if (!spec.roles.empty()) {
    validator.Error("spec.roles",
                    "must be empty with spec.elastic, whose generations have different numbers of "
                    "ranks");
  }
  if (spec.checkpoint.memory.size) {
    validator.Error("spec.checkpoint.memory.size",
                    "must be absent with spec.elastic: a checkpoint in memory is lost if a "
                    "machine's part is lost");
  }
  if (!spec.checkpoint.url.empty()) {
    validator.Error("spec.checkpoint.url",
                    "must be absent with spec.elastic, whose checkpoints need a folder");
  }
  if (spec.preflight.enabled) {
    validator.Error("spec.preflight.enabled",
                    "must be false with spec.elastic, because the gang would continue without the "
                    "replacement of a slow machine");
  }
  if (spec.trainer &&
      std::max(spec.trainer->parallel.pipeline, spec.trainer->parallel.tensor) > 1) {
    validator.Error("spec.trainer.parallel",
                    "must be 1 with spec.elastic: a lost machine loses a part of the model");
  }
  if (spec.trainer && spec.trainer->recovery == Recovery::kInPlace) {
    validator.Error("spec.trainer.recovery",
                    "must be Restart with spec.elastic, whose ranks may have other numbers in the "
                    "next generation");
  }
  if (spec.checkpoint.path.empty()) {
    validator.Warn("spec.checkpoint.path",
                   "is missing: without checkpoints every change of spec.elastic's size begins at "
                   "the first step, and the gang grows only at a restart");
  }
}

}  // namespace

void ValidateElastic(Validator& validator) {
  const Spec& spec = validator.job.spec;
  if (!spec.elastic) return;
  ValidateSizes(validator, spec);
  ValidateCompany(validator, spec);
  validator.Range(kElastic + ".shrinkAfter", spec.elastic->shrink_after, seconds(0), hours(24));
  validator.Range(kElastic + ".growAfter", spec.elastic->grow_after, seconds(0), hours(24));
}

}  // namespace lockstep::core
