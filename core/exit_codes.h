// Every exit code that a program of Lockstep returns or understands: the contract between command
// line, agents, operator and ranks (docs/reference/protocol.md, docs/reference/cli.md).
#ifndef LOCKSTEP_CORE_EXIT_CODES_H_
#define LOCKSTEP_CORE_EXIT_CODES_H_

namespace lockstep::core {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitTrouble = 1;    // the program itself could not continue
inline constexpr int kExitUsage = 2;      // the command line, the job or the file is wrong
inline constexpr int kExitNotFound = 3;   // lockstep: no such job, or no TrainingJobs here
inline constexpr int kExitFailed = 70;    // the job failed, and no process's code explains it
inline constexpr int kExitPeerLost = 75;  // a rank: a peer died or hangs
inline constexpr int kExitBroken = 76;    // a rank: its machine is broken (a GPU is lost)
inline constexpr int kExitReplace = 75;   // an agent: it left without a verdict, to be replaced
inline constexpr int kExitMachines = 75;  // lockstep: more machines were lost than may be replaced
inline constexpr int kExitHang = 77;      // no progress for health.hangTimeout
inline constexpr int kExitConfiguration = 78;     // an agent cannot work as it is configured
inline constexpr int kExitDeadline = 124;         // lockstep: activeDeadlineSeconds passed
inline constexpr int kExitNotExecutable = 126;    // a rank: its command could not be executed
inline constexpr int kExitCommandNotFound = 127;  // a rank: there is no such command
inline constexpr int kExitSignal = 128;           // plus the signal that stopped or killed
inline constexpr int kExitStopped = 143;          // stopped on request: 128 + SIGTERM

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_EXIT_CODES_H_
