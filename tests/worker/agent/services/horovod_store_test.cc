#include "worker/agent/services/horovod_store.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

HttpResponse Ask(HorovodTable& table, std::string method, std::string path, std::string body = "") {
  HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.body = std::move(body);
  return table.Answer(request);
}

TEST(HorovodTable, GivesBackWhatWasPutInItsScope) {
  HorovodTable table(2, 2);
  const std::string bytes("\0\xff\r\n", 4);
  EXPECT_EQ(Ask(table, "GET", "/global/rank_0").status, 404) << "not yet";
  EXPECT_EQ(Ask(table, "PUT", "/global/rank_0", bytes).status, 200);
  EXPECT_EQ(Ask(table, "GET", "/global/rank_0").body, bytes);
  EXPECT_EQ(Ask(table, "GET", "/local_machine-0/rank_0").status, 404);
  EXPECT_EQ(Ask(table, "PUT", "/global/rank_0", "new").status, 200);
  EXPECT_EQ(Ask(table, "GET", "/global/rank_0").body, "new");
}

TEST(HorovodTable, AScopeIsEmptyOnceAllOfItsRanksAreDone) {
  HorovodTable table(3, 2);
  const auto left = [&](const std::string& scope, int ranks) {
    Ask(table, "PUT", "/" + scope + "/0", "a");
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      Ask(table, "DELETE", "/" + scope + "/" + std::to_string(rank));
      Ask(table, "DELETE", "/" + scope + "/" + std::to_string(rank));
    }
    EXPECT_EQ(Ask(table, "GET", "/" + scope + "/0").status, 200) << scope;
    Ask(table, "DELETE", "/" + scope + "/" + std::to_string(ranks - 1));
    EXPECT_EQ(Ask(table, "GET", "/" + scope + "/0").status, 404) << scope;
  };
  left("global", 6);
  left("local_machine-1", 2);
  left("cross_0", 3);
}

TEST(HorovodTable, RefusesWhatIsNoScopeAndKey) {
  HorovodTable table(1, 1);
  for (const char* path : {"/", "/global", "/global/", "//a"}) {
    EXPECT_EQ(Ask(table, "PUT", path, "a").status, 400) << path;
  }
  EXPECT_EQ(Ask(table, "PUT", "/global/" + std::string(600, 'k'), "a").status, 400);
  EXPECT_EQ(Ask(table, "POST", "/global/a", "a").status, 405);
}

TEST(HorovodTable, IsBoundedAndFreesWhatIsReplaced) {
  HorovodTable table(1, 1);
  const std::string large(HttpParser::kMaxBody, 'v');
  const size_t fit = HorovodTable::kMaxBytes / (large.size() + 16 + HorovodTable::kEntryBytes);
  for (size_t i = 0; i < fit; ++i) {
    ASSERT_EQ(Ask(table, "PUT", "/global/" + std::to_string(1000 + i), large).status, 200);
  }
  for (size_t i = 0; i < 2 * fit; ++i) {
    ASSERT_EQ(Ask(table, "PUT", "/global/1000", large).status, 200) << "in its own place";
  }
  int status = 200;
  for (int i = 0; i < 8 && status == 200; ++i) {
    status = Ask(table, "PUT", "/cross_0/" + std::to_string(i), large).status;
  }
  EXPECT_EQ(status, 413);
  Ask(table, "DELETE", "/global/1");
  EXPECT_EQ(Ask(table, "PUT", "/cross_0/9", large).status, 413) << "there is no rank 1";
  Ask(table, "DELETE", "/global/0");
  EXPECT_EQ(Ask(table, "PUT", "/cross_0/9", large).status, 200);
}

TEST(HorovodTable, CountsWhatEmptyValuesTake) {
  HorovodTable table(1, 1);
  size_t taken = 0;
  while (Ask(table, "PUT", "/scope" + std::to_string(taken) + "/k").status == 200) ++taken;
  EXPECT_LT(taken, HorovodTable::kMaxBytes / HorovodTable::kEntryBytes);
}

}  // namespace
}  // namespace lockstep::agent
