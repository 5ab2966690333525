#include "worker/trainer/cuda/check/cuda_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/cuda/check/mlp.h"
#include "worker/trainer/cuda/check/mlp_reference.h"

namespace lockstep::trainer {
namespace {

using collectives::Backend;
using collectives::Communicator;
using collectives::Rank;
using ::testing::HasSubstr;

std::unique_ptr<Communicator> Connect(Rank& rank, uint16_t port) {
  collectives::Options options = rank.MakeOptions();
  options.master_address = "127.0.0.1";
  options.master_port = port;
  options.backend = Backend::kNccl;
  Result<std::unique_ptr<Communicator>> made = collectives::Connect(options);
  if (!made.ok()) Rank::Must(made.error());
  return std::move(*made);
}

class CudaCheckWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, CudaCheckWorlds, ::testing::Values(1, 2, 4));

TEST_P(CudaCheckWorlds, TheModelLearnsAsTheReferenceDoes) {
  const uint16_t port = collectives::FreePort();
  collectives::RunRanks(GetParam(), [port](Rank& rank) {
    const std::unique_ptr<Communicator> all = Connect(rank, port);
    const Result<CudaCheckReport> report = RunCudaCheck(*all, {.local_rank = rank.rank()});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->world, rank.world());
    EXPECT_LT(report->last_loss, 0.5 * report->first_loss);
    EXPECT_THAT(ToJson(*report), HasSubstr(R"("backend": "NCCL 2.28.9 on GPU )"));
    Rank::Must(all->Finish());
  });
}

TEST(CudaCheck, WantsNccl) {
  collectives::Options options;
  options.backend = Backend::kGloo;
  Result<std::unique_ptr<Communicator>> all = collectives::Connect(options);
  ASSERT_TRUE(all.ok()) << all.error().message;
  const Result<CudaCheckReport> report = RunCudaCheck(**all, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().kind, ErrorKind::kInvalid);
}

TEST(CudaCheck, WantsRowsThatTheWorldDivides) {
  const uint16_t port = collectives::FreePort();
  collectives::RunRanks(2, [port](Rank& rank) {
    const std::unique_ptr<Communicator> all = Connect(rank, port);
    const Result<CudaCheckReport> report =
        RunCudaCheck(*all, {.local_rank = rank.rank(), .global_rows = 63});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().kind, ErrorKind::kInvalid);
    Rank::Must(all->Finish());
  });
}

TEST(MlpReference, GradientsAreTheSlopesOfTheLoss) {
  const MlpShape shape{.in = 3, .hidden = 5, .out = 2};
  const std::vector<float> first = MakeMlpParameters(shape, 3);
  std::vector<double> parameters(first.begin(), first.end());
  const MlpBatch batch = MakeMlpBatch(shape, 10, 4);
  std::vector<double> gradient;
  std::vector<double> unused;
  MlpLossAndGradient(shape, parameters, batch, &gradient);
  const double step = 1e-5;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double here = parameters[i];
    parameters[i] = here + step;
    const double above = MlpLossAndGradient(shape, parameters, batch, &unused);
    parameters[i] = here - step;
    const double below = MlpLossAndGradient(shape, parameters, batch, &unused);
    parameters[i] = here;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-8) << "parameter " << i;
  }
}

TEST(MlpShape, PartsOfABatchAreTheBatch) {
  const MlpShape shape;
  const MlpBatch whole = MakeMlpBatch(shape, 7, 4);
  const MlpBatch part = MakeMlpBatch(shape, 9, 2);
  EXPECT_EQ(std::vector<float>(whole.x.begin() + 2 * shape.in, whole.x.end()), part.x);
  EXPECT_EQ(std::vector<float>(whole.target.begin() + 2 * shape.out, whole.target.end()),
            part.target);
}

}  // namespace
}  // namespace lockstep::trainer
