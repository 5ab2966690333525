#include "worker/trainer/engine/buckets.h"

#include <gtest/gtest.h>

namespace lockstep::trainer {
namespace {

TEST(CutBuckets, CoversTheWholeGradientFromItsEndWithoutHoles) {
  for (const size_t size : {size_t{1}, size_t{262'144}, size_t{262'145}, size_t{30'000'000}}) {
    const std::vector<Bucket> buckets = CutBuckets(size, size_t{25} << 20);
    size_t end = size;
    for (const Bucket& bucket : buckets) {
      EXPECT_EQ(bucket.end, end);
      EXPECT_LT(bucket.begin, bucket.end);
      end = bucket.begin;
    }
    EXPECT_EQ(end, 0U);
  }
}

TEST(CutBuckets, BeginsWithASmallOneAndKeepsTheLimitThen) {
  const std::vector<Bucket> buckets = CutBuckets(30'000'000, size_t{25} << 20);
  ASSERT_GE(buckets.size(), 3U);
  EXPECT_EQ((buckets[0].end - buckets[0].begin) * sizeof(float), kFirstBucketBytes);
  EXPECT_EQ((buckets[1].end - buckets[1].begin) * sizeof(float), size_t{25} << 20);
}

TEST(CutBuckets, BeginsEachWhereAGpuReadsItInWholeWords) {
  for (size_t more = 0; more < 4; ++more) {
    for (const Bucket& bucket : CutBuckets(size_t{64} * 12'345 + more, 40'000))
      EXPECT_EQ(bucket.begin % 64, 0U) << bucket.begin;
  }
}

}  // namespace
}  // namespace lockstep::trainer
