// TypedSink<T>: collects the objects of a WatchLoop and hands them over in batches.
#ifndef LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_SINK_H_
#define LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_SINK_H_

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/kube/decode/decode.h"
#include "operator/kube/watch/watch.h"
#include "operator/kube/watch/watch_loop.h"

namespace lockstep::kube {

template <typename T>
class TypedSink : public WatchSink {
 public:
  explicit TypedSink(WatchHandlers<T> handlers, std::string name_space = {})
      : handlers_(std::move(handlers)), name_space_(std::move(name_space)) {}

  Result<WatchLine> Line(std::string_view padded) override {
    T object;
    auto line = decoder_.Line(padded, &object);
    if (!line.ok()) return line;
    if (const auto kind = KindOf(line->type)) Collect(*kind, std::move(object));
    return line;
  }

  void Unreadable(EventKind kind, const UnreadableObject& object) override {
    WatchEvent<T> event{.kind = kind, .object = {}, .unreadable = true};
    event.object.meta = object.meta;
    events_.push_back(std::move(event));
    if (handlers_.on_unreadable) handlers_.on_unreadable(object.meta, object.why);
  }

  Result<ListPage> Page(std::string body) override {
    std::vector<T> items;
    auto page = decoder_.Page(std::move(body), &items);
    if (!page.ok()) return page;
    for (T& item : items) Collect(EventKind::kAdded, std::move(item));
    for (const UnreadableObject& each : page->unreadable) Unreadable(EventKind::kAdded, each);
    return page;
  }

  void Drop() override {
    events_ = {};
    if (handlers_.on_anew) handlers_.on_anew();
  }

  void Deliver(bool replace, const std::string& version) override {
    if (replace) KeepLastStates();
    handlers_.on_batch({.replace = replace,
                        .events = std::exchange(events_, {}),
                        .resource_version = version,
                        .name_space = name_space_});
  }

  void Problem(const Error& error) override {
    if (handlers_.on_problem) handlers_.on_problem(error);
  }

  void Restarted() override {
    if (handlers_.on_restart) handlers_.on_restart();
  }

 private:
  void Collect(EventKind kind, T object) {
    if (handlers_.on_read) handlers_.on_read(kind, object);
    events_.push_back({kind, std::move(object)});
  }

  // The state may change while it is sent, so MODIFIED and DELETED may stand among its ADDED.
  void KeepLastStates() {
    const bool changed = std::ranges::any_of(
        events_, [](const WatchEvent<T>& event) { return event.kind != EventKind::kAdded; });
    if (!changed) return;
    std::set<std::pair<std::string, std::string>> seen;
    std::vector<WatchEvent<T>> last;
    for (auto event = events_.rbegin(); event != events_.rend(); ++event) {
      const ObjectMeta& meta = event->object.meta;
      if (!seen.emplace(meta.name_space, meta.name).second) continue;
      if (event->kind == EventKind::kDeleted) continue;
      last.push_back({EventKind::kAdded, std::move(event->object), event->unreadable});
    }
    events_ = std::move(last);
  }

  WatchHandlers<T> handlers_;
  const std::string name_space_;
  Decoder decoder_;
  std::vector<WatchEvent<T>> events_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_WATCH_WATCH_SINK_H_
