#include "operator/controller/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/text/json.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::control {
namespace {

struct Answer {
  int status = 0;
  std::string body;
};

// Of a decision with this action, where the server answers so, one request after the other.
WriteResult Carry(Action action, const std::vector<Answer>& answers,
                  std::vector<kube::Request>* requests = nullptr) {
  const std::unique_ptr<EventLoop> loop = std::move(*EventLoop::Create());
  auto own = std::make_unique<kube::ScriptedTransport>();
  kube::ScriptedTransport* transport = own.get();
  kube::Client client(std::move(own));
  kube::EventRecorder events(&client, {});
  Executor executor(loop.get(), &client, &events);
  Order order;
  order.job = {"default", "gpt"};
  order.uid = "uid-gpt";
  order.decision.actions.push_back(std::move(action));
  order.body_of = [](const Action&) -> Result<std::string> { return std::string("{}"); };
  std::optional<WriteResult> result;
  executor.Carry(std::move(order), [&](WriteResult written) {
    result = std::move(written);
    loop->Stop();
  });
  std::thread server([&] {
    for (const Answer& each : answers) {
      const auto call = transport->WaitForCall(std::chrono::seconds(60));
      if (call == nullptr) continue;
      if (requests != nullptr) requests->push_back(call->request);
      call->answer(kube::Response{each.status, each.body, {}});
    }
  });
  loop->Run();
  server.join();
  return *result;
}

struct Deletion {
  const char* what;
  Action action;
  int status;
  std::string body;
  bool uncertain;  // the caches are read before the next decision
  bool complete;
};

TEST(Executor, ADeletedWorkloadIsNotDecidedFromAgain) {
  const std::string gone = R"({"kind": "Status", "status": "Success"})";
  const std::string leaving = R"({"kind": "Workload", "metadata": {"resourceVersion": "8"}})";
  const std::string unknown = R"({"kind": "Status", "reason": "NotFound", "code": 404})";
  const std::string conflict = R"({"kind": "Status", "reason": "Conflict", "code": 409})";
  const std::string forbidden = R"({"kind": "Status", "reason": "Forbidden", "code": 403})";
  const Action workload = DropWorkload{"trainingjob-gpt", "uid-workload", "7"};
  const std::vector<Deletion> deletions = {
      {"deleted", workload, 200, gone, true, true},
      {"Kueue's finalizer holds it", workload, 200, leaving, true, true},
      {"it was gone", workload, 404, unknown, true, true},
      {"it is another, or has changed", workload, 409, conflict, true, false},
      {"refused", workload, 403, forbidden, false, false},
      {"a pod", StopMachine{"gpt-0", "uid-0", 1}, 200, gone, false, true},
  };
  for (const Deletion& each : deletions) {
    const WriteResult result = Carry(each.action, {{each.status, each.body}});
    EXPECT_EQ(result.uncertain, each.uncertain) << each.what;
    EXPECT_EQ(result.complete, each.complete) << each.what;
  }
}

TEST(Executor, AWorkloadThatHasChangedSinceItWasSeenIsNotDeleted) {
  std::vector<kube::Request> requests;
  Carry(DropWorkload{"trainingjob-gpt-s4", "uid-workload", "7"}, {{200, "{}"}}, &requests);
  ASSERT_EQ(requests.size(), 1U);
  const Json preconditions = Json::parse(requests[0].body)["preconditions"];
  EXPECT_EQ(preconditions, (Json{{"uid", "uid-workload"}, {"resourceVersion", "7"}}));
}

// ---- PodGroups ----

const core::PodGroupStatus kGroup{"gpt-e1", core::GangScheduler::kCoscheduling};
const Action kMake = MakePodGroup{kGroup, 2, 7};
const Action kDrop = DropPodGroup{kGroup};
const Answer kNoSuchPath{404, "404 page not found\n"};
const Answer kNoSuchObject{404, R"({"kind": "Status", "reason": "NotFound", "code": 404})"};
const Answer kExists{409, R"({"kind": "Status", "reason": "AlreadyExists", "code": 409})"};
const Answer kForbidden{403, R"({"kind": "Status", "reason": "Forbidden", "code": 403,
                                 "message": "cannot create resource \"podgroups\""})"};
const Answer kDeleted{200, R"({"kind": "Status", "status": "Success"})"};

Answer Group(const std::string& owner, const std::string& name, const std::string& deleted = "") {
  return {200, R"({"kind": "PodGroup", "metadata": {"name": "gpt-e1", "uid": "uid-group",
    "resourceVersion": "8",)" +
                   deleted +
                   R"("ownerReferences": [{"apiVersion": "lockstep.dev/v1alpha1",
    "kind": "TrainingJob", "controller": true, "name": ")" +
                   name + R"(", "uid": ")" + owner + R"("}]}})"};
}

TEST(Executor, APodGroupThatWasMadeOrIsThereAlreadyIsKnownInItsEpoch) {
  for (const std::vector<Answer>& answers : std::vector<std::vector<Answer>>{
           {Group("uid-gpt", "gpt")}, {kExists, Group("uid-gpt", "gpt")}}) {
    const WriteResult result = Carry(kMake, answers);
    EXPECT_EQ(result.grouped_in, 7U);
    EXPECT_TRUE(result.complete);
    EXPECT_FALSE(result.refusal);
  }
}

TEST(Executor, APodGroupThatCannotBeMadeIsRefusedForWhatIsMissing) {
  const WriteResult lacking = Carry(kMake, {kNoSuchPath});
  ASSERT_TRUE(lacking.refusal);
  EXPECT_EQ(lacking.refusal->kind, Refusal::Kind::kNotServed);
  EXPECT_EQ(lacking.refusal->object, "podgroup gpt-e1");
  EXPECT_NE(lacking.refusal->message.find("scheduling.x-k8s.io/v1alpha1"), std::string::npos);
  EXPECT_FALSE(lacking.grouped_in);
  const WriteResult forbidden = Carry(kMake, {kForbidden});
  ASSERT_TRUE(forbidden.refusal);
  EXPECT_EQ(forbidden.refusal->kind, Refusal::Kind::kForbidden);
  const WriteResult foreign = Carry(kMake, {kExists, Group("uid-other", "other")});
  ASSERT_TRUE(foreign.refusal);
  EXPECT_EQ(foreign.refusal->kind, Refusal::Kind::kNameConflict);
  EXPECT_FALSE(foreign.grouped_in);
}

const core::PodGroupStatus kNativeGroup{"gpt-e1", core::GangScheduler::kKubernetes};

TEST(Executor, APodGroupIsLookedForWhereAClusterServesItAndAPodIsTriedOnIt) {
  const Action make = MakePodGroup{kNativeGroup, 2, 7};
  const Answer joined{201,
                      R"({"kind": "Pod", "spec": {"schedulingGroup": {"podGroupName": "a"}}})"};
  const Answer dropped{201, R"({"kind": "Pod", "spec": {}})"};
  const Answer made = Group("uid-gpt", "gpt");
  for (const std::vector<Answer>& answers :
       std::vector<std::vector<Answer>>{{made, joined},
                                        {kNoSuchPath, made, joined},
                                        {made, kForbidden},
                                        {kExists, made, joined}}) {
    const WriteResult result = Carry(make, answers);
    EXPECT_EQ(result.grouped_in, 7U);
    EXPECT_FALSE(result.refusal);
  }
  const WriteResult without = Carry(make, {kNoSuchPath, made, dropped});
  EXPECT_FALSE(without.grouped_in);
  ASSERT_TRUE(without.refusal);
  EXPECT_EQ(without.refusal->kind, Refusal::Kind::kNotServed);
  EXPECT_EQ(without.refusal->object, "a pod of podgroup gpt-e1");
  EXPECT_NE(without.refusal->message.find("GenericWorkload"), std::string::npos);
  const WriteResult lacking = Carry(make, {kNoSuchPath, kNoSuchPath});
  ASSERT_TRUE(lacking.refusal);
  EXPECT_EQ(lacking.refusal->object, "podgroup gpt-e1");
}

TEST(Executor, WhetherAPodGroupIsHeededStandsInItsStatus) {
  const Action ask = AskOfPodGroup{kNativeGroup};
  const Answer heeded{200, R"({"status": {"conditions": [{"type": "PodGroupScheduled"}]}})"};
  const WriteResult known = Carry(ask, {kNoSuchPath, heeded});
  ASSERT_TRUE(known.heed);
  EXPECT_EQ(known.heed->group, "gpt-e1");
  EXPECT_TRUE(known.heed->heeded);
  EXPECT_FALSE(Carry(ask, {{200, R"({"status": {}})"}}).heed->heeded);
  EXPECT_TRUE(Carry(ask, {kNoSuchObject, kNoSuchPath}).heed->heeded);
  EXPECT_TRUE(Carry(ask, {kForbidden, kForbidden}).heed->heeded);
}

TEST(Executor, APodGroupThatIsOnItsWayOutIsWaitedFor) {
  const std::string leaving = R"("deletionTimestamp": "2026-11-26T20:00:00Z",)";
  for (const Answer& there : {Group("uid-gpt", "gpt", leaving), Group("uid-earlier", "gpt")}) {
    const WriteResult result = Carry(kMake, {kExists, there});
    EXPECT_FALSE(result.complete);
    EXPECT_FALSE(result.grouped_in);
    EXPECT_FALSE(result.refusal);
  }
}

TEST(Executor, APodGroupIsGoneWhenItIsDeletedOrIsNoneOfThisJobs) {
  for (const std::vector<Answer>& answers :
       std::vector<std::vector<Answer>>{{Group("uid-gpt", "gpt"), kDeleted},
                                        {Group("uid-gpt", "gpt"), kNoSuchObject},
                                        {kNoSuchObject},
                                        {kNoSuchPath},
                                        {kForbidden},
                                        {Group("uid-other", "other")}}) {
    const WriteResult result = Carry(kDrop, answers);
    EXPECT_EQ(result.ungrouped, "gpt-e1");
    EXPECT_TRUE(result.complete);
  }
  const Answer another{409, R"({"kind": "Status", "reason": "Conflict", "code": 409})"};
  const WriteResult later = Carry(kDrop, {Group("uid-gpt", "gpt"), another});
  EXPECT_EQ(later.ungrouped, "");
  EXPECT_FALSE(later.complete);
}

TEST(Executor, ALargeJobsMachinesAreMadeAFewAtATime) {
  const std::unique_ptr<EventLoop> loop = std::move(*EventLoop::Create());
  auto own = std::make_unique<kube::ScriptedTransport>();
  kube::ScriptedTransport* transport = own.get();
  kube::Client client(std::move(own));
  kube::EventRecorder events(&client, {});
  Executor executor(loop.get(), &client, &events);
  Order order;
  order.job = {"default", "gpt"};
  int bodies = 0;
  order.body_of = [&](const Action&) -> Result<std::string> {
    ++bodies;
    return std::string("{}");
  };
  for (uint32_t machine = 0; machine < 100; ++machine) {
    StartMachine start;
    start.machine = machine;
    start.attempt = 1;
    order.decision.actions.emplace_back(start);
  }
  std::optional<WriteResult> result;
  executor.Carry(std::move(order), [&](WriteResult written) {
    result = std::move(written);
    loop->Stop();
  });
  std::thread server([&] {
    for (int i = 0; i < 100; ++i) {
      const auto call = transport->WaitForCall(std::chrono::seconds(60));
      if (call == nullptr) return;
      const kube::Client::Load load = client.load();
      EXPECT_LE(load.in_flight + load.queued, 8U);
      call->answer(kube::Response{201, "{}", {}});
    }
  });
  loop->Run();
  server.join();
  EXPECT_TRUE(result->complete);
  EXPECT_EQ(result->pods_made.size(), 100U);
  EXPECT_EQ(bodies, 100);
}

TEST(Executor, AWriteThatFailsSaysWhichAndWhy) {
  const Answer webhook{500, R"({"kind": "Status", "message": "failed calling webhook"})"};
  const Answer conflict{409, R"({"kind": "Status", "reason": "Conflict", "code": 409})"};
  const WriteResult put = Carry(WriteSlice{.key = {}, .uid = "u", .endpoints = {}}, {webhook});
  ASSERT_TRUE(put.trouble);
  EXPECT_NE(put.trouble->object.find("endpointslice"), std::string::npos);
  EXPECT_EQ(put.trouble->message, "failed calling webhook");
  EXPECT_FALSE(put.trouble->passing);
  const WriteResult raced = Carry(StopMachine{"gpt-0", "uid-0", 1}, {conflict});
  ASSERT_TRUE(raced.trouble);
  EXPECT_TRUE(raced.trouble->passing);
  EXPECT_FALSE(Carry(StopMachine{"gpt-0", "uid-0", 1}, {kDeleted}).trouble);
}

TEST(Executor, AStatusThatMetANewerJobLeavesAllElseThatIsKnownAsItIs) {
  const Answer conflict{409, R"({"kind": "Status", "reason": "Conflict", "code": 409})"};
  const std::unique_ptr<EventLoop> loop = std::move(*EventLoop::Create());
  auto own = std::make_unique<kube::ScriptedTransport>();
  kube::ScriptedTransport* transport = own.get();
  kube::Client client(std::move(own));
  kube::EventRecorder events(&client, {});
  Executor executor(loop.get(), &client, &events);
  Order order;
  order.job = {"default", "gpt"};
  order.decision.status = core::JobStatus{};
  std::optional<WriteResult> result;
  executor.Carry(std::move(order), [&](WriteResult written) {
    result = std::move(written);
    loop->Stop();
  });
  std::thread server([&] {
    const auto call = transport->WaitForCall(std::chrono::seconds(60));
    if (call != nullptr) call->answer(kube::Response{conflict.status, conflict.body, {}});
  });
  loop->Run();
  server.join();
  EXPECT_FALSE(result->complete);
  EXPECT_TRUE(result->job_changed);
  EXPECT_FALSE(result->uncertain);
}

}  // namespace
}  // namespace lockstep::control
