#include "worker/trainer/model/shape.h"

#include <functional>
#include <numeric>
#include <utility>

namespace lockstep::trainer {

namespace {

// Appends parameters one behind the other.
class Arrangement {
 public:
  // Embeddings and matrices, [rows, columns].
  void Matrix(std::string name, int64_t rows, int64_t columns) {
    Append(std::move(name), {rows, columns});
  }

  void LayerNorm(const std::string& name, int64_t width) {
    Append(name + ".weight", {width});
    Append(name + ".bias", {width});
  }

  void Linear(const std::string& name, int64_t in, int64_t out) {
    Append(name + ".weight", {in, out});
    Append(name + ".bias", {out});
  }

  std::vector<Parameter> Take() { return std::move(parameters_); }

 private:
  void Append(std::string name, std::vector<int64_t> shape) {
    int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    bool decays = shape.size() >= 2;
    parameters_.push_back({.name = "transformer." + std::move(name),
                           .shape = std::move(shape),
                           .offset = end_,
                           .size = static_cast<size_t>(size),
                           .decays = decays});
    end_ += static_cast<size_t>(size);
  }

  std::vector<Parameter> parameters_;
  size_t end_ = 0;
};

}  // namespace

Result<Shape> PresetShape(std::string_view name, int context) {
  if (context < 1) {
    return Error::Invalid("a context of " + std::to_string(context) +
                          " tokens is too short; give at least 1");
  }
  if (name == "nano") return Shape{4, 4, 192, 256, context};
  if (name == "micro") return Shape{6, 6, 384, 256, context};
  if (name == "gpt2") return Shape{12, 12, 768, 50257, context};
  return Error::Invalid("there is no model \"" + std::string(name) +
                        "\"; give nano, micro or gpt2, or the sizes by number");
}

std::vector<Parameter> Parameters(const Shape& shape) {
  int64_t width = shape.width;
  Arrangement all;
  all.Matrix("wte.weight", shape.vocabulary, width);
  all.Matrix("wpe.weight", shape.context, width);
  for (int layer = 0; layer < shape.layers; ++layer) {
    std::string block = "h." + std::to_string(layer) + ".";
    all.LayerNorm(block + "ln_1", width);
    all.Linear(block + "attn.c_attn", width, 3 * width);
    all.Linear(block + "attn.c_proj", width, width);
    all.LayerNorm(block + "ln_2", width);
    all.Linear(block + "mlp.c_fc", width, 4 * width);
    all.Linear(block + "mlp.c_proj", 4 * width, width);
  }
  all.LayerNorm("ln_f", width);
  return all.Take();
}

size_t ParameterCount(const Shape& shape) {
  Parameter last = Parameters(shape).back();
  return last.offset + last.size;
}

}  // namespace lockstep::trainer
