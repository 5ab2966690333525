#include "worker/trainer/model/stage.h"

#include <bit>

namespace lockstep::trainer {
namespace {

constexpr size_t kEmbeddings = 2;  // parameters before the first layer
constexpr size_t kOfLayer = 12;    // and of each

}  // namespace

Status CheckStages(const Shape& shape, int count) {
  if (count >= 1 && shape.layers % count == 0) return {};
  std::string counts;
  for (int n = 1; n <= shape.layers; ++n) {
    if (shape.layers % n != 0) continue;
    if (!counts.empty()) counts += ", ";
    counts += std::to_string(n);
  }
  return Error::Invalid(std::to_string(shape.layers) + " layers cannot be divided evenly among " +
                        std::to_string(count) + " stages; parallel.pipeline may be " + counts);
}

Status CheckShards(const Shape& shape, const Shards& shards) {
  std::string counts;
  for (int n = 1; shape.heads % n == 0; n *= 2) {
    if (!counts.empty()) counts += ", ";
    counts += std::to_string(n);
  }
  const auto count = static_cast<unsigned>(shards.count);
  if (shards.count < 1 || !std::has_single_bit(count) || shape.heads % shards.count != 0) {
    return Error::Invalid(std::to_string(shape.heads) + " heads cannot be divided into " +
                          std::to_string(shards.count) +
                          " shards that are summed as a tree; parallel.tensorShards may be " +
                          counts);
  }
  if (shards.ranks >= 1 && shards.count % shards.ranks == 0) return {};
  counts.clear();
  for (int n = 1; n <= shards.count; n *= 2) counts += (n > 1 ? ", " : "") + std::to_string(n);
  std::string message = std::to_string(shards.count) + (shards.count == 1 ? " shard" : " shards") +
                        " of a layer cannot be divided evenly among " +
                        std::to_string(shards.ranks) + " ranks; parallel.tensor may be " + counts;
  if (shards.count < shape.heads) message += ", or more with a larger parallel.tensorShards";
  return Error::Invalid(message);
}

int LayersOf(const Shape& shape, const Stage& stage) { return shape.layers / stage.count; }

std::vector<Parameter> Parameters(const Shape& shape, const Stage& stage) {
  std::vector<Parameter> all = Parameters(shape);
  const auto layers = static_cast<size_t>(LayersOf(shape, stage));
  const size_t from = static_cast<size_t>(stage.index) * layers;
  const size_t begin = stage.first() ? 0 : kEmbeddings + from * kOfLayer;
  const size_t end = stage.last() ? all.size() : kEmbeddings + (from + layers) * kOfLayer;
  std::vector<Parameter> owned(all.begin() + static_cast<std::ptrdiff_t>(begin),
                               all.begin() + static_cast<std::ptrdiff_t>(end));
  const auto shards = static_cast<size_t>(stage.shards.count);
  const auto mine = static_cast<size_t>(stage.shards.mine());
  size_t offset = 0;
  for (Parameter& parameter : owned) {
    if (parameter.outer > 0) {
      parameter.size = parameter.size / shards * mine;
      parameter.slabs = mine;
    }
    parameter.offset = offset;
    offset += parameter.size;
  }
  return owned;
}

size_t OwnedCount(const Shape& shape, const Stage& stage) {
  const std::vector<Parameter> owned = Parameters(shape, stage);
  return owned.back().offset + owned.back().size;
}

size_t BeginOf(const Shape& shape, const Stage& stage) {
  size_t begin = 0;
  for (int before = 0; before < stage.index; ++before) {
    begin += OwnedCount(shape, Stage{before, stage.count});
  }
  return begin;
}

size_t HeadCount(const Shape& shape) {
  return static_cast<size_t>(shape.vocabulary) * static_cast<size_t>(shape.width);
}

size_t HeldCount(const Shape& shape, const Stage& stage) {
  return OwnedCount(shape, stage) + (stage.has_head_copy() ? HeadCount(shape) : 0);
}

std::string ToString(const Shape& shape, const Stage& stage) {
  const int layers = LayersOf(shape, stage);
  const int from = stage.index * layers;
  std::string text =
      "stage " + std::to_string(stage.index) + " of " + std::to_string(stage.count) + " (";
  if (stage.first()) text += "the embeddings, ";
  text += layers == 1
              ? "layer " + std::to_string(from)
              : "layers " + std::to_string(from) + " to " + std::to_string(from + layers - 1);
  if (stage.last()) text += " and the head";
  text += ")";
  const Shards& shards = stage.shards;
  if (shards.count == 1) return text;
  text += shards.mine() == 1 ? ", shard " + std::to_string(shards.first())
                             : ", shards " + std::to_string(shards.first()) + " to " +
                                   std::to_string(shards.first() + shards.mine() - 1);
  return text + " of " + std::to_string(shards.count);
}

}  // namespace lockstep::trainer
