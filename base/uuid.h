// UUIDs of RFC 9562: version 4 (random) and version 5 (of a name).
#ifndef LOCKSTEP_BASE_UUID_H_
#define LOCKSTEP_BASE_UUID_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

struct Uuid {
  std::array<uint8_t, 16> bytes{};

  // 122 bits from OpenSSL's generator.
  static Uuid Random();
  // SHA-1 of the name space and the name.
  static Uuid FromName(const Uuid& name_space, std::string_view name);
  // The 36-character form, either case.
  static std::optional<Uuid> Parse(std::string_view text);

  // Lower case, 8-4-4-4-12.
  std::string ToString() const;

  friend bool operator==(const Uuid&, const Uuid&) = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_UUID_H_
