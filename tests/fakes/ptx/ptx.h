// The instructions of PTX, for what ptx_to_cc.py makes of the kernels that a build ships. Meanings
// are those of NVIDIA's "PTX ISA" manual. Of gpu.h's host half only waits and exchanges between
// threads are used.
#ifndef LOCKSTEP_TESTS_FAKES_PTX_PTX_H_
#define LOCKSTEP_TESTS_FAKES_PTX_PTX_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/fakes/emulator/emulator.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::ptx {

using trainer::gpu::BlockX;
using trainer::gpu::BlockY;
using trainer::gpu::ShuffleXor;
using trainer::gpu::ThreadX;
using trainer::gpu::Where;

// What an instruction does wrong, as if the kernels' inline assembly were wrong there.
enum class Fault : uint8_t {
  kNone,
  kHalvesSwapped,    // cvt.rn.bf16x2: the upper half is the lower
  kRowsSwapped,      // mma: a1 and a2
  kSumsSwapped,      // mma: the first two accumulators
  kNotTransposed,    // ldmatrix without .trans
  kOneGroupMore,     // cp.async.wait_group n + 1
  kFactorIsSummand,  // fma: operands 2 and 3
  kMaxIsMin,         // max.f32
  kGenericAsShared,  // cvta.to.shared does nothing
  kNoCommit,         // cp.async.commit_group is missing
  kNoBarrier,        // bar.sync is missing
};
// Of the next launches.
inline Fault fault = Fault::kNone;

// ---- registers: bits of a size, read and written as values of a type ----

template <typename T, typename Register>
T Get(Register bits) {
  // A shared address may lie in 32 bits.
  static_assert(sizeof(T) <= sizeof(Register) || std::is_same_v<T, uint64_t>);
  using Bits =
      std::conditional_t<sizeof(T) == 8, uint64_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t,
                                            std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  return std::bit_cast<T>(static_cast<Bits>(bits));
}

// Wider registers take a signed value's sign.
template <typename Register, typename T>
Register Put(T value) {
  static_assert(sizeof(T) <= sizeof(Register));
  if constexpr (sizeof(T) == sizeof(Register)) return std::bit_cast<Register>(value);
  static_assert(sizeof(T) == sizeof(Register) || std::is_integral_v<T>);
  if constexpr (std::is_integral_v<T>) return static_cast<Register>(value);
}

// ---- memory ----

inline uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The shared window begins at 0 and the generic address of it elsewhere, so that one taken for the
// other shows.
inline uint64_t Window() { return AddressOf(trainer::gpu::Shared()); }
inline uint64_t ToShared(uint64_t generic) {
  return fault == Fault::kGenericAsShared ? generic : generic - Window();
}
inline uint64_t FromShared(uint64_t shared) { return shared + Window(); }
inline uint64_t SharedAt(uint64_t shared) {
  constexpr uint64_t kMost = 48 * 1024;
  const uint64_t at = shared & 0xffffffffULL;
  if (at >= kMost) emulator::Fail("an address beyond shared memory");
  return Window() + at;
}

template <typename T, int kCount>
T* At(uint64_t address) {
  if (address % (sizeof(T) * kCount) != 0) emulator::Fail("an access that is not aligned");
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

inline void Copy16(uint64_t to, uint64_t from, uint32_t read) {
  if (read != 0 && read != 16) emulator::Fail("a copy of a part of 16 bytes");
  trainer::gpu::CopyAsync(At<char, 16>(to), At<const char, 16>(from), read == 16);
}
inline void Commit() {
  if (fault != Fault::kNoCommit) trainer::gpu::CommitCopies();
}
inline void WaitGroup(int groups, Where where = Where::current()) {
  trainer::gpu::WaitForGroups(groups + (fault == Fault::kOneGroupMore ? 1 : 0), where);
}
inline void Barrier(Where where = Where::current()) {
  if (fault != Fault::kNoBarrier) trainer::gpu::SyncBlock(where);
}

// ---- matrices ----

inline void LoadMatrices(uint32_t (&to)[4], uint64_t row, Where where = Where::current()) {
  trainer::gpu::LoadMatrices(to, At<const char, 16>(row), where);
}
inline void LoadTransposed(uint32_t (&to)[4], uint64_t row, Where where = Where::current()) {
  if (fault == Fault::kNotTransposed) return LoadMatrices(to, row, where);
  trainer::gpu::LoadTransposed(to, At<const char, 16>(row), where);
}
inline void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        Where where = Where::current()) {
  if (fault == Fault::kSumsSwapped) std::swap(d[0], d[1]);
  const bool swapped = fault == Fault::kRowsSwapped;
  trainer::gpu::Multiply(d, {a[0], a[swapped ? 2 : 1], a[swapped ? 1 : 2], a[3]}, b, where);
}

// ---- arithmetic: integers wrap around ----

template <typename T>
struct Wrapping {
  using Type = T;
};
template <typename T>
  requires std::is_integral_v<T>
struct Wrapping<T> {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Wrapping<bool> {
  using Type = bool;
};

template <typename T, typename Operation>
T Wrap(T a, T b, Operation operation) {
  using U = typename Wrapping<T>::Type;
  return static_cast<T>(operation(static_cast<U>(a), static_cast<U>(b)));
}

template <typename T>
T Add(T a, T b) {
  return Wrap(a, b, [](auto x, auto y) { return x + y; });
}
template <typename T>
T Sub(T a, T b) {
  return Wrap(a, b, [](auto x, auto y) { return x - y; });
}
template <typename T>
T Mul(T a, T b) {
  return Wrap(a, b, [](auto x, auto y) { return x * y; });
}
template <typename T>
T Div(T a, T b) {
  return a / b;
}
template <typename T>
T Rem(T a, T b) {
  return a % b;
}
template <typename T>
T And(T a, T b) {
  return a & b;
}
template <typename T>
T Or(T a, T b) {
  return a | b;
}
template <typename T>
T Xor(T a, T b) {
  return a ^ b;
}
// Of a number and a NaN the number.
template <typename T>
T Min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
  return std::min(a, b);
}
template <typename T>
T Max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return fault == Fault::kMaxIsMin ? std::fmin(a, b) : std::fmax(a, b);
  }
  return std::max(a, b);
}
template <typename T>
T MulAdd(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return fault == Fault::kFactorIsSummand ? std::fma(a, c, b) : std::fma(a, b, c);
  }
  return Add(Mul(a, b), c);
}
template <typename T>
T Neg(T a) {
  if constexpr (std::is_floating_point_v<T>) return -a;
  return Sub(T{0}, a);
}
template <typename T>
T Not(T a) {
  if constexpr (std::is_same_v<T, bool>) return !a;
  return ~a;
}
template <typename T>
T Abs(T a) {
  return a < 0 ? -a : a;
}
// A shift by all bits or more leaves 0, or the sign.
template <typename T>
T Shl(T a, uint32_t by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
}
template <typename T>
T Shr(T a, uint32_t by) {
  if (by >= 8 * sizeof(T)) return std::is_signed_v<T> && a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> by);
}
inline uint32_t Bfe(uint32_t a, uint32_t from, uint32_t bits) {
  return Shr(a, from & 0xff) & (bits >= 32 ? ~0U : (1U << bits) - 1);
}
template <typename T, typename Comparison>
bool Compare(T a, T b, Comparison comparison) {
  return comparison(a, b);
}
template <typename T>
T Sqrt(T a) {
  return std::sqrt(a);
}
template <typename T>
T Rcp(T a) {
  return T{1} / a;
}
template <typename T>
T Lg2(T a) {
  return std::log2(a);
}
// ex2.approx.ftz is right to 2 units in the last place. This one is off by as much, up or down by a
// hash of the operand: no kernel may rely on more.
template <typename T>
T Ex2(T a) {
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
  };
  const float exact = std::exp2(flush(a));
  if (!std::isnormal(exact)) return flush(exact);
  const uint32_t hash = std::bit_cast<uint32_t>(a) * 2654435761U >> 30U;
  const uint32_t off = (hash & 1U) * 2 - (hash >> 1U) * 2;
  return flush(std::bit_cast<float>(std::bit_cast<uint32_t>(exact) + off));
}
// cvt.rn.bf16x2.f32: to the nearest, ties to even.
inline uint32_t Bf16x2(float upper, float lower) {
  const auto half = [](float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return std::isnan(x) ? 0x7fffU : (bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U;
  };
  if (fault == Fault::kHalvesSwapped) std::swap(upper, lower);
  return half(upper) << 16U | half(lower);
}

// ---- kernels ----

inline bool RegisterPtx(const char* name, size_t bytes, unsigned threads,
                        void (*kernel)(const char* arguments)) {
  const auto run = [](const void* arguments, void (*any)()) {
    reinterpret_cast<void (*)(const char*)>(any)(static_cast<const char*>(arguments));
  };
  return trainer::gpu::RegisterKernel(
      {name, bytes, threads, run, reinterpret_cast<void (*)()>(kernel)});
}

}  // namespace lockstep::ptx

#endif  // LOCKSTEP_TESTS_FAKES_PTX_PTX_H_
