#include "worker/trainer/run/step_record.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {
namespace {

std::map<std::string, double> ByName(const Numbers& numbers) {
  std::map<std::string, double> all;
  for (const auto& [name, value] : numbers) all.emplace(name, value);
  return all;
}

TEST(FlopsPerToken, AreThoseOfProductsAndAttention) {
  const Result<Shape> gpt2 = PresetShape("gpt2", 1024);
  ASSERT_TRUE(gpt2.ok());
  // 124,439,808 parameters, of which 786,432 are of positions.
  EXPECT_DOUBLE_EQ(FlopsPerToken(*gpt2), 6.0 * 123'653'376 + 12.0 * 12 * 768 * 1024);
}

TEST(StepRecord, TellsFlopsAndTheirShareOfThePeak) {
  StepRecord record;
  record.my_tokens = 1000;
  record.whole = milliseconds(500);
  EXPECT_FALSE(ByName(ForAgent(record)).contains("teraflops"));
  record.flops_per_token = 2e9;  // 4 TFLOP/s
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("teraflops"), 4);
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("speed/teraflops"), 4);
  EXPECT_FALSE(ByName(ForAgent(record)).contains("mfu"));
  EXPECT_EQ(Line(record).find("MFU"), std::string::npos);
  record.peak_flops = 16e12;
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("mfu"), 0.25);
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("speed/mfu"), 0.25);
  EXPECT_NE(Line(record).find("tokens/s  25.0 % MFU  500 ms"), std::string::npos) << Line(record);
}

// The agents look for stragglers by collective_wait_seconds.
TEST(StepRecord, TellsAPipelinesWaitsByAnotherName) {
  StepRecord record;
  record.exposed = milliseconds(250);
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("collective_wait_seconds"), 0.25);
  EXPECT_FALSE(ByName(ForAgent(record)).contains("pipeline_wait_seconds"));
  record.pipeline = true;
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("pipeline_wait_seconds"), 0.25);
  EXPECT_FALSE(ByName(ForAgent(record)).contains("collective_wait_seconds"));
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("time/pipeline_wait_seconds"), 0.25);
}

}  // namespace
}  // namespace lockstep::trainer
