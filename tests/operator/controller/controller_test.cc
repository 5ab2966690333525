#include "operator/controller/controller.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "operator/controller/jobs/master_key.h"
#include "operator/kube/decode/decode.h"
#include "tests/base/loop_test_base.h"
#include "tests/operator/controller/memory_api.h"

namespace lockstep::control::controller_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

constexpr char kJob[] = "/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs/gpt";
constexpr char kPods[] = "/api/v1/namespaces/default/pods";
constexpr char kServices[] = "/api/v1/namespaces/default/services";
constexpr char kSlices[] = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
constexpr char kClaims[] = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
constexpr char kKey[] = "/api/v1/namespaces/lockstep-system/secrets/lockstep-master-key";

// A controller of all namespaces, whose watches bring what the API holds.
class ControllerTest : public LoopTest {
 protected:
  ControllerTest() {
    auto transport = std::make_unique<kube::ScriptedTransport>();
    kube::ScriptedTransport* scripted = transport.get();
    client_ = std::make_unique<kube::Client>(std::move(transport));
    events_ = std::make_unique<kube::EventRecorder>(client_.get(), kube::EventOptions{});
    api_ = std::make_unique<MemoryApi>(scripted, [this] { loop()->PostFromAnyThread([] {}); });
    api_->Put(kJob, Json::parse(R"({"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
      "metadata": {"name": "gpt", "namespace": "default", "uid": "uid-gpt", "generation": 1,
                   "creationTimestamp": "2026-11-30T10:00:00Z"},
      "spec": {"numMachines": 2, "image": "train:1", "command": ["python", "train.py"]}})"));
    controller_ =
        std::make_unique<Controller>(loop(), client_.get(), events_.get(), &metrics_,
                                     ControllerOptions{.agent_image = "agent:1",
                                                       .delivery = {},
                                                       .system_namespace = "lockstep-system",
                                                       .claimant = "me",
                                                       .watches_queues = false,
                                                       .signs = {}});
    controller_->BeginRound("", kRound);
    controller_->Open("");
  }
  ~ControllerTest() override {
    controller_.reset();
    events_.reset();
    api_.reset();
  }

  static constexpr uint64_t kRound = 1;

  template <typename View>
  void Bring(const std::string& collection) {
    const auto [objects, version] = api_->List(collection);
    kube::Batch<View> batch{
        .replace = true, .events = {}, .resource_version = version, .name_space = {}};
    for (const Json& object : objects) {
      Result<View> view = decoder_.Object<View>(DumpJson(object));
      ASSERT_TRUE(view.ok()) << view.error().message;
      batch.events.push_back({.object = *std::move(view)});
    }
    controller_->OnBatch(kRound, std::move(batch));
  }
  void BringAllButPods() {
    Bring<kube::JobView>("/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs");
    Bring<kube::ServiceView>(kServices);
    Bring<kube::SliceView>(kSlices);
    Bring<kube::NodeView>("/api/v1/nodes");
    Bring<kube::ClaimView>(kClaims);
  }
  void Bring() {
    brought_ = api_->version();
    BringAllButPods();
    Bring<kube::PodView>(kPods);
  }
  // Meanwhile watches bring what is written.
  bool RunUntilSo(const std::function<bool()>& is_so) {
    return RunUntil([&] {
      if (is_so()) return true;
      if (api_->version() != brought_) Bring();
      return false;
    });
  }
  testing::AssertionResult RunUntilPods(size_t count) {
    if (RunUntilSo([&] { return api_->List(kPods).first.size() == count; })) {
      return testing::AssertionSuccess();
    }
    testing::AssertionResult failed = testing::AssertionFailure() << api_->Get(kJob).dump(1);
    for (const std::string& line : api_->requests()) failed << "\n" << line;
    return failed;
  }
  // But for the master key.
  std::vector<std::string> Writes() const {
    std::vector<std::string> writes = api_->writes();
    std::erase_if(writes, [](const auto& line) {
      return line.find("/secrets") != std::string::npos &&
             line.find("lockstep-system") != std::string::npos;
    });
    return writes;
  }
  ptrdiff_t FirstWrite(const std::string& begin) const {
    const std::vector<std::string> writes = Writes();
    return std::ranges::find_if(writes, [&](const auto& w) { return w.starts_with(begin); }) -
           writes.begin();
  }
  // Lets the controller do all that it would now: after each round the API has served what the
  // controller sent before.
  void SettleRounds() {
    for (int round = 0; round < 10; ++round) {
      Settle();
      kube::Request marker;
      marker.path = "/marker";
      std::ignore = client_->CallAndWait(std::move(marker));
    }
    Settle();
  }
  void SettleAll() {
    ASSERT_TRUE(RunUntil([&] { return !api_->Get(kKey).is_null(); }));
    SettleRounds();
  }

  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<MemoryApi> api_;
  prometheus::Registry metrics_;
  kube::Decoder decoder_;
  uint64_t brought_ = 0;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, AttemptsAreInTheStatusBeforeTheirPodsAreMade) {
  controller_->Lead();
  Bring();
  ASSERT_TRUE(RunUntilPods(2));
  EXPECT_LT(FirstWrite("PATCH " + std::string(kJob)), FirstWrite("POST " + std::string(kPods)));
  const Json job = api_->Get(kJob);
  EXPECT_EQ(job["status"]["epoch"], 1);
  for (const char* name : {"gpt-0", "gpt-1"}) {
    const Json pod = api_->Get(std::string(kPods) + "/" + name);
    ASSERT_FALSE(pod.is_null()) << name;
    EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "uid-gpt");
    EXPECT_EQ(pod["metadata"]["labels"]["lockstep.dev/attempt"], "1");
  }
  EXPECT_EQ(api_->List(kServices).first.size(), 2U);
}

TEST_F(ControllerTest, NothingIsWrittenBeforeItLeads) {
  Bring();
  SettleRounds();
  EXPECT_THAT(api_->writes(), IsEmpty());
  controller_->Lead();
  EXPECT_TRUE(RunUntilPods(2));
}

TEST_F(ControllerTest, NothingIsDecidedBeforeAllOfAScopeHasBeenRead) {
  controller_->Lead();
  BringAllButPods();
  SettleAll();
  EXPECT_THAT(controller_->Unread(), ElementsAre(""));
  EXPECT_THAT(Writes(), IsEmpty());
  Bring<kube::PodView>(kPods);
  EXPECT_TRUE(RunUntilPods(2));
  EXPECT_THAT(controller_->Unread(), IsEmpty());
}

TEST_F(ControllerTest, ABatchOfAnEarlierRoundIsDropped) {
  controller_->Lead();
  controller_->BeginRound("", kRound + 1);
  Bring();
  SettleAll();
  EXPECT_THAT(Writes(), IsEmpty());
}

TEST_F(ControllerTest, AJobThatWasEditedMeanwhileIsReadAgainBeforeItsPodsAreMade) {
  api_->Before("PATCH " + std::string(kJob), [this] {
    Json job = api_->Get(kJob);
    job["spec"]["numMachines"] = 3;
    job["metadata"]["generation"] = 2;
    api_->Put(kJob, job);
  });
  controller_->Lead();
  Bring();
  ASSERT_TRUE(RunUntilPods(3));
  const std::vector<std::string> writes = Writes();
  EXPECT_THAT(writes[0], StartsWith("PATCH"));
  EXPECT_THAT(writes[1], StartsWith("PATCH"));
}

TEST_F(ControllerTest, APodThatWasDeletedIsReplacedUnderAHigherAttempt) {
  controller_->Lead();
  Bring();
  ASSERT_TRUE(RunUntilPods(2));
  api_->Delete(std::string(kPods) + "/gpt-1");
  const auto replaced = [this] {
    const std::vector<Json> pods = api_->List(kPods).first;
    return std::ranges::any_of(pods, [](const Json& pod) {
      return pod["metadata"]["labels"]["lockstep.dev/attempt"] == "2";
    });
  };
  ASSERT_TRUE(RunUntilSo(replaced));
  EXPECT_EQ(api_->Get(kJob)["status"]["epoch"], 2);
  EXPECT_FALSE(api_->Get(std::string(kPods) + "/gpt-0").is_null());
}

TEST_F(ControllerTest, ANamespaceThatAnotherOperatorClaimsIsLeftToIt) {
  const std::string claim = std::string(kClaims) + "/lockstep-jobs";
  api_->Put(claim, Json::parse(R"({"metadata": {"name": "lockstep-jobs", "namespace": "default"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600}})"));
  controller_->Lead();
  Bring();
  SettleAll();
  EXPECT_THAT(Writes(), IsEmpty());
  api_->Delete(claim);
  EXPECT_TRUE(RunUntilPods(2));
}

TEST_F(ControllerTest, AStoppedControllerBeginsNothing) {
  controller_->Lead();
  BringAllButPods();
  SettleAll();
  controller_->Stop();
  Bring<kube::PodView>(kPods);
  SettleAll();
  EXPECT_THAT(Writes(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::control::controller_test
