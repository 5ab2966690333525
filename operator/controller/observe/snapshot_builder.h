// What is known of a job, put together: from its record and the caches to the one value that Decide
// looks at, and to where its agents are asked.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_

#include "operator/controller/jobs/job_record.h"
#include "operator/controller/observe/caches.h"
#include "operator/gang/gang_link.h"
#include "operator/policy/snapshot.h"

namespace lockstep::control {

// The job's own part. Whoever asks adds what it knows of its agents' answers and of other jobs.
// `watches_nodes`: else every node is taken to be well. The snapshot looks at the record's job.
Snapshot SnapshotOf(const JobRecord& record, const Caches& caches, bool watches_nodes);

// What stands in Kueue for the job.
QueueSeen QueueOf(const JobRecord& record, const Caches& caches);

// Whether and where the job is queued, and why its admission is no use to it.
void AddQueue(const JobRecord& record, const Caches& caches, Queues queues, Snapshot* snapshot);

// Its agents that can be asked; without members: nobody is to be asked any more.
gang::GangPeers PeersOf(const JobRecord& record, const Snapshot& snapshot);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SNAPSHOT_BUILDER_H_
