#include "worker/trainer/report/step_record.h"

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

TEST(StepRecord, TellsTheScalingEfficiencyWhereItIsMeasured) {
  StepRecord record;
  EXPECT_FALSE(ByName(ForAgent(record)).contains("scaling_efficiency"));
  record.scaling = {.together = 900, .alone = 1200};
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("scaling_efficiency"), 0.75);
  EXPECT_DOUBLE_EQ(ByName(ForAgent(record)).at("alone_tokens_per_second"), 1200);
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("speed/scaling_efficiency"), 0.75);
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

TEST(StepRecord, TellsOfAValidationOnlyWhereThereWasOneAndInNoRate) {
  StepRecord record;
  record.step = 30;
  record.my_tokens = record.all_tokens = 1000;
  record.whole = milliseconds(500);
  EXPECT_FALSE(ByName(ForAgent(record)).contains("validation_loss"));
  EXPECT_FALSE(ByName(ForTensorBoard(record)).contains("validation/loss"));
  record.validation = {.step = 30, .loss = 2, .sequences = 64, .took = seconds(3)};
  const std::map<std::string, double> told = ByName(ForAgent(record));
  EXPECT_DOUBLE_EQ(told.at("validation_loss"), 2);
  EXPECT_NEAR(told.at("validation_perplexity"), 7.389, 1e-3);
  EXPECT_DOUBLE_EQ(told.at("validation_seconds"), 3);
  EXPECT_DOUBLE_EQ(told.at("step_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("validation/loss"), 2);
  EXPECT_DOUBLE_EQ(ByName(ForTensorBoard(record)).at("speed/tokens_per_second"), 2000);
  EXPECT_EQ(Line(*record.validation),
            "validation after step 30: loss 2.0000, perplexity 7.39 (64 sequences, 3000 ms)");
  EXPECT_EQ(Json(*record.validation).find(R"({"step":30.0,"validation_loss":2.0,)"), 0U)
      << Json(*record.validation);
  // Told by itself it is no progress.
  EXPECT_FALSE(ByName(ForAgent(*record.validation)).contains("step"));
}

}  // namespace
}  // namespace lockstep::trainer
