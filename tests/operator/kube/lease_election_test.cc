#include "operator/kube/lease_election.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::kube::lease_election_test {
namespace {

constexpr auto kLong = std::chrono::seconds(60);
constexpr char kLease[] =
    R"({"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15}})";

Response Answer(int status, std::string body = "") {
  return {.status = status, .body = std::move(body), .retry_after = {}};
}

class LeaseElectionTest : public testing::Test {
 protected:
  LeaseHandlers Handlers() {
    return {.on_started = [this] { started_.set_value(); },
            .on_lost = [this] { lost_.set_value(); }};
  }
  // The Lease is absent and is made.
  void LetItStart() {
    auto read = transport_.WaitForCall(kLong);
    ASSERT_TRUE(read);
    read->answer(Answer(404));
    auto create = transport_.WaitForCall(kLong);
    ASSERT_TRUE(create);
    ASSERT_EQ(create->request.method, Method::kPost);
    EXPECT_FALSE(permit_.Held());
    create->answer(Answer(201, kLease));
    ASSERT_EQ(started_.get_future().wait_for(kLong), std::future_status::ready);
  }

  ScriptedTransport transport_;
  Permit permit_;
  std::promise<void> started_;
  std::promise<void> lost_;
};

TEST_F(LeaseElectionTest, HoldsThePermitOnceTheLeaseIsWrittenAndGivesItUpBeforeTheLease) {
  LeaseElection election(&transport_, {.name_space = "n", .identity = "me"}, &permit_, Handlers());
  LetItStart();
  EXPECT_TRUE(permit_.Held());
  EXPECT_LE(permit_.until() - BootTime(), seconds(10));

  std::thread stop([&] { election.Stop(); });
  auto release = transport_.WaitForCall(kLong);
  if (release && release->request.body.find("\"holderIdentity\":\"\"") == std::string::npos) {
    release = transport_.WaitForCall(kLong);  // a renewal came first
  }
  EXPECT_FALSE(permit_.Held());
  if (release) release->answer(Answer(200, kLease));
  stop.join();
  ASSERT_TRUE(release);
  EXPECT_EQ(lost_.get_future().wait_for(std::chrono::seconds(0)), std::future_status::timeout);
}

TEST_F(LeaseElectionTest, SaysThatItIsLostWhenNobodyAnswersInTime) {
  LeaseElection election(&transport_,
                         {.name_space = "n",
                          .identity = "me",
                          .duration = seconds(6),
                          .renew_deadline = seconds(4),
                          .retry = milliseconds(100)},
                         &permit_, Handlers());
  LetItStart();
  EXPECT_EQ(lost_.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_FALSE(permit_.Held());
}

TEST_F(LeaseElectionTest, SaysOnceWhoseItIs) {
  std::vector<std::string> told;  // by its thread, until it is stopped
  LeaseElection election(
      &transport_, {.name_space = "n", .identity = "other", .watch_every = milliseconds(1)},
      &permit_, {.on_waiting = [&](const std::string& holder) { told.push_back(holder); }});
  for (int i = 0; i < 3; ++i) {
    auto read = transport_.WaitForCall(kLong);
    ASSERT_TRUE(read);
    read->answer(Answer(200, kLease));
  }
  election.Stop();
  EXPECT_EQ(told, std::vector<std::string>{"me"});
}

TEST_F(LeaseElectionTest, StopsWhileItWaitsForAnAnswer) {
  LeaseElection election(&transport_, {.name_space = "n", .identity = "me"}, &permit_, Handlers());
  auto read = transport_.WaitForCall(kLong);
  ASSERT_TRUE(read);
  election.Stop();
  read->answer(Answer(404));
}

}  // namespace
}  // namespace lockstep::kube::lease_election_test
