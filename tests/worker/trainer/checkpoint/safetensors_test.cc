#include "worker/trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"
#include "worker/trainer/checkpoint/float16.h"

namespace lockstep::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public CheckpointTestBase {
 protected:
  // A file of `header` with `data` behind it.
  static std::string File(const std::string& header, const std::string& data) {
    uint64_t size = header.size();
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    return bytes + header + data;
  }

  Result<SafetensorsFile> Open(const std::string& bytes) const {
    WriteText(Path("t.safetensors"), bytes);
    return SafetensorsFile::Open(Path("t.safetensors"));
  }
};

std::string ErrorOf(const std::string& header, uint64_t data_bytes) {
  Result<TensorMap> tensors = ParseSafetensorsHeader(header, data_bytes);
  EXPECT_FALSE(tensors.ok()) << header;
  return tensors.ok() ? "" : tensors.error().message;
}

TEST_F(SafetensorsTest, WhatIsFormattedIsParsed) {
  std::vector<std::pair<std::string, TensorInfo>> tensors = {
      {"b", {"F32", {2, 3}, 0, 24}}, {"a", {"F32", {}, 24, 28}}, {"empty", {"F32", {0}, 28, 28}}};
  std::string bytes = FormatSafetensorsHeader(tensors);
  EXPECT_EQ(bytes.size() % 8, 0U);
  Result<TensorMap> parsed = ParseSafetensorsHeader(bytes.substr(8), 28);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(*parsed, TensorMap(tensors.begin(), tensors.end()));
}

TEST_F(SafetensorsTest, WhatBreaksTheFormatIsRefusedWithItsReason) {
  struct Case {
    const char* header;
    uint64_t data_bytes;
    const char* reason;
  };
  for (const Case& each : std::vector<Case>{
           {"", 0, "not a JSON object"},
           {"[]", 0, "not a JSON object"},
           {"{", 0, "not a JSON object"},
           {R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "not a JSON object"},
           {R"({"a":1})", 0, "tensor a is described by no object"},
           {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "unknown type"},
           {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "unknown type"},
           {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "no shape"},
           {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "no shape"},
           {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "no shape"},
           {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "no data_offsets"},
           {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "no data_offsets"},
           {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "ends before"},
           {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "data of 4 bytes"},
           {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
            "data of 0 bytes"},
           {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "begins at byte 1"},
           {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            3, "begins at byte 1"},
           {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
            5, "begins at byte 3"},
           {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "take 2 bytes"},
           {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "take 2 bytes"},
           {R"({"__metadata__":[]})", 0, "__metadata__"},
           {R"({"__metadata__":{"format":1}})", 0, "__metadata__"},
       }) {
    EXPECT_THAT(ErrorOf(each.header, each.data_bytes), HasSubstr(each.reason)) << each.header;
  }
}

TEST_F(SafetensorsTest, AFileCutOffAnywhereIsRefused) {
  std::string whole = File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "abcdefgh");
  ASSERT_TRUE(Open(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    Result<SafetensorsFile> file = Open(whole.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    EXPECT_EQ(file.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(file.error().message, HasSubstr(Path("t.safetensors")));
  }
  EXPECT_FALSE(Open(whole + "x").ok());
}

TEST_F(SafetensorsTest, NoBitOfTheSizeOrTheHeaderLeadsOutOfTheFile) {
  std::string whole = File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "abcdefgh");
  for (size_t at = 0; at < whole.size() - 8; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      Result<SafetensorsFile> file = Open(changed);
      // Another name, or another type of the same size, is a file too.
      for (size_t i = 0; file.ok() && i < 1; ++i) {
        ASSERT_EQ(file->tensors().size(), 1U);
        EXPECT_EQ(file->tensors().begin()->second.end, 8U);
      }
    }
  }
}

TEST_F(SafetensorsTest, AHeaderBeyondTheLimitIsRefusedBeforeItIsRead) {
  std::string bytes(16, '\0');
  uint64_t size = uint64_t{100'000'001};
  std::memcpy(bytes.data(), &size, sizeof(size));
  EXPECT_THAT(Open(bytes).error().message, HasSubstr("100 MB"));
  size = std::numeric_limits<uint64_t>::max();
  std::memcpy(bytes.data(), &size, sizeof(size));
  EXPECT_THAT(Open(bytes).error().message, HasSubstr("100 MB"));
}

TEST_F(SafetensorsTest, ATensorIsReadByNameAndShape) {
  std::vector<float> values = {1.5F, -2};
  std::string data(8, '\0');
  std::memcpy(data.data(), values.data(), 8);
  Result<SafetensorsFile> file =
      Open(File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                R"("b":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})",
                data + std::string(8, '\0')));
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::vector<float> read(2);
  ASSERT_TRUE(file->Read("a", std::vector<int64_t>{2}, read).ok());
  EXPECT_EQ(read, values);
  EXPECT_EQ(file->Read("c", std::vector<int64_t>{2}, read).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(file->Read("a", std::vector<int64_t>{2, 1}, read).error().message,
              AllOf(HasSubstr("the shape [2]"), HasSubstr("needs [2, 1]")));
  EXPECT_THAT(file->Read("b", std::vector<int64_t>{1}, std::span(read).first(1)).error().message,
              HasSubstr("of type I64"));
}

TEST_F(SafetensorsTest, HalfPrecisionIsWidened) {
  EXPECT_EQ(WidenF16(0x3C00), 1.0F);
  EXPECT_EQ(WidenF16(0xC000), -2.0F);
  EXPECT_EQ(WidenF16(0x7BFF), 65504.0F);
  EXPECT_EQ(WidenF16(0x0001), 0x1p-24F);
  EXPECT_EQ(WidenF16(0x03FF), 0x1.FF8p-15F);
  EXPECT_EQ(WidenF16(0x0400), 0x1p-14F);
  EXPECT_TRUE(std::signbit(WidenF16(0x8000)));
  EXPECT_EQ(WidenF16(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(WidenF16(0x7E01)));
  EXPECT_EQ(WidenBf16(0x3F80), 1.0F);
  EXPECT_EQ(WidenBf16(0xC049), -3.140625F);

  constexpr size_t kCount = 600000;  // more than one piece
  std::string data(kCount * 2, '\0');
  for (size_t i = 0; i < kCount; ++i) data[2 * i + 1] = i % 2 == 0 ? 0x3C : 0x40;
  Result<SafetensorsFile> file =
      Open(File(R"({"a":{"dtype":"F16","shape":[600000],"data_offsets":[0,1200000]}})", data));
  ASSERT_TRUE(file.ok());
  std::vector<float> read(kCount);
  ASSERT_TRUE(file->Read("a", std::vector<int64_t>{kCount}, read).ok());
  EXPECT_EQ(read[0], 1.0F);
  EXPECT_EQ(read[kCount - 1], 2.0F);
  EXPECT_EQ(std::ranges::count(read, 2.0F), static_cast<std::ptrdiff_t>(kCount / 2));
}

// Every accepted header describes data that is wholly used, each byte once.
TEST_F(SafetensorsTest, RandomHeadersAreRefusedOrSound) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same headers each time
  std::string good =
      R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2,2],)"
      R"("data_offsets":[3,7]},"c":{"dtype":"U8","shape":[],"data_offsets":[7,8]}})";
  ASSERT_TRUE(ParseSafetensorsHeader(good, 8).ok());
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string header = good;
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      header[random() % header.size()] = "0123456789[],{}\":abc"[random() % 20];
    }
    Result<TensorMap> tensors = ParseSafetensorsHeader(header, 8);
    if (!tensors.ok()) continue;
    ++accepted;
    uint64_t bytes = 0;
    for (const auto& [name, info] : *tensors) bytes += info.end - info.begin;
    ASSERT_EQ(bytes, 8U) << header;
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace lockstep::trainer
