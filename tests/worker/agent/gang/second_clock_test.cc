#include "worker/agent/gang/second_clock.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::agent {
namespace {

using core::Witness;

constexpr char kSources[] = "kvm-clock tsc acpi_pm \n";

std::string CpuInfo(const std::string& flags) {
  return "processor\t: 0\nmodel name\t: a tsc\nflags\t\t: fpu " + flags + " sse\nbogomips\t: 1\n";
}

TEST(SecondClock, IsTheCounterWhereTheKernelHoldsItToBeSteady) {
  EXPECT_EQ(WitnessOf(CpuInfo("constant_tsc rep_good nonstop_tsc"), kSources), Witness::kCounter);
  EXPECT_EQ(WitnessOf(CpuInfo("tsc constant_tsc"), kSources), Witness::kTimeOfDay)
      << "it stops with the processor";
  EXPECT_EQ(WitnessOf(CpuInfo("constant_tsc nonstop_tsc"), "kvm-clock acpi_pm\n"),
            Witness::kTimeOfDay)
      << "the kernel found it to be unsteady";
  EXPECT_EQ(WitnessOf("", ""), Witness::kTimeOfDay);
}

TEST(SecondClock, IsTheGenericTimerOnArm64) {
  const std::string cpuinfo =
      "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm cpuid\n";
  EXPECT_EQ(WitnessOf(cpuinfo, "arch_sys_counter \n"), Witness::kCounter);
  EXPECT_EQ(WitnessOf(cpuinfo, "timer \n"), Witness::kTimeOfDay)
      << "the kernel does not use the generic timer";
}

TEST(SecondClock, CounterNeverRunsBackwards) {
  int64_t last = ReadClocks(Witness::kCounter).witness;
  const int64_t first = last;
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = ReadClocks(Witness::kCounter).witness;
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(last, first);
}

TEST(SecondClock, ShowsNoStandstillOfAMachineThatRuns) {
  for (const Witness witness : {Witness::kCounter, Witness::kTimeOfDay, FindWitness()}) {
    core::Standstill standstill(witness, ReadClocks(witness));
    const Time begin = BootTime();
    while (BootTime() < begin + milliseconds(100)) {
      EXPECT_LT(standstill.OnReading(ReadClocks(witness)), milliseconds(100));
    }
  }
}

}  // namespace
}  // namespace lockstep::agent
