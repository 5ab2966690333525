#include "worker/trainer/engine/gradient_tree.h"

#include <algorithm>
#include <cassert>

namespace lockstep::trainer {

namespace {
constexpr size_t kBlock = size_t{32} * 1024;  // floats
}

int GradientTree::Arenas(int leaves) {
  if (leaves == 1) return 1;
  const int left = leaves / 2;
  return std::max(Arenas(left), 1 + Arenas(leaves - left));
}

GradientTree::GradientTree(size_t size, int leaves, Threads& threads)
    : size_(size),
      leaves_(leaves),
      threads_(&threads),
      arenas_(static_cast<size_t>(Arenas(leaves)), std::vector<float>(size)) {}

Status GradientTree::Sum(const Leaf& leaf, const Complete& complete) {
  return SumOf(0, leaves_, 0, true, leaf, complete);
}

// `last`: this subtree ends with the step's last leaf here, so every level above waits for it
// alone.
Status GradientTree::SumOf(int first, int count, size_t depth, bool last, const Leaf& leaf,
                           const Complete& complete) {
  if (count > 1) {
    const int left = count / 2;
    Status done = SumOf(first, left, depth, false, leaf, complete);
    if (!done.ok()) return done;
    done = SumOf(first + left, count - left, depth + 1, last, leaf, complete);
    if (done.ok() && !last) Add(depth, 0, size_);
    return done;
  }
  if (!last) return leaf(first, arenas_[depth], [](size_t) {});
  size_t to = size_;
  return leaf(first, arenas_[depth], [&](size_t from) {
    assert(from <= to);
    for (size_t level = depth; level-- > 0;) Add(level, from, to);
    to = from;
    complete(from);
  });
}

void GradientTree::Add(size_t depth, size_t from, size_t to) {
  float* sum = arenas_[depth].data();
  const float* more = arenas_[depth + 1].data();
  threads_->For((to - from + kBlock - 1) / kBlock, [=](size_t block) {
    const size_t begin = from + block * kBlock;
    const size_t end = std::min(begin + kBlock, to);
    for (size_t i = begin; i < end; ++i) sum[i] += more[i];
  });
}

}  // namespace lockstep::trainer
