// Preflight: which machines of a gang are slow, by what each measured before ranks run. Pure; the
// agents (spec.preflight) and `lockstep-trainer preflight` measure and judge by the same words.
//
//   std::vector<MachineFigures> machines = ...;  // as measured
//   Judge(limits, &machines);
//   if (!machines[2].well()) Replace(2, machines[2].slow);
#ifndef LOCKSTEP_CORE_PREFLIGHT_PREFLIGHT_H_
#define LOCKSTEP_CORE_PREFLIGHT_PREFLIGHT_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/text/enum_names.h"
#include "core/preflight/gpu_clock.h"

namespace lockstep::core {

inline constexpr double kNotMeasured = -1;

// One machine's figures, or their limits.
struct Figures {
  double products = kNotMeasured;  // GFLOP/s of fp32 matrix products, of all cores together
  double memory = kNotMeasured;    // GB/s of STREAM's triad, of all cores together
  double disk = kNotMeasured;      // GB/s of writing to the checkpoint folder, synced
  double link = kNotMeasured;      // GB/s with another machine, the median over its partners
  double gpu_link = kNotMeasured;  // GB/s of an all-reduce among its GPUs, of bus bandwidth

  friend bool operator==(const Figures&, const Figures&) = default;
};

struct FigureKind {
  const char* name;
  const char* unit;
  double Figures::* value;
};
inline constexpr auto kFigureKinds =
    std::to_array<FigureKind>({{"products", "GFLOP/s", &Figures::products},
                               {"memory", "GB/s", &Figures::memory},
                               {"disk", "GB/s", &Figures::disk},
                               {"link", "GB/s", &Figures::link},
                               {"gpu-link", "GB/s", &Figures::gpu_link}});

// One GPU of a machine.
struct GpuFigures {
  uint32_t number = 0;             // its machine's, as nvidia-smi has it
  double products = kNotMeasured;  // TFLOP/s of bf16 matrix products, all GPUs at work
  GpuClock clock;                  // meanwhile
  std::string fault;               // fault for which it must not be used at any speed; "": none

  friend bool operator==(const GpuFigures&, const GpuFigures&) = default;
};
inline constexpr size_t kMaxGpus = 64;       // of a machine
inline constexpr size_t kMaxGpuFault = 160;  // bytes

struct PreflightLimits {
  double margin = 0.3;  // below the median by this share is slow
  Figures least;        // slow below this, whatever the others reach
  bool gpus = false;    // the machines' GPUs are measured as well
};

struct MachineFigures {
  Figures figures;
  std::vector<GpuFigures> gpus = {};
  std::vector<std::string> slow = {};  // "link 0.002 GB/s, where the median is 1.21 GB/s"
  bool below_least = false;            // one of these is for a limit that the user set

  bool well() const { return slow.empty(); }
  std::string Reasons() const;  // all of `slow`
};

// The machines' median of each kind; for an even number the lower one, so that of two machines
// neither is slow by comparison.
Figures Medians(const std::vector<MachineFigures>& machines);

// Likewise of all machines' GPUs' products; kNotMeasured: of none.
double MedianGpuProducts(const std::vector<MachineFigures>& machines);

// Says of each machine what is slow: `least` and the others' medians are what it is held to. A GPU
// is held to the median of all GPUs of the gang; one with a fault, and fewer GPUs than the median
// machine has, make a machine slow.
void Judge(const PreflightLimits& limits, std::vector<MachineFigures>* machines);

// The pairs of each round: every one of `count` has one partner, or none. At most `most` rounds;
// all pairs if these suffice. The lower one of a pair is its first.
std::vector<std::vector<std::pair<int, int>>> PairRounds(int count, int most);
inline constexpr int kMostPairRounds = 8;

// The median, of an even number the upper one; kNotMeasured of none.
double MedianLink(std::vector<double> rates);

// "products 41.2 GFLOP/s, link 1.21 GB/s": those that were measured.
std::string InWords(const Figures& figures);

// Likewise of the machines' medians, and of their GPUs': "products 41.2 GFLOP/s, GPU products 612
// TFLOP/s".
std::string TypicalInWords(const std::vector<MachineFigures>& machines);

// Machine i's figures in the row of that number, and what is slow.
std::string FigureTable(const std::vector<MachineFigures>& machines);

enum class PreflightState : uint8_t {
  kWaiting,    // for machines
  kMeasuring,  // ranks wait for it
  kPassed,     // no machine is slow
  kSlow,       // some are, and the job continues with them
};
template <>
inline constexpr auto kEnumNames<PreflightState> =
    std::to_array<EnumName<PreflightState>>({{PreflightState::kWaiting, "Waiting"},
                                             {PreflightState::kMeasuring, "Measuring"},
                                             {PreflightState::kPassed, "Passed"},
                                             {PreflightState::kSlow, "Slow"}});

// An attempt of a machine that was found slow.
struct SlowMachine {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  std::string because;
  bool replaced = false;  // another attempt takes its place; else the job continues with it

  friend bool operator==(const SlowMachine&, const SlowMachine&) = default;
};

inline constexpr size_t kMaxSlowMachines = 16;
inline constexpr size_t kMaxSlowReason = 256;  // bytes

// The form in status.
struct PreflightStatus {
  PreflightState state = PreflightState::kWaiting;
  std::string typical;            // the machines' medians
  std::vector<SlowMachine> slow;  // at most kMaxSlowMachines, the last found

  friend bool operator==(const PreflightStatus&, const PreflightStatus&) = default;
};

template <>
inline constexpr auto kFields<GpuFigures> = std::tuple(
    Field{"gpu", &GpuFigures::number, Always{}}, Field{"products", &GpuFigures::products},
    Field{"clock", &GpuFigures::clock}, Field{"fault", &GpuFigures::fault, CutTo{kMaxGpuFault}});

template <>
inline constexpr auto kFields<SlowMachine> =
    std::tuple(Field{"machine", &SlowMachine::machine, Always{}},
               Field{"attempt", &SlowMachine::attempt, Always{}},
               Field{"because", &SlowMachine::because, Always{}, CutTo{kMaxSlowReason}},
               Field{"replaced", &SlowMachine::replaced});

template <>
inline constexpr auto kFields<PreflightStatus> =
    std::tuple(Field{"state", &PreflightStatus::state, Always{}},
               Field{"typical", &PreflightStatus::typical, CutTo{kMaxSlowReason}},
               Field{"slow", &PreflightStatus::slow, AtMost{kMaxSlowMachines}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PREFLIGHT_PREFLIGHT_H_
