#include "cli/cluster/page/gang_follower.h"

#include <gtest/gtest.h>

#include "base/text/json.h"
#include "tests/base/loop_test_base.h"

namespace lockstep::cli::gang_follower_test {
namespace {

std::string Line(double age, int64_t version) {
  core::GangStatus gang;
  gang.version = static_cast<uint64_t>(version);
  return "{\"age\":" + std::to_string(age) + ",\"gang\":" + core::ToJson(gang) + "}";
}

TEST(GangLineTest, ReadsTheAgeOfTheAgentAndTheGang) {
  const Result<GangLine> line = ParseGangLine(Line(2.5, 7));
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->age, milliseconds(2500));
  EXPECT_EQ(line->gang.version, 7U);
}

TEST(GangLineTest, RefusesWhatNoAgentSays) {
  for (const char* text :
       {"", "{}", "{\"age\":1,\"gang\":}", "{\"age\":-1,\"gang\":{}}", "{\"age\":x,\"gang\":{}}",
        "{\"age\":1,\"gang\":[1]}", "sh: not found"}) {
    EXPECT_FALSE(ParseGangLine(text).ok()) << text;
  }
}

class GangFollowerTest : public LoopTest, public GangFollower::Owner {
 protected:
  GangFollowerTest() : spawner_(std::move(*Spawner::Create())) {}

  std::unique_ptr<GangFollower> Make() {
    return std::make_unique<GangFollower>(loop(), spawner_.get(), this);
  }
  void OnGang(const core::GangStatus& gang, Time /*born*/) override {
    versions_.push_back(gang.version);
  }
  void OnGangBeat() override { ++beats_; }
  void OnGangLost(const std::string& why) override { lost_.push_back(why); }
  static std::vector<std::string> Sh(const std::string& script) {
    return {"/bin/sh", "-c", script};
  }

  std::unique_ptr<Spawner> spawner_;
  std::vector<uint64_t> versions_;
  std::vector<std::string> lost_;
  int beats_ = 0;
};

TEST_F(GangFollowerTest, TakesEachLineAndSaysWhyTheProgramEnded) {
  const auto follower = Make();
  follower->Follow("a", Sh("echo '" + Line(1, 3) + "'; echo; echo pods is forbidden >&2; exit 1"));
  EXPECT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_EQ(versions_, std::vector<uint64_t>{3});
  EXPECT_EQ(lost_, std::vector<std::string>{"pods is forbidden"});
}

TEST_F(GangFollowerTest, FollowsAnotherPodInPlaceOfTheFirst) {
  const auto follower = Make();
  follower->Follow("a", Sh("echo '" + Line(1, 3) + "'; exec sleep 1000"));
  EXPECT_TRUE(RunUntil([&] { return versions_.size() == 1; }));
  follower->Follow("a", Sh("exit 1"));  // it is followed already
  follower->Follow("b", Sh("echo '" + Line(1, 4) + "'; exec sleep 1000"));
  EXPECT_TRUE(RunUntil([&] { return versions_.size() == 2; }));
  EXPECT_EQ(versions_.back(), 4U);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(GangFollowerTest, ABlankLineSaysThatTheAgentIsThere) {
  const auto follower = Make();
  follower->Follow("a", Sh("echo; exec sleep 1000"));
  EXPECT_TRUE(RunUntil([&] { return beats_ == 1; }));
  EXPECT_TRUE(versions_.empty());
}

TEST_F(GangFollowerTest, AnAnswerThatNoAgentGivesIsNamed) {
  const auto follower = Make();
  follower->Follow("a", Sh("echo nonsense; exec sleep 1000"));
  EXPECT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_EQ(lost_[0], "the agent gives an answer that this version can't read");
}

}  // namespace
}  // namespace lockstep::cli::gang_follower_test
