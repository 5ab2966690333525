#include "cli/cluster/code_sender.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/process/process.h"
#include "tests/base/loop_test_base.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

const std::string kGreeting = R"({"receives":1,"gang":{"code":{"generation":"1-1"}}})";

class CodeSenderTest : public LoopTest, public CodeSender::Owner {
 protected:
  CodeSenderTest() : root_(testing::TempDir() + "/code_sender") {
    signal(SIGPIPE, SIG_IGN);
    fs::remove_all(root_);
    fs::create_directories(root_ + "/code");
    fs::create_directories(root_ + "/stage");
    former_ = std::cerr.rdbuf(said_.rdbuf());
    Save("NAME = 1");
    EXPECT_TRUE(sender_.Scan().ok());
  }
  ~CodeSenderTest() override { std::cerr.rdbuf(former_); }
  void OnCodeRuns() override {}
  void OnRefused(const std::string& why) override { refused_ = why; }
  void OnLineEnded(const std::string& /*why*/) override { ended_ = true; }

  void Save(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(root_ + "/code/model.py", text).ok());
  }
  // Runs a shell in place of kubectl.
  void Start(const std::string& script) {
    ended_ = false;
    sender_.Start({"sh", "-c", "cd " + root_ + "; " + script});
  }
  // An agent that takes what comes, after which the line breaks.
  void SendAndLoseTheLine() {
    Start("echo '" + kGreeting + "'; read -r header; echo '{\"taken\":\"it\"}'");
    ASSERT_TRUE(RunUntil([&] { return ended_; }));
  }
  // Something that another process does, which wakes no loop.
  bool Until(const std::function<bool()>& is_so) {
    const Time end = BootTime() + minutes(1);
    while (!is_so() && BootTime() < end) {
      Settle();
      usleep(2000);
    }
    return is_so();
  }
  std::string Got() const {
    const Result<std::string> text = ReadFile(root_ + "/got", 1 << 20);
    return text.ok() ? *text : "";
  }

  std::string root_;
  std::ostringstream said_;
  std::streambuf* former_;
  bool ended_ = false;
  std::string refused_;
  std::unique_ptr<Spawner> spawner_ = std::move(*Spawner::Create());
  CodeScanner scanner_{root_ + "/code", root_ + "/stage", {}};
  CodeSender sender_{loop(),
                     spawner_.get(),
                     &scanner_,
                     {.by = "alice", .stage = root_ + "/stage", .watch = true},
                     this};
};

std::string Greets(const std::string& code) {
  return "echo '{\"receives\":1,\"gang\":{\"code\":" + code + "}}'; exec cat > got";
}

TEST_F(CodeSenderTest, CodeOfAnotherUserIsReplacedByTheNextEditAndNotByAReconnect) {
  SendAndLoseTheLine();
  Start(Greets(R"({"digest":"b0b","by":"bob","generation":"1-3"})"));
  ASSERT_TRUE(
      RunUntil([&] { return said_.str().find("bob has synced other code") != std::string::npos; }));
  EXPECT_EQ(Got(), "");
  Save("NAME = 2");
  ASSERT_TRUE(sender_.OnEdit().ok());
  ASSERT_TRUE(Until([&] { return Got().ends_with("]]"); }));
  EXPECT_TRUE(Got().find(R"("replaces":"b0b")") != std::string::npos) << Got();
}

TEST_F(CodeSenderTest, CodeThatWasTakenAndNotStartedIsSentAgain) {
  SendAndLoseTheLine();
  Start(Greets(R"({"generation":"2-1"})"));
  ASSERT_TRUE(Until([&] { return Got().ends_with("]]"); }));
  EXPECT_TRUE(Got().find(R"("replaces":"")") != std::string::npos) << Got();
}

TEST_F(CodeSenderTest, WhatTheSameUserLeftBehindIsReplaced) {
  Start(Greets(R"({"digest":"a","generation":"1-3","next":"b","nextBy":"alice"})"));
  ASSERT_TRUE(Until([&] { return Got().ends_with("]]"); }));
  EXPECT_TRUE(Got().find(R"("replaces":"b")") != std::string::npos) << Got();
}

TEST_F(CodeSenderTest, AnUploadThatStallsBlocksNothing) {
  Save(std::string(8 << 20, 'x'));
  ASSERT_TRUE(sender_.Scan().ok());
  const std::string hash = sender_.scan().manifest.files.begin()->second.sha256;
  Start("echo '" + kGreeting + "'; echo '{\"missing\":[\"" + hash +
        "\"]}'; touch asked; exec sleep 1000");
  ASSERT_TRUE(Until([&] { return fs::exists(root_ + "/asked"); }));
  for (int i = 0; i < 100; ++i) Settle();
  EXPECT_FALSE(ended_);
}

}  // namespace
}  // namespace lockstep::cli
