#include "cli/run/run_server.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

namespace lockstep::cli {
namespace {

class RunServerTest : public testing::Test {
 protected:
  RunServerTest() {
    std::string folder = testing::TempDir() + "run-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
    loop_ = std::move(*loop);
  }
  ~RunServerTest() override { std::filesystem::remove_all(folder_); }

  Result<Json> Ask(const Json& question) {
    RunServer server(loop_.get(), [this](const Json& asked) -> Result<Json> {
      if (asked.contains("no")) return Error::Conflict("the run is stopping");
      asked_ = asked;
      return Json{{"job", "gpt"}};
    });
    EXPECT_TRUE(server.Open(folder_).ok());
    Result<Json> answer = Error::Unavailable("");
    std::thread other([&] {
      answer = AskRun(folder_, question);
      loop_->PostFromAnyThread([this] { loop_->Stop(); });
    });
    loop_->Run();
    other.join();
    return answer;
  }

  std::string folder_;
  std::unique_ptr<EventLoop> loop_;
  Json asked_;
};

TEST_F(RunServerTest, AnswersAQuestion) {
  const Result<Json> answer = Ask({{"restart", {{"reason", "x"}}}});
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ((*answer)["job"], "gpt");
  EXPECT_EQ(asked_["restart"]["reason"], "x");
}

TEST_F(RunServerTest, AnErrorComesBackInItsWords) {
  const Result<Json> answer = Ask({{"no", 1}});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().message, "the run is stopping");
}

TEST_F(RunServerTest, WhatIsNoObjectIsRefused) { EXPECT_FALSE(Ask(Json::array()).ok()); }

TEST_F(RunServerTest, ARunThatIsNotThereIsNamed) {
  const Result<Json> answer = AskRun(folder_, {{"restart", Json::object()}});
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("run.sock"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
