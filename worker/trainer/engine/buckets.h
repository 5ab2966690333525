// How a flat gradient is cut for the allreduce: contiguous ranges from its end to its beginning,
// the way backward completes it. The first one is small, so that it is under way early; the rest
// have one size. (PyTorch's DDP does the same, and its sizes are the defaults.)
#ifndef LOCKSTEP_WORKER_TRAINER_ENGINE_BUCKETS_H_
#define LOCKSTEP_WORKER_TRAINER_ENGINE_BUCKETS_H_

#include <cstddef>
#include <vector>

namespace lockstep::trainer {

struct Bucket {
  size_t begin = 0;  // floats
  size_t end = 0;
};

inline constexpr size_t kFirstBucketBytes = size_t{1} << 20;

// Of `size` floats; buckets but the first hold `bytes` at most.
std::vector<Bucket> CutBuckets(size_t size, size_t bytes);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_ENGINE_BUCKETS_H_
