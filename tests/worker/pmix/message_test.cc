#include "worker/pmix/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::pmix {
namespace {

using testing::SizeIs;

TEST(Message, IsReadAsItWasWritten) {
  const Message message{Kind::kAbort, 0x01020304, -7, false, std::string("a\0b", 3)};
  const Result<Message> read = Decode(Encode(message));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, message);
}

TEST(Message, StandsOnTheWireAsDocumented) {
  EXPECT_EQ(Encode({Kind::kAbort, 258, 7, true, "no"}),
            std::string("\x07\0\0\x01\x02\0\0\0\x07\x01no", 12));
}

TEST(Message, OfAnotherKindOrLengthIsNone) {
  const std::string packet = Encode({});
  EXPECT_FALSE(Decode("").ok());
  EXPECT_FALSE(Decode(packet.substr(1)).ok());
  EXPECT_FALSE(Decode(std::string(kMaxPacket + 1, '\1')).ok());
  for (const char kind : {'\0', '\x0a', '\xff'}) {
    std::string other = packet;
    other[0] = kind;
    EXPECT_FALSE(Decode(other).ok()) << static_cast<int>(kind);
  }
  std::string other = packet;
  other[9] = 2;
  EXPECT_FALSE(Decode(other).ok());
}

TEST(Message, OfMoreThanAPacketIsCut) {
  EXPECT_THAT(Encode({.kind = Kind::kProblem, .bytes = std::string(kMaxBytes + 1, 'a')}),
              SizeIs(kMaxPacket));
}

TEST(FenceParts, HoldAllOfItAndOnlyTheLastSaysSo) {
  for (const size_t size : {size_t{0}, size_t{1}, kMaxBytes, kMaxBytes + 1, 3 * kMaxBytes}) {
    std::string data;
    for (size_t i = 0; i < size; ++i) data.push_back(static_cast<char>(i % 251));
    const std::vector<Message> parts = FenceParts(data);
    std::string joined;
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].kind, Kind::kFence);
      EXPECT_EQ(parts[i].last, i + 1 == parts.size());
      EXPECT_LE(parts[i].bytes.size(), kMaxBytes);
      joined += parts[i].bytes;
    }
    EXPECT_EQ(joined, data);
    EXPECT_EQ(parts.size(), std::max<size_t>(1, (size + kMaxBytes - 1) / kMaxBytes));
  }
}

}  // namespace
}  // namespace lockstep::pmix
