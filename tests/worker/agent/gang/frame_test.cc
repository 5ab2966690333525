#include "worker/agent/gang/frame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::agent {
namespace {

std::vector<std::string> Drain(FrameSplitter* splitter) {
  std::vector<std::string> frames;
  while (const auto frame = splitter->Next()) frames.emplace_back(*frame);
  return frames;
}

TEST(FrameSplitter, GivesBackWhatWasEncodedHoweverItIsCut) {
  const std::string bytes =
      EncodeFrame("one") + EncodeFrame("2") + EncodeFrame(std::string(300, 'x'));
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, bytes.size()}) {
    FrameSplitter splitter(1000);
    std::vector<std::string> frames;
    for (size_t at = 0; at < bytes.size(); at += step) {
      splitter.Feed(bytes.substr(at, step));
      for (std::string& frame : Drain(&splitter)) frames.push_back(std::move(frame));
    }
    EXPECT_EQ(frames, (std::vector<std::string>{"one", "2", std::string(300, 'x')})) << step;
  }
}

TEST(FrameSplitter, FailsOnALengthAboveTheLimitBeforeTheBytesCome) {
  FrameSplitter splitter(1000);
  splitter.Feed(EncodeFrame("fine") + std::string("\x40\x00\x00\x00", 4));
  EXPECT_EQ(Drain(&splitter), std::vector<std::string>{"fine"});
  EXPECT_TRUE(splitter.failed());
  EXPECT_EQ(splitter.announced(), 1U << 30);
  splitter.Feed(EncodeFrame("late"));
  EXPECT_TRUE(Drain(&splitter).empty());
}

TEST(FrameSplitter, FailsOnAnEmptyMessage) {
  FrameSplitter splitter(1000);
  splitter.Feed(std::string(4, '\0'));
  EXPECT_FALSE(splitter.Next());
  EXPECT_TRUE(splitter.failed());
}

TEST(ClassifyGreeting, KnowsTheGangFromHttpAndFromALaterVersion) {
  EXPECT_EQ(ClassifyGreeting(""), Greeting::kNeedMore);
  EXPECT_EQ(ClassifyGreeting("LKST"), Greeting::kNeedMore);
  EXPECT_EQ(ClassifyGreeting(kFrameMagic), Greeting::kFrames);
  EXPECT_EQ(ClassifyGreeting(std::string(kFrameMagic) + "more"), Greeting::kFrames);
  EXPECT_EQ(ClassifyGreeting(std::string_view("LKSTEP\0\x02", 8)), Greeting::kOtherVersion);
  EXPECT_EQ(ClassifyGreeting("GET /status HTTP/1.1"), Greeting::kOther);
  EXPECT_EQ(ClassifyGreeting("LOCK / HTTP/1.1"), Greeting::kOther);
}

}  // namespace
}  // namespace lockstep::agent
