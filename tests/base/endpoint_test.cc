#include "base/text/endpoint.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Endpoint, ReadsAndWritesBothFamilies) {
  for (const char* text : {"10.0.0.7:7070", "127.0.0.1:0", "[fd00::7]:7070", "[::1]:0"}) {
    EXPECT_EQ(ParseEndpoint(text)->ToString(), text);
  }
  EXPECT_EQ(EndpointText("::1", 8), "[::1]:8");
  EXPECT_EQ(EndpointText("10.0.0.1", 8), "10.0.0.1:8");
}

TEST(Endpoint, IsAnAddressAndAPort) {
  for (const char* text :
       {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
        "127.0.0.1:x", "::1:70", "[127.0.0.1]:7", "host:7", "[]:7", "[:7", "]:7", "1:2:3"}) {
    EXPECT_FALSE(ParseEndpoint(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lockstep
