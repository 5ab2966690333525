// Element-wise reduction in the order of a balanced tree. Pure.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_REDUCE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_REDUCE_H_

#include <cstddef>
#include <span>

#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {

// out[i] = T(sources[0][i], ..., sources[n-1][i]) for i < count, where
//
//   T(a) = a
//   T(a_0 .. a_{n-1}) = op(T(a_0 .. a_{h-1}), T(a_h .. a_{n-1})),   h = ceil(n / 2)
//
// so for n a power of two ((0+1)+(2+3))+...: each half is the tree of its own half of the ranks.
// `out` may be one of the sources. `type` is kFloat32 or kInt64.
void ReduceTree(Reduction op, DataType type, std::span<const void* const> sources, size_t count,
                void* out);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_REDUCE_H_
