// The exit codes of `lockstep`, as docs/cli.md lists them. A job that failed because of a process
// gives that process's own code instead (128 + signal).
#ifndef LOCKSTEP_CLI_EXIT_CODES_H_
#define LOCKSTEP_CLI_EXIT_CODES_H_

namespace lockstep::cli {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitTrouble = 1;         // lockstep itself could not go on
inline constexpr int kExitUsage = 2;           // the command line or the job is wrong
inline constexpr int kExitNotFound = 3;        // no such job, or no TrainingJobs in the cluster
inline constexpr int kExitFailed = 70;         // the job failed and no process's code says why
inline constexpr int kExitMachines = 75;       // more machines were lost than the job may replace
inline constexpr int kExitHang = 77;           // no progress for health.hangTimeout
inline constexpr int kExitConfiguration = 78;  // an agent could not work with its configuration
inline constexpr int kExitDeadline = 124;      // activeDeadlineSeconds passed
inline constexpr int kExitStopped = 143;       // of an agent: it was asked to leave
inline constexpr int kExitSignal = 128;        // plus the signal that stopped or killed

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_EXIT_CODES_H_
