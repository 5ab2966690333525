#include "cli/run/machines/address.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::cli {
namespace {

TEST(AddressTest, EveryMachineHasItsOwnAddressWithinTheLoopbackNetwork) {
  AddressBlock block{254, 251};
  std::set<std::string> seen;
  for (uint32_t m = 0; m < 1024; ++m) seen.insert(block.Machine(m));
  EXPECT_EQ(seen.size(), 1024u);
  EXPECT_EQ(block.Machine(0), "127.254.251.1");
  EXPECT_EQ(block.Machine(250), "127.254.252.1");
  EXPECT_EQ(block.Machine(1023), "127.254.255.24");
}

TEST(AddressTest, NoBlockLiesAtEitherEndOfTheNetwork) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto block = ChooseBlock(
        1, [&] { return static_cast<uint16_t>(bits); }, [](const std::string&) { return true; });
    ASSERT_TRUE(block.ok());
    EXPECT_GE(block->high, 1);
    EXPECT_LE(block->high, 254);
    EXPECT_LE(block->low, 250);
  }
}

TEST(AddressTest, ABlockInUseIsPassedOver) {
  uint16_t next = 0x0100;
  auto block = ChooseBlock(
      2, [&] { return next += 0x0100; },
      [](const std::string& address) { return address != "127.3.0.2"; });
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->high, 4);
}

TEST(AddressTest, WithoutAnyFreeBlockItGivesUp) {
  auto block = ChooseBlock(1, [] { return uint16_t{0}; }, [](const std::string&) { return false; });
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep::cli
