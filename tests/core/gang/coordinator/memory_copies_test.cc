#include "core/gang/coordinator/memory_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::memory_copies_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const CheckpointId kOld{{1, 1}, 1};
const CheckpointId kNew{{1, 1}, 2};

MemoryPart Part(CheckpointId id, uint32_t machine) {
  return {id, machine, "step-" + std::to_string(id.number)};
}

class MemoryCopiesTest : public testing::Test {
 protected:
  Parts parts_{2};
  MemoryCopies copies_{true, parts_.roster, parts_.outbox};
};

TEST_F(MemoryCopiesTest, BeginsFromTheNewestOfWhichEveryPartIsHeld) {
  parts_.Hold(0, {Part(kOld, 0), Part(kNew, 0)});
  parts_.Hold(1, {Part(kOld, 1)});
  EXPECT_EQ(copies_.Prepare({}), kOld);
  EXPECT_THAT(copies_.LostSince(kOld), HasSubstr("step-2 in memory is lost with machine 1"));
  EXPECT_EQ(copies_.NameOf(kNew), "step-2");
}

TEST_F(MemoryCopiesTest, BeginsFromTheFolderWhereThatIsNewer) {
  parts_.Hold(0, {Part(kOld, 0)});
  parts_.Hold(1, {Part(kOld, 1)});
  EXPECT_EQ(copies_.Prepare({{1, 2}, 1}), CheckpointId{});
}

TEST_F(MemoryCopiesTest, AsksForAnOwnPartOnceAndBeginsWhenItIsThere) {
  parts_.Hold(0, {Part(kNew, 0), Part(kNew, 1)});
  parts_.Hold(1, {});
  EXPECT_FALSE(copies_.Prepare({}));
  EXPECT_FALSE(copies_.Prepare({}));
  const auto sent = parts_.Sent<Fetch>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].first, 1U);
  EXPECT_EQ(sent[0].second.address, "machine-0");
  copies_.OnHeld(parts_.roster[1], {"machine-1", {Part(kNew, 1)}});
  EXPECT_EQ(copies_.Prepare({}), kNew);
}

TEST_F(MemoryCopiesTest, GivesACheckpointUpWhosePartCannotBeGot) {
  parts_.Hold(0, {Part(kNew, 0), Part(kNew, 1)});
  parts_.Hold(1, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(copies_.Prepare({})) << i;
    copies_.OnFetchFailed(parts_.roster[1], {Part(kNew, 1), "it is torn"}, true);
  }
  EXPECT_EQ(copies_.Prepare({}), CheckpointId{});
}

TEST_F(MemoryCopiesTest, GetsPartsFromTheObjectStoreIfNoneInMemoryAreAsNew) {
  parts_.Hold(0, {Part(kOld, 0)});
  parts_.Hold(1, {Part(kOld, 1)});
  EXPECT_EQ(copies_.Prepare({}, Part(kOld, 0)), kOld) << "memory has it";
  EXPECT_THAT(parts_.Sent<Fetch>(), IsEmpty());
  EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0)));
  EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0)));
  const auto sent = parts_.Sent<Fetch>();
  ASSERT_THAT(sent, SizeIs(2));
  for (uint32_t machine : {0U, 1U}) {
    EXPECT_EQ(sent[machine].first, machine);
    EXPECT_EQ(sent[machine].second.part, Part(kNew, machine));
    EXPECT_EQ(sent[machine].second.address, "") << "the object store";
  }
  copies_.OnHeld(parts_.roster[0], {"machine-0", {Part(kNew, 0)}});
  EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0)));
  copies_.OnHeld(parts_.roster[1], {"machine-1", {Part(kNew, 1)}});
  EXPECT_EQ(copies_.Prepare(kNew, Part(kNew, 0)), kNew);
}

TEST_F(MemoryCopiesTest, NeverPassesOverACheckpointInTheObjectStore) {
  parts_.Hold(0, {});
  parts_.Hold(1, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0))) << i;
    EXPECT_EQ(copies_.TakeProblem(), "") << i;
    copies_.OnFetchFailed(parts_.roster[1], {Part(kNew, 1), "the store is down"}, true);
  }
  EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0)));
  EXPECT_THAT(copies_.TakeProblem(), HasSubstr("machine 1 could not get"));
  EXPECT_FALSE(copies_.Prepare(kNew, Part(kNew, 0))) << "it tries again";
  EXPECT_EQ(copies_.TakeProblem(), "");
  EXPECT_THAT(parts_.Sent<Fetch>(), Not(IsEmpty()));
}

TEST_F(MemoryCopiesTest, CopiesEachPartToTheNextMachineAndThenDropsWhatIsOlder) {
  copies_.Begin();
  parts_.Hold(0, {Part(kOld, 0), Part(kNew, 0)});
  parts_.Hold(1, {Part(kOld, 1), Part(kNew, 1)});
  EXPECT_FALSE(copies_.Step());
  EXPECT_THAT(parts_.Sent<Fetch>(), SizeIs(2));
  copies_.OnHeld(parts_.roster[0], {"machine-0", {Part(kNew, 0), Part(kNew, 1)}});
  EXPECT_FALSE(copies_.Step());
  copies_.OnHeld(parts_.roster[1], {"machine-1", {Part(kNew, 1), Part(kNew, 0)}});
  EXPECT_TRUE(copies_.Step());
  const auto keep = parts_.Sent<Keep>();
  ASSERT_THAT(keep, SizeIs(2));
  EXPECT_THAT(keep[0].second.ids, ElementsAre(kNew));
  EXPECT_FALSE(copies_.Step()) << "nothing has changed since";
}

TEST_F(MemoryCopiesTest, CountsNothingOnMachinesThatCannotBeAsked) {
  parts_.Hold(0, {Part(kNew, 0)});
  parts_.Hold(1, {Part(kNew, 1)});
  parts_.roster[1].lost = true;
  EXPECT_THAT(copies_.WithinReach()[1], IsEmpty());
  EXPECT_THAT(copies_.Held()[1], SizeIs(1));
}

}  // namespace
}  // namespace lockstep::core::memory_copies_test
