// Steps whose data a job leaves out, as in LOCKSTEP_SKIP_STEPS: "498-502,900-900", ascending and
// apart. Pure.
#ifndef LOCKSTEP_CORE_TERMS_SKIPPED_STEPS_H_
#define LOCKSTEP_CORE_TERMS_SKIPPED_STEPS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::core {

// `skipped` with the steps from `first` to `last`, and nothing new if `last` is below `first`. What
// is no list of ranges counts as empty.
std::string AddSkipped(std::string_view skipped, int64_t first, int64_t last);

// Whether the list has this step.
bool SkipsStep(std::string_view skipped, int64_t step);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_SKIPPED_STEPS_H_
