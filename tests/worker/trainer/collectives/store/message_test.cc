// Frames between ranks and the store: what goes in comes out, and what is wrong ends the stream.
#include "worker/trainer/collectives/store/message.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace lockstep::collectives {
namespace {

std::vector<Message> Samples() {
  return {{.type = MessageType::kHello, .rank = 3, .first = 8, .key = std::string(kMagic)},
          {.type = MessageType::kSet, .key = "key", .value = std::string(1000, '\0')},
          {.type = MessageType::kBeat,
           .rank = std::numeric_limits<int32_t>::min(),
           .first = std::numeric_limits<uint64_t>::max(),
           .second = 1},
          {.type = MessageType::kFailed, .rank = -1, .value = "why"}};
}

TEST(MessageTest, ComesOutAsItWentInHoweverTheBytesAreCut) {
  std::string wire;
  for (const Message& message : Samples()) wire += Encode(message);
  for (const size_t step : {size_t{1}, size_t{7}, wire.size()}) {
    MessageReader reader(kMessageLimit);
    std::vector<Message> got;
    for (size_t at = 0; at < wire.size(); at += step) {
      reader.Feed(std::string_view(wire).substr(at, step));
      for (;;) {
        Result<std::optional<Message>> next = reader.Next();
        ASSERT_TRUE(next.ok());
        if (!next->has_value()) break;
        got.push_back(**next);
      }
    }
    EXPECT_EQ(got, Samples());
  }
}

// docs/internals/collectives.md
TEST(MessageTest, TheBytesAreThoseOfTheDocument) {
  const Message hello{.type = MessageType::kHello,
                      .rank = 3,
                      .first = 8,
                      .second = 0x0102,
                      .key = "ke",
                      .value = "val"};
  const std::string want(
      "\0\0\0\x1c\x01\0\0\0\x03\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\x01\x02\0\x02ke"
      "val",
      32);
  EXPECT_EQ(Encode(hello), want);
  EXPECT_EQ(kMagic, std::string("LKSTEP-COLL\x01"));
  EXPECT_EQ(kMessageLimit, 66'624u);
  EXPECT_EQ(static_cast<int>(MessageType::kFailed), 16);
}

TEST(MessageTest, TooLongOrTooShortAFrameLosesTheStreamForGood) {
  for (const std::string& wire :
       {std::string("\0\0\4\1", 4), std::string("\0\0\0\0", 4), std::string("GET /")}) {
    MessageReader reader(kGreetingLimit);
    reader.Feed(wire);
    EXPECT_FALSE(reader.Next().ok());
    reader.Feed(Encode(Samples()[0]));
    EXPECT_FALSE(reader.Next().ok());
  }
}

TEST(MessageTest, AnUnknownTypeOrAKeyLongerThanItsFrameLosesTheStream) {
  std::string unknown = Encode(Samples()[0]);
  unknown[4] = 99;
  std::string long_key = Encode(Samples()[0]);
  long_key[4 + 21] = 3;
  for (const std::string& wire : {unknown, long_key}) {
    MessageReader reader(kMessageLimit);
    reader.Feed(wire);
    EXPECT_FALSE(reader.Next().ok());
  }
}

}  // namespace
}  // namespace lockstep::collectives
