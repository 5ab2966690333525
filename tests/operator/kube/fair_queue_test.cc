#include "operator/kube/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::kube::fair_queue_test {
namespace {

using testing::ElementsAre;

class FairQueueTest : public testing::Test {
 protected:
  void Add(const std::string& share, const std::string& item,
           Priority priority = Priority::kNormal) {
    queue_.Insert({share, priority, turn_++}, item);
  }
  std::vector<std::string> TakeAll() {
    std::vector<std::string> taken;
    while (auto item = queue_.Take()) taken.push_back(*item);
    return taken;
  }

  FairQueue<std::string> queue_;
  uint64_t turn_ = 0;
};

TEST_F(FairQueueTest, SharesTakeTurnsHoweverMuchOneHas) {
  for (const char* item : {"a1", "a2", "a3", "a4"}) Add("a", item);
  Add("b", "b1");
  Add("c", "c1");
  Add("b", "b2");
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3", "a4"));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueueTest, TheUrgentGoFirstAndTakeTurnsAmongThemselves) {
  Add("a", "a-slow", Priority::kBackground);
  Add("a", "a1", Priority::kUrgent);
  Add("a", "a2", Priority::kUrgent);
  Add("b", "b-slow", Priority::kBackground);
  Add("b", "b1", Priority::kUrgent);
  EXPECT_THAT(TakeAll(), ElementsAre("a1", "b1", "a2", "b-slow", "a-slow"));
}

TEST_F(FairQueueTest, AShareThatComesAgainAndAgainOvertakesNobody) {
  for (const char* item : {"b1", "b2", "b3"}) Add("b", item);
  for (const char* item : {"c1", "c2", "c3"}) Add("c", item);
  std::string order;
  for (int i = 0; i < 9; ++i) {
    if (i % 3 == 0) Add("a", "a");  // one at a time
    order += (*queue_.Take())[0];
  }
  EXPECT_EQ(order, "bcabcabca");
}

TEST_F(FairQueueTest, WhatMayNotBeTakenIsPassedOver) {
  Add("a", "a1");
  Add("a", "a2", Priority::kUrgent);
  Add("b", "b1");
  const MayTake not_a = [](const std::string& share, Priority priority) {
    return share != "a" || priority == Priority::kUrgent;
  };
  EXPECT_EQ(queue_.Take(not_a), "a2");
  EXPECT_EQ(queue_.Take(not_a), "b1");
  EXPECT_EQ(queue_.Take(not_a), std::nullopt);
  EXPECT_EQ(queue_.size(), 1U);
}

TEST_F(FairQueueTest, WhatIsErasedIsNotTaken) {
  Add("a", "a1");
  Add("a", "a2");
  queue_.Erase({"a", Priority::kNormal, 0});
  queue_.Erase({"a", Priority::kNormal, 9});
  queue_.Erase({"z", Priority::kNormal, 0});
  EXPECT_THAT(TakeAll(), ElementsAre("a2"));
}

}  // namespace
}  // namespace lockstep::kube::fair_queue_test
