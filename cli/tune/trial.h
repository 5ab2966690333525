// One trial of `lockstep tune`: a `lockstep run` of its own, stopped when enough was seen.
#ifndef LOCKSTEP_CLI_TUNE_TRIAL_H_
#define LOCKSTEP_CLI_TUNE_TRIAL_H_

#include <atomic>
#include <string>

#include "base/result.h"
#include "cli/tune/tune_result.h"
#include "core/model/spec.h"

namespace lockstep::cli {

struct TrialRequest {
  core::TrainingJob job;  // as TrialOf makes it
  std::string folder;     // empty; for the trial's files
  StretchLimits limits;
  Duration patience = minutes(10);  // until the first step
};

// Blocks until the run has ended. `interrupted` stops it; then the answer is Unavailable. Other
// errors say in one line why the trial has no figure; NotFound: see MeasureStretch.
Result<Stretch> RunTrial(const TrialRequest& request, const std::atomic<bool>& interrupted);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TUNE_TRIAL_H_
