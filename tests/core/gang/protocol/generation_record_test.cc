#include "core/gang/protocol/generation_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::core::generation_record_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

GenerationRecord Running(uint32_t n) {
  GenerationRecord record;
  record.generation = {1, n};
  record.announced = seconds(n);
  return record;
}

GenerationRecord Ended(uint32_t n, const std::string& why = "rank 3 exited with code 5") {
  GenerationRecord record = Running(n);
  record.ended = seconds(n) + milliseconds(7);
  record.failure.cause = Cause::kProcessExit;
  record.failure.message = why;
  return record;
}

TEST(LastEnded, HasNoGenerationThatRunsAndTimesOnTheOtherClock) {
  const auto ended = LastEnded({Ended(1), Ended(2), Running(3)}, -seconds(1));
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_EQ(ended[0].generation.n, 1U);
  EXPECT_EQ(ended[0].announced, Time(seconds(0)));
  EXPECT_EQ(ended[1].ended, Time(seconds(1) + milliseconds(7)));
}

TEST(LastEnded, KeepsTheNewestAndNoStderr) {
  std::vector<GenerationRecord> history;
  for (uint32_t n = 1; n <= kMaxEnded + 5; ++n) {
    history.push_back(Ended(n, std::string(5000, 'x')));
    history.back().failure.stderr_tail = "Traceback";
  }
  const auto ended = LastEnded(history, {});
  ASSERT_THAT(ended, SizeIs(kMaxEnded));
  EXPECT_EQ(ended.front().generation.n, 6U);
  EXPECT_THAT(ended.front().failure.stderr_tail, IsEmpty());
  EXPECT_LT(ended.front().failure.message.size(), 500U);
}

TEST(LastEnded, LeavesOutTheOldestWhereTextsHaveNoRoom) {
  std::vector<GenerationRecord> history = {Ended(1), Ended(2), Ended(3)};
  for (GenerationRecord& each : history) each.resume = std::string(7000, 'x');
  const auto ended = LastEnded(history, {});
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_EQ(ended.front().generation.n, 2U);
}

TEST(AddEnded, AddsWhatIsMissingInOrder) {
  std::vector<GenerationRecord> known = {Ended(2), Running(5)};
  AddEnded(known, {Ended(1), Ended(3), Ended(6)});
  ASSERT_THAT(known, SizeIs(5));
  for (size_t i = 1; i < known.size(); ++i) {
    EXPECT_LT(known[i - 1].generation, known[i].generation);
  }
}

TEST(AddEnded, EndsWhatRanAndLeavesWhatHasEndedAsItIs) {
  std::vector<GenerationRecord> known = {Ended(1, "the whole message"), Running(2)};
  AddEnded(known, {Ended(1, "the"), Ended(2), Running(3)});
  ASSERT_THAT(known, SizeIs(2));
  EXPECT_EQ(known[0].failure.message, "the whole message");
  EXPECT_EQ(known[1], Ended(2));
}

}  // namespace
}  // namespace lockstep::core::generation_record_test
