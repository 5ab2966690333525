// The options of mpirun: Open MPI's, MPICH's and Intel MPI's, each with the words that follow it.
// What checks a job (mpirun.h) and what converts a command line (cli/convert) read this one table.
// Pure.
#ifndef LOCKSTEP_CORE_PLAN_MPIRUN_OPTIONS_H_
#define LOCKSTEP_CORE_PLAN_MPIRUN_OPTIONS_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep::core {

enum class MpirunMeaning : uint8_t { kRanks, kPerMachine, kMapBy, kHosts, kOther };

// MpirunOption::values of -s: ranks follow in Intel MPI (--stdin), none in Open MPI.
inline constexpr int kRanksMayFollow = -2;
// NAME VALUE or NAME=VALUE: -genv A b, -genv A=b.
inline constexpr int kVariable = -3;

struct MpirunOption {
  std::string_view names;  // without dashes, blanks between them; the first stands for all
  int values;              // words that follow, 0 to 2, or one of the above
  MpirunMeaning meaning = MpirunMeaning::kOther;

  constexpr std::string_view name() const { return names.substr(0, names.find(' ')); }
};

inline constexpr auto kMpirunOptions = std::to_array<MpirunOption>({
    {"np n c", 1, MpirunMeaning::kRanks},
    {"npernode N ppn perhost ranks-per-node", 1, MpirunMeaning::kPerMachine},
    {"map-by", 1, MpirunMeaning::kMapBy},
    {"host H hosts", 1, MpirunMeaning::kHosts},
    {"hostfile machinefile f default-hostfile", 1},
    {"gpus-per-proc", 1},
    {"x", 1},
    {"env genv", kVariable},
    {"wdir wd", 1},
    {"genvlist envlist", 1},
    {"genvall envall genvnone envnone", 0},
    {"mca gmca", 2},
    {"pmca prtemca", 2},
    {"tune am personality membind memory-alloc-kinds", 1},
    {"prefix", 1},
    {"path", 1},
    {"bind-to", 1},
    {"rank-by", 1},
    {"bynode", 0},
    {"byslot bycore", 0},
    {"bind-to-core bind-to-socket bind-to-none", 0},
    {"cpus-per-proc cpus-per-rank", 1},
    {"npersocket ppr", 1},
    {"rr grr nolocal skip-launch-node", 0},
    {"rankmap", 1},
    {"cpu-set cpu-list", 1},
    {"report-bindings display-map display-allocation display-devel-map "
     "display-devel-allocation display-diffable-map display-topo show-progress "
     "get-stack-traces report-state-on-timeout report-child-jobs-separately "
     "index-argv-by-rank profile",
     0},
    {"display report-pid report-uri report-events", 1},
    {"set-cwd-to-session-dir", 0},
    {"do-not-launch", 0},
    {"max-vm-size", 1},
    {"order-nodes", 1},
    {"rankfile rf", 1},
    {"oversubscribe nooversubscribe use-hwthread-cpus", 0},
    {"allow-run-as-root", 0},
    {"tag-output timestamp-output merge-stderr-to-stdout prepend-rank l q quiet v "
     "verbose d",
     0},
    {"output-filename outfile-pattern output errfile-pattern", 1},
    {"xml", 0},
    {"prepend-pattern xml-file xterm", 1},
    {"stdin", 1},
    {"s", kRanksMayFollow},
    {"timeout", 1},
    {"bootstrap launcher rmk", 1},
    {"bootstrap-exec launcher-exec", 1},
    {"iface nameserver ompi-server", 1},
    {"plm-rsh-agent launch-agent hnp", 1},
    {"enable-x disable-x pmi-port fwd-mpirun-port do-not-resolve "
     "disable-hostname-propagation dvm hybrid-hosts enable-instant-on-support "
     "use-regexp",
     0},
    {"novm noprefix", 0},
    {"debug debug-devel debug-daemons debug-daemons-file tv leave-session-attached "
     "output-proctable",
     0},
    {"debugger", 1},
    {"disable-recovery", 0},
    {"disable-auto-cleanup enable-recovery continuous", 0},
    {"max-restarts", 1},
    {"configfile app", 1},
    {"preload-files preload-file-dest-dir cartofile cf", 1},
    {"preload-binary", 0},
    {"pernode", 0},
    {"usize universe-size", 1},
    {"localhost", 1},
    {"demux topolib", 1},
    {"localroot", 0},
    {"info version V help h", 0},
    {"print-rank-map print-all-exitcodes", 0},
    {"omca pmixmca", 2},
    {"runtime-options", 1},
});

// The option with that name, which has no dashes before it; nullptr if it is unknown.
const MpirunOption* FindMpirunOption(std::string_view name);

// How many words follow an option with these MpirunOption::values, if `next` is the first of them.
int WordsThatFollow(int values, std::string_view next);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_MPIRUN_OPTIONS_H_
