#include "cli/cluster/page/viewers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/thread_annotations.h"
#include "tests/base/loop_test_base.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/server/test_ca.h"

namespace lockstep::cli::viewers_test {
namespace {

using ::testing::HasSubstr;
using Visit = PageServer::Visit;

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// An API server that accepts the token "good", and has six jobs that have ended in namespace a.
class ViewersTest : public LoopTest {
 protected:
  ViewersTest()
      : ca_("test CA"),
        api_(ca_.Issue("api", "IP:127.0.0.1"),
             kube::ScriptedServer::Always(
                 [this](kube::ServerConnection& connection, const kube::Received& request) {
                   Answer(connection, request);
                 })),
        spawner_(std::move(*Spawner::Create())),
        viewers_(std::make_unique<Viewers>(
            Config(),
            JobPage::Sources{
                .loop = loop(), .spawner = spawner_.get(), .store = &store_, .notify = [] {}})) {
    std::filesystem::create_directories(folder_);
  }
  ~ViewersTest() override { std::filesystem::remove_all(folder_); }

  kube::ClientConfig Config() const {
    kube::ClientConfig config;
    config.server = api_.url();
    config.ca.value = ca_.pem();
    return config;
  }

  void Answer(kube::ServerConnection& connection, const kube::Received& request) {
    const std::string path = request.path.substr(0, request.path.find('?'));
    {
      const MutexLock lock(&mutex_);
      asked_.push_back(path);
    }
    loop()->PostFromAnyThread([] {});  // RunUntil looks again
    if (request.Header("authorization") != "Bearer good") {
      connection.Answer(401, R"({"kind":"Status","code":401,"reason":"Unauthorized"})");
    } else if (broken_ && path.ends_with("/trainingjobs")) {
      connection.Answer(500, R"({"kind":"Status","code":500,"reason":"InternalError"})");
    } else if (Has(request.path,
                   "sendInitialEvents")) {  // as a server of before 1.34: lists instead
      connection.Answer(422, R"({"kind":"Status","code":422,"reason":"Invalid"})");
    } else if (path.ends_with("/selfsubjectreviews")) {
      connection.Answer(201, "{}");
    } else if (path.ends_with("/selfsubjectaccessreviews")) {
      const std::string allowed = allowed_ ? "true" : "false";
      connection.Answer(201, silent_ ? "{}" : R"({"status":{"allowed":)" + allowed + "}}");
    } else if (path.ends_with("/log") || Has(request.path, "watch=")) {
      connection.AwaitClose();
    } else {
      connection.Answer(200, R"({"metadata":{"resourceVersion":"1"},"items":[)" +
                                 Items(path, request.path) + "]}");
    }
  }

  static std::string Items(const std::string& path, const std::string& whole) {
    if (path.ends_with("/pods")) {
      return R"({"metadata":{"namespace":"a","name":"job0-0","uid":"p0","resourceVersion":"1",)"
             R"("labels":{"lockstep.dev/job":"job0","lockstep.dev/machine":"0"}},"status":)"
             R"({"containerStatuses":[{"name":"worker","state":{"terminated":{"exitCode":0}}}]}})";
    }
    std::string items;
    for (int i = 0; i < 6 && path.ends_with("/trainingjobs"); ++i) {
      const std::string name = "job" + std::to_string(i);
      if (Has(whole, "fieldSelector") && !Has(whole, name)) continue;
      if (!items.empty()) items += ',';
      items += R"({"apiVersion":"lockstep.dev/v1alpha1","kind":"TrainingJob","spec":{},)";
      items +=
          R"("status":{"state":"Succeeded"},"metadata":{"namespace":"a","resourceVersion":"1",)";
      items.append(R"("name":")").append(name).append(R"(","uid":")").append(name).append("\"}}");
    }
    return items;
  }

  int64_t Asked(const std::string& end) {
    const MutexLock lock(&mutex_);
    return std::ranges::count_if(asked_, [&](const auto& each) { return each.ends_with(end); });
  }
  Result<std::string> Judge(const std::string& token, const std::string& source = "") {
    std::optional<Result<std::string>> verdict;
    viewers_->Judge(token, source, [&](Result<std::string> given) { verdict = std::move(given); });
    EXPECT_TRUE(RunUntil([&] { return verdict.has_value(); }));
    return *verdict;
  }
  Result<const PageServer::Handlers*> Find(const std::string& job, Visit visit = Visit::kAsk,
                                           const std::string& name_space = "a") {
    return viewers_->Find({viewer_, name_space, job, visit});
  }
  void LogIn() {
    viewer_ = *Judge("good");
    ASSERT_TRUE(RunUntil([&] { return (*Find(""))->version() != 0; }));
  }

  const std::string folder_ = ::testing::TempDir() + "viewers_test." + std::to_string(getpid());
  PageStore store_{folder_};
  std::atomic<bool> allowed_ = false;  // what is asked about
  std::atomic<bool> silent_ = false;   // no question about a right has an answer
  std::atomic<bool> broken_ = false;   // no list of jobs has an answer
  Mutex mutex_;
  std::vector<std::string> asked_ GUARDED_BY(mutex_);
  kube::TestCa ca_;
  kube::ScriptedServer api_;
  std::unique_ptr<Spawner> spawner_;
  std::string viewer_;
  std::unique_ptr<Viewers> viewers_;
};

TEST_F(ViewersTest, SixJobsPolledAtOnceMakeFourPagesOnceAndTheOthersAreToldToCloseATab) {
  LogIn();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 6; ++i) {
      const auto found = Find("a/job" + std::to_string(i));
      EXPECT_EQ(found.ok(), i < 4) << i;
      if (!found.ok()) {
        EXPECT_EQ(found.error().kind, ErrorKind::kUnavailable);
        EXPECT_THAT(found.error().message, HasSubstr("close another tab"));
      }
    }
    Settle();
  }
  ASSERT_TRUE(RunUntil([&] { return Asked("/selfsubjectaccessreviews") >= 4; }));
  Settle();
  EXPECT_EQ(Asked("/selfsubjectaccessreviews"), 4);  // one a page
}

TEST_F(ViewersTest, ALookMakesNoPageAndNoTable) {
  LogIn();
  EXPECT_EQ(Find("a/job0", Visit::kLook).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(*Find("a/none", Visit::kLook), nullptr);
  EXPECT_FALSE(Find("", Visit::kLook, "other").ok());
  EXPECT_TRUE(Find("a/job0").ok());
  EXPECT_TRUE(Find("a/job0", Visit::kLook).ok());
}

TEST_F(ViewersTest, APageThatNobodyShowsAnyMoreMakesRoom) {
  LogIn();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Find("a/job" + std::to_string(i)).ok());
  EXPECT_FALSE(Find("a/job4").ok());
  EXPECT_TRUE(Find("a/job0", Visit::kLeave).ok());
  EXPECT_TRUE(Find("a/job4").ok());
  EXPECT_FALSE(Find("a/job0").ok());
}

TEST_F(ViewersTest, APageThatGoesAnswersItsLogRequests) {
  LogIn();
  const PageServer::Handlers* page = *Find("a/job0");
  std::optional<Result<std::string>> answer;
  // Answered at once until the job's pods are known; then it waits for their lines.
  ASSERT_TRUE(RunUntil([&] {
    if (page->version() == 0) return false;
    answer.reset();
    page->log(std::nullopt, 0, [&](Result<std::string> given) { answer = std::move(given); });
    return !answer.has_value();
  }));
  viewers_.reset();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->error().message, HasSubstr("was closed"));
}

constexpr const char* kKeptView = R"({"format":1,"logs":{"0":[{"m":"the last words"}]}})";

TEST_F(ViewersTest, AKeptPageIsShownOnceTheApiServerHasJudgedItsViewer) {
  ASSERT_TRUE(store_.Keep({"a", "gone"}, "u-1", WallTime{}, "{}", kKeptView).ok());
  allowed_ = silent_ = true;
  LogIn();
  ASSERT_TRUE(Find("a/gone").ok());
  ASSERT_TRUE(RunUntil([&] { return Asked("/selfsubjectaccessreviews") >= 3; }));
  Settle();
  EXPECT_EQ((*Find("a/gone"))->version(), 0U);  // no right is called missing
  silent_ = false;
  ASSERT_TRUE(RunUntil([&] { return (*Find("a/gone"))->version() != 0; }));
  EXPECT_THAT((*Find("a/gone"))->view(0), HasSubstr("the last words"));
}

TEST_F(ViewersTest, AKeptPageThatIsOpenGivesWayToThatOfALaterJobOfItsName) {
  ASSERT_TRUE(store_.Keep({"a", "gone"}, "u-1", WallTime{}, "{}", kKeptView).ok());
  allowed_ = true;
  LogIn();
  const auto shown = [&] {
    EXPECT_TRUE(RunUntil([&] { return (*Find("a/gone"))->version() != 0; }));
    return (*Find("a/gone"))->view(0);
  };
  EXPECT_THAT(shown(), HasSubstr("the last words"));
  ASSERT_TRUE(store_
                  .Keep({"a", "gone"}, "u-2", WallTime{} + hours(1), "{}",
                        R"({"format":1,"logs":{"0":[{"m":"of the second"}]}})")
                  .ok());
  EXPECT_THAT(shown(), HasSubstr("of the second"));
}

TEST_F(ViewersTest, AThirdTableIsRefusedWhileTwoAreShown) {
  LogIn();
  EXPECT_TRUE(Find("", Visit::kAsk, "b").ok());
  EXPECT_THAT(Find("", Visit::kAsk, "c").error().message, HasSubstr("close another tab"));
  EXPECT_TRUE(Find("", Visit::kLeave, "b").ok());
  EXPECT_TRUE(Find("", Visit::kAsk, "c").ok());
}

TEST_F(ViewersTest, AJobThatIsAskedForBeforeTheTableIsKnownIsOpenOnceItIs) {
  viewer_ = *Judge("good");
  const PageServer::Handlers* table = *Find("a/job2");
  EXPECT_EQ(table->version(), 0U);
  ASSERT_TRUE(RunUntil([&] { return table->version() != 0; }));
  const auto job = Find("a/job2", Visit::kLook);
  ASSERT_TRUE(job.ok());
  EXPECT_NE(*job, table);
}

TEST_F(ViewersTest, AJobOfATableThatHasNoAnswerYetIsToBeAskedForAgain) {
  broken_ = true;
  viewer_ = *Judge("good");
  ASSERT_TRUE(RunUntil([&] { return (*Find(""))->version() != 0; }));
  EXPECT_EQ(Find("a/job0").error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(*Find("b/job0"), nullptr);  // not of this namespace
  broken_ = false;
  ASSERT_TRUE(RunUntil([&] { return Find("a/job0").ok(); }));
  EXPECT_NE(*Find("a/job0"), nullptr);
}

TEST_F(ViewersTest, ANewTableHasLaterVersionsThanAnEarlierOne) {
  LogIn();
  const uint64_t first = (*Find(""))->version();
  ASSERT_TRUE(Find("", Visit::kLeave).ok());
  ASSERT_TRUE(Find("", Visit::kAsk, "b").ok());
  ASSERT_TRUE(Find("", Visit::kAsk, "c").ok());
  ASSERT_TRUE(Find("", Visit::kLeave, "b").ok());
  ASSERT_TRUE(RunUntil([&] { return (*Find(""))->version() != 0; }));
  EXPECT_GT((*Find(""))->version(), first);
}

TEST_F(ViewersTest, ARefusedTokenIsRefusedAgainWithoutAQuestion) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Judge("bad").error().kind, ErrorKind::kDenied);
  EXPECT_EQ(Asked("/selfsubjectreviews"), 1);
  EXPECT_EQ(Judge("worse").error().kind, ErrorKind::kDenied);
  EXPECT_EQ(Asked("/selfsubjectreviews"), 2);
}

TEST_F(ViewersTest, OnlySoManyTokensAreJudgedASecond) {
  int refused = 0;
  for (int i = 0; i < 3 * Viewers::kMostASecond; ++i) {
    viewers_->Judge("guess" + std::to_string(i), "", [&](const Result<std::string>& verdict) {
      refused += verdict.error().kind == ErrorKind::kUnavailable ? 1 : 0;
    });
  }
  EXPECT_GE(refused, Viewers::kMostASecond);
  EXPECT_TRUE(RunUntil([&] { return Asked("/selfsubjectreviews") > 0; }));
}

TEST_F(ViewersTest, SourcesOfRefusedTokensLeavePlacesToOthers) {
  const std::vector<std::string> sources = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
  for (const std::string& source : sources) {
    EXPECT_EQ(Judge("guess-of-" + source, source).error().kind, ErrorKind::kDenied);
  }
  int taken = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string& source = sources[static_cast<size_t>(i) % sources.size()];
    ++taken;
    viewers_->Judge("guess" + std::to_string(i), source, [&](const Result<std::string>& verdict) {
      taken -= verdict.error().kind == ErrorKind::kUnavailable ? 1 : 0;
    });
  }
  EXPECT_GE(taken, Viewers::kMostASecond / 2);
  EXPECT_LE(taken, static_cast<int>(Viewers::kMostLogins) / 2);
  EXPECT_TRUE(Judge("good", "10.0.0.9").ok());
}

TEST_F(ViewersTest, OneSourceHasSoManyTokensJudgedAtATime) {
  size_t taken = 0;
  for (int i = 0; i < 30; ++i) {
    ++taken;
    viewers_->Judge("guess" + std::to_string(i), "10.0.0.1", [&](const Result<std::string>& given) {
      taken -= given.error().kind == ErrorKind::kUnavailable ? 1 : 0;
    });
  }
  EXPECT_EQ(taken, Viewers::kMostOfSource);
}

TEST_F(ViewersTest, SoManyRequestsWaitForOneJudgement) {
  int busy = 0;
  for (size_t i = 0; i < Viewers::kMostWaiting + 3; ++i) {
    viewers_->Judge("good", "",
                    [&](const Result<std::string>& verdict) { busy += verdict.ok() ? 0 : 1; });
  }
  EXPECT_EQ(busy, 3);
}

TEST_F(ViewersTest, AQueueIsAskedOnceForAllPagesOfAViewer) {
  kube::ClientConfig config = Config();
  config.token.value = "good";
  const auto connection = std::move(*Connection::Open(std::move(config)));
  QueueAsker asker(loop(), connection.get());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asker.Want({"a", "lq"}, 1));
  ASSERT_TRUE(RunUntil([&] { return !asker.Find({"a", "lq"})->asking; }));
  EXPECT_TRUE(asker.Want({"a", "lq"}, 1));
  Settle();
  EXPECT_EQ(Asked("/pendingworkloads"), 1);
  for (size_t i = 1; i < QueueAsker::kMostQueues; ++i) {
    EXPECT_TRUE(asker.Want({"a", std::to_string(i)}, QueueAsker::kMostQueues));
  }
  EXPECT_FALSE(asker.Want({"a", "more"}, QueueAsker::kMostQueues));
}

TEST(QueueLimitTest, ManyQueuesShareTheWorkloads) {
  EXPECT_EQ(QueueAsker::LimitOf(0), 1000U);
  EXPECT_EQ(QueueAsker::LimitOf(4), 1000U);
  EXPECT_EQ(QueueAsker::LimitOf(32), 125U);
}

}  // namespace
}  // namespace lockstep::cli::viewers_test
