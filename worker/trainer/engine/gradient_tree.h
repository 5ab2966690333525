// The sum of the gradients of this rank's micro-batches, as a balanced tree over their index:
//
//   n leaves = tree(first n/2) + tree(the rest)
//
// An equal part of a step's micro-batches, one of a power of two, is then a subtree of the step's
// whole tree, and what the ranks add up between them (collectives/, Reduce::kTree) is its top.
// So the bits of the step's sum are the same for every such world.
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_GRADIENT_TREE_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_GRADIENT_TREE_H_

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "worker/trainer/process/parallel.h"

namespace lockstep::trainer {

// Says that values[from..] are final; `from` falls, and ends at 0.
using Complete = std::function<void(size_t from)>;

class GradientTree {
 public:
  // sum[i] += part[i], or what makes it so in the order of what writes them.
  using Add = std::function<Status(std::span<float> sum, std::span<const float> part)>;

  // `size` floats a gradient, 1 or more `leaves`; in memory of its own.
  GradientTree(size_t size, int leaves, Threads& threads);
  // In `arrays`, Arrays(leaves) of one size, wherever `add` and the leaves can reach them.
  GradientTree(std::vector<std::span<float>> arrays, int leaves, Add add);
  GradientTree(const GradientTree&) = delete;
  GradientTree& operator=(const GradientTree&) = delete;

  // Writes the gradient of micro-batch `index` into `out`, from its end to its beginning.
  using Leaf = std::function<Status(int index, std::span<float> out, const Complete& complete)>;

  // Calls `leaf` for 0..leaves in order. `complete` is told of the sum while the last of them goes
  // on. The result is total(); an error of a leaf's or of Add's ends it.
  Status Sum(const Leaf& leaf, const Complete& complete);

  std::span<float> total() { return arrays_.front(); }

  // Arrays of `size` floats that a tree of so many leaves holds.
  static int Arrays(int leaves);

 private:
  Status SumOf(int first, int count, size_t depth, bool last, const Leaf& leaf,
               const Complete& complete);
  // arrays_[depth] += arrays_[depth + 1], within [from, to).
  Status AddTo(size_t depth, size_t from, size_t to) const;

  std::vector<std::vector<float>> own_;
  std::vector<std::span<float>> arrays_;  // [depth]
  int leaves_;
  Add add_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_GRADIENT_TREE_H_
