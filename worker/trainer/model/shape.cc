#include "worker/trainer/model/shape.h"

#include "core/model/presets.h"

namespace lockstep::trainer {
namespace {

// Appends parameters one behind the other.
class Layout {
 public:
  void Add(const std::string& name, std::vector<int64_t> shape, bool decays, int64_t outer = 0) {
    size_t size = 1;
    for (const int64_t n : shape) size *= static_cast<size_t>(n);
    list_.push_back({name, std::move(shape), offset_, size, decays, static_cast<size_t>(outer)});
    offset_ += size;
  }
  void AddLayerNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width}, false);
    Add(name + ".bias", {width}, false);
  }
  // Shards divide the outputs: each of `groups` equal parts of them.
  void AddColumns(const std::string& name, int64_t in, int64_t out, int64_t groups) {
    Add(name + ".weight", {in, out}, true, in * groups);
    Add(name + ".bias", {out}, false, groups);
  }
  // Shards divide the inputs.
  void AddRows(const std::string& name, int64_t in, int64_t out) {
    Add(name + ".weight", {in, out}, true, 1);
    Add(name + ".bias", {out}, false);
  }
  std::vector<Parameter> Take() { return std::move(list_); }

 private:
  std::vector<Parameter> list_;
  size_t offset_ = 0;
};

}  // namespace

std::string ToString(const Shape& shape) {
  return std::to_string(shape.layers) + " layers of " + std::to_string(shape.heads) +
         " heads, width " + std::to_string(shape.width) + ", " + std::to_string(shape.vocabulary) +
         " tokens, " + std::to_string(shape.context) + " positions";
}

Result<Shape> PresetShape(std::string_view name, int context) {
  if (context < 1) return Error::Invalid("context must be at least 1");
  if (const std::optional<core::Model> model = core::ParseEnum<core::Model>(name)) {
    const core::ModelShape sizes = core::PresetOf(*model);
    return Shape{sizes.layers, sizes.heads, sizes.width, sizes.vocabulary, context};
  }
  return Error::Invalid("there is no model '" + std::string(name) +
                        "': use nano, micro, gpt2, or give layers, heads, width and vocabulary");
}

std::vector<Parameter> Parameters(const Shape& shape) {
  const int64_t width = shape.width;
  Layout layout;
  layout.Add("transformer.wte.weight", {shape.vocabulary, width}, true);
  layout.Add("transformer.wpe.weight", {shape.context, width}, true);
  for (int l = 0; l < shape.layers; ++l) {
    const std::string block = "transformer.h." + std::to_string(l);
    layout.AddLayerNorm(block + ".ln_1", width);
    layout.AddColumns(block + ".attn.c_attn", width, 3 * width, 3);  // q, k, v
    layout.AddRows(block + ".attn.c_proj", width, width);
    layout.AddLayerNorm(block + ".ln_2", width);
    layout.AddColumns(block + ".mlp.c_fc", width, 4 * width, 1);
    layout.AddRows(block + ".mlp.c_proj", 4 * width, width);
  }
  layout.AddLayerNorm("transformer.ln_f", width);
  return layout.Take();
}

size_t ParameterCount(const Shape& shape) {
  const auto width = static_cast<size_t>(shape.width);
  const auto rows = static_cast<size_t>(shape.vocabulary) + static_cast<size_t>(shape.context);
  const size_t block = 12 * width * width + 13 * width;
  return rows * width + static_cast<size_t>(shape.layers) * block + 2 * width;
}

double FlopsPerToken(const Shape& shape) {
  const double positions = static_cast<double>(shape.context) * shape.width;
  const double products = static_cast<double>(ParameterCount(shape)) - positions;
  return 6 * products + 12.0 * shape.layers * positions;
}

}  // namespace lockstep::trainer
