// The table of a struct's fields: the name of each in documents, and the member that holds it. A
// struct that is read or written as a document has one table, beside it. All readers, writers and
// the spelling help use that table, so none of them can forget a field.
//
//   struct Machine { uint32_t index = 0; Duration silent{}; std::string pod; };
//   template <>
//   inline constexpr auto kFields<Machine> =
//       std::tuple(Field{"index", &Machine::index, Always{}},
//                  Field{"silentForSeconds", &Machine::silent, InSeconds{}},
//                  Field{"pod", &Machine::pod, AtMost{253}});
//
// core/record reads and writes them as YAML and JSON.
#ifndef LOCKSTEP_BASE_FIELDS_H_
#define LOCKSTEP_BASE_FIELDS_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/time.h"

namespace lockstep::core {

// ---- forms: how a member stands in a document, where its type alone doesn't say ----

// A limit that the reader and the CRD enforce. `most`: letters of a text, or items of a list or
// map. `letters`: of each item that is a text; 0: no limit.
struct AtMost {
  size_t most = 0;
  size_t letters = 0;
};
// A text of any length, which the writer cuts after so many bytes.
struct CutTo {
  size_t bytes = 0;
};
struct Always {};     // written even at its default; an empty optional is written as null
struct Whole {};      // a struct that is always written, with every field, even at its default
struct Required {};   // a document without it is refused; always written
struct Inline {};     // a struct whose fields stand beside the others; it has no name
struct InSeconds {};  // a duration as a number of seconds; a text with a unit elsewhere
// The name that the field had: read in a program's document where the field's own is absent, never
// written, and unknown in a user's.
struct Formerly {
  std::string_view name;
};
// A list of signals, by their names (SIGBUS, SIGSEGV) or, for programs, by their numbers.
struct Signals {};
// A duration between the two. The reader checks a program's document; Validate checks a user's.
struct Within {
  Duration least{};
  Duration most{};
};
// A whole number, or each of a list, between the two. Validate and the CRD hold a user's document
// to it.
struct Between {
  int64_t least = 0;
  int64_t most = std::numeric_limits<int32_t>::max();
};

template <typename Struct, typename Type, typename... Forms>
struct Field {
  constexpr Field(std::string_view its_name, Type Struct::* its_member, Forms... its_forms)
      : name(its_name), member(its_member), forms(its_forms...) {}

  template <typename Form>
  static constexpr bool kHas = (std::same_as<Form, Forms> || ...);
  template <typename Form>
  constexpr const Form& Get() const {
    return std::get<Form>(forms);
  }

  std::string_view name;
  Type Struct::* member;
  std::tuple<Forms...> forms;
};

struct NoFields {};

template <typename Struct>
inline constexpr NoFields kFields{};

template <typename Struct>
concept HasFields = !std::is_same_v<std::remove_cv_t<decltype(kFields<Struct>)>, NoFields>;

// ---- what else a type may say of itself ----

// Names of fields that others may add to a struct and that Lockstep ignores.
template <typename Struct>
inline constexpr std::array<std::string_view, 0> kOthersFields{};

// A type that documents hold as a value of another type, its surrogate:
//   using Type = ...; static Type From(const T&); static Result<T> To(const Type&);
template <typename T>
struct Surrogate {};
template <typename T>
concept HasSurrogate = requires { typename Surrogate<T>::Type; };

// A type that stands in documents as one text:
//   static std::string Format(const T&); static Result<T> Parse(std::string_view);
template <typename T>
struct AsText {};
template <typename T>
concept HasText = requires(const T& value) { AsText<T>::Format(value); };

// ---- going over a table ----

template <HasFields Struct, typename Visitor, typename Table = decltype(kFields<Struct>)>
constexpr void ForEachField(Visitor&& visitor, const Table& table = kFields<Struct>) {
  std::apply([&](const auto&... field) { (visitor(field), ...); }, table);
}

template <HasFields Struct>
std::vector<std::string_view> FieldNames() {
  std::vector<std::string_view> names;
  ForEachField<Struct>([&](const auto& field) { names.push_back(field.name); });
  return names;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_BASE_FIELDS_H_
