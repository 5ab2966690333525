// What kernels say to the GPU. The same kernels are compiled twice: for the GPU, by clang without
// any file of NVIDIA's, where what stands here is PTX; and for the host, where tests/fakes/emulator
// defines it and a block's threads take turns. Names and meanings are those of NVIDIA's "PTX ISA"
// manual.
//
//   GPU_KERNEL(gelu_bf16, kElementThreads, Gelu<Bf16>) { ... arguments.x[i] ... }
//
// Neither compiler may fuse a product and a sum (-ffp-contract=off): Fma says where it is wanted,
// so that a kernel's arithmetic is what its source says.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPU_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer::gpu {

using Float4 = float __attribute__((vector_size(16), may_alias));
using Word = uint32_t __attribute__((may_alias));
using Word2 = uint32_t __attribute__((vector_size(8), may_alias));

constexpr bool SameName(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

}  // namespace lockstep::trainer::gpu

#ifdef __CUDA__

#define GPU_DEVICE static __attribute__((device, always_inline)) inline
#define GPU_DEVICE_MEMBER __attribute__((device, always_inline))

// A kernel of this many threads a block, with `arguments` of the given type, which has its name.
#define GPU_KERNEL(name, threads, ...)                                                  \
  static_assert(::lockstep::trainer::gpu::SameName(#name, __VA_ARGS__::kName));         \
  extern "C" __attribute__((global)) void __attribute__((launch_bounds(threads))) name( \
      const __VA_ARGS__ arguments)

// A pointer to the block's dynamic shared memory.
#define GPU_SHARED(type, name)                                                          \
  extern __attribute__((shared)) __attribute__((aligned(16))) char gpu_shared_##name[]; \
  type* name = reinterpret_cast<type*>(gpu_shared_##name)

namespace lockstep::trainer::gpu {

GPU_DEVICE unsigned ThreadX() { return __nvvm_read_ptx_sreg_tid_x(); }
GPU_DEVICE unsigned BlockX() { return __nvvm_read_ptx_sreg_ctaid_x(); }
GPU_DEVICE unsigned BlockY() { return __nvvm_read_ptx_sreg_ctaid_y(); }

// All threads of the block; and what they wrote is seen.
GPU_DEVICE void SyncBlock() { asm volatile("bar.sync 0;" ::: "memory"); }

// The value of the lane whose number differs in the bits of `mask`; all 32 lanes call it.
GPU_DEVICE uint32_t ShuffleXor(uint32_t value, unsigned mask) {
  uint32_t other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
               : "=r"(other)
               : "r"(value), "r"(mask));
  return other;
}
GPU_DEVICE float ShuffleXor(float value, unsigned mask) {
  return __builtin_bit_cast(float, ShuffleXor(__builtin_bit_cast(uint32_t, value), mask));
}

GPU_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE float Log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE float Sqrt(float x) {
  float y;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE double Sqrt(double x) {
  double y;
  asm("sqrt.rn.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
}
GPU_DEVICE float Fma(float a, float b, float c) {
  float d;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
  return d;
}
GPU_DEVICE float Max(float a, float b) {
  float c;
  asm("max.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

// To the nearest, ties to even; `low` in the lower half.
GPU_DEVICE uint32_t PackBf16(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

GPU_DEVICE unsigned SharedAddress(const void* pointer) {
  unsigned long long address;
  asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
  return static_cast<unsigned>(address);
}

// d[16, 8] += a[16, 16] b[16, 8] by a warp; a, b and d lie in its registers as "Matrix Fragments
// for mma.m16n8k16" has it.
GPU_DEVICE void Multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8 x 8 matrices from shared memory, by a warp: lane i names row i % 8 of matrix i / 8, 16
// bytes.
GPU_DEVICE void LoadMatrices(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row))
               : "memory");
}
// The same, each matrix transposed.
GPU_DEVICE void LoadTransposed(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// 16 bytes to shared memory, there when the thread has waited for the group it commits them to;
// zeros, and nothing read, unless `valid`.
GPU_DEVICE void CopyAsync(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
GPU_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until at most `kGroups` of this thread's groups are on their way.
template <int kGroups>
GPU_DEVICE void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace lockstep::trainer::gpu

#else

#include <source_location>

#define GPU_DEVICE inline
#define GPU_DEVICE_MEMBER

#define GPU_KERNEL(name, threads, ...)                                          \
  static_assert(::lockstep::trainer::gpu::SameName(#name, __VA_ARGS__::kName)); \
  static void name(const __VA_ARGS__& arguments);                               \
  [[maybe_unused]] static const bool registered_##name =                        \
      ::lockstep::trainer::gpu::Register<__VA_ARGS__>(#name, threads, name);    \
  static void name(const __VA_ARGS__& arguments)

// NOLINTNEXTLINE(bugprone-macro-parentheses): of a declaration
#define GPU_SHARED(type, name) type* name = static_cast<type*>(::lockstep::trainer::gpu::Shared())

namespace lockstep::trainer::gpu {

using Where = std::source_location;

unsigned ThreadX();
unsigned BlockX();
unsigned BlockY();
void* Shared();
void SyncBlock(Where where = Where::current());
uint32_t ShuffleXor(uint32_t value, unsigned mask, Where where = Where::current());
inline float ShuffleXor(float value, unsigned mask, Where where = Where::current()) {
  return __builtin_bit_cast(float, ShuffleXor(__builtin_bit_cast(uint32_t, value), mask, where));
}
float Exp2(float x);
float Log2(float x);
float Sqrt(float x);
double Sqrt(double x);
float Fma(float a, float b, float c);
float Max(float a, float b);
uint32_t PackBf16(float low, float high);
void Multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
              Where where = Where::current());
void LoadMatrices(uint32_t (&to)[4], const void* row, Where where = Where::current());
void LoadTransposed(uint32_t (&to)[4], const void* row, Where where = Where::current());
void CopyAsync(void* to, const void* from, bool valid);
void CommitCopies();
void WaitForGroups(int groups, Where where);
template <int kGroups>
void WaitForCopies(Where where = Where::current()) {
  WaitForGroups(kGroups, where);
}

// A kernel as the emulator finds it.
struct HostKernel {
  const char* name;
  size_t bytes;  // of its arguments
  unsigned threads;
  void (*run)(const void* arguments, void (*kernel)());
  void (*kernel)();
};
bool RegisterKernel(const HostKernel& kernel);

template <typename Arguments>
bool Register(const char* name, unsigned threads, void (*kernel)(const Arguments&)) {
  return RegisterKernel({name, sizeof(Arguments), threads,
                         [](const void* arguments, void (*any)()) {
                           reinterpret_cast<void (*)(const Arguments&)>(any)(
                               *static_cast<const Arguments*>(arguments));
                         },
                         reinterpret_cast<void (*)()>(kernel)});
}

}  // namespace lockstep::trainer::gpu

#endif

namespace lockstep::trainer::gpu {

GPU_DEVICE float Load(const float* from) { return *from; }
GPU_DEVICE float Load(const Bf16* from) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(from->bits) << 16U);
}
// Four elements, as floats.
GPU_DEVICE Float4 Load4(const float* from) { return *reinterpret_cast<const Float4*>(from); }
GPU_DEVICE Float4 Load4(const Bf16* from) {
  const Word2 words = *reinterpret_cast<const Word2*>(from);
  return Float4{__builtin_bit_cast(float, words[0] << 16U),
                __builtin_bit_cast(float, words[0] & 0xffff0000U),
                __builtin_bit_cast(float, words[1] << 16U),
                __builtin_bit_cast(float, words[1] & 0xffff0000U)};
}
GPU_DEVICE void Store4(float* to, Float4 values) { *reinterpret_cast<Float4*>(to) = values; }
GPU_DEVICE void Store4(Bf16* to, Float4 values) {
  *reinterpret_cast<Word2*>(to) =
      Word2{PackBf16(values[0], values[1]), PackBf16(values[2], values[3])};
}

// Of the first of this thread's elements, where each of a block's threads has `each`.
GPU_DEVICE size_t Element(unsigned threads, unsigned each) {
  return (size_t{BlockX()} * threads + ThreadX()) * each;
}

// The sum over a warp's lanes, the same bits on all.
GPU_DEVICE float WarpSum(float x) {
  for (unsigned mask = 16; mask > 0; mask /= 2) x += ShuffleXor(x, mask);
  return x;
}
GPU_DEVICE float WarpMax(float x) {
  for (unsigned mask = 16; mask > 0; mask /= 2) x = Max(x, ShuffleXor(x, mask));
  return x;
}

}  // namespace lockstep::trainer::gpu

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_DEVICE_GPU_H_
