// The GPU's model against the CPU's, on the fakes: its kernels run in the emulator.
#include "worker/trainer/cuda/cuda_gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/cuda/fake_gpu.h"
#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/cuda/engine/cuda_optimizer.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/gpt.h"
#include "worker/trainer/model/shards.h"

namespace lockstep::trainer::cuda_gpt_test {
namespace {

using collectives::DeviceMemory;
using collectives::Rank;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Shape kShape = {.layers = 2, .heads = 2, .width = 128, .vocabulary = 500, .context = 80};
constexpr int kBatch = 2;
constexpr size_t kRows = 160;

// The same numbers for both models.
struct Problem {
  Problem() : parameters(ParameterCount(kShape)) {
    InitialiseParameters(kShape, 1, parameters);
    // Biases and LayerNorms, too, and large enough to matter.
    const std::vector<float> noise = random.Numbers<float>(parameters.size(), 0.05);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] = 2 * parameters[i] + noise[i];
  }
  Random random{3};
  std::vector<float> parameters;
  std::vector<int32_t> inputs = random.Tokens(kRows, kShape.vocabulary);
  std::vector<int32_t> targets = random.Tokens(kRows, kShape.vocabulary);
};

struct Outcome {
  float loss = 0;
  std::vector<float> gradients;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// In fp64, of the numbers in fp32.
Outcome Reference(const Problem& problem) {
  const std::vector<double> parameters(problem.parameters.begin(), problem.parameters.end());
  std::vector<double> gradients(parameters.size());
  Threads pool(1);
  Gpt<double> model(kShape, kBatch, Precision::kFp32, pool);
  Outcome outcome;
  outcome.loss = static_cast<float>(model.Forward(parameters, problem.inputs, problem.targets));
  model.Backward(parameters, gradients, [](size_t) {});
  outcome.gradients.assign(gradients.begin(), gradients.end());
  return outcome;
}

// The problem's parameters in the order in which a stage holds its shards.
std::vector<float> PartOf(const Problem& problem, const Stage& stage) {
  std::vector<float> part(HeldCount(kShape, stage));
  TakePart(kShape, stage, problem.parameters, part);
  return part;
}

// A model, its parameters, and gradients with a tail behind them.
class Machine {
 public:
  Machine(Rank& rank, const Problem& problem, Precision precision, const Stage& stage = {})
      : rank_(rank),
        stage_(stage),
        parameters_(rank.ToDevice(PartOf(problem, stage))),
        gradients_(NoNumbers()) {
    UseFakeBlas();
    Result<std::shared_ptr<const BlasLibrary>> library = BlasLibrary::Load();
    if (!library.ok()) Rank::Must(library.error());
    Result<Kernels> kernels = Kernels::Load(rank.device());
    if (!kernels.ok()) Rank::Must(kernels.error());
    Result<std::unique_ptr<CudaGpt>> made =
        CudaGpt::Create(rank.device(), *library, std::move(*kernels),
                        {.shape = kShape,
                         .batch = kBatch,
                         .precision = precision,
                         .parameters = static_cast<const float*>(parameters_.data()),
                         .stage = stage});
    if (!made.ok()) Rank::Must(made.error());
    model_ = std::move(*made);
    Rank::Must(model_->UpdateOperands());
  }

  CudaGpt& model() { return *model_; }
  DeviceMemory& parameters() { return parameters_; }
  float* gradients() { return static_cast<float*>(gradients_.data()); }
  float* loss() { return gradients() + ParameterCount(kShape) + kTailLoss; }
  std::vector<float> GetGradients() { return rank_.ToHost<float>(gradients_); }

  void Enqueue(const Problem& problem) {
    Rank::Must(model_->SetBatch(problem.inputs, problem.targets, 0));
    Rank::Must(model_->Forward(loss(), 0));
    Rank::Must(model_->Backward(gradients(), [](size_t) {}, 0, 0));
  }
  Outcome Run(const Problem& problem) {
    Enqueue(problem);
    return Finish();
  }
  // What was enqueued last.
  Outcome Finish() {
    Rank::Must(model_->kernels().Synchronize());
    Outcome outcome;
    outcome.gradients = GetGradients();
    outcome.loss = outcome.gradients[ParameterCount(kShape) + kTailLoss];
    outcome.gradients.resize(ParameterCount(kShape));
    const std::vector<float> part = outcome.gradients;
    PutPart(kShape, stage_, part, outcome.gradients);
    return outcome;
  }

 private:
  DeviceMemory NoNumbers() {
    return rank_.ToDevice(std::vector<float>(ParameterCount(kShape) + kTailSize,
                                             std::numeric_limits<float>::quiet_NaN()));
  }

  Rank& rank_;
  Stage stage_;
  DeviceMemory parameters_;
  DeviceMemory gradients_;
  std::unique_ptr<CudaGpt> model_;
};

// Of each tensor: the norm of the difference, relative to the right one's.
void ExpectClose(const std::vector<float>& got, const std::vector<float>& right, double tolerance) {
  for (const Parameter& p : Parameters(kShape)) {
    double error = 0;
    double size = 0;
    for (size_t i = p.offset; i < p.offset + p.size; ++i) {
      error += std::pow(static_cast<double>(got[i]) - static_cast<double>(right[i]), 2);
      size += std::pow(static_cast<double>(right[i]), 2);
    }
    EXPECT_LT(std::sqrt(error / size), tolerance) << p.name;
  }
}

TEST(CudaGpt, InFp32IsTheCpusModel) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    const Outcome right = Reference(problem);
    const Outcome got = Machine(rank, problem, Precision::kFp32).Run(problem);
    EXPECT_NEAR(got.loss, right.loss, 1e-5);
    ExpectClose(got.gradients, right.gradients, 1e-5);
  });
}

TEST(CudaGpt, InBf16IsCloseToTheCpusModel) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    const Outcome right = Reference(problem);
    const Outcome got = Machine(rank, problem, Precision::kBf16).Run(problem);
    EXPECT_NEAR(got.loss, right.loss, 2e-2);
    ExpectClose(got.gradients, right.gradients, 2e-2);
  });
}

TEST(CudaGpt, OfShardsIsTheWholeModelButForRounding) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    const Outcome right = Reference(problem);
    const Stage shards{0, 1, {0, 1, 2}};
    const Outcome fp32 = Machine(rank, problem, Precision::kFp32, shards).Run(problem);
    EXPECT_NEAR(fp32.loss, right.loss, 1e-5);
    ExpectClose(fp32.gradients, right.gradients, 1e-5);
    const Outcome bf16 = Machine(rank, problem, Precision::kBf16, shards).Run(problem);
    EXPECT_NEAR(bf16.loss, right.loss, 2e-2);
    ExpectClose(bf16.gradients, right.gradients, 2e-2);
  });
}

TEST(CudaGpt, HasTheSameBitsWhateverRanBeforeAndInWhateverOrderThreadsRun) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    Problem other;
    std::swap(other.inputs, other.targets);
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      Machine machine(rank, problem, precision);
      const Outcome once = machine.Run(problem);
      EXPECT_FALSE(machine.Run(other) == once);
      Rank::Set("FAKE_SCHEDULE", "3");
      EXPECT_TRUE(machine.Run(problem) == once);
    }
  });
}

// The host runs ahead by more batches than it keeps. One that is still to be read stays as it is.
TEST(CudaGpt, TakesBatchesWhileEarlierOnesRun) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    Problem other;
    std::swap(other.inputs, other.targets);
    Machine machine(rank, problem, Precision::kFp32);
    const Outcome once = machine.Run(problem);
    machine.Enqueue(other);
    machine.Enqueue(problem);
    for (int i = 0; i < 2; ++i)
      Rank::Must(machine.model().SetBatch(other.inputs, other.targets, 0));
    EXPECT_TRUE(machine.Finish() == once);
  });
}

TEST(CudaGpt, ABatchWaitsForItsPlaceAloneAndNotForAllThatRuns) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    Machine machine(rank, problem, Precision::kFp32);
    const collectives::CudaStream& stream = machine.model().kernels().stream();
    const DeviceMemory memory = rank.Allocate(1);
    const auto busy = [&](const char* milliseconds) {
      Rank::Set("FAKE_SLOW_SET_MS", milliseconds);
      EXPECT_EQ(rank.device()->api().memory_set(reinterpret_cast<uintptr_t>(memory.data()), 0, 1,
                                                stream.get()),
                collectives::cuda::kSuccess);
    };
    const auto set = [&] {
      Rank::Must(machine.model().SetBatch(problem.inputs, problem.targets, 0));
    };
    // The first place is free once the GPU has read it, and then much is to be done yet.
    busy("200");
    set();
    set();
    busy("3000");
    Result<collectives::CudaEvent> all = collectives::CudaEvent::Create(rank.device());
    ASSERT_TRUE(all.ok());
    Rank::Must(all->Record(stream));
    set();
    const Result<bool> done = all->Done();
    EXPECT_TRUE(done.ok() && !*done);
    Rank::Must(machine.model().kernels().Synchronize());
  });
}

TEST(CudaGpt, CompletesTheGradientFromItsEndToItsBeginningAndAllocatesNothing) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    Machine machine(rank, problem, Precision::kFp32);
    const std::vector<float> final = machine.Run(problem).gradients;
    // All that is asked for from here on is refused: a step allocates nothing.
    Rank::Set("FAKE_MEMORY", "1");
    Rank::Must(machine.model().SetBatch(problem.inputs, problem.targets, 0));
    Rank::Must(machine.model().Forward(machine.loss(), 0));
    size_t last = final.size();
    int calls = 0;
    Rank::Must(machine.model().Backward(
        machine.gradients(),
        [&](size_t from) {
          EXPECT_LT(from, last);
          Rank::Must(machine.model().kernels().Synchronize());
          const std::vector<float> now = machine.GetGradients();
          EXPECT_TRUE(std::equal(now.begin() + static_cast<ptrdiff_t>(from),
                                 now.begin() + static_cast<ptrdiff_t>(final.size()),
                                 final.begin() + static_cast<ptrdiff_t>(from)));
          last = from;
          ++calls;
        },
        0, 0));
    EXPECT_EQ(last, 0U);
    EXPECT_EQ(calls, 2 + 2 * kShape.layers);
  });
}

TEST(CudaGpt, GivesTheLogitsOfTheTokensAskedFor) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    const std::vector<double> parameters(problem.parameters.begin(), problem.parameters.end());
    const auto width = static_cast<size_t>(kShape.vocabulary);
    std::vector<double> right(kRows * width);
    Threads pool(1);
    Gpt<double>(kShape, kBatch, Precision::kFp32, pool).Logits(parameters, problem.inputs, right);
    const std::array<size_t, 3> rows = {0, 79, 130};
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      Machine machine(rank, problem, precision);
      std::vector<float> logits(rows.size() * width);
      Rank::Must(machine.model().Logits(problem.inputs, rows, logits));
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], right[rows.at(i / width) * width + i % width],
                    precision == Precision::kFp32 ? 1e-4 : 1e-1);
      }
    }
  });
}

TEST(CudaGpt, HoldsTheBytesThatWerePredicted) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      EXPECT_EQ(Machine(rank, problem, precision).model().bytes(),
                CudaGpt::PredictBytes({.shape = kShape, .batch = kBatch, .precision = precision}));
    }
    // GPT-2 124M with 64 sequences of 1024.
    const Shape gpt2 = {
        .layers = 12, .heads = 12, .width = 768, .vocabulary = 50257, .context = 1024};
    EXPECT_NEAR(static_cast<double>(CudaGpt::PredictBytes({.shape = gpt2, .batch = 64})), 32e9,
                3e9);
  });
}

TEST(CudaGpt, RefusesATokenThatTheModelDoesNotHave) {
  collectives::RunRanks(1, [](Rank& rank) {
    Problem problem;
    Machine machine(rank, problem, Precision::kFp32);
    problem.targets[7] = kShape.vocabulary;
    const Status set = machine.model().SetBatch(problem.inputs, problem.targets, 0);
    ASSERT_FALSE(set.ok());
    EXPECT_THAT(set.error().message,
                HasSubstr("token 500, and the model's vocabulary ends at 499"));
  });
}

TEST(CudaGpt, RefusesShapesThatTheKernelsAreNotMadeFor) {
  const auto reason = [](const Shape& shape, int batch) {
    const Status checked = CudaGpt::Check(shape, batch);
    EXPECT_FALSE(checked.ok());
    if (checked.ok()) return std::string();
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalid);
    return checked.error().message;
  };
  EXPECT_THAT(reason({4, 4, 192, 256, 64}, 1), AllOf(HasSubstr("4 layers of 4 heads, width 192"),
                                                     HasSubstr("heads must be 64 wide")));
  EXPECT_THAT(reason({1, 65, 4160, 256, 64}, 1), HasSubstr("choose a width up to "));
  EXPECT_THAT(reason({1, 1, 64, 256, 64}, 0), HasSubstr("at least 1"));
  EXPECT_THAT(reason({1, 12, 768, 256, 64}, 6000), HasSubstr("choose a smaller batch"));
  EXPECT_TRUE(CudaGpt::Check(kShape, kBatch).ok());
}

class CudaOptimizerTest : public ::testing::Test {
 protected:
  // Parameters, moments, and gradients with a tail, at step 3.
  struct State {
    explicit State(const Problem& problem)
        : parameters(problem.parameters),
          gradients(Random(5).Numbers<float>(parameters.size() + kTailSize, 0.1)),
          moment1(Random(6).Numbers<float>(parameters.size(), 0.01)),
          moment2(Random(7).Numbers<float>(parameters.size(), 0.01)) {
      for (float& value : moment2) value = std::abs(value);
      gradients[parameters.size() + kTailLoss] = 12.5F;
      gradients[parameters.size() + kTailStop] = 2;
    }
    std::vector<float> parameters, gradients, moment1, moment2;
  };
  static StepOptions Options(double clip) {
    StepOptions options;
    options.micro_batches = 4;
    options.t = 3;
    options.learning_rate = 1e-3;
    options.clip = clip;
    return options;
  }
  static double Difference(const std::vector<float>& got, const std::vector<float>& right) {
    double difference = 0;
    double largest = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(got[i] - right[i])));
      largest = std::max(largest, std::abs(static_cast<double>(right[i])));
    }
    return difference / largest;
  }

  // One step on a GPU, which changes `state`.
  static CudaStepOutcome Step(Rank& rank, const Problem& problem, Precision precision,
                              const StepOptions& options, State* state,
                              std::optional<Outcome>* after = nullptr) {
    Machine machine(rank, problem, precision);
    Result<std::unique_ptr<CudaOptimizer>> optimizer =
        CudaOptimizer::Create(rank.device(), kShape, Mesh{}, machine.model());
    if (!optimizer.ok()) Rank::Must(optimizer.error());
    DeviceMemory gradients = rank.ToDevice(state->gradients);
    DeviceMemory moment1 = rank.ToDevice(state->moment1);
    DeviceMemory moment2 = rank.ToDevice(state->moment2);
    const auto* sums = static_cast<const float*>(gradients.data());
    Rank::Must((*optimizer)->Measure(sums));
    Rank::Must(
        (*optimizer)
            ->Update({static_cast<float*>(machine.parameters().data()),
                      static_cast<float*>(moment1.data()), static_cast<float*>(moment2.data())},
                     sums, options));
    Result<CudaStepOutcome> outcome = (*optimizer)->Finish();
    if (!outcome.ok()) Rank::Must(outcome.error());
    state->parameters = rank.ToHost<float>(machine.parameters());
    state->moment1 = rank.ToHost<float>(moment1);
    state->moment2 = rank.ToHost<float>(moment2);
    if (after != nullptr) *after = machine.Run(problem);
    return *outcome;
  }
};

TEST_F(CudaOptimizerTest, IsAdamW) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    for (const double clip : {0.0, 1.0}) {
      const StepOptions options = Options(clip);
      State got(problem);
      State right(problem);
      const CudaStepOutcome outcome = Step(rank, problem, Precision::kFp32, options, &got);
      Threads pool(1);
      const std::span<const float> gradients =
          std::span(right.gradients).first(right.parameters.size());
      const Scale scale = ScaleOf(SumOfSquares(gradients, 1, pool), 12.5, options);
      AdamWStep(Parameters(kShape), 0, right.parameters, gradients, right.moment1, right.moment2,
                options.t, options.learning_rate, scale.value, options.adamw, pool);
      EXPECT_LT(Difference(got.parameters, right.parameters), 1e-6) << clip;
      EXPECT_LT(Difference(got.moment1, right.moment1), 1e-6) << clip;
      EXPECT_LT(Difference(got.moment2, right.moment2), 1e-6) << clip;
      EXPECT_NEAR(outcome.gradient_norm, scale.norm, 1e-9 * scale.norm);
      EXPECT_FALSE(outcome.skipped);
      EXPECT_EQ(outcome.tail[kTailLoss], 12.5F);
      EXPECT_EQ(outcome.tail[kTailStop], 2);
    }
  });
}

TEST_F(CudaOptimizerTest, LeavesAllAsItIsAfterAStepWithoutNumbers) {
  collectives::RunRanks(1, [](Rank& rank) {
    const Problem problem;
    for (const size_t at : {size_t{7}, problem.parameters.size() + kTailLoss}) {
      State state(problem);
      state.gradients[at] = std::numeric_limits<float>::infinity();
      EXPECT_TRUE(Step(rank, problem, Precision::kFp32, Options(1), &state).skipped);
      const State before(problem);
      EXPECT_EQ(state.parameters, before.parameters);
      EXPECT_EQ(state.moment1, before.moment1);
      EXPECT_EQ(state.moment2, before.moment2);
    }
  });
}

TEST_F(CudaOptimizerTest, LeavesTheModelWithTheNewOperands) {
  collectives::RunRanks(1, [](Rank& rank) {
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      Problem problem;
      State state(problem);
      std::optional<Outcome> after;
      Step(rank, problem, precision, Options(1), &state, &after);
      problem.parameters = state.parameters;
      EXPECT_TRUE(Machine(rank, problem, precision).Run(problem) == *after);
    }
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda_gpt_test
