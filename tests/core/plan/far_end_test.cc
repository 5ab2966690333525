#include "core/plan/far_end.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(AgentFacts, AreReadFromTheLastLineOfALogin) {
  const AgentFacts facts{.version = "1.2", .address = "10.0.0.7", .ports = {20001, 30000}};
  EXPECT_EQ(ToJson(facts), R"({"version":"1.2","address":"10.0.0.7","ports":[20001,30000]})");
  const Result<AgentFacts> read = ParseAgentFacts("Welcome!\nNews: {}\n" + ToJson(facts) + "\n");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, facts);
}

TEST(AgentFacts, OfSomethingElseAreNone) {
  for (const char* text :
       {"", "Welcome!", "{}", R"({"version":"1","address":"a","ports":[70000]})"}) {
    EXPECT_FALSE(ParseAgentFacts(text).ok()) << text;
  }
}

TEST(EndingLine, IsOneLineWhateverTheMessageHolds) {
  const AgentEnding ending{.exit_code = 75, .signal = 0, .termination = "{\n\"a\": \"\\u2028\"}"};
  const std::string line = EndingLine(ending);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(ParseEndingLine(line), ending);
}

TEST(EndingLine, OtherLinesAreNone) {
  EXPECT_EQ(ParseEndingLine("lockstep-agent: told to stop"), std::nullopt);
  EXPECT_EQ(ParseEndingLine("lockstep-agent ended: soon"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::core
