// ProgressEvents: a run's progress as TensorBoard reads it, for `lockstep run --tensorboard DIR`.
// Each generation has a file of its own, so that TensorBoard drops the steps that are done again.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_PROGRESS_EVENTS_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_PROGRESS_EVENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/events/tensorboard.h"
#include "base/wall_time.h"
#include "core/gang/diagnosis/progress.h"
#include "core/status/status.h"
#include "core/terms/generation.h"

namespace lockstep::cli {

class ProgressEvents {
 public:
  // Files are made in `folder`, with the folder, at the first step. "": nothing is written.
  explicit ProgressEvents(std::string folder) : folder_(std::move(folder)) {}

  // Writes what `progress` of this generation adds to the files. Returns "", or once a message that
  // a file cannot be written. The next step is written to it again.
  std::string Update(WallTime now, core::Generation generation, const core::GangProgress& progress);
  // The job's last progress, which its agents may have left behind only at their end.
  std::string Finish(WallTime now, const core::JobProgress& progress);

 private:
  std::string Write(WallTime now, int64_t step, std::vector<core::NamedFigure> figures);

  std::string folder_;
  core::Generation generation_{};
  std::unique_ptr<events::EventFile> file_;
  int64_t step_ = 0;                        // as it was written last
  std::vector<core::NamedFigure> figures_;  // likewise
  bool told_ = false;                       // of a problem
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_PROGRESS_EVENTS_H_
