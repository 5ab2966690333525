#include "base/text/quantity.h"

#include "base/text/ascii.h"

namespace lockstep {
namespace {

// Wide enough for any mantissa we accept times any suffix; both are checked anyway.
using Wide = __int128;
constexpr Wide kMostWide = static_cast<Wide>(~static_cast<unsigned __int128>(0) >> 1);

constexpr int kMaxDigits = 19;
constexpr Wide kMaxMilli = (Wide{8} << 50) * 1000;

struct Suffix {
  std::string_view text;
  int power_of_ten = 0;
  int power_of_two = 0;
};

constexpr Suffix kSuffixes[] = {
    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"", 0, 0},    {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

Error NotAQuantity(std::string_view text) {
  return Error::Invalid(
      "\"" + std::string(text) +
      "\" is not a quantity; write a number with an optional suffix, as in 500m, 4, "
      "1.5, 16Gi or 2e3");
}

Error TooLarge(std::string_view text) {
  return Error::TooLarge("\"" + std::string(text) + "\" is too large; the limit is 8Pi");
}

// The number before the suffix: mantissa / 10^fraction_digits, and a little more where digits were
// dropped.
struct Decimal {
  Wide mantissa = 0;
  int fraction_digits = 0;
  std::string_view rest;
  bool valid = false;
  bool too_large = false;
  bool dropped = false;
};

Decimal ReadDecimal(std::string_view text) {
  Decimal decimal;
  int digits = 0;
  bool in_fraction = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && !in_fraction) {
      in_fraction = true;
      continue;
    }
    if (!IsDigit(c)) break;
    decimal.valid = true;
    if (decimal.mantissa != 0 || c != '0') ++digits;
    if (digits <= kMaxDigits) {
      decimal.mantissa = decimal.mantissa * 10 + (c - '0');
      if (in_fraction) ++decimal.fraction_digits;
    } else if (in_fraction) {
      decimal.dropped = decimal.dropped || c != '0';
    } else {
      decimal.too_large = true;
    }
  }
  decimal.rest = text.substr(i);
  return decimal;
}

// e3, E-2: an exponent of ten. False when `text` is none; E alone is the suffix for 10^18.
bool ReadExponent(std::string_view text, int& exponent) {
  constexpr size_t kMostDigits = 2;
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return false;
  const bool negative = text[1] == '-';
  const std::string_view digits = text.substr(text[1] == '-' || text[1] == '+' ? 2 : 1);
  if (digits.empty() || digits.size() > kMostDigits) return false;
  int value = 0;
  for (const char c : digits) {
    if (!IsDigit(c)) return false;
    value = value * 10 + (c - '0');
  }
  exponent = negative ? -value : value;
  return true;
}

// Both numbers must be positive. Returns false if the product does not fit. The compiler's own
// check of 128 bits calls __muloti4 on arm64, which libgcc lacks.
bool Multiply(Wide& value, Wide factor) {
  if (value > kMostWide / factor) return false;
  value *= factor;
  return true;
}

}  // namespace

Result<Quantity> Quantity::Parse(std::string_view text) {
  std::string_view rest = text;
  bool negative = false;
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  Decimal decimal = ReadDecimal(rest);
  if (!decimal.valid) return NotAQuantity(text);

  Suffix suffix{};
  if (!ReadExponent(decimal.rest, suffix.power_of_ten)) {
    bool known = false;
    for (const Suffix& candidate : kSuffixes) {
      if (candidate.text == decimal.rest) {
        suffix = candidate;
        known = true;
      }
    }
    if (!known) return NotAQuantity(text);
  }
  const Format format = suffix.power_of_two > 0 ? Format::kBinary : Format::kDecimal;
  if (decimal.too_large) return TooLarge(text);
  Wide milli = decimal.mantissa;
  if (!Multiply(milli, Wide{1} << suffix.power_of_two)) return TooLarge(text);
  int power = 3 + suffix.power_of_ten - decimal.fraction_digits;
  for (; power > 0 && milli != 0; --power) {
    if (!Multiply(milli, 10)) return TooLarge(text);
  }
  bool rounds = decimal.dropped;
  for (; power < 0; ++power) {
    rounds = rounds || milli % 10 != 0;
    milli /= 10;
  }
  if (rounds) ++milli;
  if (milli > kMaxMilli) return TooLarge(text);
  const auto value = static_cast<int64_t>(milli);
  return Quantity(negative ? -value : value, format);
}

std::string Quantity::ToString() const {
  if (!IsWhole()) return std::to_string(milli_) + "m";
  int64_t value = milli_ / 1000;
  if (value == 0) return "0";
  const bool binary = format_ == Format::kBinary;
  const int64_t base = binary ? 1024 : 1000;
  constexpr const char* kBinary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  constexpr const char* kDecimal[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t step = 0;
  while (value % base == 0) {
    value /= base;
    ++step;
  }
  return std::to_string(value) + (binary ? kBinary[step] : kDecimal[step]);
}

Result<Quantity> Quantity::Times(int64_t factor) const {
  int64_t product = 0;
  if (__builtin_mul_overflow(milli_, factor, &product)) {
    return Error::TooLarge(ToString() + " times " + std::to_string(factor) +
                           " is too large; the limit is 8Pi");
  }
  return Quantity(product, format_);
}

}  // namespace lockstep
