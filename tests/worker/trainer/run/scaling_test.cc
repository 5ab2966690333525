#include "worker/trainer/run/scaling.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"

namespace lockstep::trainer::scaling_test {
namespace {

using collectives::Communicator;

constexpr Shape kShape = {.layers = 1, .heads = 2, .width = 32, .vocabulary = 128, .context = 8};

StepRecord Took(Duration whole, Duration checkpoint = {}) {
  StepRecord record;
  record.my_tokens = 500;
  record.all_tokens = 4000;
  record.whole = whole;
  record.checkpoint = checkpoint;
  return record;
}

TEST(ScalingMeter, IsOfOneRanksTokensFromTheSecondStepOnWithoutCheckpoints) {
  ScalingMeter meter(1000);
  meter.OnStep(Took(seconds(9)));
  EXPECT_FALSE(meter.scaling());
  meter.OnStep(Took(milliseconds(1000), milliseconds(500)));
  ASSERT_TRUE(meter.scaling());
  EXPECT_DOUBLE_EQ(meter.scaling()->together, 1000);
  meter.OnStep(Took(milliseconds(750)));
  EXPECT_DOUBLE_EQ(meter.scaling()->together, 800);
  EXPECT_DOUBLE_EQ(meter.scaling()->alone, 1000);
  EXPECT_DOUBLE_EQ(meter.scaling()->efficiency(), 0.8);
  EXPECT_EQ(Line(*meter.scaling()), "scaling efficiency 0.80: 800 tokens/s a rank, 1000 alone");
}

TEST(CheckScaling, RefusesARankThatHasAPartOfTheModel) {
  const Mesh whole{.world = 2};
  const Mesh stages{.world = 2, .stages = 2};
  const Mesh shards{.world = 2, .tensor = 2, .shards = 2};
  core::Trainer job;
  EXPECT_TRUE(CheckScaling(job, stages).ok());
  job.measure_scaling = true;
  EXPECT_TRUE(CheckScaling(job, whole).ok());
  for (const Mesh& mesh : {stages, shards}) {
    const Status refused = CheckScaling(job, mesh);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("parallel.pipeline"), std::string::npos);
  }
}

// What was asked of the engine of rank 0, and how long it took over it.
struct Seen {
  int engines = 0;
  std::vector<int64_t> steps;
  std::vector<Duration> took;
  Time first_ended{};
};

class StandIn : public Engine {
 public:
  StandIn(Seen& seen, const BatchPlan& batch) : seen_(&seen), batch_(batch) {}

  Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) override {
    const Time began = BootTime();
    std::vector<int32_t> tokens(static_cast<size_t>(batch_.micro_batch) * 8);
    for (int i = 0; i < batch_.mine; ++i) {
      if (Status filled = read(i, tokens, tokens); !filled.ok()) return filled.error();
    }
    while (BootTime() < began + milliseconds(1)) {
    }
    seen_->steps.push_back(options.t);
    seen_->took.push_back(BootTime() - began);
    if (seen_->first_ended == Time{}) seen_->first_ended = BootTime();
    return StepResult();
  }
  Result<float> Loss(int, const ReadBatch&) override { return 0.0F; }
  Status UpdateReplica() override { return {}; }
  Status Quiesce() override { return {}; }
  Status KeepReplica() override { return {}; }
  Result<uint64_t> HashOfReplica() override { return uint64_t{0}; }

 private:
  Seen* seen_;
  BatchPlan batch_;
};

struct Outcome {
  std::vector<double> rates;  // by rank
  Seen seen;
  std::vector<int> read;  // micro-batches
  Time ended{};           // of rank 0
};

Outcome Measure(int world, bool stopped) {
  Outcome outcome;
  outcome.rates.resize(static_cast<size_t>(world));
  const core::Trainer job;
  collectives::RunRanks(world, [&](Communicator& all) {
    const LoneRank lone = {
        .job = job,
        .shape = kShape,
        .batch = *PlanBatches(int64_t{12} * world, 4, all.rank(), world),
        .make_engine = [&](const EngineOptions& options, Replica& replica,
                           Communicator& alone) -> Result<std::unique_ptr<Engine>> {
          EXPECT_EQ(all.rank(), 0);
          EXPECT_EQ(alone.world(), 1);
          EXPECT_EQ(options.batch.mine, 3);
          EXPECT_EQ(options.batch.count, 3);
          EXPECT_EQ(replica.parameters.size(), ParameterCount(kShape));
          ++outcome.seen.engines;
          return std::unique_ptr<Engine>(std::make_unique<StandIn>(outcome.seen, options.batch));
        },
        .read =
            [&](int i, std::span<int32_t>, std::span<int32_t>) {
              outcome.read.push_back(i);
              return Status();
            },
        .stopped = [stopped] { return stopped; }};
    const Result<double> rate = MeasureAlone(lone, all);
    EXPECT_TRUE(rate.ok());
    if (all.rank() == 0) outcome.ended = BootTime();
    outcome.rates[static_cast<size_t>(all.rank())] = rate.ok() ? *rate : -1;
  });
  return outcome;
}

TEST(MeasureAlone, IsOfRankZerosOwnMicroBatchesAndOfTheStepsAfterTheFirst) {
  const Outcome outcome = Measure(3, false);
  EXPECT_EQ(outcome.seen.engines, 1);
  EXPECT_EQ(outcome.seen.steps, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(outcome.read, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(outcome.rates[1], 0);
  EXPECT_EQ(outcome.rates[2], 0);
  // The clock read outside of the steps, and within.
  constexpr double kTokens = 4 * 12 * 8;
  Duration within{};
  for (size_t i = 1; i < outcome.seen.took.size(); ++i) within += outcome.seen.took[i];
  EXPECT_LE(outcome.rates[0], kTokens / Seconds(within));
  EXPECT_GE(outcome.rates[0], kTokens / Seconds(outcome.ended - outcome.seen.first_ended));
}

TEST(MeasureAlone, EndsAtAStop) {
  const Outcome outcome = Measure(2, true);
  EXPECT_EQ(outcome.seen.steps, std::vector<int64_t>{1});
  EXPECT_EQ(outcome.rates, (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace lockstep::trainer::scaling_test
