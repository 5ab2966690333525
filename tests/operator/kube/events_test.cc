#include "operator/kube/events.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/client.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::kube {
namespace {

constexpr auto kLong = std::chrono::seconds(60);

ObjectRef Job(int number) {
  return {.api_version = "lockstep.dev/v1alpha1",
          .kind = "TrainingJob",
          .name_space = "team",
          .name = "gpt",
          .uid = std::to_string(number)};
}

TEST(EventRecorder, SendsAFewAtATimeAndDropsWhatIsTooMuch) {
  auto owned = std::make_unique<ScriptedTransport>();
  ScriptedTransport& transport = *owned;
  Client client(std::move(owned));
  EventRecorder events(&client, {.instance = "pod-1"});
  for (int i = 0; i < 1104; ++i) {
    events.Record(Job(i), EventType::kNormal, "Created", "Create", "4 machines");
  }
  EXPECT_EQ(events.dropped(), 100U);
  for (int i = 0; i < 1004; ++i) {
    auto call = transport.WaitForCall(kLong);
    ASSERT_TRUE(call) << i;
    call->answer(Response{.status = 201, .body = "{}", .retry_after = {}});
  }
  EXPECT_EQ(events.dropped(), 100U);
}

TEST(EventRecorder, MayGoWhileItsEventsAreOnTheirWay) {
  auto owned = std::make_unique<ScriptedTransport>();
  ScriptedTransport& transport = *owned;
  Client client(std::move(owned));
  std::vector<std::unique_ptr<ScriptedTransport::Call>> calls;
  {
    EventRecorder events(&client, {.instance = "pod-1"});
    for (int i = 0; i < 8; ++i) events.Record(Job(i), EventType::kNormal, "A", "B", "");
    for (int i = 0; i < 4; ++i) calls.push_back(transport.WaitForCall(kLong));
  }
  for (auto& call : calls) {
    ASSERT_TRUE(call);
    call->answer(Response{.status = 201, .body = "{}", .retry_after = {}});
  }
}

}  // namespace
}  // namespace lockstep::kube
