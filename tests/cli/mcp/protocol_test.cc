#include "cli/mcp/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::cli::mcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProtocolTest : public testing::Test {
 protected:
  struct Started {
    CallId call;
    std::string tool;
    Json arguments;
  };

  // The last message that was sent, parsed.
  Json Last() const { return sent_.empty() ? Json() : ParseJson(sent_.back()); }
  Json Say(const std::string& line) {
    sent_.clear();
    protocol_.OnLine(line);
    return Last();
  }
  int CodeOf(const std::string& line) {
    const Json answer = Say(line);
    return answer.contains("error") ? answer["error"]["code"].get<int>() : 0;
  }
  Json Begin(const std::string& version = "2025-06-18") {
    return Say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
               version + R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
  }
  static std::string CallLine(const std::string& id, const std::string& tool = "logs") {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":"tools/call","params":{"name":")" +
           tool + R"(","arguments":{"name":"gpt"}}})";
  }

  std::vector<std::string> sent_;
  std::vector<Started> started_;
  std::vector<CallId> cancelled_;
  Protocol protocol_{
      {.version = "1.2.3",
       .instructions = "how",
       .tools = OrderedJson::array({{{"name", "logs"}}}),
       .is_tool = [](std::string_view name) { return name == "logs"; }},
      {.send = [this](const std::string& line) { sent_.push_back(line); },
       .start = [this](CallId call, const std::string& tool,
                       const Json& arguments) { started_.push_back({call, tool, arguments}); },
       .cancel = [this](CallId call) { cancelled_.push_back(call); }}};
};

TEST_F(ProtocolTest, AgreesOnTheNewestVersionThatTheClientKnows) {
  EXPECT_EQ(Begin("2024-11-05")["result"]["protocolVersion"], "2024-11-05");
  EXPECT_EQ(Begin("2025-06-18")["result"]["protocolVersion"], "2025-06-18");
  EXPECT_EQ(Begin("2025-03-26")["result"]["protocolVersion"], "2024-11-05") << "it wants batches";
  EXPECT_EQ(Begin("2099-01-01")["result"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(Begin("2020-01-01")["result"]["protocolVersion"], "2025-11-25");
}

TEST_F(ProtocolTest, TellsItsToolsAndNothingElse) {
  const Json answer = Begin();
  EXPECT_EQ(answer["result"]["serverInfo"]["version"], "1.2.3");
  EXPECT_EQ(answer["result"]["instructions"], "how");
  EXPECT_EQ(answer["result"]["capabilities"], ParseJson(R"({"tools":{"listChanged":false}})"));
  EXPECT_EQ(
      Say(R"({"jsonrpc":"2.0","id":"a","method":"tools/list"})")["result"]["tools"][0]["name"],
      "logs");
}

TEST_F(ProtocolTest, AnswersACallUnderItsIdWhenItsAnswerComes) {
  Begin();
  EXPECT_TRUE(Say(CallLine("7")).is_null());
  ASSERT_EQ(started_.size(), 1U);
  EXPECT_EQ(started_[0].tool, "logs");
  EXPECT_EQ(started_[0].arguments["name"], "gpt");
  protocol_.Answer(started_[0].call, {"line\n", false});
  EXPECT_EQ(Last(), ParseJson(R"({"jsonrpc":"2.0","id":7,"result":{
      "content":[{"type":"text","text":"line\n"}],"isError":false}})"));
}

TEST_F(ProtocolTest, ACancelledCallGetsNoAnswer) {
  Begin();
  Say(CallLine("7"));
  EXPECT_TRUE(
      Say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}})")
          .is_null());
  EXPECT_THAT(cancelled_, ElementsAre(started_[0].call));
  protocol_.Answer(started_[0].call, {"late", false});
  EXPECT_THAT(sent_, IsEmpty());
  Say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}})");
  EXPECT_EQ(cancelled_.size(), 1U) << "an unknown call cannot be cancelled";
}

TEST_F(ProtocolTest, BadInputIsAnsweredWithTheCodesOfJsonRpc) {
  Begin();
  EXPECT_EQ(CodeOf("{"), -32700);
  EXPECT_EQ(CodeOf("[]"), -32600);
  EXPECT_EQ(CodeOf("3"), -32600);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1})"), -32600);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"1.0","id":1,"method":"ping"})"), -32600);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":null,"method":"ping"})"), -32600);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":7})"), -32600);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})"), -32601);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]})"), -32602);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}})"), -32602);
  EXPECT_EQ(CodeOf(CallLine("1", "delete")), -32602);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{}})"), -32602);
  sent_.clear();
  protocol_.OnTooLong();
  EXPECT_EQ(Last()["error"]["code"], -32700);
  EXPECT_TRUE(Last()["id"].is_null());
}

TEST_F(ProtocolTest, NotificationsAndAnswersGetNoAnswer) {
  Begin();
  for (const char* line :
       {"", R"({"jsonrpc":"2.0","method":"notifications/initialized"})",
        R"({"jsonrpc":"2.0","method":"notifications/of/the/future","params":[]})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":[]})",
        R"({"jsonrpc":"2.0","id":1,"result":{}})"}) {
    EXPECT_TRUE(Say(line).is_null()) << line;
  }
}

TEST_F(ProtocolTest, OnlyPingComesBeforeInitialize) {
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"), 0);
  EXPECT_EQ(CodeOf(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"), -32600);
  EXPECT_EQ(CodeOf(CallLine("1")), -32600);
}

TEST_F(ProtocolTest, TooManyCallsAndARepeatedIdAreRefused) {
  Begin();
  for (size_t i = 0; i < Protocol::kMostCalls; ++i) {
    EXPECT_TRUE(Say(CallLine(std::to_string(i))).is_null());
  }
  EXPECT_EQ(CodeOf(CallLine("3")), -32600);
  const Json full = Say(CallLine("100"));
  EXPECT_TRUE(full["result"]["isError"].get<bool>());
  EXPECT_THAT(full["result"]["content"][0]["text"].get<std::string>(), HasSubstr("16 calls"));
  EXPECT_EQ(started_.size(), Protocol::kMostCalls);
  protocol_.Answer(started_[0].call, {"done", false});
  EXPECT_TRUE(Say(CallLine("100")).is_null());
}

}  // namespace
}  // namespace lockstep::cli::mcp
