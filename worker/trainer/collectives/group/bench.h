// How fast the ranks' allreduce is, in the shape of nccl-tests: sizes, warm-up, iterations,
// algorithm and bus bandwidth, a check of values; and what latency + bytes / bandwidth predicts.
//
//   Result<BenchReport> report = BenchAllReduce(*all, options);
//   if (all->rank() == 0) std::cout << (json ? ToJsonLines(*report) : ToTable(*report));
//   return report->passed ? 0 : 1;
//
// Formulas (nccl-tests, PERFORMANCE.md): algbw = bytes / time; busbw = algbw * 2 (n - 1) / n for
// allreduce over n ranks, comparable with the links' speed whatever n is.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_BENCH_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_BENCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {

// Where a benchmark's buffers live: the backend's memory().
class BenchMemory {
 public:
  virtual ~BenchMemory() = default;
  // Freed with the object.
  virtual Result<void*> Allocate(size_t bytes) = 0;
  // Synchronous copies from and to host memory.
  virtual Status Upload(void* to, const void* from_host, size_t bytes) = 0;
  virtual Status Download(void* to_host, const void* from, size_t bytes) = 0;
};

std::unique_ptr<BenchMemory> MakeHostMemory();

struct BenchOptions {
  size_t begin = 8;               // bytes of the smallest message (-b)
  size_t end = 128u << 20;        // of the largest (-e)
  size_t factor = 2;              // from one to the next (-f)
  int warmup = 5;                 // iterations that do not count, at each size
  int iterations = 20;            // that do
  bool check = true;              // of values, after the iterations of a size
  double min_busbw = 0;           // GB/s that the largest size must reach; 0: any
  BenchMemory* memory = nullptr;  // null: host memory
};

// One size. Times are microseconds of the slowest rank of each iteration.
struct BenchRow {
  size_t bytes = 0;
  size_t count = 0;  // of float32
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  double algbw = 0;      // GB/s (1e9), of the mean
  double busbw = 0;      // GB/s
  double predicted = 0;  // microseconds: alpha + bytes / bandwidth
  uint64_t wrong = 0;    // values over all ranks
};

struct BenchReport {
  std::string backend;
  int world = 1;
  std::vector<BenchRow> rows;
  // The fitted line: time = alpha + bytes / bandwidth.
  double alpha = 0;      // microseconds
  double bandwidth = 0;  // GB/s; 0 where it does not show
  double min_busbw = 0;
  bool passed = false;  // no value is wrong, and the largest size reached min_busbw
};

// Runs on all ranks alike, in place. The report is the same on all ranks. kInvalid for sizes that
// cannot be meant; kTooLarge where memory does not suffice.
Result<BenchReport> BenchAllReduce(Communicator& all, const BenchOptions& options);

// A table for people, as nccl-tests prints it.
std::string ToTable(const BenchReport& report);
// One JSON object a line: one for each size, {"type": "size", ...}, then {"type": "summary", ...}.
std::string ToJsonLines(const BenchReport& report);

// alpha and bandwidth from measured rows, such that relative errors are least (a fit of absolute
// ones would look at the largest sizes only). Pure.
void Fit(BenchReport* report);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_BENCH_H_
