#include "base/text/duration.h"

#include <cstdint>
#include <limits>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

using Wide = __int128;

struct Unit {
  std::string_view name;
  int64_t nanoseconds;
};

constexpr Unit kUnits[] = {
    {"ns", 1},         {"us", 1'000},        {"\xC2\xB5s", 1'000},  {"\xCE\xBCs", 1'000},
    {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000},
};

Error NotADuration(std::string_view text) {
  return Error::Invalid(
      "\"" + std::string(text) +
      "\" is not a duration; write numbers with units, as in 30s, 1h30m or 500ms");
}

Error TooLong(std::string_view text) {
  return Error::TooLarge("\"" + std::string(text) + "\" is too long; the limit is 292 years");
}

// One "12.5s" off the front of `rest`, in nanoseconds; negative when it is none.
Wide TakePart(std::string_view& rest) {
  constexpr Wide kLimit = std::numeric_limits<int64_t>::max();
  Wide whole = 0;
  Wide fraction = 0;
  Wide scale = 1;
  bool digits = false;
  size_t i = 0;
  for (; i < rest.size() && IsDigit(rest[i]); ++i) {
    digits = true;
    if (whole <= kLimit) whole = whole * 10 + (rest[i] - '0');
  }
  if (i < rest.size() && rest[i] == '.') {
    for (++i; i < rest.size() && IsDigit(rest[i]); ++i) {
      digits = true;
      if (scale > 1'000'000'000'000'000'000) continue;
      fraction = fraction * 10 + (rest[i] - '0');
      scale *= 10;
    }
  }
  if (!digits) return -1;
  size_t end = i;
  while (end < rest.size() && !IsDigit(rest[end]) && rest[end] != '.') ++end;
  const std::string_view name = rest.substr(i, end - i);
  for (const Unit& unit : kUnits) {
    if (unit.name != name) continue;
    rest.remove_prefix(end);
    if (whole > kLimit) return kLimit + 1;
    return whole * unit.nanoseconds + fraction * unit.nanoseconds / scale;
  }
  return -1;
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  if (rest == "0") return Duration::zero();
  if (rest.empty()) return NotADuration(text);
  Wide total = 0;
  while (!rest.empty()) {
    const Wide part = TakePart(rest);
    if (part < 0) return NotADuration(text);
    total += part;
    if (total > std::numeric_limits<int64_t>::max()) return TooLong(text);
  }
  const auto value = static_cast<int64_t>(total);
  return Duration(negative ? -value : value);
}

std::string FormatDuration(Duration duration) {
  int64_t left = duration.count();
  if (left == 0) return "0s";
  // Counted downwards from zero, so that the smallest value has no overflow.
  std::string text = left < 0 ? "-" : "";
  if (left > 0) left = -left;
  const auto take = [&](int64_t unit, const char* name) {
    const int64_t count = -(left / unit);
    if (count > 0) text += std::to_string(count) + name;
    left %= unit;
  };
  take(3'600'000'000'000, "h");
  take(60'000'000'000, "m");
  if (left == 0) return text;
  int64_t unit = 1'000'000'000;
  const char* name = "s";
  if (left > -1'000) {
    unit = 1;
    name = "ns";
  } else if (left > -1'000'000) {
    unit = 1'000;
    name = "us";
  } else if (left > -1'000'000'000) {
    unit = 1'000'000;
    name = "ms";
  }
  text += std::to_string(-(left / unit));
  if (int64_t fraction = -(left % unit); fraction > 0) {
    std::string digits = std::to_string(unit + fraction).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    text += "." + digits;
  }
  return text + name;
}

}  // namespace lockstep
