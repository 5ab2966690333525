// Enumerations that stand in files by name: one table each, read in both directions.
//
//   template <>
//   inline constexpr auto kEnumNames<Launch> = std::to_array<EnumName<Launch>>(
//       {{Launch::kPerProcess, "PerProcess"}, {Launch::kPerMachine, "PerMachine"}});
#ifndef LOCKSTEP_BASE_ENUM_NAMES_H_
#define LOCKSTEP_BASE_ENUM_NAMES_H_

#include <array>
#include <concepts>
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

template <NamedEnum E>
constexpr const char* ToString(E value) {
  for (const EnumName<E>& entry : kEnumNames<E>) {
    if (entry.value == value) return entry.name;
  }
  return "";
}

template <NamedEnum E>
constexpr std::optional<E> ParseEnum(std::string_view name) {
  for (const EnumName<E>& entry : kEnumNames<E>) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_BASE_ENUM_NAMES_H_
