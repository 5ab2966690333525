#include "worker/trainer/model/shape.h"

#include <gtest/gtest.h>

namespace lockstep::trainer {
namespace {

TEST(ShapeTest, PresetsHaveTheSizesTheirNamesPromise) {
  EXPECT_NEAR(static_cast<double>(ParameterCount(*PresetShape("nano", 128))), 1.85e6, 1e5);
  EXPECT_NEAR(static_cast<double>(ParameterCount(*PresetShape("micro", 256))), 10.8e6, 1e5);
  EXPECT_EQ(ParameterCount(*PresetShape("gpt2", 1024)), 124'439'808U);
}

TEST(ShapeTest, AnUnknownPresetNamesThoseThatThereAre) {
  const auto shape = PresetShape("huge", 128);
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(shape.error().message.find("nano, micro, gpt2"), std::string::npos);
}

TEST(ShapeTest, ParametersFillTheArrayWithoutHoles) {
  const Shape shape{3, 2, 10, 17, 6};
  size_t offset = 0;
  for (const Parameter& p : Parameters(shape)) {
    EXPECT_EQ(p.offset, offset) << p.name;
    size_t size = 1;
    for (const int64_t n : p.shape) size *= static_cast<size_t>(n);
    EXPECT_EQ(p.size, size) << p.name;
    EXPECT_EQ(p.decays, p.shape.size() == 2) << p.name;
    offset += p.size;
  }
  EXPECT_EQ(offset, ParameterCount(shape));
}

}  // namespace
}  // namespace lockstep::trainer
