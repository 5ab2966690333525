// JobRecord: one job as this operator knows it beyond the caches: its spec and status parsed, what
// its agents last said, and the memory that Decide hands from call to call.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_RECORD_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_RECORD_H_

#include <optional>
#include <string>
#include <vector>

#include "base/crypto/hkdf.h"
#include "base/result.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "core/text/problem.h"
#include "operator/controller/jobs/master_key.h"
#include "operator/controller/jobs/progress_turns.h"
#include "operator/kube/views.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

struct JobRecord {
  std::string uid;
  std::string resource_version;  // that the status was read from
  int64_t generation = -1;       // that the spec was; -1: it is not known now
  WallTime created{};
  bool deleting = false;
  core::TrainingJob job;
  std::vector<core::Problem> problems;  // errors: of reading, or of judging
  core::JobStatus status;
  Key key{};
  bool has_key = false;

  std::optional<GangReport> coordinator;
  std::optional<GangReport> member;
  std::optional<core::DesiredState> desired;  // that machine 0 is to take
  Notes notes;
  int refusals = 0;  // in a row
  PolicyState memory;
  ProgressTurns::Turn progress_turn;
  bool uncertain = false;    // of what the API server holds: read before deciding again
  bool job_changed = false;  // the same, of the TrainingJob alone
  int failed_reads = 0;      // of these, in a row
  int failed_writes = 0;     // likewise
  std::optional<core::JobState> counted;  // in the operator's figures
  int32_t counted_spares = 0;             // likewise

  kube::ObjectName name() const { return {job.metadata.name_space, job.metadata.name}; }
  void TakeBackRefusal() {
    notes.refusal.reset();
    refusals = 0;
  }
};

// Brings the record up to the object; another UID begins a new one. Invalid when its status can't
// be read, as if a later version had written it: then nothing may be decided.
Status Update(const kube::JobView& view, JobRecord* record);

// Forgets the spec of a job that has no machines: its text, from which Learn reads it again, takes
// a tenth of the room.
void Rest(JobRecord* record);

// The key of the job's gang, by the version that the job began with. False: it is not among these.
bool GiveKey(const MasterKeys& keys, JobRecord* record);

// A report of one of the gang's agents. What another attempt of machine 0 than the current one says
// as coordinator is of no use.
void Update(const core::GangStatus& status, Time at, JobRecord* record);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_RECORD_H_
