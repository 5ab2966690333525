#include "core/gang/coordinator/commits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::commits_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CommitsTest : public testing::Test {
 protected:
  void Ask(uint32_t machine, const std::string& name, const std::string& problem = "") {
    CommitRequest request;
    request.id = 10 + machine;
    request.name = name;
    request.problem = problem;
    commits_.AskInMemory(machine, request);
  }

  Parts parts_{2};
  Commits commits_{parts_.roster, parts_.outbox};
};

TEST_F(CommitsTest, GrantsOnDiskOnceEveryMachineHasAnsweredSinceTheRequest) {
  commits_.AskOnDisk(1, 7, seconds(5));
  EXPECT_FALSE(commits_.GrantOnDisk([](Time stamp) { return stamp < seconds(5); }));
  EXPECT_THAT(parts_.Sent<CommitReply>(), IsEmpty());
  EXPECT_TRUE(commits_.GrantOnDisk([](Time stamp) { return stamp <= seconds(5); }));
  const auto sent = parts_.Sent<CommitReply>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].first, 1U);
  EXPECT_TRUE(sent[0].second.granted);
  EXPECT_EQ(sent[0].second.number, 1U);
  EXPECT_TRUE(commits_.empty());
}

TEST_F(CommitsTest, GrantsInMemoryOnceAllMachinesHaveAsked) {
  Ask(0, "step-7");
  EXPECT_FALSE(commits_.GrantInMemory({1, 2}));
  Ask(1, "step-7");
  const std::optional<MemoryPart> granted = commits_.GrantInMemory({1, 2});
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->id, (CheckpointId{{1, 2}, 1}));
  EXPECT_THAT(parts_.Sent<CommitReply>(), SizeIs(2));
}

TEST_F(CommitsTest, CountsBothKindsInOneLine) {
  commits_.AskOnDisk(0, 7, {});
  EXPECT_TRUE(commits_.GrantOnDisk([](Time) { return true; }));
  Ask(0, "step-7");
  Ask(1, "step-7");
  EXPECT_EQ(commits_.GrantInMemory({1, 2})->id.number, 2U);
  commits_.Begin();
  Ask(0, "step-8");
  Ask(1, "step-8");
  EXPECT_EQ(commits_.GrantInMemory({1, 3})->id.number, 1U);
}

TEST_F(CommitsTest, KeepsNoPartWhereOneMachineCannotKeepIts) {
  Ask(0, "step-7");
  Ask(1, "step-7", "memory is full");
  EXPECT_FALSE(commits_.GrantInMemory({1, 2}));
  const auto sent = parts_.Sent<CommitReply>();
  ASSERT_THAT(sent, SizeIs(2));
  for (const auto& [machine, reply] : sent) {
    EXPECT_FALSE(reply.granted);
    EXPECT_EQ(reply.reason, "machine 1: memory is full");
  }
}

TEST_F(CommitsTest, RefusesANameThatAnotherMachineHasLeftBehind) {
  Ask(0, "step-7");
  Ask(1, "step-8");
  EXPECT_FALSE(commits_.GrantInMemory({1, 2}));
  const auto sent = parts_.Sent<CommitReply>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].first, 0U);
  EXPECT_THAT(sent[0].second.reason, HasSubstr("another machine commits step-8"));
  EXPECT_FALSE(commits_.empty());
}

TEST_F(CommitsTest, RefusesAllWithTheReason) {
  commits_.AskOnDisk(0, 7, {});
  Ask(1, "step-7");
  commits_.RefuseAll("the generation has ended");
  EXPECT_TRUE(commits_.empty());
  const auto sent = parts_.Sent<CommitReply>();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].second.reason, "the generation has ended");
}

}  // namespace
}  // namespace lockstep::core::commits_test
