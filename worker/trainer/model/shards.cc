#include "worker/trainer/model/shards.h"

#include <algorithm>
#include <cassert>

#include "worker/trainer/model/adamw.h"

namespace lockstep::trainer {
namespace {

// Calls copy(where in the model's array, where in the part, how many) for each contiguous run.
template <typename Copy>
void ForRuns(const Shape& shape, const Stage& stage, const Copy& copy) {
  const std::vector<Parameter> part = Parameters(shape, stage);
  const std::vector<Parameter> model = Parameters(shape, Stage{stage.index, stage.count});
  const size_t begin = BeginOf(shape, stage);
  const auto shards = static_cast<size_t>(stage.shards.count);
  const auto first = static_cast<size_t>(stage.shards.first());
  for (size_t i = 0; i < part.size(); ++i) {
    const size_t from = begin + model[i].offset;
    if (part[i].outer == 0) {
      copy(from, part[i].offset, part[i].size);
      continue;
    }
    const size_t rest = model[i].size / part[i].outer / shards;
    size_t to = part[i].offset;
    for (size_t slab = 0; slab < part[i].slabs; ++slab) {
      for (size_t row = 0; row < part[i].outer; ++row, to += rest) {
        copy(from + (row * shards + first + slab) * rest, to, rest);
      }
    }
  }
}

}  // namespace

void TakePart(const Shape& shape, const Stage& stage, std::span<const float> whole,
              std::span<float> part) {
  ForRuns(shape, stage, [&](size_t from, size_t to, size_t count) {
    std::copy_n(whole.subspan(from, count).begin(), count, part.subspan(to, count).begin());
  });
}

void PutPart(const Shape& shape, const Stage& stage, std::span<const float> part,
             std::span<float> whole) {
  ForRuns(shape, stage, [&](size_t to, size_t from, size_t count) {
    std::copy_n(part.subspan(from, count).begin(), count, whole.subspan(to, count).begin());
  });
}

std::vector<double> JoinPieces(const Shape& shape, const Stage& stage,
                               const std::vector<std::span<const double>>& ranks) {
  assert(ranks.size() == static_cast<size_t>(stage.shards.ranks));
  std::vector<double> joined;
  size_t at = 0;
  for (const Parameter& parameter : Parameters(shape, stage)) {
    const size_t count = PieceCount({&parameter, 1});
    for (size_t rank = 0; rank < (parameter.outer == 0 ? 1 : ranks.size()); ++rank) {
      const auto pieces = ranks[rank].subspan(at, count);
      joined.insert(joined.end(), pieces.begin(), pieces.end());
    }
    at += count;
  }
  return joined;
}

}  // namespace lockstep::trainer
