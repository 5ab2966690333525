// Compares the world that mpirun's own options describe with the job. Pure.
#ifndef LOCKSTEP_CORE_PLAN_MPIRUN_H_
#define LOCKSTEP_CORE_PLAN_MPIRUN_H_

#include <string>
#include <vector>

#include "core/model/spec.h"

namespace lockstep::core {

// Why `words`, an mpirun of Open MPI, MPICH or Intel MPI with its options and its program, starts
// another world than the job's, and what to write instead: by -np, by processes per machine
// (-ppn, --map-by ppr:N:node) or by its list of hosts. "": nothing that can be read says so. What
// follows an unknown option is not read, since it may be the program.
std::string OtherWorldOf(const std::vector<std::string>& words, const TrainingJob& job);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_MPIRUN_H_
