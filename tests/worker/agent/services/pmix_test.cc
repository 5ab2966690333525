#include "worker/agent/services/pmix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::agent {
namespace {

using pmix::Kind;
using pmix::Message;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

// A machine of two with two ranks each.
class PmixTest : public ::testing::Test {
 protected:
  Pmix::Effects Hear(Message message) {
    Result<Pmix::Effects> effects = pmix_.OnMessage(std::move(message));
    EXPECT_TRUE(effects.ok());
    return effects.ok() ? *std::move(effects) : Pmix::Effects();
  }
  void Ready() {
    Hear({.kind = Kind::kInitialized});
    Hear({.kind = Kind::kReady});
  }
  // The bytes that it puts into the gang's fence.
  std::string Fence(const std::string& data) {
    Pmix::Effects effects;
    for (Message& part : pmix::FenceParts(data)) effects = Hear(std::move(part));
    EXPECT_TRUE(effects.fence);
    std::string put;
    if (!effects.fence) return put;
    for (const core::TableEntry& entry : *effects.fence) put += entry.value;
    return put;
  }

  Pmix pmix_{2, 2};
};

TEST_F(PmixTest, RanksStartWithTheVariablesThatTheHelperTells) {
  using namespace std::string_literals;
  Hear({.kind = Kind::kVariables, .local_rank = 1, .bytes = "A=1\0B=\0"s});
  EXPECT_THAT(Hear({.kind = Kind::kVariables, .bytes = "A=a=b\0"s}).ready, IsEmpty());
  EXPECT_THAT(
      Hear({.kind = Kind::kReady}).ready,
      ElementsAre(ElementsAre(Pair("A", "a=b")), ElementsAre(Pair("A", "1"), Pair("B", ""))));
}

TEST_F(PmixTest, AHelperThatSaysWhatItMustNotIsRefused) {
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kConnected, .local_rank = 2}).ok());
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kVariables, .bytes = "A=1"}).ok());
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kVariables, .bytes = std::string("=1\0", 3)}).ok());
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kBegin}).ok());
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kFence}).ok()) << "before a rank can run";
  Ready();
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kReady}).ok());
  Fence("a");
  EXPECT_FALSE(pmix_.OnMessage({.kind = Kind::kFence}).ok()) << "one at a time";
}

TEST_F(PmixTest, ItsOwnProblemIsPassedOn) {
  const Result<Pmix::Effects> effects = pmix_.OnMessage({.kind = Kind::kProblem, .bytes = "why"});
  ASSERT_FALSE(effects.ok());
  EXPECT_EQ(effects.error().message, "why");
}

TEST_F(PmixTest, ARankIsWithinMpiBetweenItsBeginningAndItsEnd) {
  using enum MpiEnds::Stage;
  EXPECT_EQ(pmix_.StageOf(1), kNeverBegan);
  Hear({.kind = Kind::kConnected, .local_rank = 1});
  EXPECT_EQ(pmix_.StageOf(1), kWithin);
  EXPECT_EQ(pmix_.StageOf(0), kNeverBegan);
  Hear({.kind = Kind::kFinalized, .local_rank = 1});
  EXPECT_EQ(pmix_.StageOf(1), kFinalized);
}

TEST_F(PmixTest, AnAbortIsTold) {
  const auto abort =
      Hear({.kind = Kind::kAbort, .local_rank = 1, .code = 7, .bytes = "enough"}).abort;
  ASSERT_TRUE(abort);
  EXPECT_EQ(abort->local_rank, 1);
  EXPECT_EQ(abort->code, 7);
  EXPECT_EQ(abort->text, "enough");
}

TEST_F(PmixTest, AFencesDataGoesToAllMachinesWholeAndInOrder) {
  Ready();
  std::string data;
  for (int i = 0; i < 100'000; ++i) data.push_back(static_cast<char>(i % 251));
  EXPECT_EQ(Fence(data), data);
  EXPECT_THAT(pmix_.OnFence({{"", "of 0,"}, {"", " more,"}}, false),
              ElementsAre(Message{.kind = Kind::kFence, .last = false, .bytes = "of 0, more,"}));
  EXPECT_THAT(pmix_.OnFence({{"", " of 1"}}, true),
              ElementsAre(Message{.kind = Kind::kFence, .bytes = " of 1"}));
  EXPECT_THAT(pmix_.OnFence({}, true), IsEmpty()) << "said again around a reconnect";
  EXPECT_EQ(Fence(""), "");
  EXPECT_THAT(pmix_.OnFence({}, true), ElementsAre(Message{.kind = Kind::kFence}));
}

TEST_F(PmixTest, ItsEntriesFitTheGangsMessages) {
  Ready();
  Pmix::Effects effects;
  for (Message& part : pmix::FenceParts(std::string(300'000, 'x'))) effects = Hear(std::move(part));
  ASSERT_TRUE(effects.fence);
  for (const auto& part : core::InParts(*effects.fence)) {
    size_t bytes = 0;
    for (const core::TableEntry& entry : part) bytes += core::TableBytes(entry);
    EXPECT_LE(bytes, 16 << 10);
  }
}

TEST_F(PmixTest, MoreThanAMachineMayPutFailsTheFenceAndKeepsNothing) {
  Ready();
  Pmix::Effects effects;
  const size_t most = 2 * core::MostTableBytes(2, 2);
  for (Message& part : pmix::FenceParts(std::string(most * 2, 'x'))) {
    effects = Hear(std::move(part));
  }
  EXPECT_FALSE(effects.fence);
  EXPECT_FALSE(effects.refused.empty());
  ASSERT_THAT(effects.answers, SizeIs(1));
  EXPECT_NE(effects.answers[0].code, 0);
  EXPECT_TRUE(effects.answers[0].last);
  EXPECT_EQ(Fence("small"), "small");
}

}  // namespace
}  // namespace lockstep::agent
