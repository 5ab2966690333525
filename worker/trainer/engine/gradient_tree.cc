#include "worker/trainer/engine/gradient_tree.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep::trainer {

namespace {

constexpr size_t kTreeBlock = size_t{32} * 1024;  // floats

GradientTree::Add AddOn(Threads& threads) {
  return [&threads](std::span<float> sum, std::span<const float> part) -> Status {
    threads.For((sum.size() + kTreeBlock - 1) / kTreeBlock, [=](size_t block) {
      const size_t end = std::min((block + 1) * kTreeBlock, sum.size());
      for (size_t i = block * kTreeBlock; i < end; ++i) sum[i] += part[i];
    });
    return {};
  };
}

}  // namespace

int GradientTree::Arrays(int leaves) {
  if (leaves == 1) return 1;
  const int left = leaves / 2;
  return std::max(Arrays(left), 1 + Arrays(leaves - left));
}

GradientTree::GradientTree(size_t size, int leaves, Threads& threads)
    : own_(static_cast<size_t>(Arrays(leaves)), std::vector<float>(size)),
      arrays_(own_.begin(), own_.end()),
      leaves_(leaves),
      add_(AddOn(threads)) {}

GradientTree::GradientTree(std::vector<std::span<float>> arrays, int leaves, Add add)
    : arrays_(std::move(arrays)), leaves_(leaves), add_(std::move(add)) {
  assert(arrays_.size() == static_cast<size_t>(Arrays(leaves)));
}

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
    if (done.ok() && !last) done = AddTo(depth, 0, total().size());
    return done;
  }
  if (!last) return leaf(first, arrays_[depth], [](size_t) {});
  size_t to = total().size();
  Status added;
  Status done = leaf(first, arrays_[depth], [&](size_t from) {
    assert(from <= to);
    for (size_t level = depth; added.ok() && level-- > 0;) added = AddTo(level, from, to);
    to = from;
    if (added.ok()) complete(from);
  });
  return done.ok() ? added : done;
}

Status GradientTree::AddTo(size_t depth, size_t from, size_t to) const {
  return add_(arrays_[depth].subspan(from, to - from), arrays_[depth + 1].subspan(from, to - from));
}

}  // namespace lockstep::trainer
