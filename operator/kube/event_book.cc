#include "operator/kube/event_book.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/text/json.h"
#include "operator/kube/api.h"

namespace lockstep::kube {
namespace {

constexpr Duration kSweepEvery = minutes(1);

// At most `limit` bytes, and no half character at the end.
std::string Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
  return std::string(text.substr(0, limit));
}

Json Reference(const ObjectRef& object) {
  Json reference = {{"apiVersion", object.api_version},
                    {"kind", object.kind},
                    {"name", object.name},
                    {"uid", object.uid}};
  if (!object.name_space.empty()) reference["namespace"] = object.name_space;
  return reference;
}

std::string Hex(uint64_t number) {
  char text[17];
  const int size =
      std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(number));
  return {text, static_cast<size_t>(size)};
}

}  // namespace

std::vector<Request> EventBook::Record(const ObjectRef& regarding, const EventText& event, Time now,
                                       WallTime wall) {
  std::vector<Request> writes;
  Sweep(now, &writes);
  Key key{regarding, event.type, event.reason, event.action};
  auto known = series_.find(key);
  if (known == series_.end()) {
    if (IsSpam(regarding, now)) return writes;
    Series series{.path = "", .seen = now, .sent = now, .last = wall};
    writes.push_back(Create(regarding, event, wall, &series.path));
    series_.emplace(std::move(key), std::move(series));
    return writes;
  }
  Series& series = known->second;
  ++series.count;
  series.seen = now;
  series.last = wall;
  // The second event starts a series and is sent at once; later counts can wait.
  if (series.count == 2 || now - series.sent >= kSeriesRefresh) {
    series.sent = now;
    series.sent_count = series.count;
    writes.push_back(Patch(series));
  }
  return writes;
}

bool EventBook::IsSpam(const ObjectRef& regarding, Time now) {
  Allowance& allowance = objects_.try_emplace(regarding, Allowance{.since = now}).first->second;
  const auto refills = (now - allowance.since) / kSpamInterval;
  allowance.left = static_cast<int>(std::min<int64_t>(kBurst, allowance.left + refills));
  allowance.since += refills * kSpamInterval;
  if (allowance.left == 0) return true;
  --allowance.left;
  return false;
}

void EventBook::Sweep(Time now, std::vector<Request>* writes) {
  if (now - swept_ < kSweepEvery) return;
  swept_ = now;
  std::erase_if(series_, [&](const auto& entry) {
    const Series& series = entry.second;
    if (now - series.seen < kSeriesEnds) return false;
    if (series.count > series.sent_count) writes->push_back(Patch(series));
    return true;
  });
  // A full allowance is the default, so the entry is dropped.
  std::erase_if(objects_, [&](const auto& entry) {
    return now - entry.second.since >= kSpamInterval * (kBurst - entry.second.left);
  });
}

Request EventBook::Create(const ObjectRef& regarding, const EventText& event, WallTime wall,
                          std::string* path) {
  constexpr size_t kMaxName = 128;
  const std::string name_space = regarding.name_space.empty() ? "default" : regarding.name_space;
  const auto stamp = static_cast<uint64_t>(wall.time_since_epoch().count());
  const std::string name = regarding.name + "." + Hex(stamp) + Hex(made_++);
  const Json body = {{"apiVersion", "events.k8s.io/v1"},
                     {"kind", "Event"},
                     {"metadata", {{"name", name}, {"namespace", name_space}}},
                     {"eventTime", FormatMicroTime(wall)},
                     {"reportingController", controller_},
                     {"reportingInstance", Cut(instance_, kMaxName)},
                     {"regarding", Reference(regarding)},
                     {"type", event.type == EventType::kNormal ? "Normal" : "Warning"},
                     {"reason", Cut(event.reason, kMaxName)},
                     {"action", Cut(event.action, kMaxName)},
                     {"note", Cut(event.note, kMaxNote)}};
  *path = Path(kEvents, name_space, name);
  Request request;
  request.method = Method::kPost;
  request.path = Path(kEvents, name_space);
  request.body = DumpJson(body);
  return request;
}

Request EventBook::Patch(const Series& series) {
  const Json body = {
      {"series", {{"count", series.count}, {"lastObservedTime", FormatMicroTime(series.last)}}}};
  Request request;
  request.method = Method::kPatch;
  request.path = series.path;
  request.body = DumpJson(body);
  request.content_type = "application/merge-patch+json";
  return request;
}

}  // namespace lockstep::kube
