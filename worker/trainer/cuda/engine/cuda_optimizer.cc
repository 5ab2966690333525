#include "worker/trainer/cuda/engine/cuda_optimizer.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/cuda_buffers.h"
#include "worker/trainer/model/adamw.h"
#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/shards.h"

namespace lockstep::trainer {

using collectives::CudaDevice;
using collectives::DeviceMemory;

namespace {

static_assert(kTailSize * sizeof(float) == sizeof(double), "a row ends with a tail");

// For each piece of the model, in order, its place in the rows of a pipeline's ranks; ranks alone
// have the first row.
std::vector<uint32_t> OrderOf(const Shape& shape, const Mesh& mesh, size_t width) {
  std::vector<double> order;
  for (int i = 0; i < mesh.stages; ++i) {
    const Stage stage = mesh.StageOf(i, 0);
    std::vector<std::vector<double>> places;
    for (int part = 0; part < mesh.tensor; ++part) {
      const size_t row = mesh.ranks() == 1 ? 0 : static_cast<size_t>(mesh.RankOf(i, part));
      places.emplace_back(PieceCount(Parameters(shape, stage)));
      std::iota(places.back().begin(), places.back().end(), static_cast<double>(row * width));
    }
    const std::vector<double> joined = JoinPieces(
        shape, stage, std::vector<std::span<const double>>(places.begin(), places.end()));
    order.insert(order.end(), joined.begin(), joined.end());
  }
  return {order.begin(), order.end()};
}

}  // namespace

CudaOptimizer::Sizes::Sizes(const Shape& shape, const Mesh& mesh)
    : count(OwnedCount(shape, mesh.stage())),
      pieces(PieceCount(Parameters(shape, mesh.stage()))),
      of_model(OrderOf(shape, mesh, 0).size()),
      width(0),
      rows(mesh.ranks() == 1 ? 1 : static_cast<size_t>(mesh.world)) {
  for (int i = 0; i < mesh.stages; ++i) {
    width = std::max(width, PieceCount(Parameters(shape, mesh.StageOf(i, 0))) + 1);
  }
}

struct CudaOptimizer::Buffers {
  Buffers(const Sizes& sizes, DeviceArena& arena)
      : decays(arena.Take<uint8_t>(BlocksOf(sizes.count, gpu::kDecayGrain))),
        pieces(arena.Take<gpu::NormPiece>(sizes.pieces)),
        order(arena.Take<uint32_t>(sizes.of_model)),
        rows(arena.Take<double>(sizes.rows * sizes.width)),
        scale(arena.Take<gpu::StepScale>(1)) {}

  uint8_t* decays;         // [count / kDecayGrain], 1 where they decay
  gpu::NormPiece* pieces;  // [pieces]
  uint32_t* order;         // [of_model]: where a piece lies in `rows`
  double* rows;            // [rows][width]
  gpu::StepScale* scale;   // [1]
};

size_t CudaOptimizer::PredictBytes(const Shape& shape, const Mesh& mesh) {
  DeviceArena counter;
  const Buffers buffers(Sizes(shape, mesh), counter);
  return counter.used();
}

CudaOptimizer::CudaOptimizer(std::shared_ptr<const CudaDevice> device, const Shape& shape,
                             const Mesh& mesh, CudaGpt& model, DeviceMemory memory,
                             PinnedMemory outcome)
    : device_(std::move(device)),
      mesh_(mesh),
      sizes_(shape, mesh),
      model_(model),
      memory_(std::move(memory)),
      outcome_(std::move(outcome)) {}

Result<std::unique_ptr<CudaOptimizer>> CudaOptimizer::Create(
    const std::shared_ptr<const CudaDevice>& device, const Shape& shape, const Mesh& mesh,
    CudaGpt& model) {
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, PredictBytes(shape, mesh));
  if (!memory.ok()) return memory.error();
  const auto ranks = static_cast<size_t>(mesh.ranks());
  Result<PinnedMemory> outcome =
      PinnedMemory::Allocate(device, sizeof(gpu::StepScale) + ranks * kTailSize * sizeof(float));
  if (!outcome.ok()) return outcome.error();
  std::unique_ptr<CudaOptimizer> optimizer(
      new CudaOptimizer(device, shape, mesh, model, std::move(*memory), std::move(*outcome)));
  if (Status filled = optimizer->FillTables(shape); !filled.ok()) return filled.error();
  return optimizer;
}

CudaOptimizer::Buffers CudaOptimizer::buffers() const {
  DeviceArena arena(memory_.data());
  return Buffers(sizes_, arena);
}

double* CudaOptimizer::RowOf(int rank) const {
  return buffers().rows + (sizes_.rows == 1 ? 0 : static_cast<size_t>(rank)) * sizes_.width;
}

float* CudaOptimizer::TailOf(int rank) const {
  return reinterpret_cast<float*>(RowOf(rank) + sizes_.width - 1);
}

collectives::ConstSpan CudaOptimizer::row() const {
  return {RowOf(mesh_.rank), sizes_.width * sizeof(double), collectives::DataType::kByte};
}

collectives::Span CudaOptimizer::rows() const {
  return {RowOf(0), sizes_.rows * sizes_.width * sizeof(double), collectives::DataType::kByte};
}

Status CudaOptimizer::FillTables(const Shape& shape) {
  const std::vector<Parameter> layout = Parameters(shape, mesh_.stage());
  std::vector<uint8_t> decays(BlocksOf(sizes_.count, gpu::kDecayGrain));
  for (const Parameter& parameter : layout) {
    assert(parameter.offset % gpu::kDecayGrain == 0 && parameter.size % gpu::kDecayGrain == 0);
    const auto first = decays.begin() + static_cast<ptrdiff_t>(parameter.offset / gpu::kDecayGrain);
    std::fill_n(first, parameter.size / gpu::kDecayGrain, parameter.decays ? 1 : 0);
  }
  std::vector<gpu::NormPiece> pieces;
  for (const Piece& piece : PiecesOf(layout)) pieces.push_back({piece.first, piece.size});
  assert(pieces.size() == sizes_.pieces);
  const std::vector<uint32_t> order = OrderOf(shape, mesh_, sizes_.width);
  const Buffers b = buffers();
  const auto fill = [&](const auto& from, const void* to) {
    const auto offset =
        static_cast<size_t>(static_cast<const char*>(to) - static_cast<char*>(memory_.data()));
    return memory_.CopyFrom(from.data(), from.size() * sizeof(from[0]), offset);
  };
  Status filled = fill(decays, b.decays);
  if (filled.ok()) filled = fill(pieces, b.pieces);
  return filled.ok() ? fill(order, b.order) : filled;
}

Status CudaOptimizer::Measure(const float* gradients) {
  const Buffers b = buffers();
  Status launched =
      model_.kernels().Launch(gpu::SquaredNorm{.x = gradients,
                                               .pieces = b.pieces,
                                               .partial = RowOf(mesh_.rank),
                                               .parts = static_cast<unsigned>(sizes_.pieces)});
  if (!launched.ok()) return launched;
  return model_.kernels().Launch(
      gpu::Copy{.from = gradients + sizes_.count, .to = TailOf(mesh_.rank), .count = kTailSize});
}

template <typename A>
Status CudaOptimizer::UpdateAs(const CudaReplica& replica, const float* gradients,
                               const StepOptions& options) {
  const Buffers b = buffers();
  Kernels& kernels = model_.kernels();
  const int has_loss = mesh_.RankOf(mesh_.stages - 1, 0);
  if (Status launched =
          kernels.Launch(gpu::ClipScale{.partial = b.rows,
                                        .order = b.order,
                                        .loss = TailOf(has_loss) + kTailLoss,
                                        .scale = b.scale,
                                        .parts = static_cast<unsigned>(sizes_.of_model),
                                        .mean = 1.0 / options.micro_batches,
                                        .clip = options.clip});
      !launched.ok())
    return launched;
  const CudaOperands operands = model_.operands();
  const AdamWFactors<float> factors =
      FactorsOf(options.t, options.learning_rate, 1, true, options.adamw);
  if (Status launched = kernels.Launch(gpu::AdamW<A>{.parameters = replica.parameters,
                                                     .gradients = gradients,
                                                     .moment1 = replica.moment1,
                                                     .moment2 = replica.moment2,
                                                     .operands = static_cast<A*>(operands.data),
                                                     .decays = b.decays,
                                                     .scale = b.scale,
                                                     .first = 0,
                                                     .count = sizes_.count,
                                                     .layout = operands.layout,
                                                     .keep = factors.keep,
                                                     .beta1 = factors.beta1,
                                                     .beta2 = factors.beta2,
                                                     .rate = factors.rate,
                                                     .root = factors.root,
                                                     .epsilon = factors.epsilon});
      !launched.ok())
    return launched;
  auto* scale = outcome_.As<gpu::StepScale>();
  auto* tails = reinterpret_cast<float*>(scale + 1);
  if (Status copied = CopyToHost(scale, b.scale, sizeof(*scale)); !copied.ok()) return copied;
  for (int i = 0; i < mesh_.ranks(); ++i) {
    const int rank = mesh_.pipeline() * mesh_.ranks() + i;
    Status copied = CopyToHost(tails + i * kTailSize, TailOf(rank), kTailSize * sizeof(float));
    if (!copied.ok()) return copied;
  }
  return {};
}

Status CudaOptimizer::CopyToHost(void* to, const void* from, size_t bytes) {
  return device_->driver().Check(
      "cuMemcpyDtoHAsync of a step's outcome",
      device_->api().copy_to_host(to, reinterpret_cast<uintptr_t>(from), bytes,
                                  model_.kernels().stream().get()));
}

Status CudaOptimizer::Update(const CudaReplica& replica, const float* gradients,
                             const StepOptions& options) {
  return model_.operands().precision == core::Precision::kBf16
             ? UpdateAs<Bf16>(replica, gradients, options)
             : UpdateAs<float>(replica, gradients, options);
}

Result<CudaStepOutcome> CudaOptimizer::Finish() {
  if (Status waited = model_.kernels().Synchronize(); !waited.ok()) return waited.error();
  const auto* scale = outcome_.As<gpu::StepScale>();
  const auto* tails = reinterpret_cast<const float*>(scale + 1);
  CudaStepOutcome result{.gradient_norm = scale->norm, .skipped = scale->finite == 0};
  const int has_loss = mesh_.ranks() - mesh_.tensor;  // the last stage's first
  result.tail[kTailLoss] = tails[has_loss * kTailSize + kTailLoss];
  for (int i = 0; i < mesh_.ranks(); ++i)
    result.tail[kTailStop] += tails[i * kTailSize + kTailStop];
  return result;
}

}  // namespace lockstep::trainer
