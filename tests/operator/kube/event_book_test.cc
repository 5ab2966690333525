#include "operator/kube/event_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace lockstep::kube::event_book_test {
namespace {

using Json = nlohmann::json;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr WallTime kWall{seconds(1'800'000'000)};

const ObjectRef kJob{.api_version = "lockstep.dev/v1alpha1",
                     .kind = "TrainingJob",
                     .name_space = "team",
                     .name = "gpt",
                     .uid = "u1"};

class EventBookTest : public testing::Test {
 protected:
  std::vector<Request> Record(const std::string& reason, const std::string& note = "machine 3",
                              const ObjectRef& object = kJob) {
    return book_.Record(object, {EventType::kWarning, reason, "Replace", note}, now_,
                        kWall + (now_ - kStart));
  }

  static constexpr Time kStart = seconds(1000);
  Time now_ = kStart;
  EventBook book_{"lockstep.dev/operator", "pod-1"};
};

TEST_F(EventBookTest, TheFirstIsAnEventInTheObjectsNamespace) {
  const auto writes = Record("MachineLost");
  ASSERT_THAT(writes, SizeIs(1));
  EXPECT_EQ(writes[0].method, Method::kPost);
  EXPECT_EQ(writes[0].path, "/apis/events.k8s.io/v1/namespaces/team/events");
  const Json event = Json::parse(writes[0].body);
  EXPECT_THAT(event["metadata"]["name"].get<std::string>(), StartsWith("gpt."));
  EXPECT_EQ(event["regarding"]["uid"], "u1");
  EXPECT_EQ(event["eventTime"], "2027-01-15T08:00:00.000000Z");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "MachineLost");
  EXPECT_EQ(event["action"], "Replace");
  EXPECT_EQ(event["note"], "machine 3");
  EXPECT_EQ(event["reportingController"], "lockstep.dev/operator");
  EXPECT_EQ(event["reportingInstance"], "pod-1");
}

TEST_F(EventBookTest, TheSecondMakesItASeriesAndTheNextAreOnlyCounted) {
  const Json first = Json::parse(Record("MachineLost")[0].body);
  now_ += seconds(1);
  const auto second = Record("MachineLost", "machine 4");
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].method, Method::kPatch);
  EXPECT_EQ(second[0].content_type, "application/merge-patch+json");
  EXPECT_EQ(second[0].path, "/apis/events.k8s.io/v1/namespaces/team/events/" +
                                first["metadata"]["name"].get<std::string>());
  EXPECT_EQ(Json::parse(second[0].body), Json::parse(R"({"series":{"count":2,
                            "lastObservedTime":"2027-01-15T08:00:01.000000Z"}})"));
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Record("MachineLost"), IsEmpty());
}

TEST_F(EventBookTest, ALongSeriesIsRefreshedEveryHalfHour) {
  Record("MachineLost");
  int patches = 0;
  for (int minute = 0; minute < 120; ++minute) {
    now_ += minutes(1);
    patches += static_cast<int>(Record("MachineLost").size());
  }
  EXPECT_EQ(patches, 4);
}

TEST_F(EventBookTest, ASeriesThatIsOverSendsItsLastCountAndTheNextIsANewEvent) {
  for (int i = 0; i < 5; ++i) Record("MachineLost");
  now_ += minutes(6);
  const auto writes = Record("MachineLost");
  ASSERT_THAT(writes, SizeIs(2));
  EXPECT_EQ(Json::parse(writes[0].body)["series"]["count"], 5);
  EXPECT_EQ(writes[1].method, Method::kPost);
}

TEST_F(EventBookTest, DifferentReasonsAndObjectsAreDifferentEvents) {
  ObjectRef other = kJob;
  other.uid = "u2";
  std::set<std::string> names;
  for (const auto& writes : {Record("A"), Record("B"), Record("A", "", other)}) {
    ASSERT_THAT(writes, SizeIs(1));
    names.insert(Json::parse(writes[0].body)["metadata"]["name"].get<std::string>());
  }
  EXPECT_THAT(names, SizeIs(3));
}

TEST_F(EventBookTest, AnObjectThatCausesTooManyIsHeardOnceInFiveMinutes) {
  int heard = 0;
  for (int i = 0; i < 100; ++i) heard += static_cast<int>(Record("R" + std::to_string(i)).size());
  EXPECT_EQ(heard, 25);
  now_ += minutes(5) - seconds(1);
  EXPECT_THAT(Record("Later"), IsEmpty());
  now_ += seconds(1);
  EXPECT_THAT(Record("Later"), SizeIs(1));
  EXPECT_THAT(Record("Latest"), IsEmpty());
}

TEST_F(EventBookTest, NotesAreCutWhereACharacterEnds) {
  const std::string note = std::string(1023, 'x') + "é and more";
  const Json event = Json::parse(Record("Long", note)[0].body);
  EXPECT_EQ(event["note"], std::string(1023, 'x'));
}

TEST_F(EventBookTest, BytesThatAreNoTextDoNotStopAnEvent) {
  EXPECT_THAT(Record("Odd", "\xFF\xFE"), SizeIs(1));
}

TEST_F(EventBookTest, WhatIsOverIsForgotten) {
  for (int i = 0; i < 500; ++i) {
    ObjectRef object = kJob;
    object.uid = std::to_string(i);
    Record("MachineLost", "", object);
  }
  now_ += hours(3);
  Record("MachineLost");
  EXPECT_LE(book_.size(), 2U);
}

}  // namespace
}  // namespace lockstep::kube::event_book_test
