// The text of `lockstep status` and `lockstep list`. Pure functions. Control characters in texts of
// others (reasons, stderr, names) are made harmless for the terminal.
#ifndef LOCKSTEP_CLI_CLUSTER_JOB_TEXT_H_
#define LOCKSTEP_CLI_CLUSTER_JOB_TEXT_H_

#include <string>
#include <vector>

#include "base/wall_time.h"
#include "cli/cluster/jobs.h"

namespace lockstep::cli {

// "trainingjob gpt in namespace research", or "run gpt on this computer" without a namespace.
std::string TitleOf(const StoredJob& job);
// "1 of 3 restarts, 0 of 10 machine replacements". The failure that ended the job was one too many.
std::string BudgetOf(const StoredJob& job);

// The whole of `lockstep status NAME`; `now` is for ages.
std::string StatusText(const StoredJob& job, WallTime now);

// One line without its end: what of a status changes, for logs of `status --watch`.
std::string StatusLine(const StoredJob& job);

struct ListColumns {
  bool name_space = false;
  bool wide = false;  // generation and reason
};
std::string ListText(const std::vector<StoredJob>& jobs, ListColumns columns, WallTime now);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_JOB_TEXT_H_
