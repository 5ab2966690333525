#include "cli/numa/kernels.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::numa {
namespace {

TEST(KernelsTest, ThePassesGiveTheValuesThatStreamChecksFor) {
  const Values first;
  std::vector<double> a(1000, first.a);
  std::vector<double> b(1000, first.b);
  std::vector<double> c(1000, first.c);
  for (int pass = 1; pass <= 3; ++pass) {
    for (const KernelInfo& info : kKernels) {
      RunKernel(info.kernel, a.data(), b.data(), c.data(), a.size());
    }
    EXPECT_EQ(a, std::vector<double>(1000, After(pass).a));
    EXPECT_EQ(b, std::vector<double>(1000, After(pass).b));
    EXPECT_EQ(c, std::vector<double>(1000, After(pass).c));
  }
  EXPECT_EQ(After(1).a, 15);  // 1: c = 1, b = 3, c = 4, a = 3 + 12
}

TEST(KernelsTest, BytesAreCountedAsStreamCountsThem) {
  EXPECT_EQ(kKernels[0].counted, 16);
  EXPECT_EQ(kKernels[1].counted, 16);
  EXPECT_EQ(kKernels[2].counted, 24);
  EXPECT_EQ(kKernels[3].counted, 24);
  for (const KernelInfo& info : kKernels) EXPECT_EQ(info.moved, info.counted + 8) << info.name;
}

TEST(KernelsTest, OneRoundOfPointersVisitsEveryLineOnceAndComesBack) {
  for (size_t count = 4; count <= size_t{1} << 16; count *= 4) {
    std::vector<Line> lines(count);
    for (size_t i = 0; i < count; ++i) lines[i].next = NextLine(i, count);
    std::vector<bool> seen(count);
    size_t at = 0;
    for (size_t step = 0; step < count; ++step) {
      EXPECT_FALSE(seen[at]) << at;
      seen[at] = true;
      at = Chase(lines.data(), at, 1);
    }
    EXPECT_EQ(at, 0U);
  }
}

}  // namespace
}  // namespace lockstep::numa
