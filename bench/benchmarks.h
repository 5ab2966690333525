// The benchmarks of lockstep-bench. Each prints its figures (figures.h) and returns an exit code.
#ifndef LOCKSTEP_TESTS_BENCH_BENCHMARKS_H_
#define LOCKSTEP_TESTS_BENCH_BENCHMARKS_H_

#include <string>
#include <vector>

namespace lockstep::bench {

// No benchmark, but a part of operator_bench.py: see agents.cc.
int RunAgents(const std::vector<std::string>& arguments);
// [restart|start SHAPE SAMPLES]: see floor.cc.
int RunFloor(const std::vector<std::string>& arguments);
// [MACHINES [PROCESSES [RUNS]]]
int RunFence(const std::vector<std::string>& arguments);
int RunDecide(const std::vector<std::string>& arguments);
int RunView(const std::vector<std::string>& arguments);
// [MEMBERS [RUNS]]
int RunScale(const std::vector<std::string>& arguments);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_BENCHMARKS_H_
