#include "base/process/kernel.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace lockstep {
namespace {

TEST(Kernel, ThisOneIsNewEnough) { EXPECT_TRUE(CheckKernel().ok()); }

TEST(Kernel, OlderThanTheFloorIsRefusedByName) {
  for (const char* release :
       {"5.10.0-30-amd64", "5.4.0-200-generic", "4.18.0-553.el8.x86_64", "3.10"}) {
    const Status status = CheckKernel(release, ENOSYS);
    ASSERT_FALSE(status.ok()) << release;
    EXPECT_EQ(status.error().kind, ErrorKind::kDenied);
    EXPECT_EQ(status.error().message, "Linux " + std::string(release) +
                                          " is too old: Lockstep needs Linux "
                                          "5.11 or later to start processes");
  }
}

TEST(Kernel, FromTheFloorOnASandboxMayRefuseTheCall) {
  for (const char* release : {"5.11.0", "5.11", "5.100.2-rc1", "6.1.0-18-cloud-amd64", "10.0"}) {
    EXPECT_TRUE(CheckKernel(release, ENOSYS).ok()) << release;
    EXPECT_TRUE(CheckKernel(release, EPERM).ok()) << release;
  }
}

TEST(Kernel, AnOlderOneWithTheCallPortedBackIsAccepted) {
  EXPECT_TRUE(CheckKernel("4.18.0-553.el8.x86_64", 0).ok());
}

TEST(Kernel, ANameWithoutNumbersCountsAsOld) {
  for (const char* release : {"", "custom", "5", "6-rt", ".11", "6."}) {
    EXPECT_FALSE(CheckKernel(release, EINVAL).ok()) << release;
    EXPECT_TRUE(CheckKernel(release, 0).ok()) << release;
  }
}

}  // namespace
}  // namespace lockstep
