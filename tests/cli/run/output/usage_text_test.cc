#include "cli/run/output/usage_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;

TEST(UsageText, HasThreeDigitsAndAUnit) {
  EXPECT_THAT(UsageCells(core::Usage{3240, int64_t{13} << 30, 1'250'000'000, 310}),
              ElementsAre("3.2", "13 GiB", "1.25 GB/s", "310 B/s"));
  EXPECT_THAT(UsageCells(core::Usage{0, 1023, 999'600, 1000}),
              ElementsAre("0.0", "0.999 KiB", "1 MB/s", "1 kB/s"));
}

TEST(UsageText, ShowsADashForWhatIsNotKnown) {
  EXPECT_THAT(UsageCells(std::nullopt), ElementsAre("-", "-", "-", "-"));
  EXPECT_THAT(UsageCells(core::Usage{.memory = 0}), ElementsAre("-", "0 B", "-", "-"));
}

}  // namespace
}  // namespace lockstep::cli
