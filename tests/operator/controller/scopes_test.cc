#include "operator/controller/scopes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using kube::Watched;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Watched kNeeded[] = {Watched::kTrainingJobs, Watched::kPods, Watched::kServices,
                               Watched::kSlices};

void Read(Scopes& scopes, const std::string& scope) {
  for (const Watched each : kNeeded) scopes.OnRead(scope, each);
}

TEST(Scopes, AllNamespacesAreOneThatNeedsNodesAndClaims) {
  Scopes scopes({});
  EXPECT_THAT(scopes.Unread(), ElementsAre(""));
  scopes.Begin("", 1);
  scopes.SetOpen("", true);
  Read(scopes, "");
  scopes.OnRead("", Watched::kNodes);
  EXPECT_FALSE(scopes.MayDecide("team-a"));
  EXPECT_THAT(scopes.Unread(), ElementsAre(""));
  scopes.OnRead("", Watched::kClaims);
  EXPECT_TRUE(scopes.MayDecide("team-a"));
  EXPECT_THAT(scopes.Unread(), IsEmpty());
}

TEST(Scopes, ANamespaceThatCannotBeReadHoldsUpNoOther) {
  Scopes scopes({"a", "b"});
  for (const char* each : {"a", "b"}) {
    scopes.Begin(each, 1);
    scopes.SetOpen(each, true);
  }
  Read(scopes, "a");
  scopes.OnRead("b", Watched::kPods);
  EXPECT_TRUE(scopes.MayDecide("a"));
  EXPECT_FALSE(scopes.MayDecide("b"));
  EXPECT_FALSE(scopes.MayDecide("c"));
  EXPECT_THAT(scopes.Unread(), ElementsAre("b"));
  Read(scopes, "b");
  EXPECT_TRUE(scopes.MayDecide("b"));
  EXPECT_THAT(scopes.Unread(), IsEmpty());
}

TEST(Scopes, EveryTypeIsNeededOfEachNamespace) {
  for (const Watched missing : kNeeded) {
    Scopes scopes({"a"});
    scopes.Begin("a", 1);
    scopes.SetOpen("a", true);
    for (const Watched each : kNeeded) {
      if (each != missing) scopes.OnRead("a", each);
    }
    EXPECT_FALSE(scopes.MayDecide("a"));
  }
}

TEST(Scopes, OneIsReadAnewByItselfAndOnlyItsOwnRoundCounts) {
  Scopes scopes({"a", "b"});
  for (const char* each : {"a", "b"}) {
    scopes.Begin(each, 1);
    scopes.SetOpen(each, true);
    Read(scopes, each);
  }
  scopes.Begin("a", 2);
  EXPECT_FALSE(scopes.MayDecide("a"));
  EXPECT_TRUE(scopes.MayDecide("b"));
  EXPECT_FALSE(scopes.IsCurrent("a", 1));
  EXPECT_TRUE(scopes.IsCurrent("a", 2));
  EXPECT_TRUE(scopes.IsCurrent("b", 1));
  Read(scopes, "a");
  EXPECT_TRUE(scopes.MayDecide("a")) << "it is still open";
}

TEST(Scopes, NothingIsDecidedWhereTheJobsAreNotItsOwn) {
  Scopes scopes({"a"});
  scopes.Begin("a", 1);
  Read(scopes, "a");
  EXPECT_FALSE(scopes.MayDecide("a"));
  scopes.SetOpen("a", true);
  EXPECT_TRUE(scopes.MayDecide("a"));
  scopes.SetOpen("a", false);
  EXPECT_FALSE(scopes.MayDecide("a"));
  EXPECT_THAT(scopes.Unread(), IsEmpty());
}

TEST(Scopes, FlavorsAreReadOnceForAllAndWorkloadsForEach) {
  Scopes scopes({"a", "b"});
  for (const char* each : {"", "a", "b"}) scopes.Begin(each, 1);
  EXPECT_EQ(scopes.QueuesOf("a"), Queues::kUnknown);
  scopes.OnRead("", Watched::kFlavors);
  scopes.OnRead("a", Watched::kWorkloads);
  EXPECT_EQ(scopes.QueuesOf("a"), Queues::kThere);
  EXPECT_TRUE(scopes.OnNoQueues("b", Watched::kWorkloads, ErrorKind::kDenied));
  EXPECT_FALSE(scopes.OnNoQueues("b", Watched::kWorkloads, ErrorKind::kDenied));
  EXPECT_EQ(scopes.QueuesOf("b"), Queues::kAbsent);
  EXPECT_EQ(scopes.QueuesOf("a"), Queues::kThere);

  scopes.Begin("a", 2);
  EXPECT_EQ(scopes.QueuesOf("a"), Queues::kUnknown);
  scopes.OnRead("a", Watched::kWorkloads);
  EXPECT_EQ(scopes.QueuesOf("a"), Queues::kThere) << "the flavors were not read anew";
}

}  // namespace
}  // namespace lockstep::control
