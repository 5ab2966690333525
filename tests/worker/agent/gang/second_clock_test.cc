#include "worker/agent/gang/second_clock.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::agent {
namespace {

using core::SecondClock;

constexpr char kSources[] = "kvm-clock tsc acpi_pm \n";

std::string CpuInfo(const std::string& flags) {
  return "processor\t: 0\nmodel name\t: a tsc\nflags\t\t: fpu " + flags + " sse\nbogomips\t: 1\n";
}

TEST(SecondClock, IsTheCounterWhereTheKernelHoldsItToBeSteady) {
  EXPECT_EQ(SecondClockOf(CpuInfo("constant_tsc rep_good nonstop_tsc"), kSources),
            SecondClock::kCounter);
  EXPECT_EQ(SecondClockOf(CpuInfo("tsc constant_tsc"), kSources), SecondClock::kTimeOfDay)
      << "it stops with the processor";
  EXPECT_EQ(SecondClockOf(CpuInfo("constant_tsc nonstop_tsc"), "kvm-clock acpi_pm\n"),
            SecondClock::kTimeOfDay)
      << "the kernel found it to be unsteady";
  EXPECT_EQ(SecondClockOf("", ""), SecondClock::kTimeOfDay);
}

TEST(SecondClock, IsTheGenericTimerOnArm64) {
  const std::string cpuinfo =
      "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd evtstrm cpuid\n";
  EXPECT_EQ(SecondClockOf(cpuinfo, "arch_sys_counter \n"), SecondClock::kCounter);
  EXPECT_EQ(SecondClockOf(cpuinfo, "timer \n"), SecondClock::kTimeOfDay)
      << "the kernel does not use the generic timer";
}

TEST(SecondClock, CounterNeverRunsBackwards) {
  int64_t last = ReadClocks(SecondClock::kCounter).ticks;
  const int64_t first = last;
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = ReadClocks(SecondClock::kCounter).ticks;
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(last, first);
}

TEST(SecondClock, ShowsNoStandstillOfAMachineThatRuns) {
  for (const SecondClock clock :
       {SecondClock::kCounter, SecondClock::kTimeOfDay, FindSecondClock()}) {
    core::Standstill standstill(clock, ReadClocks(clock));
    const Time begin = BootTime();
    while (BootTime() < begin + milliseconds(100)) {
      EXPECT_LT(standstill.OnReading(ReadClocks(clock)), milliseconds(100));
    }
  }
}

}  // namespace
}  // namespace lockstep::agent
