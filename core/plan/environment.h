// The environment of each process of a job. docs/reference/environment.md lists every
// variable. Pure functions: what only the machine knows is in ProcessIdentity.
#ifndef LOCKSTEP_CORE_PLAN_ENVIRONMENT_H_
#define LOCKSTEP_CORE_PLAN_ENVIRONMENT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::core {

using Variables = std::vector<std::pair<std::string, std::string>>;

// One process of one generation. Strings may be empty: then the variable is not set.
struct ProcessIdentity {
  int machine = 0;
  int local_rank = 0;
  int64_t attempt = 0;  // with n: the generation's number
  int64_t n = 0;
  int64_t epoch = 0;
  int64_t restarts = 0;  // of the whole gang, for any reason, since the job began
  std::string job_uid;
  std::string master_addr;  // an IP
  int master_port = 0;
  std::vector<std::string> endpoints;  // by rank: an IP:PORT that is free for it
  std::string socket_path;             // progress, heartbeats, commits
  std::string checkpoint_dir;
  std::string resume_dir;     // the checkpoint this generation resumes from
  std::string skip_steps;     // steps whose data is left out, as in "498-502"
  std::string local_dir;      // memory that survives restarts in place
  std::string cache_dir;      // disk that survives restarts, for compilers' caches
  std::string error_file;     // where torch's @record writes
  std::string temporary_dir;  // empty at each generation's start
  // On machine 0, if the command is a launcher: its remote shell and lists of machines.
  std::string launcher_dir;
  int omp_threads = 0;  // cores bound to this process; 0: unknown
  bool has_gpu = false;
  Variables gpu_variables;   // that choose its GPUs, instead of the values it would inherit
  std::string interface;     // for the sockets of NCCL and Gloo
  std::string pmi_address;   // where its agent answers PMI-1; "": nowhere
  uint32_t pmi_id = 0;       // as which it is known there
  Variables pmix_variables;  // by which it finds its machine's PMIx server
  std::string ras_address;   // NCCL_RAS_ADDR: of its machine's processes alone
  std::string rdma_devices;  // NCCL_IB_HCA: those near its machine's processes, of several
};

// The variables that Lockstep sets for a process, in a fixed order.
Variables ProcessEnvironment(const TrainingJob& job, const ProcessIdentity& identity);

// The whole environment as execve takes it ("NAME=value"): `inherited` less what an outer
// launcher left (leftovers.h), then the job's env, then ProcessEnvironment, in which the user's own
// value wins for those names that IsUserOverridable.
std::vector<std::string> BuildEnvironment(const std::vector<std::string>& inherited,
                                          const TrainingJob& job, const ProcessIdentity& identity);

// Each of them puts addresses for all others into one value of the rendezvous, of at most 64 KiB.
inline constexpr int64_t kMostHorovodRanks = 512;

// Whether agents answer PMI-1 for the job's ranks, or a helper of theirs PMIx.
bool ServesPmi(const Spec& spec);
bool ServesPmix(const Spec& spec);

// A compiler's cache: the variable that names its folder, and that folder's name in
// ProcessIdentity::cache_dir.
struct CompileCache {
  std::string_view variable;
  std::string_view folder;
};
std::span<const CompileCache> CompileCaches();

// Names that Lockstep sets only where the user has not: OMP_NUM_THREADS, NCCL_SOCKET_IFNAME, ...
bool IsUserOverridable(std::string_view name);
// Names that spec.env must not hold, because each process needs its own value: RANK, MASTER_ADDR,
// LOCKSTEP_*, ...
bool IsReserved(std::string_view name);
// Those of them that don't begin with LOCKSTEP_.
std::span<const std::string_view> ReservedNames();

// Kubernetes' $(NAME), with $$(NAME) for the text itself; unknown names are left as they are.
std::string ExpandVariables(std::string_view text, const Variables& variables);

// The text of which ExpandVariables makes `text`.
std::string EscapeVariables(std::string_view text);

// Turns a command line from a shell into spec.command: each `$$` is doubled, since spec.command
// reads `$$` as `$`. $(NAME) is unchanged.
std::vector<std::string> FromShell(std::vector<std::string> arguments);

// command and args with $(NAME) expanded from `environment` (as BuildEnvironment made it): so
// `--machine_rank $(NODE_RANK)` works for launchers that read no environment. The trainer's command
// where the job names none.
std::vector<std::string> BuildCommand(const TrainingJob& job,
                                      const std::vector<std::string>& environment);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_ENVIRONMENT_H_
