// Whether the machines of a gang are alike: each measures its cores, memory and disk and its links
// to the others, all at the same time, and what is far below the gang's median is named.
//
//   Result<PreflightReport> report = Preflight(*all, options);
//   if (const MachineFigures& own = report->machines[machine]; !own.well()) ... // it is replaced
//
// Each part takes about half a second, however slow the machine is; the links half a second a
// round, in which every machine talks to one other.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_PREFLIGHT_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_PREFLIGHT_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "worker/collectives/bench.h"

namespace lockstep::trainer {

enum class Part : uint8_t { kProducts, kMemory, kDisk, kLink };
inline constexpr std::array<const char*, 4> kPartNames = {"products", "memory", "disk", "link"};
inline constexpr std::array<const char*, 4> kPartUnits = {"GFLOP/s", "GB/s", "GB/s", "GB/s"};

inline constexpr float kNotMeasured = -1;
// By Part.
using Figures = std::array<float, kPartNames.size()>;

struct PreflightOptions {
  int processes = 1;                           // of each machine
  int threads = 1;                             // of each process, for products and memory
  std::string folder = {};                     // whose disk is measured; empty: none
  double margin = 0.3;                         // below the median by this share is slow
  Figures least{};                             // below this is slow, whatever the others have
  collectives::BenchMemory* memory = nullptr;  // for the network's buffers; null: host memory
};

struct MachineFigures {
  Figures figures{kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured};
  std::vector<std::string> slow;  // "link 0.002 GB/s, where the median is 1.21 GB/s"

  bool well() const { return slow.empty(); }
};

struct PreflightReport {
  std::vector<MachineFigures> machines;
  double busbw = 0;  // GB/s of an allreduce of 1 MiB; 0: one rank, or a machine is slow

  bool passed() const;
};

// Runs on all ranks alike, and has the same report on all of them.
Result<PreflightReport> Preflight(collectives::Communicator& all, const PreflightOptions& options);

// Says of each machine what is slow: `least` and the others' medians are what it is held to. Pure.
void Judge(const PreflightOptions& options, std::vector<MachineFigures>* machines);

// Who talks to whom: in each round every one of `count` has one partner, or none. No more rounds
// than `most`; all pairs where those suffice. Pure.
std::vector<std::vector<std::pair<int, int>>> PairRounds(int count, int most);

std::string ToTable(const PreflightReport& report);
std::string ToJsonLine(const PreflightReport& report);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_PREFLIGHT_H_
