// From the ranks' evidence (flight_recorder.h) to the one that the others waited for.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_ANALYZE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_ANALYZE_H_

#include <string>

#include "base/result.h"

namespace lockstep::collectives {

// One line from all rank-NNNNN.json of a folder:
//
//   rank 2 fell behind: it never issued allreduce 17 "bucket 3", which ranks 0, 1 and 3 began
//   rank 2 fell behind: it left no evidence (stopped, or dead); ranks 0, 1 and 3 wait in ...
//   rank 1 differs: its operation 9 is broadcast "parameters", where ranks 0 and 2 have barrier ""
//
// Files of other generations than the newest file's are left aside. NotFound when the folder holds
// none; Invalid names a file that is not evidence.
Result<std::string> Analyze(const std::string& dir);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_ANALYZE_H_
