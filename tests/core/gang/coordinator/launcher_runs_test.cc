#include "core/gang/coordinator/launcher_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::launcher_runs_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Generation kNow{1, 2};

class LauncherRunsTest : public testing::Test {
 protected:
  LauncherRunsTest() { runs_.Begin(); }
  void Ask(uint64_t id, uint32_t machine, bool live = true) {
    runs_.OnRun(parts_.roster[0], {kNow, id, machine, "orted"}, live);
  }

  Parts parts_{3};
  LauncherRuns runs_{true, parts_.roster, parts_.outbox};
};

TEST_F(LauncherRunsTest, HandsACommandOnAndItsEndBack) {
  Ask(5, 2);
  auto asked = parts_.Sent<core::Run>();
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].first, 2U);
  runs_.AskAgain(parts_.roster[2]);
  runs_.AskAgain(parts_.roster[1]);
  EXPECT_THAT(parts_.Sent<core::Run>(), SizeIs(1));
  runs_.OnRan(1, {kNow, 5, 2, 0, ""});
  EXPECT_THAT(parts_.Sent<Ran>(), IsEmpty()) << "it was another machine's";
  runs_.OnRan(2, {kNow, 5, 2, 3, ""});
  const auto ended = parts_.Sent<Ran>();
  ASSERT_THAT(ended, SizeIs(1));
  EXPECT_EQ(ended[0].first, 0U);
  EXPECT_EQ(ended[0].second.exit_code, 3U);
}

TEST_F(LauncherRunsTest, RefusesWhatNoLauncherOfThisGenerationMayAsk) {
  Ask(5, 2, false);
  Ask(6, 0);
  Ask(7, 3);
  runs_.OnRun(parts_.roster[1], {kNow, 8, 2, "orted"}, true);
  const auto refused = parts_.Sent<Ran>();
  ASSERT_THAT(refused, SizeIs(4));
  EXPECT_EQ(refused[0].second.problem, "its generation has ended");
  for (size_t i = 1; i < refused.size(); ++i) {
    EXPECT_THAT(refused[i].second.problem, HasSubstr("only the launcher on machine 0")) << i;
  }
}

TEST_F(LauncherRunsTest, SaysHowTheWorldWasSmallerThanTheJob) {
  EXPECT_EQ(runs_.SmallerWorld(), "ran no command on machine 1");
  Ask(5, 1);
  Ask(6, 2);
  EXPECT_EQ(runs_.SmallerWorld(), "");
  runs_.OnWorld(4, 6);
  EXPECT_EQ(runs_.SmallerWorld(), "its ranks were 4 and not 6");
  runs_.OnWorld(6, 6);
  EXPECT_EQ(runs_.SmallerWorld(), "");
  runs_.Begin();
  EXPECT_EQ(runs_.NeverAsked(), 1U);
}

}  // namespace
}  // namespace lockstep::core::launcher_runs_test
