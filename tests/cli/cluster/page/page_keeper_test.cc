#include "cli/cluster/page/page_keeper.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "base/wall_time.h"
#include "tests/base/loop_test_base.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/server/test_ca.h"

namespace lockstep::cli::page_keeper_test {
namespace {

using ::testing::HasSubstr;

// An API server with the job gpt, which has failed, and its pod. The first read of the log breaks,
// and the job's event comes after the first question for events.
class PageKeeperTest : public LoopTest {
 protected:
  PageKeeperTest()
      : ca_("test CA"),
        api_(ca_.Issue("api", "IP:127.0.0.1"),
             kube::ScriptedServer::Always(
                 [this](kube::ServerConnection& connection, const kube::Received& request) {
                   Answer(connection, request);
                 })) {
    std::filesystem::create_directories(folder_);
    kube::ClientConfig config;
    config.server = api_.url();
    config.ca.value = ca_.pem();
    connection_ = std::move(*Connection::Open(std::move(config)));
    streams_ = std::move(*connection_->OpenTransport());
    queues_ = std::make_unique<QueueAsker>(loop(), connection_.get());
  }
  ~PageKeeperTest() override { std::filesystem::remove_all(folder_); }

  void Answer(kube::ServerConnection& connection, const kube::Received& request) {
    const std::string path = request.path.substr(0, request.path.find('?'));
    const bool first = Count(path) == 1;
    loop()->PostFromAnyThread([] {});  // RunUntil looks again
    const auto has = [&](const char* part) { return request.path.find(part) != std::string::npos; };
    if (has("sendInitialEvents")) {  // as a server of before 1.34: lists instead
      connection.Answer(422, R"({"kind":"Status","code":422,"reason":"Invalid"})");
    } else if (path.ends_with("/log")) {
      if (first) {
        connection.Answer(500, R"({"kind":"Status","code":500,"reason":"InternalError"})");
      } else {
        connection.Answer(200, "2026-11-30T12:00:00Z [m0 r0] the last words\n");
      }
    } else if (has("watch=")) {
      connection.AwaitClose();
    } else {
      connection.Answer(
          200, R"({"metadata":{"resourceVersion":"1"},"items":[)" + Item(path, first) + "]}");
    }
  }

  static std::string Item(const std::string& path, bool first) {
    if (path.ends_with("/pods")) {
      return R"({"metadata":{"namespace":"a","name":"gpt-0","uid":"p0","resourceVersion":"1",)"
             R"("labels":{"lockstep.dev/job":"gpt","lockstep.dev/machine":"0"}},"status":)"
             R"({"containerStatuses":[{"name":"worker","state":{"terminated":{"exitCode":1}}}]}})";
    }
    if (path.ends_with("/events") && !first) {
      return R"({"metadata":{"uid":"e1","creationTimestamp":"2026-11-30T12:00:01Z"},)"
             R"("regarding":{"uid":"u-1"},"reason":"Failed","note":"rank 0 failed"})";
    }
    if (!path.ends_with("/trainingjobs")) return "";
    return R"({"apiVersion":"lockstep.dev/v1alpha1","kind":"TrainingJob","spec":{},"status":)"
           R"({"state":"Failed"},"metadata":{"namespace":"a","resourceVersion":"1","name":"gpt",)"
           R"("uid":"u-1"}})";
  }

  int64_t Count(const std::string& path) {
    const MutexLock lock(&mutex_);
    asked_.push_back(path);
    return std::ranges::count(asked_, path);
  }
  int64_t Asked(const std::string& end) {
    const MutexLock lock(&mutex_);
    return std::ranges::count_if(asked_, [&](const auto& each) { return each.ends_with(end); });
  }
  std::unique_ptr<PageKeeper> Begin() {
    return std::make_unique<PageKeeper>(JobPage::Sources{.loop = loop(),
                                                         .connection = connection_.get(),
                                                         .streams = streams_.get(),
                                                         .queues = queues_.get(),
                                                         .store = &store_},
                                        PageKeeper::Options{.namespaces = {"a"}, .limits = {}});
  }

  const std::string folder_ = ::testing::TempDir() + "page_keeper_test." + std::to_string(getpid());
  PageStore store_{folder_};
  Mutex mutex_;
  std::vector<std::string> asked_ GUARDED_BY(mutex_);
  kube::TestCa ca_;
  kube::ScriptedServer api_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<kube::Transport> streams_;
  std::unique_ptr<QueueAsker> queues_;
};

TEST_F(PageKeeperTest, APageIsKeptOnceItsLogsWereReadToTheirEndsAndItsLastEventHasCome) {
  const auto keeper = Begin();
  ASSERT_TRUE(RunUntil([&] { return store_.Find({"a", "gpt"}) != nullptr; }));
  EXPECT_EQ(Asked("/log"), 2);
  const std::string view = *PageStore::ReadView(*store_.Find({"a", "gpt"}));
  EXPECT_THAT(view, HasSubstr("the last words"));
  EXPECT_THAT(view, HasSubstr("Failed: rank 0 failed"));
  EXPECT_EQ(view.find("could not be read"), std::string::npos);
}

TEST_F(PageKeeperTest, NothingIsKeptWhileTheFolderCannotBeRead) {
  std::filesystem::create_symlink("a", folder_ + "/a");  // to itself
  const auto keeper = Begin();
  ASSERT_TRUE(RunUntil([&] { return Asked("/trainingjobs") >= 2; }));
  bool over = false;
  loop()->StartTimer(BootTime() + milliseconds(300), [&] { over = true; });
  ASSERT_TRUE(RunUntil([&] { return over || Asked("/pods") > 0; }));
  EXPECT_EQ(Asked("/pods"), 0);
}

}  // namespace
}  // namespace lockstep::cli::page_keeper_test
