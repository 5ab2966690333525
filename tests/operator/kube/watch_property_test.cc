// WatchLoop and Cache against an API server that misbehaves in every way that a watch can, at
// random and in virtual time. Whatever happens, the cache stands at a state that the server really
// had at the version it names; and when the faults stop, at the server's.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/watch/cache.h"
#include "operator/kube/watch/watch_loop.h"
#include "operator/kube/watch/watch_sink.h"

namespace lockstep::kube::watch_property_test {
namespace {

using Json = nlohmann::json;
using Objects = std::map<std::string, int>;  // name -> its version

struct Change {
  int version;
  std::string type;
  std::string name;
};

std::string Line(const std::string& type, const std::string& name, int version) {
  const Json meta = {{"name", name}, {"resourceVersion", std::to_string(version)}};
  return Json({{"type", type}, {"object", {{"metadata", meta}}}}).dump() + "\n";
}
std::string Bookmark(int version, bool end_of_state = false) {
  Json meta = {{"resourceVersion", std::to_string(version)}};
  if (end_of_state) meta["annotations"]["k8s.io/initial-events-end"] = "true";
  return Json({{"type", "BOOKMARK"}, {"object", {{"metadata", meta}}}}).dump() + "\n";
}
std::string Gone() {
  return Json({{"type", "ERROR"}, {"object", {{"code", 410}, {"reason", "Expired"}}}}).dump() +
         "\n";
}

class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed),
        sink_({.on_batch = [this](Batch<PodView> batch) { OnBatch(std::move(batch)); }}),
        loop_({.path = "/pods", .seed = seed, .page_size = 3}, &sink_) {
    watch_lists_ = Below(3);
    states_[version_] = objects_;
  }

  void Run() {
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) Step(/*faults=*/true);
    watch_lists_ = 0;
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      if (cache_.resource_version() == std::to_string(version_)) break;
      Step(/*faults=*/false);
    }
    EXPECT_EQ(Cached(), objects_);
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }

  Objects Cached() const {
    Objects cached;
    cache_.ForEach(
        [&](const PodView& pod) { cached[pod.meta.name] = std::stoi(pod.meta.resource_version); });
    return cached;
  }

  void OnBatch(Batch<PodView> batch) {
    if (batch.replace) awaits_reader_ = false;
    cache_.Apply(std::move(batch), [](const PodView*, const PodView*) {});
    const int version = std::stoi(cache_.resource_version());
    ASSERT_TRUE(states_.contains(version)) << version;
    EXPECT_EQ(Cached(), states_[version]) << "at version " << version;
  }

  void Step(bool faults) {
    if (faults && OneIn(3)) Write();
    if (faults && OneIn(60)) compacted_ = version_ - Below(5);
    if (faults && OneIn(150)) Restore();
    if (!streaming_) return Ask(faults);
    if (faults && OneIn(25)) return Break();
    Feed(faults);
  }

  void Write() {
    if (awaits_reader_) return;
    const std::string name(1, static_cast<char>('a' + Below(8)));
    ++version_;
    const bool there = objects_.contains(name);
    const bool remove = there && OneIn(2);
    if (remove) {
      objects_.erase(name);
    } else {
      objects_[name] = version_;
    }
    history_.push_back({version_, remove ? "DELETED" : there ? "MODIFIED" : "ADDED", name});
    states_[version_] = objects_;
  }

  // An old backup takes the place of the server: versions go down, and streams end.
  void Restore() {
    const int to = std::max(version_ - 1 - Below(20), 100);
    if (awaits_reader_ || to >= version_) return;
    ++restored_;
    version_ = to;
    objects_ = states_[to];
    std::erase_if(history_, [&](const Change& change) { return change.version > to; });
    compacted_ = std::min(compacted_, to);
    // Were it to overtake the reader's version before he has noticed, nobody could tell.
    awaits_reader_ = true;
    Break();
  }

  void Break() {
    streaming_ = false;
    Status end;
    if (OneIn(2)) end = Error::Unavailable("reset");
    if (OneIn(4)) {
      now_ = loop_.deadline();
      end = WatchLoop::Silence();
    }
    loop_.OnEnd(end, now_);
  }

  void Ask(bool faults) {
    WatchLoop::Step step = loop_.Next(now_);
    if (step.kind == WatchLoop::Kind::kWait) {
      now_ = step.until;
      return;
    }
    now_ += milliseconds(1);
    if (step.kind == WatchLoop::Kind::kPage) return AnswerPage(step.request.path, faults);
    streaming_ = true;
    pending_.clear();
    if (faults && OneIn(10)) {
      constexpr int kStatuses[] = {429, 500, 503, 410, 403};
      return Refuse(kStatuses[Below(5)]);
    }
    const bool initial = step.request.path.find("sendInitialEvents") != std::string::npos;
    const size_t from = step.request.path.find("resourceVersion=");
    if (initial) {
      if (watch_lists_ == 1) return Refuse(400);
      for (const auto& [name, version] : objects_) pending_ += Line("ADDED", name, version);
      position_ = version_;
      if (watch_lists_ == 0) pending_ += Bookmark(version_, /*end_of_state=*/true);
    } else {
      position_ = std::stoi(step.request.path.substr(from + 16));
      if (position_ < compacted_) return Refuse(410);
    }
    loop_.OnHead({.status = 200, .body = "", .retry_after = {}}, now_);
  }

  void Refuse(int status) {
    streaming_ = false;
    loop_.OnHead({.status = status, .body = "", .retry_after = {}}, now_);
  }

  // Pages of one state, by a token that says which and where.
  void AnswerPage(const std::string& path, bool faults) {
    if (faults && OneIn(10)) return loop_.OnPage(Error::Unavailable("reset"), now_);
    int at = version_;
    size_t first = 0;
    if (const size_t token = path.find("continue="); token != std::string::npos) {
      int restored = 0;
      std::istringstream in(path.substr(token + 9));
      char dash = '-';
      in >> at >> dash >> first >> dash >> restored;
      if (at < compacted_ || restored != restored_) {
        return loop_.OnPage(Response{.status = 410, .body = "", .retry_after = {}}, now_);
      }
    }
    const Objects& state = states_[at];
    Json items = Json::array();
    auto object = state.begin();
    std::advance(object, static_cast<long>(std::min(first, state.size())));
    for (; object != state.end() && items.size() < 3; ++object) {
      items.push_back(
          {{"metadata",
            {{"name", object->first}, {"resourceVersion", std::to_string(object->second)}}}});
    }
    Json meta = {{"resourceVersion", std::to_string(at)}};
    if (object != state.end()) {
      meta["continue"] = std::to_string(at) + "-" + std::to_string(first + items.size()) + "-" +
                         std::to_string(restored_);
    }
    const std::string body = Json({{"metadata", meta}, {"items", items}}).dump();
    loop_.OnPage(Response{.status = 200, .body = body, .retry_after = {}}, now_);
  }

  // Some more of the stream: as many bytes as it happens to be.
  void Feed(bool faults) {
    for (const Change& change : history_) {
      if (change.version <= position_) continue;
      pending_ += Line(change.type, change.name, change.version);
      if (faults && OneIn(10)) pending_ += Line(change.type, change.name, change.version);
      position_ = change.version;
    }
    if (!faults || OneIn(5)) pending_ += Bookmark(version_);
    if (faults && OneIn(40)) pending_ += Gone();
    const size_t size = faults ? static_cast<size_t>(Below(200)) : pending_.size();
    const std::string piece = pending_.substr(0, size);
    pending_.erase(0, piece.size());
    now_ += milliseconds(Below(5000));
    if (now_ >= loop_.deadline()) {
      streaming_ = false;
      return loop_.OnEnd(WatchLoop::Silence(), now_);
    }
    streaming_ = loop_.OnData(piece, now_);
  }

  std::mt19937_64 random_;
  Time now_ = seconds(1000);

  int watch_lists_ = 0;  // 0: known, 1: refused, 2: sendInitialEvents is ignored
  int version_ = 100;
  int compacted_ = 0;
  int restored_ = 0;  // how often
  bool awaits_reader_ = false;
  Objects objects_;
  std::vector<Change> history_;
  std::map<int, Objects> states_;

  bool streaming_ = false;
  int position_ = 0;
  std::string pending_;

  Cache<PodView> cache_;
  TypedSink<PodView> sink_;
  WatchLoop loop_;
};

TEST(WatchProperty, TheCacheStandsAtAStateTheServerHadAndEndsAtItsLast) {
  for (uint64_t seed = 0; seed < 700 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World(seed).Run();
  }
}

}  // namespace
}  // namespace lockstep::kube::watch_property_test
