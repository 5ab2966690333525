#include "worker/trainer/engine/buckets.h"

#include <algorithm>

namespace lockstep::trainer {

std::vector<Bucket> CutBuckets(size_t size, size_t bytes) {
  std::vector<Bucket> buckets;
  size_t most = std::min(kFirstBucketBytes, bytes) / sizeof(float);
  for (size_t end = size; end > 0; end = buckets.back().begin) {
    buckets.push_back({end - std::min(end, std::max<size_t>(most, 1)), end});
    most = bytes / sizeof(float);
  }
  return buckets;
}

}  // namespace lockstep::trainer
