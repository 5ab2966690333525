// The sizes of a GPT-2 model, and where each of its parameters lies in one flat array.
//
// The arrangement is that of the forward pass: wte, wpe, the blocks in order, ln_f. So backward,
// which goes the other way, completes the array from its end to its beginning; wte, which is also
// the head, is complete last.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_SHAPE_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::trainer {

struct Shape {
  int layers = 0;      // L
  int heads = 0;       // H
  int width = 0;       // C, a multiple of H
  int vocabulary = 0;  // V
  int context = 0;     // T, positions

  friend bool operator==(const Shape&, const Shape&) = default;
};

// "4 layers of 4 heads, width 192, 256 tokens, 128 positions".
std::string ToString(const Shape& shape);

// nano (4 layers, 4 heads, width 192, 256 bytes), micro (6, 6, 384, 256), gpt2 (12, 12, 768,
// 50257).
Result<Shape> PresetShape(std::string_view name, int context);

struct Parameter {
  std::string name;            // Hugging Face's: "transformer.h.0.attn.c_attn.weight"
  std::vector<int64_t> shape;  // as it is there: [in, out] for c_attn, c_proj, c_fc
  size_t offset = 0;           // floats from the beginning
  size_t size = 0;
  bool decays = false;  // matrices and embeddings do; biases and LayerNorm don't
  // What shards divide is [outer, shards, rest], and each has its [outer, rest]. 0: undivided.
  size_t outer = 0;
  size_t slabs = 1;  // shards that lie here one behind the other, each [outer, rest]
};

// Every parameter, in the order of the array, without holes.
std::vector<Parameter> Parameters(const Shape& shape);
size_t ParameterCount(const Shape& shape);
// Floating-point operations of training on one token, forward and backward: 6 for each parameter
// but the positions', and 12 L C T for attention, counted in full as the field counts it.
double FlopsPerToken(const Shape& shape);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_SHAPE_H_
