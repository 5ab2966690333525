// What the bodies share: a checked reader of JSON objects, and the values that stand in more than
// one of them. Private to core/gang/bodies_*.cc.
#ifndef LOCKSTEP_CORE_GANG_BODY_PARTS_H_
#define LOCKSTEP_CORE_GANG_BODY_PARTS_H_

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/result.h"
#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/messages.h"

namespace lockstep::core::body {

using Json = nlohmann::json;

// ---- writing ----

double Seconds(Duration d);
// Strings of a body are at most 1 KiB.
std::string Shortened(const std::string& text);
// One line; bytes of a rank's stderr that are no UTF-8 are replaced.
std::string Dump(const Json& json);

Json Write(const Failure& f);
Json Write(const Counters& c);

// ---- reading ----

// Thrown by the readers below and caught in Parse: a body is read whole or refused.
struct BadBody {
  std::string message;
};

class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json_.is_object()) throw BadBody{where_ + ": must be an object"};
  }

  bool Has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  const Json& At(const char* name) const {
    if (!Has(name)) throw BadBody{Path(name) + ": is missing"};
    return json_[name];
  }
  Object Child(const char* name) const { return {At(name), Path(name)}; }

  template <typename T>
  T Integer(const char* name, T fallback = 0) const {
    if (!Has(name)) return fallback;
    const Json& value = json_[name];
    bool fits = value.is_number_unsigned()
                    ? std::in_range<T>(value.get<uint64_t>())
                    : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits) throw BadBody{Path(name) + ": must be an integer in range"};
    return value.get<T>();
  }
  double Number(const char* name, double fallback) const {
    if (!Has(name)) return fallback;
    if (!json_[name].is_number()) throw BadBody{Path(name) + ": must be a number"};
    return json_[name].get<double>();
  }
  bool Bool(const char* name) const {
    if (!Has(name)) return false;
    if (!json_[name].is_boolean()) throw BadBody{Path(name) + ": must be true or false"};
    return json_[name].get<bool>();
  }
  std::string Text(const char* name) const {
    if (!Has(name)) return "";
    if (!json_[name].is_string()) throw BadBody{Path(name) + ": must be a string"};
    return json_[name].get<std::string>();
  }
  // Seconds as a number.
  std::optional<Duration> Span(const char* name) const {
    if (!Has(name)) return std::nullopt;
    double value = Number(name, 0);
    if (!(std::abs(value) < 4e9)) throw BadBody{Path(name) + ": is out of range"};
    return duration_cast<Duration>(std::chrono::duration<double>(value));
  }
  // As Kubernetes writes it: "15s".
  Duration Written(const char* name, Duration fallback) const {
    if (!Has(name)) return fallback;
    Result<Duration> value = ParseDuration(Text(name));
    if (!value.ok()) throw BadBody{Path(name) + ": " + value.error().message};
    return *value;
  }
  template <typename Read>
  auto List(const char* name, size_t limit, Read read) const {
    std::vector<decltype(read(std::declval<Object>()))> list;
    if (!Has(name)) return list;
    const Json& items = json_[name];
    if (!items.is_array() || items.size() > limit) {
      throw BadBody{Path(name) + ": must be a list of at most " + std::to_string(limit)};
    }
    for (const Json& item : items) list.push_back(read(Object(item, Path(name) + "[]")));
    return list;
  }
  std::vector<int> Integers(const char* name) const {
    std::vector<int> list;
    if (!Has(name)) return list;
    const Json& items = json_[name];
    if (!items.is_array() || items.size() > 256) throw BadBody{Path(name) + ": must be a list"};
    for (const Json& item : items) {
      if (!item.is_number_integer() || !std::in_range<int>(item.get<int64_t>())) {
        throw BadBody{Path(name) + ": must hold integers"};
      }
      list.push_back(item.get<int>());
    }
    return list;
  }
  std::string Path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

 private:
  const Json& json_;
  std::string where_;
};

// The value whose name it is, of an enum with `count` values from 0.
template <typename E>
E Named(const Object& o, const char* name, int count, E fallback) {
  if (!o.Has(name)) return fallback;
  std::string text = o.Text(name);
  for (int i = 0; i < count; ++i) {
    if (text == ToString(static_cast<E>(i))) return static_cast<E>(i);
  }
  throw BadBody{o.Path(name) + ": unknown name " + text};
}

Generation ReadGeneration(const Object& o, const char* name);
Failure ReadFailure(const Object& o);
Counters ReadCounters(const Object& o);

// Parses `text` and has `read` make a T of it.
template <typename T, typename Read>
Result<T> Parse(std::string_view text, size_t limit, Read read) {
  if (text.size() > limit) {
    return Error::TooLarge("the body is over " + std::to_string(limit) + " bytes");
  }
  // nlohmann's parser recurses no deeper than its input nests; bodies are flat.
  int depth = 0;
  auto shallow = [&depth](int at, Json::parse_event_t, Json&) {
    depth = std::max(depth, at);
    return true;
  };
  Json json = Json::parse(text, shallow, /*allow_exceptions=*/false);
  if (json.is_discarded() || depth > 16) return Error::Invalid("the body is not JSON");
  try {
    return read(Object(json, ""));
  } catch (const BadBody& bad) {
    return Error::Invalid(bad.message);
  } catch (const Json::exception& e) {
    return Error::Invalid(e.what());
  }
}

}  // namespace lockstep::core::body

#endif  // LOCKSTEP_CORE_GANG_BODY_PARTS_H_
