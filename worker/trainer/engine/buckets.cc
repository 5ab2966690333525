#include "worker/trainer/engine/buckets.h"

#include <algorithm>

namespace lockstep::trainer {

namespace {

// Floats. A bucket begins at a multiple of it: NCCL moves what is not aligned byte by byte.
constexpr size_t kGrain = 64;

}  // namespace

std::vector<Bucket> CutBuckets(size_t size, size_t bytes) {
  std::vector<Bucket> buckets;
  size_t most = std::min(kFirstBucketBytes, bytes) / sizeof(float);
  for (size_t end = size; end > 0; end = buckets.back().begin) {
    size_t begin = end - std::min(end, std::max<size_t>(most, 1));
    if (const size_t up = (begin + kGrain - 1) / kGrain * kGrain; up < end) begin = up;
    buckets.push_back({begin, end});
    most = bytes / sizeof(float);
  }
  return buckets;
}

}  // namespace lockstep::trainer
