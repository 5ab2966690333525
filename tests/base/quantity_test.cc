#include "base/text/quantity.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

int64_t Milli(const char* text) {
  const Result<Quantity> quantity = Quantity::Parse(text);
  EXPECT_TRUE(quantity.ok()) << text;
  return quantity.ok() ? quantity->milli() : -1;
}

TEST(Quantity, ReadsEveryFormThatKubernetesWrites) {
  const struct {
    const char* text;
    int64_t milli;
  } cases[] = {
      {"0", 0},
      {"4", 4000},
      {"+4", 4000},
      {"-4", -4000},
      {"1.5", 1500},
      {".5", 500},
      {"5.", 5000},
      {"500m", 500},
      {"1e3", 1'000'000},
      {"1E3", 1'000'000},
      {"12e-3", 12},
      {"1k", 1'000'000},
      {"110Gi", int64_t{110} * (int64_t{1} << 30) * 1000},
      {"0.5Gi", (int64_t{1} << 29) * 1000},
      {"8Pi", (int64_t{8} << 50) * 1000},
      {"0e99", 0},
      {"1.000000000000000000000000000", 1000},
      {"1000000n", 1},
      {"1000u", 1},
      {"0.007812500000000000000Ei", (int64_t{8} << 50) * 1000},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Milli(c.text), c.milli) << c.text;
  }
}

TEST(Quantity, RefusesWhatIsNoQuantity) {
  for (const char* text : {"", "-", ".", "Gi", "1 Gi", "1gi", "1K", "0x10", "1e", "1e+", "1e100",
                           "1..2", "NaN", "inf", "1GiB", "--1"}) {
    const Result<Quantity> quantity = Quantity::Parse(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.error().kind, ErrorKind::kInvalid) << text;
    EXPECT_NE(quantity.error().message.find("16Gi"), std::string::npos) << "shows what to write";
  }
}

TEST(Quantity, RefusesWhatDoesNotFitInsteadOfWrapping) {
  for (const char* text :
       {"2E", "9Ei", "9Pi", "8.1Pi", "1e30", "1e99", "99999999999999999999", "9007199254740993",
        "9999999999999999999Ei", "9999999999999999999e99", "9999999999999999999E",
        "0.9999999999999999999Ei", "170141183460469231e21"}) {
    const Result<Quantity> quantity = Quantity::Parse(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.error().kind, ErrorKind::kTooLarge) << text;
  }
}

TEST(Quantity, RoundsWhatIsFinerThanAThousandthAwayFromZero) {
  for (const char* text : {"1n", "1u", "0.0001", "1e-4", "1e-30", "0.00000000000000000000001"}) {
    EXPECT_EQ(Milli(text), 1) << text;
  }
  EXPECT_EQ(Milli("0.12345678901234567890123"), 124);
  EXPECT_EQ(Milli("1.0001"), 1001);
  EXPECT_EQ(Milli("-0.0001"), -1);
}

TEST(Quantity, WritesTheShortestExactForm) {
  const struct {
    const char* text;
    const char* canonical;
  } cases[] = {{"0", "0"},           {"1000m", "1"},   {"1500m", "1500m"}, {"1024Mi", "1Gi"},
               {"1536Mi", "1536Mi"}, {"1e3", "1k"},    {"2000000", "2M"},  {"1Ki", "1Ki"},
               {"0.5Gi", "512Mi"},   {"-1000", "-1k"}, {"3", "3"},         {"0.5", "500m"}};
  for (const auto& c : cases) {
    const Result<Quantity> quantity = Quantity::Parse(c.text);
    ASSERT_TRUE(quantity.ok()) << c.text;
    EXPECT_EQ(quantity->ToString(), c.canonical);
    EXPECT_EQ(*Quantity::Parse(quantity->ToString()), *quantity);
  }
}

TEST(Quantity, MultipliesExactlyOrNotAtAll) {
  EXPECT_EQ((*Quantity::Parse("110Gi")->Times(8)).ToString(), "880Gi");
  EXPECT_FALSE(Quantity::Parse("8Pi")->Times(64).ok());
}

}  // namespace
}  // namespace lockstep
