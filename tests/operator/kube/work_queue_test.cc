#include "operator/kube/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace lockstep::kube {
namespace {

constexpr Time kStart = seconds(1000);

ObjectName Job(const std::string& name) { return {"default", name}; }

class WorkQueueTest : public testing::Test {
 protected:
  // The next key's name; "" if there is none.
  std::string Take(Time now = kStart) {
    auto work = queue_.Take(now);
    return work ? work->key.name : "";
  }
  void Add(const std::string& name, Priority priority = Priority::kNormal) {
    queue_.Add(Job(name), priority, kStart);
  }
  void Done(const std::string& name, Outcome outcome = Outcome::kOk, Time now = kStart) {
    queue_.Done(Job(name), now, outcome);
  }

  WorkQueue queue_;
};

TEST_F(WorkQueueTest, HandsOutAKeyOnceHoweverOftenItWasAdded) {
  Add("a");
  Add("a");
  EXPECT_EQ(queue_.depth(), 1U);
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(Take(), "");
  Done("a");
  EXPECT_EQ(Take(), "");
  EXPECT_EQ(queue_.NextWake(), kNever);
}

TEST_F(WorkQueueTest, WhatHappensDuringAKeysWorkRunsItOnceMoreAfterwards) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  Add("a");
  Add("a");
  EXPECT_EQ(Take(), "");
  Done("a");
  EXPECT_EQ(Take(), "a");
  Done("a");
  EXPECT_EQ(Take(), "");
}

TEST_F(WorkQueueTest, HigherPrioritiesGoFirstAndEqualOnesInTheirOrder) {
  Add("background", Priority::kBackground);
  Add("first");
  Add("second");
  Add("urgent", Priority::kUrgent);
  Add("background", Priority::kNormal);
  Add("first", Priority::kBackground);
  for (const char* next : {"urgent", "first", "second", "background"}) EXPECT_EQ(Take(), next);
}

TEST_F(WorkQueueTest, NamespacesTakeTurnsAndWhatMayNotBeginWaits) {
  for (const char* name : {"a1", "a2", "a3"}) queue_.Add({"a", name}, Priority::kNormal, kStart);
  queue_.Add({"b", "b1"}, Priority::kNormal, kStart);
  EXPECT_EQ(Take(), "a1");
  EXPECT_EQ(Take(), "b1");
  const MayTake none_of_a = [](const std::string& name_space, Priority priority) {
    return name_space != "a" || priority == Priority::kUrgent;
  };
  EXPECT_FALSE(queue_.Take(kStart, none_of_a));
  queue_.Add({"a", "a3"}, Priority::kUrgent, kStart);
  EXPECT_EQ(queue_.Take(kStart, none_of_a)->key.name, "a3");
  EXPECT_EQ(Take(), "a2");
}

TEST_F(WorkQueueTest, SaysHowLongAKeyWaited) {
  Add("a");
  EXPECT_EQ(queue_.Take(kStart + seconds(3))->waited, seconds(3));
}

TEST_F(WorkQueueTest, ATimerRunsAtItsTimeAndTheEarliestCounts) {
  queue_.AddAt(Job("a"), kStart + seconds(9), Priority::kNormal);
  queue_.AddAt(Job("a"), kStart + seconds(5), Priority::kNormal);
  queue_.AddAt(Job("a"), kStart + seconds(7), Priority::kNormal);
  queue_.AddAt(Job("b"), kNever, Priority::kNormal);
  EXPECT_EQ(queue_.NextWake(), kStart + seconds(5));
  EXPECT_EQ(Take(kStart + seconds(5) - nanoseconds(1)), "");
  EXPECT_EQ(Take(kStart + seconds(5)), "a");
  Done("a");
  EXPECT_EQ(queue_.NextWake(), kNever);
}

TEST_F(WorkQueueTest, FailuresInARowDoubleTheWaitUpToItsLimitAndSuccessForgetsThem) {
  Time now = kStart;
  Add("a");
  std::vector<Duration> waits;
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(Take(now), "a");
    Done("a", Outcome::kRetry, now);
    waits.push_back(queue_.NextWake() - now);
    now = queue_.NextWake();
  }
  EXPECT_EQ(waits[0], milliseconds(5));
  EXPECT_EQ(waits[3], milliseconds(40));
  EXPECT_EQ(waits[39], seconds(60));
  ASSERT_EQ(Take(now), "a");
  Done("a");
  queue_.Add(Job("a"), Priority::kNormal, now);
  ASSERT_EQ(Take(now), "a");
  Done("a", Outcome::kRetry, now);
  EXPECT_EQ(queue_.NextWake(), now + milliseconds(5));
}

TEST_F(WorkQueueTest, AParkedKeyRunsWhenTheCacheHasSeenItsWriteAndNotBefore) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "100", kStart);
  Done("a");
  Add("a");
  EXPECT_EQ(Take(), "");
  queue_.Progress(Watched::kPods, "99", kStart);
  queue_.Progress(Watched::kTrainingJobs, "200", kStart);
  EXPECT_EQ(Take(), "");
  EXPECT_EQ(queue_.parked(), 1U);
  queue_.Progress(Watched::kPods, "101", kStart);
  EXPECT_EQ(Take(), "a");
  EXPECT_EQ(queue_.parked(), 0U);
}

TEST_F(WorkQueueTest, AKeyWaitsForTheCacheOfItsOwnNamespace) {
  WorkQueue queue({.by_namespace = true});
  const ObjectName a = {"a", "gpt"};
  queue.Add(a, Priority::kNormal, kStart);
  ASSERT_TRUE(queue.Take(kStart));
  queue.Park(a, Watched::kPods, "100", kStart);
  queue.Done(a, kStart, Outcome::kOk);
  queue.Progress(Watched::kPods, "200", kStart, "b");
  queue.Progress(Watched::kPods, "200", kStart);
  EXPECT_FALSE(queue.Take(kStart));
  queue.Progress(Watched::kPods, "100", kStart, "a");
  ASSERT_TRUE(queue.Take(kStart));
  queue.Park(a, Watched::kPods, "100", kStart);  // seen before its answer came
  queue.Done(a, kStart, Outcome::kOk);
  EXPECT_TRUE(queue.Take(kStart));
}

TEST_F(WorkQueueTest, AKeyRunsAfterItsWriteWasSeenEvenIfNoEventOfItsOwnCame) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "100", kStart);
  Done("a");
  queue_.Progress(Watched::kPods, "100", kStart);
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, AWriteThatTheCacheSawBeforeItsAnswerCameParksNothing) {
  queue_.Progress(Watched::kPods, "100", kStart);
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "100", kStart);
  Done("a");
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, OfSeveralWritesAllMustHaveBeenSeen) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "9", kStart);
  queue_.Park(Job("a"), Watched::kPods, "11", kStart);
  queue_.Park(Job("a"), Watched::kPods, "10", kStart);
  queue_.Park(Job("a"), Watched::kServices, "12", kStart);
  Done("a");
  queue_.Progress(Watched::kPods, "10", kStart);
  queue_.Progress(Watched::kServices, "12", kStart);
  EXPECT_EQ(Take(), "");
  queue_.Progress(Watched::kPods, "11", kStart);
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, EachTypeThatIsWatchedIsWaitedForByItself) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  for (size_t type = 0; type < kWatchedTypes; ++type) {
    queue_.Park(Job("a"), static_cast<Watched>(type), "12", kStart);
  }
  Done("a");
  for (size_t type = 0; type < kWatchedTypes; ++type) {
    EXPECT_EQ(Take(), "");
    queue_.Progress(static_cast<Watched>(type), "12", kStart);
  }
  EXPECT_EQ(Take(), "a");
}

TEST_F(WorkQueueTest, AKeyParkedForTooLongIsHandedOutAsStaleUntilItSucceeds) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "100", kStart);
  Done("a");
  EXPECT_EQ(queue_.NextWake(), kStart + seconds(5));
  EXPECT_EQ(Take(kStart + seconds(5) - nanoseconds(1)), "");
  auto work = queue_.Take(kStart + seconds(5));
  ASSERT_TRUE(work);
  EXPECT_TRUE(work->stale);
  queue_.Done(Job("a"), kStart + seconds(5), Outcome::kRetry);
  work = queue_.Take(kStart + seconds(6));
  ASSERT_TRUE(work);
  EXPECT_TRUE(work->stale) << "the objects could not be read";
  queue_.Done(Job("a"), kStart + seconds(6), Outcome::kOk);
  queue_.Add(Job("a"), Priority::kNormal, kStart + seconds(7));
  EXPECT_FALSE(queue_.Take(kStart + seconds(7))->stale);
}

TEST_F(WorkQueueTest, AVersionThatCannotBeComparedWaitsOutTheLimit) {
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "v7", kStart);
  Done("a");
  queue_.Progress(Watched::kPods, "v7", kStart);
  EXPECT_EQ(Take(), "");
  EXPECT_TRUE(queue_.Take(kStart + seconds(5))->stale);
}

TEST_F(WorkQueueTest, AServerThatWentBackInTimeLeavesAKeyToItsLimit) {
  queue_.Progress(Watched::kPods, "500", kStart);
  queue_.Progress(Watched::kPods, "20", kStart);
  Add("a");
  EXPECT_EQ(Take(), "a");
  queue_.Park(Job("a"), Watched::kPods, "21", kStart);
  Done("a");
  EXPECT_EQ(Take(), "");
  queue_.Progress(Watched::kPods, "21", kStart);
  EXPECT_EQ(Take(), "a");
}

// The queue's promises, written without its data structures: every key by itself, all looked at
// each time.
class PlainQueue {
 public:
  struct Key {
    bool wanted = false;
    bool in_work = false;
    bool stale = false;
    int failures = 0;
    Time timer = kNever;
    Time park_until = kNever;
    std::map<Watched, int> parked_on;
  };

  bool Runnable(const Key& key, Time now) const {
    if (key.in_work) return false;
    if (!key.parked_on.empty()) return key.park_until <= now;
    return key.wanted || key.timer <= now;
  }
  std::set<std::string> Runnable(Time now) const {
    std::set<std::string> names;
    for (const auto& [name, key] : keys) {
      if (Runnable(key, now)) names.insert(name);
    }
    return names;
  }
  void Progress(Watched resource, int version) {
    seen[resource] = version;
    for (auto& [name, key] : keys) {
      auto on = key.parked_on.find(resource);
      if (on != key.parked_on.end() && on->second <= version) key.parked_on.erase(on);
      if (key.parked_on.empty()) key.park_until = kNever;
    }
  }
  void Park(const std::string& name, Watched resource, int version, Time now) {
    Key& key = keys[name];
    key.wanted = true;
    if (seen[resource] >= version) return;
    int& on = key.parked_on[resource];
    on = std::max(on, version);
    if (key.park_until == kNever) key.park_until = now + seconds(5);
  }

  std::map<std::string, Key> keys;
  std::map<Watched, int> seen;
};

class RandomQueueRun {
 public:
  explicit RandomQueueRun(uint64_t seed) : random_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE(i);
      Step();
      ASSERT_EQ(queue_.depth() + Waiting(), plain_.Runnable(now_).size());
    }
    Drain();
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  std::string AnyName() { return std::string(1, static_cast<char>('a' + Below(6))); }
  Watched AnyResource() { return Below(2) == 0 ? Watched::kPods : Watched::kTrainingJobs; }

  // Runnable by a time that has come, which the queue finds when it is next asked.
  size_t Waiting() const {
    size_t count = 0;
    for (const auto& [name, key] : plain_.keys) {
      const bool by_time = key.parked_on.empty() ? !key.wanted : true;
      if (by_time && plain_.Runnable(key, now_)) ++count;
    }
    return count;
  }

  void Step() {
    switch (Below(7)) {
      case 0:
        return Add();
      case 1:
        return AddAt();
      case 2:
      case 3:
        return Take();
      case 4:
        return Finish();
      case 5:
        return Progress();
      default:
        now_ += milliseconds(Below(2000));
    }
  }
  void Add() {
    const std::string name = AnyName();
    queue_.Add(Job(name), static_cast<Priority>(Below(3)), now_);
    plain_.keys[name].wanted = true;
  }
  void AddAt() {
    const std::string name = AnyName();
    const Time when = now_ + milliseconds(Below(5000));
    queue_.AddAt(Job(name), when, Priority::kNormal);
    Time& timer = plain_.keys[name].timer;
    timer = std::min(timer, when);
  }
  void Take() {
    const std::set<std::string> runnable = plain_.Runnable(now_);
    auto work = queue_.Take(now_);
    FireTimers();
    ASSERT_EQ(work.has_value(), !runnable.empty());
    if (!work) return;
    ASSERT_TRUE(runnable.contains(work->key.name)) << work->key.name;
    PlainQueue::Key& key = plain_.keys[work->key.name];
    ASSERT_EQ(work->stale, key.stale);
    key.in_work = true;
    key.wanted = false;
  }
  // A Take lets all times that have come take effect, whichever key it hands out.
  void FireTimers() {
    for (auto& [name, key] : plain_.keys) {
      if (key.timer <= now_) {
        key.timer = kNever;
        key.wanted = true;
      }
      if (!key.in_work && key.park_until <= now_) {
        key.parked_on.clear();
        key.park_until = kNever;
        key.wanted = key.stale = true;
      }
    }
  }
  void Finish() {
    const std::string name = AnyName();
    PlainQueue::Key& key = plain_.keys[name];
    if (!key.in_work) return;
    for (int writes = Below(3); writes > 0; --writes) {
      const Watched resource = AnyResource();
      const int version = version_ + Below(40) - 10;
      queue_.Park(Job(name), resource, std::to_string(version), now_);
      plain_.Park(name, resource, version, now_);
    }
    const bool ok = Below(3) != 0;
    queue_.Done(Job(name), now_, ok ? Outcome::kOk : Outcome::kRetry);
    key.in_work = false;
    if (ok) {
      key.failures = 0;
      key.stale = false;
    } else {
      const Duration backoff =
          std::min<Duration>(milliseconds(5) * (1LL << key.failures++), seconds(60));
      key.timer = std::min(key.timer, now_ + backoff);
    }
  }
  void Progress() {
    version_ += Below(10);
    const Watched resource = AnyResource();
    queue_.Progress(resource, std::to_string(version_), now_);
    plain_.Progress(resource, version_);
  }
  // Nothing is lost and nothing runs for ever: with each step's time that the queue names.
  void Drain() {
    for (auto& [name, key] : plain_.keys) {
      if (key.in_work) queue_.Done(Job(name), now_, Outcome::kOk);
    }
    int runs = 0;
    while (runs < 1000) {
      while (auto work = queue_.Take(now_)) {
        ++runs;
        queue_.Done(work->key, now_, Outcome::kOk);
      }
      if (queue_.NextWake() == kNever) break;
      ASSERT_GT(queue_.NextWake(), now_);
      now_ = queue_.NextWake();
    }
    EXPECT_LT(runs, 40);
    EXPECT_EQ(queue_.depth(), 0U);
    EXPECT_EQ(queue_.parked(), 0U);
  }

  std::mt19937_64 random_;
  WorkQueue queue_;
  PlainQueue plain_;
  Time now_ = kStart;
  int version_ = 1000;
};

TEST(WorkQueueProperty, AnyOrderOfCallsKeepsWhatThePlainQueueKeeps) {
  for (uint64_t seed = 0; seed < 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomQueueRun(seed).Run(200);
  }
}

}  // namespace
}  // namespace lockstep::kube
