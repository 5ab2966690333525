#include "operator/controller/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/event_loop.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::control {
namespace {

// Of a decision with this action, where the server answers so.
WriteResult Carry(Action action, int status, const std::string& body) {
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
  std::optional<WriteResult> result;
  executor.Carry(std::move(order), [&](WriteResult written) {
    result = std::move(written);
    loop->Stop();
  });
  std::thread server([&] {
    const auto call = transport->WaitForCall(std::chrono::seconds(60));
    if (call != nullptr) call->answer(kube::Response{status, body, {}});
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
  const Action workload = DropWorkload{"trainingjob-gpt", "uid-workload"};
  const std::vector<Deletion> deletions = {
      {"deleted", workload, 200, gone, true, true},
      {"Kueue's finalizer holds it", workload, 200, leaving, true, true},
      {"it was gone", workload, 404, unknown, true, true},
      {"it is another", workload, 409, conflict, true, false},
      {"refused", workload, 403, forbidden, false, false},
      {"a pod", StopMachine{"gpt-0", "uid-0", 1}, 200, gone, false, true},
  };
  for (const Deletion& each : deletions) {
    const WriteResult result = Carry(each.action, each.status, each.body);
    EXPECT_EQ(result.uncertain, each.uncertain) << each.what;
    EXPECT_EQ(result.complete, each.complete) << each.what;
  }
}

}  // namespace
}  // namespace lockstep::control
