// Reporter: where a rank's figures go: to its agent, to a file of JSON lines, and, of rank 0, to
// TensorBoard and as lines for people.
#ifndef LOCKSTEP_WORKER_TRAINER_REPORT_REPORTER_H_
#define LOCKSTEP_WORKER_TRAINER_REPORT_REPORTER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/report/scalars.h"
#include "worker/trainer/report/step_record.h"

namespace lockstep::trainer {

class Reporter {
 public:
  struct Options {
    int rank = 0;
    int64_t step = 0;         // done before
    std::string metrics;      // the file, of rank 0 or, with {rank} in its name, of each; or empty
    std::string tensorboard;  // folder; empty: none
    int64_t log_every = 10;   // steps between lines of the log; 0: none
  };

  // kInvalid names a file that can't be written. `agent` outlives this.
  Status Open(const Options& options, AgentLink& agent);

  // `more` is for the agent alone; `stopping`: this was the last step for now.
  void Tell(const StepRecord& record, const Numbers& more, bool stopping);
  // Of a step that an earlier process told the figures of.
  void Tell(const Validation& validation);
  // At once, so that the wait is explained; it goes everywhere else with its step.
  void Say(const Validation& validation) const;
  // This rank is at work, though no step ends: told once a second at most.
  void TellAlive();
  void Flush();

 private:
  bool first() const { return options_.rank == 0; }
  // A line of the file, if there is one. A full disk costs lines, and the file goes on once there
  // is room.
  void WriteMetrics(const std::string& line);

  Options options_;
  AgentLink* agent_ = nullptr;
  std::string metrics_path_;
  UniqueFd metrics_;
  bool metrics_lost_ = false;  // the last line was, which is said once
  std::optional<Scalars> scalars_;
  Time alive_{};
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_REPORT_REPORTER_H_
