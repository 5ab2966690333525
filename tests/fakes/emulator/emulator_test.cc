#include "tests/fakes/emulator/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

// Kernels that do what no kernel should, and one for each thing that gpu.h has.
namespace lockstep::trainer::gpu {
namespace {

struct HalfWait {
  static constexpr const char* kName = "half_wait";
  unsigned waiting;
  static LaunchShape shape() { return {.threads = 64}; }
};
GPU_KERNEL(half_wait, 64, HalfWait) {
  if (ThreadX() < arguments.waiting) SyncBlock();
}

struct Apart {
  static constexpr const char* kName = "apart";
  float* out;
  static LaunchShape shape() { return {.threads = 32}; }
};
GPU_KERNEL(apart, 32, Apart) {
  if (ThreadX() < 16) {
    arguments.out[ThreadX()] = ShuffleXor(1.0F, 1);
  } else {
    arguments.out[ThreadX()] = ShuffleXor(2.0F, 1);
  }
}

// Each thread copies its four floats, and looks at them before and after it waits.
struct Copies {
  static constexpr const char* kName = "copies";
  const float* from;
  float* before;
  float* after;
  unsigned shift;
  static LaunchShape shape() { return {.threads = 32, .shared_bytes = 33 * 16}; }
};
GPU_KERNEL(copies, 32, Copies) {
  GPU_SHARED(float, shared);
  float* to = shared + size_t{ThreadX()} * 4;
  CopyAsync(to + arguments.shift, arguments.from + size_t{ThreadX()} * 4, ThreadX() != 7);
  CommitCopies();
  arguments.before[ThreadX()] = to[0];
  WaitForCopies<0>();
  arguments.after[ThreadX()] = to[0];
}

// d[16, 8] = a[16, 16] b[16, 8], with b read as it lies, and as the transpose of its transpose.
struct Products {
  static constexpr const char* kName = "products";
  const Bf16* a;             // [16, 16]
  const Bf16* b;             // [16, 8]
  const Bf16* b_transposed;  // [8, 16]
  float* d;                  // [2][16, 8]
  static LaunchShape shape() { return {.threads = 32, .shared_bytes = 2 * 16 * 16 * 2}; }
};
GPU_KERNEL(products, 32, Products) {
  const Products& p = arguments;
  GPU_SHARED(Bf16, a);            // [16, 16]
  Bf16* b = a + size_t{16} * 16;  // [16, 8], then [8, 16]
  const unsigned lane = ThreadX();
  for (unsigned i = lane; i < 256; i += 32) a[i] = p.a[i];
  for (unsigned i = lane; i < 128; i += 32) b[i] = p.b[i];
  for (unsigned i = lane; i < 128; i += 32) b[128 + i] = p.b_transposed[i];
  SyncBlock();
  uint32_t left[4];
  LoadMatrices(left, a + size_t{lane % 16} * 16 + lane / 16 * 8);
  uint32_t right[4];
  LoadTransposed(right, b + size_t{lane % 16} * 8);
  float d[4] = {};
  Multiply(d, left, {right[0], right[1]});
  LoadMatrices(right, b + 128 + size_t{lane % 8} * 16 + lane / 8 % 2 * 8);
  float e[4] = {};
  Multiply(e, left, {right[0], right[1]});
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned at = (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
    p.d[at] = d[i];
    p.d[128 + at] = e[i];
  }
}

// The order in which threads come.
struct Order {
  static constexpr const char* kName = "order";
  std::vector<unsigned>* order;
  static LaunchShape shape() { return {.blocks_x = 3, .threads = 4}; }
};
GPU_KERNEL(order, 4, Order) { arguments.order->push_back(BlockX() * 4 + ThreadX()); }

}  // namespace
}  // namespace lockstep::trainer::gpu

namespace lockstep::emulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using trainer::Bf16;
using trainer::gpu::LaunchShape;

TEST(Emulator, SaysWhichThreadsWaitForEverAndWhere) {
  const std::string wrong = emulator::Run(trainer::gpu::HalfWait{32}, {});
  EXPECT_THAT(wrong, AllOf(HasSubstr("half_wait, block 0, 0: threads wait for ever: 32 in "
                                     "SyncBlock (emulator_test.cc:"),
                           HasSubstr("the first of them 0; 32 have returned")));
  EXPECT_EQ(emulator::Run(trainer::gpu::HalfWait{64}, {}), "") << "the next launch begins afresh";
}

TEST(Emulator, SaysThatLanesOfAWarpAreNotTogether) {
  std::vector<float> out(32);
  EXPECT_THAT(emulator::Run(trainer::gpu::Apart{out.data()}, {}),
              AllOf(HasSubstr("thread 16 is in ShuffleXor"),
                    HasSubstr("while thread 0 of its warp is in ShuffleXor")));
}

TEST(Emulator, ACopyIsThereOnceItIsWaitedForAndSharedMemoryIsNaNBefore) {
  std::vector<float> from(128);
  std::iota(from.begin(), from.end(), 1.0F);
  std::vector<float> before(32);
  std::vector<float> after(32);
  const trainer::gpu::Copies copies{from.data(), before.data(), after.data(), 0};
  ASSERT_EQ(emulator::Run(copies, {}), "");
  EXPECT_TRUE(std::isnan(before[0]));
  EXPECT_EQ(after[3], 13);
  EXPECT_EQ(after[7], 0) << "what is not valid is zero";
  ASSERT_EQ(emulator::Run(copies, {.seed = 1}), "");
  EXPECT_EQ(before[0], 1) << "with an odd seed it is there at once";
}

TEST(Emulator, SaysThatAnAddressIsNotAligned) {
  std::vector<float> memory(128);
  EXPECT_THAT(
      emulator::Run(trainer::gpu::Copies{memory.data(), memory.data(), memory.data(), 1}, {}),
      HasSubstr("CopyAsync of an address that is not a multiple of 16"));
}

TEST(Emulator, RefusesALaunchThatTheKernelIsNotMadeFor) {
  const trainer::gpu::HalfWait arguments{64};
  const auto* kernel = Find("half_wait");
  for (const LaunchShape& shape :
       {LaunchShape{.threads = 32}, LaunchShape{.threads = 64, .shared_bytes = 64 * 1024},
        LaunchShape{.blocks_x = 0, .threads = 64}, LaunchShape{.blocks_y = 70000, .threads = 64}})
    EXPECT_THAT(emulator::Run(*kernel, &arguments, shape, {}),
                HasSubstr("half_wait has 64 threads"));
}

TEST(Emulator, MultipliesMatrices) {
  std::vector<Bf16> a;
  std::vector<Bf16> b;
  std::vector<Bf16> b_transposed(128);
  for (int i = 0; i < 256; ++i) a.push_back(trainer::ToBf16(static_cast<float>(i * 7 % 31 - 15)));
  for (int i = 0; i < 128; ++i) b.push_back(trainer::ToBf16(static_cast<float>(i * 5 % 23 - 11)));
  for (size_t i = 0; i < 128; ++i) b_transposed[i % 8 * 16 + i / 8] = b[i];
  std::vector<float> d(256);
  ASSERT_EQ(
      emulator::Run(trainer::gpu::Products{a.data(), b.data(), b_transposed.data(), d.data()}, {}),
      "");
  for (size_t i = 0; i < 128; ++i) {
    float right = 0;
    for (size_t k = 0; k < 16; ++k)
      right += trainer::ToFloat(a[i / 8 * 16 + k]) * trainer::ToFloat(b[k * 8 + i % 8]);
    EXPECT_EQ(d[i], right) << i;
    EXPECT_EQ(d[128 + i], right) << i;
  }
}

TEST(Emulator, RunsThreadsAndBlocksInTheOrderOfTheSeed) {
  std::vector<std::vector<unsigned>> orders;
  for (unsigned seed = 0; seed < 4; ++seed) {
    std::vector<unsigned> order;
    ASSERT_EQ(emulator::Run(trainer::gpu::Order{&order}, {.seed = seed}), "");
    orders.push_back(order);
  }
  std::vector<unsigned> all(12);
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(orders[0], all);
  EXPECT_EQ(orders[1], std::vector<unsigned>(all.rbegin(), all.rend()));
  EXPECT_NE(orders[2], orders[3]);
  for (const auto& order : orders) EXPECT_THAT(order, ::testing::UnorderedElementsAreArray(all));
}

}  // namespace
}  // namespace lockstep::emulator
