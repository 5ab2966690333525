#include "cli/cluster/page/page_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "cli/cluster/page/kept_page.h"

namespace lockstep::cli::page_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRow = R"({"namespace":"a","name":"gpt","state":"Failed"})";
constexpr const char* kView = R"({"format":1,"notes":["of then"],"logs":{"0":[{"m":"secret"}]},)"
                              R"("events":{"from":0,"dropped":0,"items":[{"text":"Failed"}]}})";
const WallTime kNoon = *ParseWallTime("2026-11-30T12:00:00Z");

class PageStoreTest : public ::testing::Test {
 protected:
  PageStoreTest() : folder_(::testing::TempDir() + "page_store_test." + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~PageStoreTest() override { std::filesystem::remove_all(folder_); }

  Status Keep(const std::string& name_space, const std::string& name, const std::string& uid,
              WallTime at = kNoon) {
    return store_.Keep({name_space, name}, uid, at, kRow, kView);
  }
  static std::vector<std::string> Uids(const std::vector<const PageStore::Page*>& pages) {
    std::vector<std::string> uids;
    for (const PageStore::Page* page : pages) uids.push_back(page->uid);
    return uids;
  }

  const std::string folder_;
  PageStore store_{folder_};
};

TEST_F(PageStoreTest, WhatOneProcessKeepsAnotherOneFindsAndReads) {
  ASSERT_TRUE(Keep("a", "gpt", "u-1").ok());
  PageStore other(folder_);
  ASSERT_TRUE(other.Refresh(Time{}).ok());
  const PageStore::Page* page = other.Find({"a", "gpt"});
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->uid, "u-1");
  EXPECT_EQ(page->at, kNoon);
  EXPECT_EQ(page->row, R"({"namespace":"a","name":"gpt","state":"Failed","kept":true})");
  EXPECT_EQ(*PageStore::ReadView(*page), kView);
  EXPECT_EQ(other.Find({"a", "gp"}), nullptr);
  EXPECT_EQ(other.Find({"b", "gpt"}), nullptr);
  EXPECT_NE(other.Find({"a", "gpt"}, "u-1"), nullptr);
  EXPECT_EQ(other.Find({"a", "gpt"}, "u-2"), nullptr);
}

TEST_F(PageStoreTest, ANewFileIsKnownAfterAWhileAndARemovedOneIsForgotten) {
  PageStore other(folder_);
  ASSERT_TRUE(other.Refresh(Time{}).ok());
  ASSERT_TRUE(Keep("a", "gpt", "u-1").ok());
  ASSERT_TRUE(other.Refresh(Time{} + PageStore::kFresh / 2).ok());
  EXPECT_EQ(other.Find({"a", "gpt"}), nullptr);
  ASSERT_TRUE(other.Refresh(Time{} + PageStore::kFresh).ok());
  EXPECT_NE(other.Find({"a", "gpt"}), nullptr);
  std::filesystem::remove(folder_ + "/a/gpt-u-1.json");
  ASSERT_TRUE(other.Refresh(Time{} + 2 * PageStore::kFresh).ok());
  EXPECT_EQ(other.Find({"a", "gpt"}), nullptr);
}

TEST_F(PageStoreTest, OfJobsOfOneNameTheLastToEndIsShown) {
  ASSERT_TRUE(Keep("a", "gpt", "u-1", kNoon).ok());
  ASSERT_TRUE(Keep("a", "gpt", "u-2", kNoon + hours(1)).ok());
  ASSERT_TRUE(Keep("a", "gpt", "u-3", kNoon - hours(1)).ok());
  ASSERT_TRUE(Keep("a", "gpt-u", "1", kNoon).ok());
  ASSERT_TRUE(Keep("b", "bert", "u-4").ok());
  EXPECT_EQ(store_.Find({"a", "gpt"})->uid, "u-2");
  EXPECT_THAT(Uids(store_.List("a")), ElementsAre("u-2", "1"));
  EXPECT_THAT(Uids(store_.List("")), ElementsAre("u-2", "1", "u-4"));
}

TEST_F(PageStoreTest, TheOldestOfEachNamespaceGoAndSoDoThoseThatAreTooOld) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Keep("a", "gpt", "u-" + std::to_string(i), kNoon + minutes(i)).ok());
  }
  ASSERT_TRUE(Keep("b", "bert", "u-5", kNoon).ok());
  ASSERT_TRUE(Keep("b", "old", "u-6", kNoon - hours(24)).ok());
  const PageStore::Limits two{.jobs = 2, .age = hours(24)};
  EXPECT_TRUE(store_.Wants("a", kNoon + minutes(2), two, kNoon + minutes(5)));
  EXPECT_FALSE(store_.Wants("a", kNoon + minutes(1), two, kNoon + minutes(5)));
  EXPECT_TRUE(store_.Wants("c", kNoon, two, kNoon + minutes(5)));
  EXPECT_FALSE(store_.Wants("c", kNoon - hours(24), two, kNoon + minutes(5)));
  EXPECT_EQ(store_.Prune(two, kNoon + minutes(5)), 3U);
  EXPECT_EQ(store_.Find({"a", "gpt"}, "u-1"), nullptr);
  EXPECT_NE(store_.Find({"a", "gpt"}, "u-2"), nullptr);
  EXPECT_NE(store_.Find({"b", "bert"}), nullptr);
  EXPECT_EQ(store_.Find({"b", "old"}), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/b/old-u-6.json"));
}

TEST_F(PageStoreTest, FilesThatAreNoPagesAndNamesThatAreNoWordsAreLeftAlone) {
  std::filesystem::create_directories(folder_ + "/a");
  std::filesystem::create_directories(folder_ + "/lost+found");
  std::ofstream(folder_ + "/a/gpt-u-1.json") << "half a pag";
  std::ofstream(folder_ + "/a/other-u-1.json")
      << R"({"kept":{"name":"gpt","uid":"u-1","at":"2026-11-30T12:00:00Z","row":{}},)" << "\n";
  ASSERT_TRUE(store_.Refresh(Time{}).ok());
  EXPECT_TRUE(store_.List("").empty());
  EXPECT_EQ(store_.Prune({.jobs = 1, .age = seconds(1)}, kNoon), 0U);
  for (const char* name : {"", ".", "..", "../b", "a/b", "A"}) {
    EXPECT_EQ(Keep(name, "gpt", "u-1").error().kind, ErrorKind::kInvalid) << name;
    EXPECT_EQ(Keep("a", name, "u-1").error().kind, ErrorKind::kInvalid) << name;
    EXPECT_EQ(Keep("a", "gpt", name).error().kind, ErrorKind::kInvalid) << name;
  }
}

TEST_F(PageStoreTest, AFolderThatTakesNothingIsAnErrorThatNamesTheFile) {
  std::ofstream(folder_ + "/a") << "a file in the folder's place";
  const Status kept = Keep("a", "gpt", "u-1");
  ASSERT_FALSE(kept.ok());
  EXPECT_THAT(kept.error().message, HasSubstr(folder_ + "/a"));
  EXPECT_EQ(store_.Find({"a", "gpt"}), nullptr);
  PageStore nowhere(folder_ + "/nowhere");
  EXPECT_FALSE(nowhere.Refresh(Time{}).ok());
}

std::string ViewOf(size_t lines, size_t bytes = 1) {
  OrderedJson kept = OrderedJson::array();
  for (size_t i = 0; i < lines; ++i) kept.push_back({{"n", i}, {"m", std::string(bytes, 'x')}});
  const OrderedJson view = {{"format", 1}, {"logs", {{"0", kept}}}};
  return DumpJson(view);
}

TEST_F(PageStoreTest, APageWithMoreLinesIsNeverOverwrittenByOneWithFewer) {
  const kube::ObjectName gpt{"a", "gpt"};
  ASSERT_TRUE(store_.Keep(gpt, "u-1", kNoon, kRow, ViewOf(2)).ok());
  PageStore another(folder_);  // that has not read the folder
  ASSERT_TRUE(another.Keep(gpt, "u-1", kNoon, kRow, ViewOf(0)).ok());
  ASSERT_NE(another.Find(gpt), nullptr);
  EXPECT_EQ(*PageStore::ReadView(*another.Find(gpt)), ViewOf(2));
  ASSERT_TRUE(another.Keep(gpt, "u-1", kNoon, kRow, ViewOf(3)).ok());
  EXPECT_EQ(*PageStore::ReadView(*another.Find(gpt)), ViewOf(3));
  std::ofstream(folder_ + "/a/gpt-u-2.json") << "half a pag";
  ASSERT_TRUE(another.Keep(gpt, "u-2", kNoon, kRow, ViewOf(0)).ok());
  EXPECT_NE(another.Find(gpt, "u-2"), nullptr);
}

TEST_F(PageStoreTest, AViewThatIsTooLargeKeepsTheLastLinesOfEachRank) {
  ASSERT_TRUE(
      store_.Keep({"a", "gpt"}, "u-1", kNoon, kRow, ViewOf(4, PageStore::kMostOfFile / 3)).ok());
  const PageStore::Page& page = *store_.Find({"a", "gpt"});
  EXPECT_LE(page.bytes, PageStore::kMostOfFile);
  EXPECT_EQ(page.bytes, std::filesystem::file_size(page.path));
  const OrderedJson lines = ParseOrderedJson(*PageStore::ReadView(page))["logs"]["0"];
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["n"], 2);
}

TEST_F(PageStoreTest, ANamespaceHasSoManyBytesAndAllOfThemSoManyPages) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Keep("a", "gpt", "u-" + std::to_string(i), kNoon + minutes(i)).ok());
  }
  ASSERT_TRUE(Keep("b", "bert", "u-5", kNoon - minutes(1)).ok());
  const uint64_t bytes = store_.Find({"a", "gpt"})->bytes;
  EXPECT_EQ(store_.Prune({.bytes = 3 * bytes}, kNoon), 1U);
  EXPECT_EQ(store_.Find({"a", "gpt"}, "u-0"), nullptr);
  EXPECT_EQ(store_.Prune({.in_all = 3}, kNoon), 1U);
  EXPECT_EQ(store_.Find({"b", "bert"}), nullptr);
}

TEST_F(PageStoreTest, OnAFullDiskTheOldestPageOfTheLargestNamespaceMakesRoom) {
  size_t most = 3;  // files on this disk
  PageStore store(folder_, [&](const std::string& path, const std::string& text) -> Status {
    size_t files = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_)) {
      files += each.is_regular_file() ? 1U : 0U;
    }
    if (files >= most) return ErrnoError("writing " + path, ENOSPC);
    std::ofstream(path) << text;
    return {};
  });
  const auto keep = [&](const std::string& name_space, const std::string& uid, WallTime at) {
    return store.Keep({name_space, "gpt"}, uid, at, kRow, kView);
  };
  ASSERT_TRUE(keep("a", "u-1", kNoon).ok());
  ASSERT_TRUE(keep("a", "u-2", kNoon + minutes(1)).ok());
  ASSERT_TRUE(keep("b", "u-3", kNoon - hours(1)).ok());
  ASSERT_TRUE(keep("b", "u-4", kNoon + minutes(2)).ok());
  EXPECT_EQ(store.Find({"a", "gpt"}, "u-1"), nullptr);
  EXPECT_NE(store.Find({"b", "gpt"}, "u-3"), nullptr);
  // Newer ones do not go for one that is older.
  const Status refused = keep("c", "u-5", kNoon - hours(2));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("No space"));
  EXPECT_NE(store.Find({"b", "gpt"}, "u-3"), nullptr);
  most = 0;  // something else fills it
  EXPECT_FALSE(keep("c", "u-6", kNoon + hours(1)).ok());
}

TEST_F(PageStoreTest, AWriteThatFailsOtherwiseRemovesNothing) {
  ASSERT_TRUE(Keep("a", "gpt", "u-1").ok());
  PageStore store(folder_, [](const std::string& path, const std::string&) {
    return ErrnoError("writing " + path, EIO);
  });
  ASSERT_TRUE(store.Refresh(Time{}).ok());
  EXPECT_FALSE(store.Keep({"a", "gpt"}, "u-2", kNoon + hours(1), kRow, kView).ok());
  EXPECT_NE(store.Find({"a", "gpt"}, "u-1"), nullptr);
}

TEST_F(PageStoreTest, WhatAKilledWriterLeftAndEmptyFoldersAreSwept) {
  const std::string old = folder_ + "/a/.lockstep-1";
  const std::string fresh = folder_ + "/a/.lockstep-2";
  std::filesystem::create_directories(folder_ + "/a");
  std::filesystem::create_directories(folder_ + "/gone");
  std::filesystem::create_directories(folder_ + "/lost+found");
  std::ofstream(old) << "half a pag";
  std::ofstream(fresh) << "half a pag";
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - 2 * PageStore::kOldTemporary);
  store_.Sweep();
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/gone"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/lost+found"));
}

// In place of a file server that does not answer is a link to itself, which nobody can open.
TEST_F(PageStoreTest, WhatCannotBeReadIsAnErrorAndIsNotForgotten) {
  ASSERT_TRUE(Keep("a", "gpt", "u-1").ok());
  std::filesystem::rename(folder_ + "/a", folder_ + "/hidden");
  std::filesystem::create_symlink("a", folder_ + "/a");
  EXPECT_FALSE(store_.Refresh(Time{}).ok());
  EXPECT_NE(store_.Find({"a", "gpt"}), nullptr);
  std::filesystem::remove(folder_ + "/a");
  std::filesystem::rename(folder_ + "/hidden", folder_ + "/a");

  const std::string file = folder_ + "/a/gpt-u-1.json";
  std::filesystem::rename(file, folder_ + "/page");
  std::filesystem::create_symlink("gpt-u-1.json", file);
  PageStore other(folder_);
  EXPECT_FALSE(other.Refresh(Time{}).ok());
  EXPECT_FALSE(other.Keep({"a", "gpt"}, "u-1", kNoon, kRow, kView).ok());
  std::filesystem::remove(file);
  std::filesystem::rename(folder_ + "/page", file);
  ASSERT_TRUE(other.Refresh(Time{} + PageStore::kFresh).ok());
  EXPECT_NE(other.Find({"a", "gpt"}), nullptr);
}

TEST_F(PageStoreTest, OthersCannotReadAPage) {
  ASSERT_TRUE(Keep("a", "gpt", "u-1").ok());
  struct stat file{};
  ASSERT_EQ(stat((folder_ + "/a/gpt-u-1.json").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0640U);
}

TEST(ShownViewTest, SaysWhenItWasKeptAndHasOnlyThePartsThatTheViewerMayRead) {
  const PageStore::Page page{
      .job = {"a", "gpt"}, .uid = "u-1", .at = kNoon, .row = kRow, .path = ""};
  const OrderedJson all =
      ParseOrderedJson(ShownView(kView, page, {.logs = true, .events = true}, 7));
  EXPECT_THAT(all["notes"].get<std::vector<std::string>>(),
              ElementsAre("this page was kept when the job ended, at 2026-11-30T12:00:00Z",
                          "when it was kept: of then"));
  EXPECT_EQ(all["version"], 7);
  EXPECT_EQ(all["logs"]["0"][0]["m"], "secret");
  EXPECT_EQ(all["events"]["items"][0]["text"], "Failed");
  const std::string no_events = ShownView(kView, page, {.logs = true}, 7);
  EXPECT_THAT(ParseOrderedJson(no_events)["events"]["items"].dump(), "[]");
  EXPECT_THAT(no_events, HasSubstr("events: list is missing in namespace a"));
  const std::string without = ShownView(kView, page, {.events = true}, 7);
  EXPECT_EQ(without.find("secret"), std::string::npos);
  EXPECT_THAT(without, HasSubstr("pods/log: get is missing in namespace a, so logs are not shown"));
  EXPECT_THAT(ShownView("[]", page, {}, 7), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace lockstep::cli::page_store_test
