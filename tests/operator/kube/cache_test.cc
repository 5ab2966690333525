#include "operator/kube/watch/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::kube {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

PodView Pod(const std::string& name, const std::string& version, const std::string& job = "gpt") {
  PodView pod;
  pod.meta.name_space = "default";
  pod.meta.name = name;
  pod.meta.uid = "uid-" + name;
  pod.meta.resource_version = version;
  pod.job = job;
  return pod;
}

Batch<PodView> Whole(std::vector<PodView> pods, std::string version) {
  Batch<PodView> batch{.replace = true, .events = {}, .resource_version = std::move(version)};
  for (PodView& pod : pods) batch.events.push_back({EventKind::kAdded, std::move(pod)});
  return batch;
}

Batch<PodView> One(EventKind kind, PodView pod) {
  Batch<PodView> batch;
  batch.resource_version = pod.meta.resource_version;
  batch.events.push_back({kind, std::move(pod)});
  return batch;
}

class CacheTest : public testing::Test {
 protected:
  static std::string Text(const PodView* pod) {
    return pod == nullptr ? "-" : pod->meta.name + "@" + pod->meta.resource_version;
  }
  // What changed: "before>after".
  std::vector<std::string> Apply(Batch<PodView> batch) {
    std::vector<std::string> changes;
    cache_.Apply(std::move(batch), Into(changes));
    return changes;
  }
  static Cache<PodView>::OnChange Into(std::vector<std::string>& changes) {
    return [&changes](const PodView* before, const PodView* after) {
      changes.push_back(Text(before) + ">" + Text(after));
    };
  }
  std::vector<std::string> OfJob(const std::string& job) const {
    std::vector<std::string> pods;
    for (const PodView* pod : cache_.ByJob({"default", job})) pods.push_back(Text(pod));
    return pods;
  }

  Cache<PodView> cache_;
};

TEST_F(CacheTest, IsSyncedOnceAWholeStateHasBeenApplied) {
  EXPECT_EQ(cache_.resource_version(), "");
  Apply(Whole({}, "5"));
  EXPECT_EQ(cache_.resource_version(), "5");
}

TEST_F(CacheTest, TellsEachChangeOnce) {
  EXPECT_THAT(Apply(Whole({Pod("a", "1")}, "5")), ElementsAre("->a@1"));
  EXPECT_THAT(Apply(One(EventKind::kAdded, Pod("b", "6"))), ElementsAre("->b@6"));
  EXPECT_THAT(Apply(One(EventKind::kModified, Pod("a", "7"))), ElementsAre("a@1>a@7"));
  EXPECT_THAT(Apply(One(EventKind::kDeleted, Pod("b", "8"))), ElementsAre("b@8>-"));
  EXPECT_EQ(cache_.size(), 1U);
  EXPECT_EQ(cache_.resource_version(), "8");
}

TEST_F(CacheTest, AReplaceTellsWhatIsGoneAndIsSilentOnWhatIsTheSame) {
  Apply(Whole({Pod("a", "1"), Pod("b", "2"), Pod("c", "3")}, "5"));
  EXPECT_THAT(Apply(Whole({Pod("a", "1"), Pod("b", "7"), Pod("d", "8")}, "9")),
              UnorderedElementsAre("b@2>b@7", "->d@8", "c@3>-"));
  EXPECT_EQ(cache_.Find({"default", "c"}), nullptr);
}

TEST_F(CacheTest, AnEventDeliveredTwiceChangesNothing) {
  Apply(Whole({Pod("a", "1")}, "1"));
  Apply(One(EventKind::kModified, Pod("a", "4")));
  EXPECT_THAT(Apply(One(EventKind::kModified, Pod("a", "4"))), IsEmpty());
}

TEST_F(CacheTest, AWatchThatLagsBehindAReadDoesNotTakeItBack) {
  Apply(Whole({Pod("a", "1")}, "1"));
  std::vector<std::string> changes;
  cache_.Put(Pod("a", "9"), Into(changes));
  EXPECT_THAT(changes, ElementsAre("a@1>a@9"));
  EXPECT_THAT(Apply(One(EventKind::kModified, Pod("a", "4"))), IsEmpty());
  EXPECT_EQ(cache_.Find({"default", "a"})->meta.resource_version, "9");
}

TEST_F(CacheTest, AReadThatLagsBehindAWatchDoesNotBringBackWhatIsGone) {
  Apply(Whole({Pod("a", "1")}, "1"));
  Apply(One(EventKind::kDeleted, Pod("a", "8")));
  std::vector<std::string> changes;
  cache_.Put(Pod("a", "4"), Into(changes));
  EXPECT_THAT(changes, IsEmpty());
  EXPECT_EQ(cache_.size(), 0U);
  cache_.Put(Pod("b", "9"), Into(changes));
  EXPECT_THAT(changes, ElementsAre("->b@9")) << "of which the watch has yet to tell";
}

TEST_F(CacheTest, AnObjectsDeletionLeavesTheNextOneOfItsNameThatWasReadAlready) {
  Apply(Whole({Pod("a", "1")}, "1"));
  PodView next = Pod("a", "9");
  next.meta.uid = "other";
  std::vector<std::string> changes;
  cache_.Put(next, Into(changes));
  EXPECT_THAT(Apply(One(EventKind::kDeleted, Pod("a", "8"))), ElementsAre("a@8>-"));
  EXPECT_EQ(OfJob("gpt"), std::vector<std::string>{"a@9"});
}

TEST_F(CacheTest, AWholeStateIsBelievedEvenIfTheServerWentBackInTime) {
  Apply(Whole({Pod("a", "90")}, "90"));
  EXPECT_THAT(Apply(Whole({Pod("a", "12")}, "14")), ElementsAre("a@90>a@12"));
  EXPECT_EQ(cache_.resource_version(), "14");
}

TEST_F(CacheTest, AnotherObjectUnderTheSameNameIsAChange) {
  Apply(Whole({Pod("a", "1")}, "1"));
  PodView next = Pod("a", "8");
  next.meta.uid = "other";
  EXPECT_THAT(Apply(Whole({next}, "9")), ElementsAre("a@1>a@8"));
  EXPECT_EQ(cache_.Find({"default", "a"})->meta.uid, "other");
}

TEST_F(CacheTest, TheWholeStateOfANamespaceSaysNothingOfAnother) {
  const auto whole_of = [](const char* name_space, std::vector<PodView> pods, const char* version) {
    for (PodView& pod : pods) pod.meta.name_space = name_space;
    Batch<PodView> batch = Whole(std::move(pods), version);
    batch.name_space = name_space;
    return batch;
  };
  Apply(whole_of("a", {Pod("one", "1"), Pod("two", "2")}, "5"));
  Apply(whole_of("b", {Pod("one", "3")}, "9"));
  EXPECT_EQ(cache_.resource_version("a"), "5");
  EXPECT_EQ(cache_.resource_version("b"), "9");
  EXPECT_EQ(cache_.resource_version("c"), "");

  EXPECT_THAT(Apply(whole_of("a", {Pod("two", "2")}, "6")), ElementsAre("one@1>-"));
  EXPECT_NE(cache_.Find({"b", "one"}), nullptr);

  // The watch of b has told the end of it; that of a is not so far.
  std::vector<std::string> changes;
  PodView read = Pod("late", "8");
  read.meta.name_space = "b";
  cache_.Put(read, Into(changes));
  EXPECT_THAT(changes, ElementsAre());
  read.meta.name_space = "a";
  cache_.Put(read, Into(changes));
  EXPECT_THAT(changes, ElementsAre("->late@8"));
}

TEST_F(CacheTest, ADeletionCarriesTheLastStateEvenOfWhatWasNeverSeen) {
  EXPECT_THAT(Apply(One(EventKind::kDeleted, Pod("a", "8"))), ElementsAre("a@8>-"));
  EXPECT_EQ(cache_.size(), 0U);
}

TEST_F(CacheTest, AReadThatFoundNothingRemoves) {
  Apply(Whole({Pod("a", "1")}, "1"));
  std::vector<std::string> changes;
  cache_.Remove({"default", "a"}, Into(changes));
  cache_.Remove({"default", "a"}, Into(changes));
  EXPECT_THAT(changes, ElementsAre("a@1>-"));
}

TEST_F(CacheTest, FindsTheObjectsOfAJobByTheirLabel) {
  Apply(Whole({Pod("a", "1"), Pod("b", "2"), Pod("c", "3", "bert"), Pod("d", "4", "")}, "5"));
  EXPECT_THAT(OfJob("gpt"), UnorderedElementsAre("a@1", "b@2"));
  EXPECT_THAT(OfJob("bert"), UnorderedElementsAre("c@3"));
  EXPECT_THAT(OfJob(""), IsEmpty());
  EXPECT_THAT(cache_.ByJob({"other", "gpt"}), IsEmpty());

  Apply(One(EventKind::kModified, Pod("a", "6", "bert")));
  Apply(One(EventKind::kDeleted, Pod("b", "7")));
  EXPECT_THAT(OfJob("gpt"), IsEmpty());
  EXPECT_THAT(OfJob("bert"), UnorderedElementsAre("c@3", "a@6"));
}

TEST_F(CacheTest, OneNameInTwoNamespacesIsTwoObjects) {
  PodView other = Pod("a", "2");
  other.meta.name_space = "team";
  Apply(Whole({Pod("a", "1"), other}, "5"));
  EXPECT_EQ(cache_.size(), 2U);
  EXPECT_EQ(cache_.Find({"team", "a"})->meta.resource_version, "2");
}

Batch<PodView> Unreadable(EventKind kind, const std::string& name, const std::string& version,
                          bool replace = false) {
  PodView pod;
  pod.meta = Pod(name, version).meta;
  Batch<PodView> batch{.replace = replace, .events = {}, .resource_version = version};
  batch.events.push_back({.kind = kind, .object = std::move(pod), .unreadable = true});
  return batch;
}

TEST_F(CacheTest, WhatWasKnownOfAnObjectStaysWhileItCannotBeRead) {
  Apply(Whole({Pod("a", "2"), Pod("b", "3")}, "4"));
  EXPECT_THAT(Apply(Unreadable(EventKind::kModified, "a", "5")), IsEmpty());
  EXPECT_THAT(Apply(Unreadable(EventKind::kAdded, "new", "6")), IsEmpty());
  EXPECT_THAT(OfJob("gpt"), UnorderedElementsAre("a@2", "b@3"));
  EXPECT_THAT(Apply(Unreadable(EventKind::kAdded, "a", "7", /*replace=*/true)),
              ElementsAre("b@3>-"));
  EXPECT_THAT(OfJob("gpt"), ElementsAre("a@2"));
}

TEST_F(CacheTest, TheEndOfAnObjectThatCannotBeReadIsItsEndAsItWasLastKnown) {
  Apply(Whole({Pod("a", "2")}, "4"));
  EXPECT_THAT(Apply(Unreadable(EventKind::kDeleted, "a", "5")), ElementsAre("a@2>-"));
  EXPECT_THAT(Apply(Unreadable(EventKind::kDeleted, "b", "6")), IsEmpty());
  EXPECT_THAT(OfJob("gpt"), IsEmpty());
}

}  // namespace
}  // namespace lockstep::kube
