#include "base/uuid.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

// The DNS name space of RFC 9562, section 6.6.
constexpr const char* kDns = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

TEST(Uuid, OfANameIsTheOneThatTheRfcGives) {
  const std::optional<Uuid> dns = Uuid::Parse(kDns);
  ASSERT_TRUE(dns);
  EXPECT_EQ(Uuid::FromName(*dns, "www.example.com").ToString(),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2");
}

TEST(Uuid, OfAnotherNameDiffers) {
  const Uuid dns = *Uuid::Parse(kDns);
  EXPECT_NE(Uuid::FromName(dns, "a"), Uuid::FromName(dns, "b"));
  EXPECT_NE(Uuid::FromName(dns, "a"), Uuid::FromName(Uuid{}, "a"));
}

TEST(Uuid, RandomOnesDifferAndSayTheirVersion) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = Uuid::Random().ToString();
    EXPECT_EQ(text[14], '4');
    EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos);
    EXPECT_TRUE(seen.insert(text).second);
  }
}

TEST(Uuid, ReadsEitherCaseAndWritesLowerCase) {
  EXPECT_EQ(Uuid::Parse("6BA7B810-9DAD-11D1-80B4-00C04FD430C8")->ToString(), kDns);
}

TEST(Uuid, RefusesWhatIsNone) {
  for (const char* text :
       {"", "6ba7b810", "6ba7b810-9dad-11d1-80b4-00c04fd430c", "{6ba7b810}",
        "6ba7b8109dad-11d1-80b4-00c04fd430c8-", "6ba7b810-9dad-11d1-80b4-00c04fd430cg"}) {
    EXPECT_FALSE(Uuid::Parse(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep
