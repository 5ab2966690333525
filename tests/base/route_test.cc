#include "base/net/route.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(OwnAddressTowards, ThisComputerIsLoopback) {
  const Result<std::string> own = OwnAddressTowards("127.0.0.1");
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(*own, "127.0.0.1");
}

TEST(OwnAddressTowards, ANameIsNoAddress) { EXPECT_FALSE(OwnAddressTowards("localhost").ok()); }

TEST(IsLoopback, IsAllOf127AndOneOfIpv6) {
  EXPECT_TRUE(IsLoopback("127.3.2.1") && IsLoopback("::1"));
  EXPECT_FALSE(IsLoopback("10.0.0.127") || IsLoopback("1270.0.0.1") || IsLoopback("fd00::1"));
}

}  // namespace
}  // namespace lockstep
