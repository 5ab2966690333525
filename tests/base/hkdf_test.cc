#include "base/crypto/hkdf.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep {
namespace {

std::vector<uint8_t> Hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(Hkdf, GivesTheOutputOfRfc5869TestCase1) {
  const auto out = HkdfSha256(std::vector<uint8_t>(22, 0x0b), Hex("000102030405060708090a0b0c"),
                              Hex("f0f1f2f3f4f5f6f7f8f9"), 42);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(*out, Hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf3400720"
                      "8d5b887185865"));
}

TEST(Hkdf, GivesTheOutputOfRfc5869TestCase3WithNeitherSaltNorInfo) {
  const auto out = HkdfSha256(std::vector<uint8_t>(22, 0x0b), {}, {}, 42);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(*out, Hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d20139"
                      "5faa4b61a96c8"));
}

TEST(Hkdf, RefusesMoreBytesThanRfc5869Allows) {
  EXPECT_TRUE(HkdfSha256(std::vector<uint8_t>(22, 1), {}, {}, 8160).ok());
  EXPECT_FALSE(HkdfSha256(std::vector<uint8_t>(22, 1), {}, {}, 8161).ok());
  EXPECT_FALSE(HkdfSha256(std::vector<uint8_t>(22, 1), {}, {}, 0).ok());
  EXPECT_FALSE(HkdfSha256({}, {}, {}, 32).ok());
}

TEST(DeriveKey, IsTheSameEveryTimeAndDiffersByJobByPurposeAndByMasterKey) {
  std::vector<uint8_t> master(32);
  std::iota(master.begin(), master.end(), uint8_t{0});
  const Key key = *DeriveKey(master, "uid-1", "gang");
  EXPECT_EQ(*DeriveKey(master, "uid-1", "gang"), key);
  EXPECT_NE(*DeriveKey(master, "uid-2", "gang"), key);
  EXPECT_NE(*DeriveKey(master, "uid-1", "metrics"), key);
  master[31] ^= 1;
  EXPECT_NE(*DeriveKey(master, "uid-1", "gang"), key);
}

TEST(DeriveKey, RefusesAShortMasterKeyAndEmptyNames) {
  const std::vector<uint8_t> master(32, 7);
  EXPECT_FALSE(DeriveKey(std::vector<uint8_t>(15, 7), "uid", "gang").ok());
  EXPECT_FALSE(DeriveKey(master, "", "gang").ok());
  EXPECT_FALSE(DeriveKey(master, "uid", "").ok());
}

}  // namespace
}  // namespace lockstep
