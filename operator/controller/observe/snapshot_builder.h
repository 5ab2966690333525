// Builds the snapshot that Decide reads, and the addresses of a job's agents, from the job's record
// and the caches.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_

#include "operator/controller/jobs/job_record.h"
#include "operator/controller/observe/caches.h"
#include "operator/gang/gang_link.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::control {

// The job's own part. Whoever asks adds what it knows of its agents' answers and of other jobs.
// `watches_nodes`: else every node is taken to be well. The snapshot looks at the record's job.
Snapshot SnapshotOf(const JobRecord& record, const Caches& caches, bool watches_nodes);

// The job's objects in Kueue.
QueueSeen QueueOf(const JobRecord& record, const Caches& caches);

// Whether and where the job is queued, and why its admission is no use to it.
void AddQueue(const JobRecord& record, const Caches& caches, Queues queues, Snapshot* snapshot);

// Its agents that can be asked; no members: ask none.
gang::GangPeers PeersOf(const JobRecord& record, const Snapshot& snapshot);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_
