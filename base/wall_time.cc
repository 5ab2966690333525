#include "base/wall_time.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>

namespace lockstep {
namespace {

using std::chrono::sys_days;

// Reads a text from its front. Once something was not as expected, `ok` stays false.
struct Reader {
  std::string_view rest;
  bool ok = true;

  bool TakeAnyOf(std::string_view chars) {
    if (rest.empty() || chars.find(rest[0]) == std::string_view::npos) return false;
    rest.remove_prefix(1);
    return true;
  }
  void Expect(std::string_view chars) { ok = TakeAnyOf(chars) && ok; }
  int Digits(size_t count) {
    int value = 0;
    for (size_t i = 0; i < count; ++i) {
      if (rest.empty() || rest[0] < '0' || rest[0] > '9') {
        ok = false;
        return 0;
      }
      value = value * 10 + (rest[0] - '0');
      rest.remove_prefix(1);
    }
    return value;
  }
  int Number(int first, int last, size_t digits) {
    const int value = Digits(digits);
    ok = ok && value >= first && value <= last;
    return value;
  }
  nanoseconds Fraction() {
    int64_t value = 0;
    int64_t unit = 1'000'000'000;
    bool any = false;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      any = true;
      unit /= 10;
      value += (rest[0] - '0') * unit;
      rest.remove_prefix(1);
    }
    ok = ok && any;
    return nanoseconds(value);
  }
};

struct Parts {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<seconds> clock;
};

Parts Split(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  return {day, std::chrono::hh_mm_ss<seconds>(std::chrono::floor<seconds>(time - day))};
}

// 2026-11-21T08:38:39
std::string FormatToSeconds(WallTime time) {
  const auto [date, clock] = Split(time);
  std::array<char, 64> text{};
  const int size = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  return {text.data(), static_cast<size_t>(size)};
}

}  // namespace

WallTime WallNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return WallTime(seconds(now.tv_sec) + nanoseconds(now.tv_nsec));
}

Result<WallTime> ParseWallTime(std::string_view text) {
  Reader in{text};
  // What nanoseconds in 64 bits can hold.
  const std::chrono::year year(in.Number(1678, 2261, 4));
  in.Expect("-");
  const std::chrono::month month(static_cast<unsigned>(in.Number(1, 12, 2)));
  in.Expect("-");
  const std::chrono::day day(static_cast<unsigned>(in.Number(1, 31, 2)));
  in.Expect("Tt");
  const hours hour(in.Number(0, 23, 2));
  in.Expect(":");
  const minutes minute(in.Number(0, 59, 2));
  in.Expect(":");
  const seconds second(in.Number(0, 60, 2));
  const nanoseconds fraction = in.TakeAnyOf(".") ? in.Fraction() : nanoseconds(0);
  minutes offset(0);
  if (!in.TakeAnyOf("Zz")) {
    const bool west = in.TakeAnyOf("-");
    if (!west) in.Expect("+");
    offset = hours(in.Number(0, 23, 2));
    in.Expect(":");
    offset += minutes(in.Number(0, 59, 2));
    if (west) offset = -offset;
  }
  const std::chrono::year_month_day date{year, month, day};
  if (!in.ok || !in.rest.empty() || !date.ok()) {
    return Error::Invalid("\"" + std::string(text) +
                          "\" is not a time of RFC 3339; write it as in 2026-11-21T08:38:39Z");
  }
  return WallTime(sys_days(date).time_since_epoch() + hour + minute + second + fraction - offset);
}

std::string FormatWallTime(WallTime time) { return FormatToSeconds(time) + "Z"; }

std::string FormatMicroTime(WallTime time) {
  const auto micros =
      std::chrono::floor<microseconds>(time - std::chrono::floor<seconds>(time)).count();
  return FormatToSeconds(time) + "." + std::to_string(1'000'000 + micros).substr(1) + "Z";
}

}  // namespace lockstep
