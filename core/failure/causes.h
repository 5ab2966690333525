// Why a generation, or the job, ended: each cause with its name, the budget that it is charged to,
// and what people read about it. A cause and its row are all that a new one needs; without a row it
// does not compile (base/text/enum_names.h).
#ifndef LOCKSTEP_CORE_FAILURE_CAUSES_H_
#define LOCKSTEP_CORE_FAILURE_CAUSES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/text/enum_names.h"
#include "core/exit_codes.h"

namespace lockstep::core {

// The order is that of the wire (docs/reference/protocol.md).
enum class Cause : uint8_t {
  kNone,
  kProcessExit,
  kProcessSignal,
  kCommandNotFound,
  kOutOfMemory,
  kEarlyCrash,
  kHang,
  kMachineLost,
  kLeaseExpired,
  kUnkillable,
  kConfiguration,
  kRestartsExhausted,  // never a root cause
  kStopRequested,
  kBrokenMetric,
};

// The budget that a cause is charged to.
enum class CauseClass : uint8_t { kNone, kApplication, kInfrastructure, kStopped };

template <>
inline constexpr auto kEnumNames<CauseClass> =
    std::to_array<EnumName<CauseClass>>({{CauseClass::kNone, "none"},
                                         {CauseClass::kApplication, "application"},
                                         {CauseClass::kInfrastructure, "infrastructure"},
                                         {CauseClass::kStopped, "stopped"}});

struct CauseRow {
  Cause cause;
  const char* name;  // in status, in events and in the label `cause` of metrics
  CauseClass charged_to;
  int exit_code;        // of the agents of a job that it ends
  const char* meaning;  // a sentence; "": users never see the cause
  const char* to_do;    // sentences
  const char* death;  // what follows "rank 3 on machine 0" of a process; "": root_cause.cc says it
};

inline constexpr auto kCauses = std::to_array<CauseRow>({
    {Cause::kNone, "None", CauseClass::kNone, kExitFailed, "", "", ""},
    {Cause::kProcessExit, "ProcessExit", CauseClass::kApplication, kExitFailed,
     "The program ended itself with an error. The other ranks were stopped because of it.",
     "Read the rank's last lines and correct the program.", ""},
    {Cause::kProcessSignal, "ProcessSignal", CauseClass::kApplication, kExitFailed,
     "A signal killed the process: a crash, or somebody's kill.",
     "SIGSEGV, SIGABRT and SIGBUS are crashes of native code; for SIGBUS in a data loader raise "
     "spec.sharedMemory. SIGKILL is often a memory limit outside of the container.",
     ""},
    {Cause::kCommandNotFound, "CommandNotFound", CauseClass::kApplication, kExitConfiguration,
     "The job's command could not be started (exit code 126 or 127).",
     "Correct spec.command, spec.workingDir or the image. A restart would not help.", ""},
    {Cause::kOutOfMemory, "OutOfMemory", CauseClass::kApplication, kExitFailed,
     "The container or a rank needed more memory than its limit.",
     "Raise spec.resourcesPerProcess.memory, or use smaller batches, fewer data workers or "
     "sharding.",
     " was killed by the kernel: its machine was out of memory"},
    {Cause::kEarlyCrash, "EarlyCrash", CauseClass::kApplication, kExitFailed,
     "The same rank failed in the same way twice, soon after its start and before any known step. "
     "The job fails.",
     "The failure is in the program or its input, so restarts would not help. Read the rank's last "
     "lines.",
     ""},
    {Cause::kHang, "Hang", CauseClass::kApplication, kExitHang,
     "No rank reported progress for spec.health.hangTimeout.",
     "The message names the rank that the others waited for. Look at its stacks if it hangs again, "
     "or raise hangTimeout if steps take that long.",
     ""},
    {Cause::kMachineLost, "MachineLost", CauseClass::kInfrastructure, kExitFailed,
     "A machine was silent for failurePolicy.machineLostAfter, or its agent is gone: a node "
     "failure, an eviction or a deleted pod.",
     "Nothing, if it is rare: the machine was replaced. Else check the node's events.", ""},
    {Cause::kLeaseExpired, "LeaseExpired", CauseClass::kInfrastructure, kExitFailed,
     "The machines lost contact for longer than failurePolicy.machineLostAfter, and all came back.",
     "Check the network and whether nodes are overloaded. If it repeats, raise "
     "failurePolicy.machineLostAfter.",
     ""},
    {Cause::kUnkillable, "Unkillable", CauseClass::kInfrastructure, kExitFailed,
     "A process did not die within 30 s of SIGKILL. Its machine is replaced.",
     "It waits in the kernel, often for a file system or a GPU driver. Check the node.", ""},
    {Cause::kConfiguration, "Configuration", CauseClass::kApplication, kExitConfiguration,
     "The job cannot run as it is written (exit code 78).",
     "Correct what the message names, and submit the job again.",
     // Of an agent that serves MPI.
     " exited with 0 and never began MPI through its agent, so it was its own world: write "
     "mpi.start: Pmix for Open MPI 4 and 5, mpi.start: Pmi for MPICH and Intel MPI"},
    {Cause::kRestartsExhausted, "RestartsExhausted", CauseClass::kNone, kExitFailed,
     "The job failed more often than its budget allows.",
     "Read the failure that used up the budget; raise failurePolicy.maxRestarts only if such "
     "failures are expected.",
     ""},
    {Cause::kStopRequested, "StopRequested", CauseClass::kStopped, kExitFailed,
     "Somebody or something asked for the stop: suspend, restart, scale, a deadline.",
     "Nothing: it is charged to no budget.", ""},
    {Cause::kBrokenMetric, "BrokenMetric", CauseClass::kApplication, kExitFailed,
     "A figure that a rank reports broke a rule of failurePolicy.rules: a loss of NaN, for "
     "example.",
     "The message names metric, rank, step and value. Look at the data and the learning rate of "
     "that step.",
     ""},
});

template <>
inline constexpr auto kEnumNames<Cause> = [] {
  std::array<EnumName<Cause>, kCauses.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = {kCauses[i].cause, kCauses[i].name};
  return names;
}();

inline constexpr int kCauseCount = static_cast<int>(kCauses.size());

constexpr const CauseRow& RowOf(Cause cause) {
  static_assert(NamesEveryValue<Cause>());
  return kCauses[static_cast<size_t>(cause)];
}

constexpr CauseClass ClassOf(Cause cause) { return RowOf(cause).charged_to; }

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_CAUSES_H_
