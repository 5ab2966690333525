#include "operator/kube/decode/object_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::kube::object_scan_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// As Go writes a struct: names come first.
const std::string kPod =
    R"({"kind":"Pod","metadata":{"name":"big","namespace":"team-a","uid":"u-1",)"
    R"("resourceVersion":"7","annotations":{"name":"no","a\"}":"{[\\"}},)"
    R"("spec":{"metadata":{"name":"not this"},"containers":[{"name":"nor this"}]}})";
// As it writes a map: keys are sorted, so that anything may come before the name.
const std::string kJob =
    R"({"metadata":{"annotations":{"x":[{"name":"no"}]},"labels":{"name":"no"},"name":"gpt",)"
    R"("namespace":"team-b","resourceVersion":"9"},"spec":{}})";

ObjectScan Scan(const std::string& text, ObjectScan::Of of, size_t piece) {
  ObjectScan scan(of);
  for (size_t at = 0; at < text.size(); at += piece) scan.Feed(text.substr(at, piece));
  return scan;
}

TEST(ObjectScan, FindsWhichObjectAWatchLineIsAboutInPiecesOfAnySize) {
  const std::string line = R"({"type":"MODIFIED","object":)" + kPod + "}";
  for (const size_t piece : {size_t{1}, size_t{7}, line.size()}) {
    const ObjectScan scan = Scan(line, ObjectScan::Of::kWatchLine, piece);
    EXPECT_EQ(scan.type(), "MODIFIED");
    EXPECT_EQ(scan.meta().name, "big");
    EXPECT_EQ(scan.meta().name_space, "team-a");
    EXPECT_EQ(scan.meta().uid, "u-1");
    EXPECT_EQ(scan.meta().resource_version, "7");
  }
}

TEST(ObjectScan, FindsANameBehindWhatIsAsDeepAsAnyoneLikes) {
  const std::string deep(100'000, '[');
  const std::string line = R"({"object":{"aa":)" + deep + std::string(100'000, ']') +
                           R"(,"metadata":{"name":"deep"}},"type":"ADDED"})";
  const ObjectScan scan = Scan(line, ObjectScan::Of::kWatchLine, 4096);
  EXPECT_EQ(scan.meta().name, "deep");
  EXPECT_EQ(scan.type(), "ADDED");
}

TEST(ObjectScan, FindsTheNameOfAnObjectByItself) {
  const ObjectScan scan = Scan(kJob, ObjectScan::Of::kObject, 5);
  EXPECT_EQ(scan.meta().name, "gpt");
  EXPECT_EQ(scan.meta().name_space, "team-b");
}

TEST(ObjectScan, FindsNoNameWhereThereIsNoObject) {
  for (const char* text : {"", "<html>", "[]]]}}}", R"("metadata")", R"({"metadata":"name"})",
                           R"([{"metadata":{"name":"a"}}])"}) {
    EXPECT_FALSE(Scan(text, ObjectScan::Of::kObject, 1).NamesObject()) << text;
  }
  EXPECT_FALSE(Scan("<html>", ObjectScan::Of::kWatchLine, 1).IsObject());
  EXPECT_TRUE(Scan(" {", ObjectScan::Of::kWatchLine, 1).IsObject());
}

TEST(TakeApart, PutsEachItemAndTheRestApart) {
  const std::string list = R"({"kind":"PodList","metadata":{"items":["x"],"continue":"c"},)"
                           R"("items":[)" +
                           kPod + " ,\n" + kJob + R"(],"z":[{}]})";
  const ListParts parts = TakeApart(list);
  EXPECT_THAT(parts.items, ElementsAre(kPod, kJob));
  EXPECT_EQ(parts.rest,
            R"({"kind":"PodList","metadata":{"items":["x"],"continue":"c"},"items":[],"z":[{}]})");
}

TEST(TakeApart, LeavesWhatIsNoListAsItIs) {
  for (const char* text : {"", "<html>", "{}", R"({"items":null})", R"({"items":[1)"}) {
    EXPECT_THAT(TakeApart(text).items, IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace lockstep::kube::object_scan_test
