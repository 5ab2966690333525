// Causal attention of one head of one sequence, on the calling thread: softmax(q k' / sqrt(D)) v.
// The probabilities, [T, T], are held for a block of queries at a time; backward makes them again
// from q, k and the logarithms of their sums.
#ifndef LOCKSTEP_WORKER_TRAINER_MODEL_ATTENTION_H_
#define LOCKSTEP_WORKER_TRAINER_MODEL_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "worker/trainer/model/buffers.h"
#include "worker/trainer/model/kernels.h"
#include "worker/trainer/model/product.h"

namespace lockstep::trainer {

template <typename T>
struct AttentionHead {
  size_t tokens;      // T
  size_t head_width;  // D
  size_t width;       // C
  const T* qkv;       // this head's q of this sequence's first token; k lies C further, v 2 C;
                      // rows [T] are 3 C apart
  T* log_sum;         // [T]
  T* scratch;         // [kQueryBlock * (2 T + D)]

  Operand<T> Q(size_t row) const { return {qkv + row * 3 * width, 3 * width}; }
  Operand<T> K() const { return {qkv + width, 3 * width}; }
  Operand<T> V() const { return {qkv + 2 * width, 3 * width}; }
  T scale() const { return 1 / std::sqrt(static_cast<T>(head_width)); }
};

template <typename T>
Operand<T> Transposed(Operand<T> x) {
  return {x.data, x.stride, !x.transposed};
}

// mixed: this head's first output; rows [T] are C apart.
template <typename T, typename A>
void Attend(const KernelTable<T, A>& kernels, const AttentionHead<T>& head, A* mixed) {
  const size_t depth = head.head_width;
  T* scores = head.scratch;                               // [queries, keys]
  T* out = head.scratch + kQueryBlock * 2 * head.tokens;  // [queries, D]
  for (size_t first = 0; first < head.tokens; first += kQueryBlock) {
    const size_t queries = std::min(kQueryBlock, head.tokens - first);
    const size_t keys = first + queries;
    Multiply({queries, keys, depth}, head.Q(first), Transposed(head.K()), {scores, keys});
    kernels.softmax(scores, queries, keys, keys, first, head.scale(), head.log_sum + first);
    Multiply({queries, depth, keys}, {scores, keys}, head.V(), {out, depth});
    kernels.convert(out, depth, queries, depth, mixed + first * head.width, head.width);
  }
}

// dmixed: gradient of Attend's output, rows C apart; dqkv: laid out as head.qkv, overwritten.
template <typename T, typename A>
void AttendBackward(const KernelTable<T, A>& kernels, const AttentionHead<T>& head, const T* dmixed,
                    T* dqkv) {
  const size_t depth = head.head_width;
  const size_t stride = 3 * head.width;
  T* p = head.scratch;                               // [queries, keys]
  T* dp = head.scratch + kQueryBlock * head.tokens;  // [queries, keys]
  // From the last block, which sees all keys and so begins the sums over queries in dk and dv.
  bool add = false;
  for (size_t block = BlocksOf(head.tokens, kQueryBlock); block-- > 0; add = true) {
    const size_t first = block * kQueryBlock;
    const size_t queries = std::min(kQueryBlock, head.tokens - first);
    const size_t keys = first + queries;
    const Operand<T> doutput{dmixed + first * head.width, head.width};
    Multiply({queries, keys, depth}, head.Q(first), Transposed(head.K()), {p, keys});
    Multiply({queries, keys, depth}, doutput, Transposed(head.V()), {dp, keys});
    kernels.softmax_backward(p, dp, queries, keys, keys, first, head.scale(), head.log_sum + first);
    Multiply({queries, depth, keys}, {dp, keys}, head.K(), {dqkv + first * stride, stride});
    Multiply({keys, depth, queries}, {dp, keys, true}, head.Q(first),
             {dqkv + head.width, stride, add});
    Multiply({keys, depth, queries}, {p, keys, true}, doutput,
             {dqkv + 2 * head.width, stride, add});
  }
}

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_MODEL_ATTENTION_H_
