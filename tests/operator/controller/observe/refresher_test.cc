#include "operator/controller/observe/refresher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/loop/event_loop.h"
#include "operator/kube/client.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::control {
namespace {

const kube::ObjectName kJob = {"default", "gpt"};

template <typename T>
T ObjectOf(const std::string& name, const std::string& uid, const std::string& version) {
  T object;
  object.meta.name_space = "default";
  object.meta.name = name;
  object.meta.uid = uid;
  object.meta.resource_version = version;
  return object;
}

kube::PodView PodOf(const std::string& name, const std::string& version) {
  kube::PodView pod = ObjectOf<kube::PodView>(name, "uid-" + name, version);
  pod.job = "gpt";
  return pod;
}

// What the watch tells.
template <typename T>
void Tell(kube::Cache<T>& cache, kube::EventKind kind, T object) {
  kube::Batch<T> batch;
  batch.resource_version = object.meta.resource_version;
  batch.events.push_back({kind, std::move(object)});
  cache.Apply(std::move(batch), [](const T*, const T*) {});
}

class RefresherTest : public testing::Test {
 protected:
  // The job is not there any more, nor any pod but `pods`, at version 8; and before these answers
  // are taken, `meanwhile` comes.
  void Read(const std::string& pods, const std::function<void()>& meanwhile) {
    bool read = false;
    refresher_.Read(kJob, Refresher::Reach::kAll, [&](const Status& status) {
      read = status.ok();
      loop_->Stop();
    });
    meanwhile();
    std::thread server([&] {
      for (int i = 0; i < 4; ++i) {
        const auto call = transport_->WaitForCall(std::chrono::seconds(60));
        if (call == nullptr) return;
        const std::string& path = call->request.path;
        const std::string items = path.find("/pods") != std::string::npos ? pods : "";
        const bool of_job = path.find("/trainingjobs/") != std::string::npos;
        const std::string gone = R"({"kind": "Status", "reason": "NotFound", "code": 404})";
        const std::string list =
            R"({"kind": "List", "metadata": {"resourceVersion": "8"}, "items": [)" + items + "]}";
        call->answer(kube::Response{of_job ? 404 : 200, of_job ? gone : list, {}});
      }
    });
    loop_->Run();
    server.join();
    EXPECT_TRUE(read);
  }

  const std::unique_ptr<EventLoop> loop_ = std::move(*EventLoop::Create());
  std::unique_ptr<kube::ScriptedTransport> own_ = std::make_unique<kube::ScriptedTransport>();
  kube::ScriptedTransport* transport_ = own_.get();
  kube::Client client_{std::move(own_)};
  Caches caches_;
  JobBudget budget_;
  Refresher refresher_{loop_.get(), &client_, &caches_, &budget_};
};

TEST_F(RefresherTest, WhatIsNotThereIsGone) {
  Tell(caches_.jobs, kube::EventKind::kAdded, ObjectOf<kube::JobView>("gpt", "uid", "3"));
  Tell(caches_.pods, kube::EventKind::kAdded, PodOf("gpt-0", "5"));
  Read("", [] {});
  EXPECT_EQ(caches_.jobs.Find(kJob), nullptr);
  EXPECT_EQ(caches_.pods.size(), 0U);
}

TEST_F(RefresherTest, WhatWasMadeSinceStays) {
  Tell(caches_.jobs, kube::EventKind::kAdded, ObjectOf<kube::JobView>("gpt", "uid", "3"));
  Read("", [this] {
    Tell(caches_.jobs, kube::EventKind::kAdded, ObjectOf<kube::JobView>("gpt", "uid-next", "9"));
    Tell(caches_.pods, kube::EventKind::kAdded, PodOf("gpt-0", "10"));
  });
  ASSERT_NE(caches_.jobs.Find(kJob), nullptr);
  EXPECT_EQ(caches_.jobs.Find(kJob)->meta.uid, "uid-next");
  EXPECT_EQ(caches_.pods.size(), 1U);
}

TEST_F(RefresherTest, WhatHasGoneSinceDoesNotComeBack) {
  Tell(caches_.pods, kube::EventKind::kAdded, PodOf("gpt-0", "5"));
  Read(R"({"metadata": {"namespace": "default", "name": "gpt-0", "uid": "uid-gpt-0",
                        "resourceVersion": "5", "labels": {"lockstep.dev/job": "gpt"}}})",
       [this] { Tell(caches_.pods, kube::EventKind::kDeleted, PodOf("gpt-0", "9")); });
  EXPECT_EQ(caches_.pods.size(), 0U);
}

TEST_F(RefresherTest, AJobsPodsAreReadInPagesHoweverManyThereAre) {
  Tell(caches_.pods, kube::EventKind::kAdded, PodOf("gone", "5"));
  bool read = false;
  refresher_.Read(kJob, Refresher::Reach::kAll, [&](const Status& status) {
    read = status.ok();
    loop_->Stop();
  });
  int pages = 0;
  std::thread server([&] {
    for (int calls = 0; calls < 6; ++calls) {
      const auto call = transport_->WaitForCall(std::chrono::seconds(60));
      if (call == nullptr) return;
      const std::string& path = call->request.path;
      std::string meta = R"({"resourceVersion": "8"})";
      std::string items;
      if (path.find("/pods") != std::string::npos) {
        EXPECT_NE(path.find("limit="), std::string::npos);
        items = R"({"metadata": {"namespace": "default", "name": "gpt-)";
        items += std::to_string(pages);
        items +=
            R"(", "uid": "u", "resourceVersion": "6", "labels": {"lockstep.dev/job": "gpt"}}})";
        if (++pages < 3) meta = R"({"resourceVersion": "8", "continue": "more"})";
      }
      const bool of_job = path.find("/trainingjobs/") != std::string::npos;
      std::string body = R"({"metadata": )";
      body += meta;
      body += R"(, "items": [)";
      body += items;
      body += "]}";
      if (of_job) body = R"({"kind": "Status", "reason": "NotFound", "code": 404})";
      call->answer(kube::Response{of_job ? 404 : 200, body, {}});
    }
  });
  loop_->Run();
  server.join();
  EXPECT_TRUE(read);
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(caches_.pods.size(), 3U);
  EXPECT_EQ(caches_.pods.Find({"default", "gone"}), nullptr);
}

TEST_F(RefresherTest, WhereTheJobAloneIsInDoubtNothingElseIsRead) {
  std::string outcome;
  refresher_.Read(kJob, Refresher::Reach::kJob, [&](const Status& status) {
    outcome = status.ok() ? "ok" : status.error().message;
    loop_->Stop();
  });
  std::thread server([&] {
    const auto call = transport_->WaitForCall(std::chrono::seconds(60));
    if (call == nullptr) return;
    call->answer(kube::Response{
        403, R"({"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403})", {}});
  });
  loop_->Run();
  server.join();
  EXPECT_EQ(outcome, "no") << "what could not be read says why";
}

}  // namespace
}  // namespace lockstep::control
