#include "base/crypto/sha256.h"

#include <gtest/gtest.h>

#include <span>
#include <string_view>

namespace lockstep {
namespace {

std::string Sum(std::initializer_list<std::string_view> pieces) {
  Sha256 hash;
  for (std::string_view piece : pieces) hash.Add(std::as_bytes(std::span(piece)));
  return hash.Hex();
}

// FIPS 180-2, appendix B.1.
TEST(Sha256Test, IsThatOfTheStandardsExamples) {
  EXPECT_EQ(Sum({"abc"}), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sum({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256Test, DoesNotDependOnThePiecesInWhichBytesCome) {
  EXPECT_EQ(Sum({"a", "", "bc"}), Sum({"abc"}));
}

}  // namespace
}  // namespace lockstep
