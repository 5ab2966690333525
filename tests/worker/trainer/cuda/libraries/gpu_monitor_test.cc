#include "worker/trainer/cuda/libraries/gpu_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

namespace lockstep::trainer::gpu_monitor_test {
namespace {

using collectives::Rank;
using collectives::RunRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kAddress = "0000:f0:00.0";
using Read = std::map<std::string, double>;

Result<GpuMonitor> Open(const char* mood, const char* address = kAddress) {
  Rank::Set("LOCKSTEP_NVML_LIBRARY", LOCKSTEP_FAKES "/libnvidia-ml.so.1");
  Rank::Set("FAKE_NVML", mood);
  return GpuMonitor::Open(address);
}

Read ReadOf(Result<GpuMonitor>& monitor) {
  Read all;
  for (const auto& [name, value] : monitor->Read()) all.emplace(name, value);
  return all;
}

TEST(GpuMonitor, TellsOfTheGpuInSiUnits) {
  RunRanks(1, [](Rank&) {
    Result<GpuMonitor> monitor = Open("");
    ASSERT_TRUE(monitor.ok()) << monitor.error().message;
    EXPECT_EQ(ReadOf(monitor), (Read{{"gpu_utilization", 0.87},
                                     {"gpu_memory_bytes", 60e9},
                                     {"gpu_power_watts", 655.25},
                                     {"gpu_temperature_celsius", 71},
                                     {"gpu_index", 0},
                                     {"gpu_sm_clock_hertz", 1755e6},
                                     {"gpu_max_sm_clock_hertz", 1980e6},
                                     {"gpu_slowed_by_power", 1},
                                     {"gpu_slowed_by_heat", 0},
                                     {"gpu_slowed_by_hardware", 0},
                                     {"gpu_ecc_corrected", 12},
                                     {"gpu_ecc_uncorrected", 0},
                                     {"gpu_nvlink_sent_bytes", 1125899906842624},
                                     {"gpu_nvlink_received_bytes", 3072}}));
  });
}

TEST(GpuMonitor, LeavesOutWhatTheGpuDoesNotTell) {
  RunRanks(1, [](Rank&) {
    Result<GpuMonitor> monitor = Open("bare");
    ASSERT_TRUE(monitor.ok()) << monitor.error().message;
    EXPECT_THAT(monitor->NewXids(), IsEmpty());
    EXPECT_THAT(ReadOf(monitor), IsEmpty());
  });
}

TEST(GpuMonitor, LeavesOutWhatMakesNoSense) {
  RunRanks(1, [](Rank&) {
    Result<GpuMonitor> monitor = Open("lies");
    ASSERT_TRUE(monitor.ok()) << monitor.error().message;
    const Read read = ReadOf(monitor);
    EXPECT_FALSE(read.contains("gpu_utilization"));
    EXPECT_FALSE(read.contains("gpu_memory_bytes"));
    EXPECT_TRUE(read.contains("gpu_power_watts"));
  });
}

TEST(GpuMonitor, TellsWhatAGpuMustNotHaveBeforeItIsUsed) {
  RunRanks(1, [](Rank&) {
    EXPECT_EQ(Open("")->ReadHealth().clock, 1755U);
    EXPECT_EQ(Open("")->ReadHealth().uncorrected, 0U);
    EXPECT_EQ(Open("ecc")->ReadHealth().uncorrected, 2U);
    EXPECT_TRUE(Open("remap")->ReadHealth().remap_pending);
    EXPECT_FALSE(Open("ecc")->ReadHealth().remap_pending);
    EXPECT_EQ(Open("hot")->ReadHealth().slowdowns, nvml::kThermalSlowdown);
    // Of GPU 3 alone.
    EXPECT_EQ(Open("ecc:3")->ReadHealth().uncorrected, 0U);
    EXPECT_EQ(Open("ecc:3", "0000:f3:00.0")->ReadHealth().uncorrected, 2U);
    EXPECT_EQ(Open("ecc:3", "0000:f3:00.0")->ReadHealth().index, 3U);
    EXPECT_EQ(Open("bare")->ReadHealth().clock, std::nullopt);
  });
}

TEST(GpuMonitor, TellsEachXidOnceAndTheLastForEver) {
  RunRanks(1, [](Rank&) {
    Result<GpuMonitor> monitor = Open("xid");
    ASSERT_TRUE(monitor.ok()) << monitor.error().message;
    EXPECT_FALSE(ReadOf(monitor).contains("gpu_xid")) << "reading leaves them to NewXids()";
    EXPECT_THAT(monitor->NewXids(), ElementsAre(31, 79));
    EXPECT_EQ(ReadOf(monitor)["gpu_xid"], 79);
    EXPECT_THAT(monitor->NewXids(), IsEmpty());
    EXPECT_EQ(ReadOf(monitor)["gpu_xid"], 79) << "no newer one";
  });
}

TEST(GpuMonitor, SaysWhatIsMissing) {
  RunRanks(1, [](Rank&) {
    EXPECT_THAT(Open("lost").error().message, HasSubstr("nvmlInit: Driver Not Loaded"));
    EXPECT_THAT(Open("", "0000:aa:00.0").error().message, "GPU 0000:aa:00.0: Not Found");
    Rank::Set("LOCKSTEP_NVML_LIBRARY", "libm.so.6");
    EXPECT_THAT(GpuMonitor::Open(kAddress).error().message,
                HasSubstr("libm.so.6 has no function nvmlInit_v2"));
    Rank::Set("LOCKSTEP_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1");
    const Result<GpuMonitor> none = GpuMonitor::Open(kAddress);
    EXPECT_EQ(none.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(none.error().message, HasSubstr("/nowhere/libnvidia-ml.so.1"));
  });
}

TEST(PeakFlops, TakesTheLongestName) {
  EXPECT_EQ(PeakFlops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(PeakFlops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(PeakFlops("NVIDIA H200"), 989e12);
  EXPECT_EQ(PeakFlops("NVIDIA L40S"), 362e12);
  EXPECT_EQ(PeakFlops("Stand-in GPU"), std::nullopt);
}

TEST(PeakFlops, AreNotThoseOfTheWholeGpuForAPartOfIt) {
  EXPECT_EQ(PeakFlops("NVIDIA H100 80GB HBM3 MIG 1g.10gb"), std::nullopt);
  EXPECT_EQ(PeakFlops("NVIDIA A100-SXM4-40GB MIG 3g.20gb"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::trainer::gpu_monitor_test
