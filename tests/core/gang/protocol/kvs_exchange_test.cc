#include "core/gang/protocol/kvs_exchange.h"

#include <gmock/gmock.h>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const Generation kNow{1, 2};

Fence Whole(uint32_t number, std::vector<TableEntry> entries) {
  return {kNow, number, 0, true, std::move(entries)};
}

TEST(InParts, GivesOneEmptyPartForNothing) { EXPECT_THAT(InParts({}), ElementsAre(IsEmpty())); }

TEST(InParts, KeepsTheOrderInPartsThatFitAMessage) {
  std::vector<TableEntry> entries;
  for (int i = 0; i < 3000; ++i) {
    entries.push_back({"key-" + std::to_string(i), std::string(i % 2 == 0 ? 0 : 900, 'v')});
  }
  std::vector<TableEntry> joined;
  for (const std::vector<TableEntry>& part : InParts(entries)) {
    const Message message = Fence{kNow, 1, 0, false, part};
    EXPECT_LT(Encode(message).size(), kMaxMessage);
    const Result<Message> read = Decode(Encode(message));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(std::get<Fence>(*read).entries, part) << "a list that is too long is cut";
    joined.insert(joined.end(), part.begin(), part.end());
  }
  EXPECT_EQ(joined, entries);
}

TEST(MostTableBytes, IsARanksShareOfThirtyTwoMegabytesWithinLimits) {
  EXPECT_EQ(MostTableBytes(1, 1), size_t{256} << 10);
  EXPECT_EQ(MostTableBytes(128, 8), size_t{32} << 10);
  EXPECT_EQ(MostTableBytes(1024, 64), size_t{4} << 10);
  EXPECT_EQ(MostTableBytes(2, 16), size_t{64} << 10) << "a machine's fence fits its connection";
}

TEST(KvsExchange, AnswersEverybodyWithEverythingOnceAllAreIn) {
  KvsExchange exchange(2, 1);
  exchange.Begin(kNow);
  EXPECT_THAT(*exchange.OnFence(0, Whole(1, {{"a", "1"}})), IsEmpty());
  const KvsExchange::Answers answers = *exchange.OnFence(1, Whole(1, {{"b", "2"}}));
  ASSERT_THAT(answers, SizeIs(2));
  for (uint32_t machine = 0; machine < 2; ++machine) {
    EXPECT_EQ(answers[machine].first, machine);
    EXPECT_TRUE(answers[machine].second.last);
    EXPECT_THAT(answers[machine].second.entries,
                UnorderedElementsAre(TableEntry{"a", "1"}, TableEntry{"b", "2"}));
  }
  EXPECT_THAT(*exchange.OnFence(0, Whole(2, {})), IsEmpty());
  EXPECT_THAT((*exchange.OnFence(1, Whole(2, {})))[0].second.entries, IsEmpty());
}

TEST(KvsExchange, TakesWhatIsSaidAgainForTheSame) {
  KvsExchange exchange(2, 1);
  exchange.Begin(kNow);
  EXPECT_THAT(*exchange.OnFence(0, {kNow, 1, 0, false, {{"a", "1"}}}), IsEmpty());
  EXPECT_THAT(*exchange.OnFence(0, Whole(1, {{"a", "1"}})), IsEmpty());  // from the beginning
  EXPECT_THAT(*exchange.OnFence(0, Whole(1, {{"a", "1"}})), IsEmpty());
  EXPECT_THAT((*exchange.OnFence(1, Whole(1, {})))[0].second.entries, SizeIs(1));
  const KvsExchange::Answers again = *exchange.OnFence(0, Whole(1, {{"a", "1"}}));
  ASSERT_THAT(again, SizeIs(1)) << "to the one that asked";
  EXPECT_EQ(again[0].first, 0U);
}

TEST(KvsExchange, IgnoresWhatIsOfAnotherGeneration) {
  KvsExchange exchange(1, 1);
  exchange.Begin(kNow);
  EXPECT_THAT(*exchange.OnFence(0, {Generation{1, 1}, 1, 0, true, {}}), IsEmpty());
  EXPECT_THAT(*exchange.OnFence(0, Whole(1, {{"old", "1"}})), SizeIs(1));
  exchange.Begin({1, 3});
  EXPECT_FALSE(exchange.OnMore({kNow, 1, 0}));
  EXPECT_FALSE(exchange.OnMore({Generation{1, 3}, 1, 0}));
  const KvsExchange::Answers fresh = *exchange.OnFence(0, {Generation{1, 3}, 1, 0, true, {}});
  EXPECT_THAT(fresh[0].second.entries, IsEmpty()) << "its table begins empty";
}

TEST(KvsExchange, RefusesMoreThanAMachineMayPut) {
  KvsExchange exchange(1, 1);
  exchange.Begin(kNow);
  const std::string value(kMaxTableValue, 'v');
  Result<KvsExchange::Answers> last = KvsExchange::Answers{};
  for (uint32_t part = 0; part < 300 && last.ok(); ++part) {
    last = exchange.OnFence(0, {kNow, 1, part, false, {{"k", value}}});
  }
  EXPECT_FALSE(last.ok());
}

using FenceTest = GangFixture;

TEST_F(FenceTest, RanksGoOnWhenThoseOfAllMachinesWaitAndKnowWhatAllHavePut) {
  Begin(3);
  EnterFence(0, {{"a", "1"}});
  EnterFence(1, {{"b", "2"}});
  Settle();
  EXPECT_EQ(machines_[0].fences, 0);
  EnterFence(2, {{"c", "3"}});
  Settle();
  for (const Machine& machine : machines_) {
    EXPECT_EQ(machine.fences, 1);
    EXPECT_THAT(machine.table, UnorderedElementsAre(TableEntry{"a", "1"}, TableEntry{"b", "2"},
                                                    TableEntry{"c", "3"}));
  }
}

TEST_F(FenceTest, ATableOfManyPartsComesWhole) {
  Begin(2);
  std::vector<TableEntry> many;
  for (int i = 0; i < 2000; ++i) many.push_back({"k" + std::to_string(i), std::string(100, 'v')});
  EnterFence(0, many);
  EnterFence(1, {});
  Settle();
  for (const Machine& machine : machines_) {
    EXPECT_EQ(machine.fences, 1);
    EXPECT_EQ(machine.table, many);
  }
}

TEST_F(FenceTest, AMemberThatWasCutOffSaysAgainWhereItIs) {
  Begin(2);
  EnterFence(0, {{"a", "1"}});
  Settle();
  EnterFence(1, {{"b", "2"}});
  Cut(1);
  Settle();
  EXPECT_EQ(machines_[0].fences, 0) << "its FENCE was lost";
  Connect(1);
  Settle();
  EXPECT_EQ(machines_[0].fences, 1);
  EXPECT_EQ(machines_[1].fences, 1);
  EXPECT_THAT(machines_[1].table, SizeIs(2));
}

TEST_F(FenceTest, AMachineThatDiesInItEndsTheGenerationAndTheNextBeginsEmpty) {
  Begin(2);
  EnterFence(0, {{"old", "1"}});
  Kill(1, 2, 9);
  Advance(seconds(2));
  ASSERT_EQ(coordinator_->generation().n, 2U);
  EnterFence(0, {{"new", "1"}});
  EnterFence(1, {});
  Settle();
  EXPECT_THAT(machines_[1].table, ElementsAre(TableEntry{"new", "1"}));
}

}  // namespace
}  // namespace lockstep::core
