#include "worker/agent/rank_socket/run_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/exit_codes.h"

namespace lockstep::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunRequestsTest : public testing::Test, protected RunRequests::Owner {
 protected:
  RunRequestsTest() {
    job_.metadata.name = "gpt";
    job_.spec.num_machines = 3;
    job_.spec.framework = core::Framework::kMpi;
    requests_.BeginGeneration({1, 3});
  }

  void Answer(RunRequests::ClientId client, const std::string& line) override {
    said_.push_back(std::to_string(client) + " " + line);
  }
  void OnRun(core::Run run) override { asked_.push_back(std::move(run)); }

  core::TrainingJob job_;
  std::vector<std::string> said_;
  std::vector<core::Run> asked_;
  RunRequests requests_{&job_, this};
};

TEST_F(RunRequestsTest, EachAnswerGoesToWhoeverAsked) {
  requests_.OnQuestion(7, {.id = 4, .command = "orted 1", .host = "gpt-1", .generation = "1-3"});
  requests_.OnQuestion(8, {.id = 4, .command = "orted 2", .host = "gpt-2", .generation = "1-3"});
  ASSERT_EQ(asked_.size(), 2U);
  EXPECT_EQ(asked_[1].machine, 2U);
  EXPECT_EQ(asked_[1].command, "orted 2");
  requests_.OnAnswer({.id = asked_[1].id, .exit_code = 3, .problem = "no such file"});
  requests_.OnAnswer({.id = asked_[1].id, .exit_code = 3, .problem = "again"});
  EXPECT_THAT(said_, ElementsAre("8 " + RunAnswer(4, 3, "no such file")));
}

TEST_F(RunRequestsTest, WhatWasAskedInAGenerationThatEndedIsAnsweredNobody) {
  requests_.OnQuestion(7, {.id = 4, .command = "orted", .host = "gpt-1", .generation = "1-3"});
  requests_.BeginGeneration({1, 4});
  requests_.OnAnswer({.id = asked_[0].id, .exit_code = 0, .problem = ""});
  EXPECT_THAT(said_, IsEmpty());
  requests_.OnQuestion(7, {.id = 5, .command = "orted", .host = "gpt-1", .generation = "1-3"});
  EXPECT_THAT(said_, ElementsAre(HasSubstr("generation 1-3 has ended")));
}

TEST_F(RunRequestsTest, WhatCannotBeRunIsRefusedAndWhy) {
  requests_.OnQuestion(7, {.id = 1, .command = "orted", .host = "gpt-9", .generation = "1-3"});
  const std::string longest(core::kMaxRunCommand + 1, 'x');
  requests_.OnQuestion(7, {.id = 2, .command = longest, .host = "gpt-1", .generation = "1-3"});
  job_.spec.framework = core::Framework::kTorch;
  requests_.OnQuestion(7, {.id = 3, .command = "orted", .host = "gpt-1", .generation = "1-3"});
  EXPECT_THAT(said_, ElementsAre(HasSubstr("no other machine of that name"),
                                 HasSubstr("has more than 8 KiB"),
                                 HasSubstr("no other machine of that name")));
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace lockstep::agent
