// Members: the machines that a generation is made of, where the operator may leave some out. A
// machine keeps its number for the life of the job; its ranks follow from its place among the
// members. Documents hold them as ranges: "0-5,7".
#ifndef LOCKSTEP_CORE_TERMS_MEMBERS_H_
#define LOCKSTEP_CORE_TERMS_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace lockstep::core {

class Members {
 public:
  static constexpr uint32_t kMost = 4096;  // machines of a job

  Members() = default;
  // 0 .. count - 1.
  static Members All(uint32_t count);
  // In any order.
  static Members Of(std::vector<uint32_t> machines);
  // "0-5,7"; "" is none. Errors: Invalid.
  static Result<Members> Parse(std::string_view text);
  std::string ToString() const;

  bool empty() const { return machines_.empty(); }
  uint32_t size() const { return static_cast<uint32_t>(machines_.size()); }
  bool Contains(uint32_t machine) const;
  // How many members have lower numbers.
  uint32_t PlaceOf(uint32_t machine) const;
  // `place` is below size().
  uint32_t At(uint32_t place) const { return machines_[place]; }
  uint32_t last() const { return machines_.back(); }
  Members And(const Members& other) const;

  auto begin() const { return machines_.begin(); }
  auto end() const { return machines_.end(); }

  friend bool operator==(const Members&, const Members&) = default;

 private:
  std::vector<uint32_t> machines_;  // ascending
};

template <>
struct AsText<Members> {
  static std::string Format(const Members& members) { return members.ToString(); }
  static Result<Members> Parse(std::string_view text) { return Members::Parse(text); }
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_MEMBERS_H_
