// TensorBoard's view of a run, written by rank 0. It never ends training: the first failure is
// said, and nothing more is written.
#ifndef LOCKSTEP_WORKER_TRAINER_REPORT_SCALARS_H_
#define LOCKSTEP_WORKER_TRAINER_REPORT_SCALARS_H_

#include <memory>
#include <string>

#include "base/events/tensorboard.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/report/step_record.h"

namespace lockstep::trainer {

class Scalars {
 public:
  // An empty folder: nothing is written. `step`: steps done before; what the folder has from there
  // on was undone.
  Scalars(const std::string& folder, int64_t step);

  void Add(int64_t step, const Numbers& numbers);
  void Flush();

 private:
  // Says an error, and closes the file.
  void Give(const Status& status);

  std::unique_ptr<events::EventFile> file_;
  Time flushed_ = BootTime();
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_REPORT_SCALARS_H_
