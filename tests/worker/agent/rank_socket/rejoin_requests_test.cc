#include "worker/agent/rank_socket/rejoin_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RejoinRequestsTest : public testing::Test, protected RejoinRequests::Owner {
 protected:
  RejoinRequestsTest() { requests_.BeginGeneration({1, 3}); }

  void Answer(RejoinRequests::ClientId client, const std::string& line) override {
    said_.push_back(std::to_string(client) + " " + line);
  }
  bool CanKeep(uint32_t rank) override { return rank < 2; }
  void OnRejoins(uint32_t rank, bool can) override {
    said_.push_back((can ? "can " : "cannot ") + std::to_string(rank));
  }
  void OnLeft(uint32_t rank) override { said_.push_back("left " + std::to_string(rank)); }
  void Kill(uint32_t rank) override { said_.push_back("kill " + std::to_string(rank)); }

  std::vector<std::string> said_;
  RejoinRequests requests_{this};
};

TEST_F(RejoinRequestsTest, ARankHearsOfTheEndAndThenOfTheNext) {
  requests_.OnQuestion(7, RejoinQuestion{1, 10, "1-3"});
  requests_.OnEnded({1});
  requests_.OnQuestion(7, LeftQuestion{1, 11, "1-3"});
  requests_.BeginGeneration({1, 4});
  requests_.Tell(1, {{"MASTER_PORT", "29411"}, {"GONE", nullptr}});
  EXPECT_THAT(said_, ElementsAre("can 1", "7 {\"ended\":\"1-3\",\"id\":10}\n", "left 1",
                                 "7 {\"environment\":{\"GONE\":null,\"MASTER_PORT\":\"29411\"},"
                                 "\"generation\":\"1-4\",\"id\":11}\n"));
}

TEST_F(RejoinRequestsTest, OneThatAsksLateIsToldAtOnce) {
  requests_.OnEnded({0});
  requests_.OnQuestion(7, RejoinQuestion{0, 10, "1-3"});
  EXPECT_THAT(said_, ElementsAre("7 {\"ended\":\"1-3\",\"id\":10}\n"));
}

TEST_F(RejoinRequestsTest, WhatIsOfAnotherGenerationOrNoRankIsRefused) {
  requests_.OnQuestion(7, RejoinQuestion{0, 1, "1-2"});
  requests_.OnQuestion(7, RejoinQuestion{5, 2, "1-3"});
  requests_.OnQuestion(7, LeftQuestion{0, 3, "1-3"});
  ASSERT_EQ(said_.size(), 3U);
  EXPECT_THAT(said_[0], HasSubstr("generation 1-2 is not the one that runs"));
  EXPECT_THAT(said_[1], HasSubstr("no process of rank 5"));
  EXPECT_THAT(said_[2], HasSubstr("rank 0 is not asked to leave"));
}

TEST_F(RejoinRequestsTest, AnEndedConnectionTakesBackWhatItSaidAndEndsWhoWaits) {
  requests_.OnQuestion(7, RejoinQuestion{0, 1, "1-3"});
  requests_.OnQuestion(8, RejoinQuestion{1, 1, "1-3"});
  requests_.OnClosed(7);
  requests_.OnEnded({1});
  requests_.OnQuestion(8, LeftQuestion{1, 2, "1-3"});
  said_.clear();
  requests_.OnClosed(7);
  EXPECT_THAT(said_, IsEmpty());
  requests_.OnClosed(8);
  EXPECT_THAT(said_, ElementsAre("kill 1"));
}

TEST_F(RejoinRequestsTest, WhoCannotBeToldOfItsGenerationIsKilled) {
  requests_.BeginGeneration({1, 4});
  requests_.Tell(1, Json::object());
  EXPECT_THAT(said_, ElementsAre("kill 1"));
}

}  // namespace
}  // namespace lockstep::agent
