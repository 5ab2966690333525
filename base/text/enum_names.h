// Enumerations that stand in files by name: one table each, read in both directions. A value
// without a row, or rows in another order than the values', do not compile.
//
//   template <>
//   inline constexpr auto kEnumNames<Launch> = std::to_array<EnumName<Launch>>(
//       {{Launch::kPerProcess, "PerProcess"}, {Launch::kPerMachine, "PerMachine"}});
#ifndef LOCKSTEP_BASE_TEXT_ENUM_NAMES_H_
#define LOCKSTEP_BASE_TEXT_ENUM_NAMES_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::core {

template <typename E>
struct EnumName {
  E value;
  const char* name;
};

template <typename E>
inline constexpr std::array<EnumName<E>, 0> kEnumNames{};

template <typename E>
concept NamedEnum = (kEnumNames<E>.size() > 0);

// Whether an enumeration declares the value: the compiler writes one that it doesn't as a number
// behind a cast, `(lockstep::core::Launch)2`.
template <auto value>
consteval bool IsDeclared() {
  constexpr std::string_view self = __PRETTY_FUNCTION__;
  const char after = self[self.find_last_of("):") + 1];
  return after != '-' && (after < '0' || after > '9');
}

template <NamedEnum E>
consteval bool NamesEveryValue() {
  constexpr auto next = [](E value) { return static_cast<E>(static_cast<int>(value) + 1); };
  constexpr const auto& names = kEnumNames<E>;
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i].value != next(names[i - 1].value)) return false;
  }
  return !IsDeclared<next(names.back().value)>();
}

template <NamedEnum E>
constexpr const char* ToString(E value) {
  static_assert(NamesEveryValue<E>());
  for (const EnumName<E>& entry : kEnumNames<E>) {
    if (entry.value == value) return entry.name;
  }
  return "";
}

template <NamedEnum E>
constexpr std::optional<E> ParseEnum(std::string_view name) {
  static_assert(NamesEveryValue<E>());
  for (const EnumName<E>& entry : kEnumNames<E>) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_BASE_TEXT_ENUM_NAMES_H_
