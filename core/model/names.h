// The names of a job's objects: pods, Services, labels, UID. They are deterministic, so that a new
// operator finds what the one before it made.
#ifndef LOCKSTEP_CORE_MODEL_NAMES_H_
#define LOCKSTEP_CORE_MODEL_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::core {

inline constexpr int kGangPort = 7070;
inline constexpr int kMetricsPort = 7071;
// Labels, containers and volumes whose names begin so are ours.
inline constexpr std::string_view kLabelPrefix = "lockstep.dev/";
inline constexpr std::string_view kOwnNamePrefix = "lockstep-";

// "gpt-3" in the job's first epoch, "gpt-3-r7" for attempt 7 of a later one.
std::string PodName(std::string_view job, int machine, int64_t attempt, int64_t first_epoch);
// "gpt-3" whatever the attempt.
std::string HostName(std::string_view job, int machine);
// "gpt-spare0": no machine's pod of any job ends so.
std::string SparePodName(std::string_view job, int spare);
// The headless Service that gives each machine its stable name.
std::string ServiceName(std::string_view job);
// The Service whose address is machine 0's current attempt.
std::string CoordinatorServiceName(std::string_view job);
// "gpt-e5": the PodGroup of the gang that was made in this epoch.
std::string PodGroupName(std::string_view job, uint32_t epoch);

// On everything made for a job.
std::map<std::string, std::string> JobLabels(std::string_view job);
// On a pod: JobLabels, its machine and its attempt.
std::map<std::string, std::string> PodLabels(std::string_view job, int machine, int64_t attempt);

// The end of the label lockstep.dev/job on a spare's pod. No job has such a name, so no selector of
// the job's machines matches a spare.
inline constexpr std::string_view kSpareSuffix = ".spare";
// On the pod of a spare.
std::map<std::string, std::string> SpareLabels(std::string_view job, int spare);

// The identity of the job's key in the TLS handshakes of its agents (docs/reference/protocol.md).
std::string GangIdentity(std::string_view job_uid);

// The UID of a job that no API server named: the same for the same name and checkpoint folder, so
// that tomorrow's run resumes today's checkpoints. `absolute_checkpoint_path` isn't empty.
std::string LocalJobUid(std::string_view job, std::string_view absolute_checkpoint_path);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_NAMES_H_
