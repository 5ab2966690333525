// What outlives a run: the epoch, in `<checkpoint path>/.lockstep/run.json`, under a lock that
// keeps a second run off the folder. Without a checkpoint path nothing does, and the job's UID is a
// random one. docs/guides/checkpoints.md describes the folder.
#ifndef LOCKSTEP_CLI_RUN_RUN_STATE_H_
#define LOCKSTEP_CLI_RUN_RUN_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::cli {

// run.json.
struct RunRecord {
  std::string job_uid;
  std::string name;
  uint32_t epoch = 0;

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};
std::string ToJson(const RunRecord& record);
Result<RunRecord> ParseRunRecord(std::string_view json);

class RunState {
 public:
  // `path` is the checkpoint folder ("" for none), made if it isn't there; `resume` is
  // spec.checkpoint.resume. Conflict: another run holds the folder, or under Auto its checkpoints
  // are another job's.
  static Result<RunState> Open(const std::string& job, const std::string& path,
                               const std::string& resume);

  // As above, for checkpoints in an object store: `url` is s3://BUCKET/PREFIX, and `program` is
  // lockstep-s3, which is asked for the job's generations. There is no lock: of two runs at once
  // the store takes commits of the later one only. Errors of the store name the URL.
  static Result<RunState> OpenBucket(const std::string& job, const std::string& url,
                                     const std::string& resume, const std::string& program);

  const std::string& job_uid() const { return record_.job_uid; }
  // The checkpoint folder, absolute and without links; "" for none.
  const std::string& path() const { return path_; }
  // The object store; "" for none.
  const std::string& url() const { return url_; }
  uint32_t epoch() const { return record_.epoch; }

  // Raises the epoch; it is on the disk before this returns.
  Result<uint32_t> RaiseEpoch();

 private:
  RunRecord record_;
  std::string path_;
  std::string url_;
  UniqueFd lock_;  // held until the run ends, however it ends
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_RUN_STATE_H_
