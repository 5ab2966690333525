// Our declarations of a library's functions against those of its own header.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_SAME_ABI_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_SAME_ABI_H_

#include <type_traits>

namespace lockstep {

// The same to the ABI, as far as these interfaces go: both pointers; both structs of one size, by
// value; or both integers or enumerations of one size.
template <typename Ours, typename Theirs>
constexpr bool SameType() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    return std::is_class_v<Ours> == std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename Ours, typename Theirs>
struct SameAbi : std::false_type {};
template <typename R1, typename... A1, typename R2, typename... A2>
  requires(sizeof...(A1) == sizeof...(A2))
struct SameAbi<R1 (*)(A1...), R2(A2...)>
    : std::bool_constant<SameType<R1, R2>() && (SameType<A1, A2>() && ...)> {};

#define EXPECT_SAME_ABI(api, member, function) \
  static_assert(SameAbi<decltype(api::member), decltype(::function)>::value)

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_SAME_ABI_H_
