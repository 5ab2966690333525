#include "operator/kube/lease_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::kube::lease_loop_test {
namespace {

using Json = nlohmann::json;
using State = LeaseLoop::State;
using testing::HasSubstr;

constexpr WallTime kWall{seconds(1'800'000'000)};

// One Lease, as the API server keeps it.
class LeaseServer {
 public:
  Response Answer(const Request& request) {
    const Json body = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    switch (request.method) {
      case Method::kGet:
        return lease_ ? Good() : Refusal(404, "NotFound");
      case Method::kPost:
        if (lease_) return Refusal(409, "AlreadyExists");
        EXPECT_FALSE(body["metadata"].contains("resourceVersion"));
        return Store(body);
      case Method::kPut:
        if (!lease_) return Refusal(404, "NotFound");
        if (body["metadata"]["resourceVersion"] != (*lease_)["metadata"]["resourceVersion"]) {
          return Refusal(409, "Conflict");
        }
        return Store(body);
      default:
        return Refusal(405, "MethodNotAllowed");
    }
  }
  std::string holder() const {
    return lease_ ? (*lease_)["spec"]["holderIdentity"].get<std::string>() : "none";
  }
  const Json& spec() const { return (*lease_)["spec"]; }
  void Delete() { lease_.reset(); }
  // Something of no matter here changes.
  void Touch() { Store(Json(*lease_)); }

 private:
  Response Good() const { return {.status = 200, .body = lease_->dump(), .retry_after = {}}; }
  static Response Refusal(int code, const std::string& reason) {
    const Json status = {{"kind", "Status"}, {"code", code}, {"reason", reason}};
    return {.status = code, .body = status.dump(), .retry_after = {}};
  }
  Response Store(Json lease) {
    lease["metadata"]["resourceVersion"] = std::to_string(++version_);
    lease_ = std::move(lease);
    return Good();
  }

  std::optional<Json> lease_;
  int version_ = 0;
};

class LeaseLoopTest : public testing::Test {
 protected:
  static LeaseLoop Contender(const std::string& identity) {
    return LeaseLoop({.name_space = "lockstep", .identity = identity});
  }
  // Lets it ask and be answered, at once, until `until`.
  void RunUntil(LeaseLoop& loop, Time until) {
    for (;;) {
      const LeaseLoop::Step step = loop.Next(now_, kWall);
      if (!step.call) {
        if (step.until > until) break;
        now_ = step.until;
        continue;
      }
      const Status status = loop.OnAnswer(server_.Answer(step.request), now_);
      EXPECT_TRUE(status.ok()) << status.error().message;
    }
    now_ = until;
  }
  void Run(LeaseLoop& loop) { RunUntil(loop, now_); }
  bool Held(const LeaseLoop& loop) const { return now_ < loop.held_until(); }

  Time now_ = seconds(1000);
  LeaseServer server_;
};

TEST_F(LeaseLoopTest, TheFirstMakesTheLeaseAndHoldsItFromItsSending) {
  LeaseLoop a = Contender("a");
  LeaseLoop::Step step = a.Next(now_, kWall);
  EXPECT_EQ(step.request.path,
            "/apis/coordination.k8s.io/v1/namespaces/lockstep/leases/lockstep-operator");
  ASSERT_TRUE(a.OnAnswer(server_.Answer(step.request), now_).ok());
  const Time sent = now_;
  step = a.Next(now_, kWall);
  EXPECT_EQ(step.request.method, Method::kPost);
  now_ += seconds(3);
  ASSERT_TRUE(a.OnAnswer(server_.Answer(step.request), now_).ok());
  EXPECT_EQ(a.state(), State::kHolding);
  EXPECT_EQ(a.held_until(), sent + seconds(10));
  EXPECT_EQ(server_.spec()["leaseDurationSeconds"], 15);
  EXPECT_EQ(server_.spec()["renewTime"], "2027-01-15T08:00:00.000000Z");
}

TEST_F(LeaseLoopTest, IsRenewedEveryTwoSecondsAndKeepsItsAcquisition) {
  LeaseLoop a = Contender("a");
  Run(a);
  const Json before = server_.spec();
  EXPECT_EQ(a.Next(now_, kWall).until, now_ + seconds(2));
  now_ += seconds(2);
  const LeaseLoop::Step step = a.Next(now_, kWall + seconds(2));
  EXPECT_EQ(step.request.method, Method::kPut);
  ASSERT_TRUE(a.OnAnswer(server_.Answer(step.request), now_).ok());
  EXPECT_EQ(a.held_until(), now_ + seconds(10));
  EXPECT_EQ(server_.spec()["acquireTime"], before["acquireTime"]);
  EXPECT_EQ(server_.spec()["leaseTransitions"], 0);
}

TEST_F(LeaseLoopTest, AnotherTakesItOnceItStoodUnchangedForItsDurationAndNotBefore) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  RunUntil(b, now_ + seconds(15) - nanoseconds(1));
  EXPECT_EQ(b.state(), State::kWaiting);
  RunUntil(b, now_ + nanoseconds(1));
  EXPECT_EQ(b.state(), State::kHolding);
  EXPECT_EQ(server_.holder(), "b");
  EXPECT_EQ(server_.spec()["leaseTransitions"], 1);
}

TEST_F(LeaseLoopTest, ALeaderThatIsGoneIsFollowedWithinItsDurationAndASecond) {
  for (int phase = 0; phase < 20; ++phase) {
    server_ = LeaseServer();
    LeaseLoop a = Contender("a");
    LeaseLoop b = Contender("b");
    Run(a);
    RunUntil(b, now_ + milliseconds(37 * phase));
    const LeaseLoop::Step renewal = a.Next(now_ += seconds(2), kWall);
    ASSERT_TRUE(a.OnAnswer(server_.Answer(renewal.request), now_).ok());
    RunUntil(b, now_ + seconds(16));  // a is dead
    EXPECT_EQ(b.state(), State::kHolding) << phase;
  }
}

TEST_F(LeaseLoopTest, ARenewedLeaseIsNeverTaken) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  for (int i = 0; i < 100; ++i) {
    RunUntil(b, now_ + milliseconds(700));
    Run(a);
    ASSERT_EQ(b.state(), State::kWaiting);
  }
}

TEST_F(LeaseLoopTest, OfTwoWhoTakeItAtOnceOneWinsAndTheOtherLooksAndWaits) {
  for (const bool released : {false, true}) {
    server_ = LeaseServer();
    LeaseLoop a = Contender("a");
    LeaseLoop b = Contender("b");
    LeaseLoop c = Contender("c");
    Run(a);
    if (released) {
      a.Release(now_);
      Run(a);
    }
    // Both have read the same Lease before either writes.
    const LeaseLoop::Step first = b.Next(now_, kWall);
    const LeaseLoop::Step second = c.Next(now_, kWall);
    ASSERT_TRUE(b.OnAnswer(server_.Answer(first.request), now_).ok());
    ASSERT_TRUE(c.OnAnswer(server_.Answer(second.request), now_).ok());
    RunUntil(b, now_ + seconds(15));
    ASSERT_EQ(b.state(), State::kHolding);
    int calls = 0;
    for (LeaseLoop::Step step = c.Next(now_, kWall); step.call; step = c.Next(now_, kWall)) {
      ASSERT_LT(++calls, 4);
      ASSERT_TRUE(c.OnAnswer(server_.Answer(step.request), now_).ok());
    }
    EXPECT_EQ(c.state(), State::kWaiting);
  }
}

TEST_F(LeaseLoopTest, AReleasedLeaseIsTakenAtTheNextLook) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  Run(b);
  a.Release(now_);
  EXPECT_FALSE(Held(a));
  Run(a);
  EXPECT_EQ(a.state(), State::kOver);
  EXPECT_EQ(server_.holder(), "");
  RunUntil(b, now_ + milliseconds(800));
  EXPECT_EQ(b.state(), State::kHolding);
}

TEST_F(LeaseLoopTest, AReleasedLeaseThatLingersIsTakenByItsOwnNameAtOnceAndByOthersLater) {
  const LeaseOptions lingering = {.name_space = "lockstep", .identity = "a", .linger = seconds(5)};
  LeaseLoop a(lingering);
  LeaseLoop b = Contender("b");
  Run(a);
  Run(b);
  EXPECT_EQ(b.other(), "a");
  EXPECT_EQ(a.other(), "");
  a.Release(now_);
  Run(a);
  EXPECT_EQ(server_.holder(), "a");
  RunUntil(b, now_ + seconds(5));
  EXPECT_EQ(b.state(), State::kWaiting);
  LeaseLoop again(lingering);
  Run(again);
  EXPECT_EQ(again.state(), State::kHolding);
  again.Release(now_);
  Run(again);
  RunUntil(b, now_ + seconds(7));
  EXPECT_EQ(b.state(), State::kHolding);
}

TEST_F(LeaseLoopTest, OneThatLingersIsNotTakenFromTheNextProcessOfItsNameByTheLast) {
  const LeaseOptions lingering = {.name_space = "lockstep", .identity = "a", .linger = seconds(5)};
  LeaseLoop last(lingering);
  LeaseLoop next(lingering);
  Run(last);
  Run(next);
  EXPECT_EQ(next.state(), State::kHolding);
  last.Release(now_);
  Run(last);
  EXPECT_EQ(last.state(), State::kOver);
  EXPECT_EQ(server_.spec()["leaseDurationSeconds"], 15);
}

TEST_F(LeaseLoopTest, OneWhoHoldsNothingReleasesNothing) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  Run(b);
  b.Release(now_);
  EXPECT_EQ(b.state(), State::kOver);
  EXPECT_EQ(server_.holder(), "a");
}

TEST_F(LeaseLoopTest, AReleaseThatIsNotAnsweredIsGivenUpAfterTwoSeconds) {
  LeaseLoop a = Contender("a");
  Run(a);
  a.Release(now_);
  LeaseLoop::Step step = a.Next(now_, kWall);
  EXPECT_EQ(step.timeout, seconds(2));
  EXPECT_FALSE(a.OnAnswer(Error::Timeout("no answer"), now_ += seconds(2)).ok());
  a.Next(now_, kWall);
  EXPECT_EQ(a.state(), State::kOver);
}

TEST_F(LeaseLoopTest, P20_AHolderThatWasStoppedHasLostItWithoutAskingAnybody) {
  for (int stopped : {10, 15, 30}) {
    server_ = LeaseServer();
    LeaseLoop a = Contender("a");
    Run(a);
    now_ += seconds(stopped);
    EXPECT_FALSE(Held(a));
    EXPECT_FALSE(a.Next(now_, kWall).call);
    EXPECT_EQ(a.state(), State::kOver);
  }
}

TEST_F(LeaseLoopTest, P20_ARenewalThatWasAnsweredTooLateIsOfNoUse) {
  LeaseLoop a = Contender("a");
  Run(a);
  const LeaseLoop::Step step = a.Next(now_ += seconds(2), kWall);
  const Response answer = server_.Answer(step.request);
  ASSERT_TRUE(a.OnAnswer(answer, now_ + seconds(11)).ok());
  now_ += seconds(11);
  EXPECT_FALSE(Held(a));
  a.Next(now_, kWall);
  EXPECT_EQ(a.state(), State::kOver);
}

TEST_F(LeaseLoopTest, P20_CutOffFromTheServerItRetriesUntilItsTimeIsOver) {
  LeaseLoop a = Contender("a");
  Run(a);
  const Time until = a.held_until();
  int attempts = 0;
  for (;;) {
    const LeaseLoop::Step step = a.Next(now_, kWall);
    if (a.state() == State::kOver) break;
    if (!step.call) {
      EXPECT_LE(step.until, until);
      now_ = step.until;
      continue;
    }
    EXPECT_LE(now_ + step.timeout, until);
    ++attempts;
    EXPECT_FALSE(a.OnAnswer(Error::Unavailable("refused"), now_ += milliseconds(10)).ok());
  }
  EXPECT_EQ(now_, until);
  EXPECT_GT(attempts, 10);
}

TEST_F(LeaseLoopTest, P20_ARenewalThatWasDoneButNotAnsweredIsNoLoss) {
  LeaseLoop a = Contender("a");
  Run(a);
  const LeaseLoop::Step step = a.Next(now_ += seconds(2), kWall);
  server_.Answer(step.request);
  EXPECT_FALSE(a.OnAnswer(Error::Timeout("no answer"), now_ += seconds(5)).ok());
  RunUntil(a, now_ + seconds(1));
  EXPECT_EQ(a.state(), State::kHolding);
  EXPECT_GT(a.held_until(), now_ + seconds(8));
}

TEST_F(LeaseLoopTest, P20_ALeaseThatSomebodyEditedIsStillOurs) {
  LeaseLoop a = Contender("a");
  Run(a);
  server_.Touch();
  RunUntil(a, now_ + seconds(2));
  EXPECT_EQ(a.state(), State::kHolding);
  EXPECT_EQ(a.held_until(), now_ + seconds(10));
}

TEST_F(LeaseLoopTest, P20_ALeaseThatIsDeletedIsMadeAgainByItsHolderNotByThoseWhoSawIt) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  Run(b);
  server_.Delete();
  RunUntil(b, now_ + seconds(2));
  EXPECT_EQ(server_.holder(), "none");
  Run(a);
  EXPECT_EQ(server_.holder(), "a");
  EXPECT_TRUE(Held(a));
}

TEST_F(LeaseLoopTest, P20_ALeaseDeletedWithItsHolderGoneIsMadeAfterItsDuration) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  Run(b);
  server_.Delete();
  RunUntil(b, now_ + seconds(15) - nanoseconds(1));
  EXPECT_EQ(server_.holder(), "none");
  RunUntil(b, now_ + nanoseconds(1));
  EXPECT_EQ(server_.holder(), "b");
}

TEST_F(LeaseLoopTest, AHolderThatSeesAnotherNameStopsAtOnce) {
  LeaseLoop a = Contender("a");
  LeaseLoop b = Contender("b");
  Run(a);
  RunUntil(b, now_ + seconds(15));  // a did not run
  now_ -= seconds(12);              // or its clock is far behind
  Run(a);
  EXPECT_EQ(a.state(), State::kOver);
  EXPECT_FALSE(Held(a));
}

TEST_F(LeaseLoopTest, WhatStandsInTheWaySaysWhichLeaseAndWhy) {
  LeaseLoop a = Contender("a");
  a.Next(now_, kWall);
  const Status status =
      a.OnAnswer(Response{.status = 403,
                          .body = R"({"kind":"Status","code":403,"message":"leases is forbidden"})",
                          .retry_after = {}},
                 now_);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message,
              HasSubstr("the Lease lockstep/lockstep-operator cannot be read: leases is forbid"));
  EXPECT_EQ(a.Next(now_, kWall).until, now_ + milliseconds(800));
}

TEST_F(LeaseLoopTest, AnAnswerThatIsNoLeaseIsAProblemAndAskedForAgain) {
  LeaseLoop a = Contender("a");
  a.Next(now_, kWall);
  EXPECT_FALSE(a.OnAnswer(Response{.status = 200, .body = "<html>", .retry_after = {}}, now_).ok());
  RunUntil(a, now_ + seconds(1));
  EXPECT_EQ(a.state(), State::kHolding);
}

// Contenders whose clocks run apart, whose packets are late or lost, and that are stopped now and
// then, on one Lease in one virtual time.
class Contest {
 public:
  explicit Contest(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) contenders_.push_back(Fresh());
  }

  void Run() {
    for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
      now_ += milliseconds(Below(400));
      for (Contender& contender : contenders_) Step(contender);
      const auto holders = std::ranges::count_if(contenders_, [&](const Contender& contender) {
        return contender.Clock(now_) < contender.loop->held_until();
      });
      ASSERT_LE(holders, 1) << "at step " << i;
      held_ += holders;
    }
    EXPECT_GT(held_, 500) << "hardly ever did anybody hold it";
  }

 private:
  struct Contender {
    std::unique_ptr<LeaseLoop> loop;
    double rate = 1;
    Time stopped_until{};
    std::optional<Request> request;  // on its way
    std::optional<Result<Response>> answer;
    Time arrives_at{};

    Time Clock(Time now) const {
      return Time(static_cast<Time::rep>(static_cast<double>(now.count()) * rate));
    }
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }
  Duration Delay() { return milliseconds(OneIn(20) ? Below(8000) : Below(200)); }

  Contender Fresh() {
    Contender contender;
    contender.loop = std::make_unique<LeaseLoop>(
        LeaseOptions{.name_space = "n", .identity = "c" + std::to_string(++made_)});
    contender.rate = 0.85 + 0.3 * Below(100) / 100;
    return contender;
  }

  void Step(Contender& contender) {
    if (contender.loop->state() == State::kOver || OneIn(1000)) contender = Fresh();
    if (OneIn(300)) contender.stopped_until = now_ + seconds(Below(30));
    Carry(contender);
    if (now_ < contender.stopped_until) return;
    const Time clock = contender.Clock(now_);
    if (contender.answer && now_ >= contender.arrives_at) {
      // Problems are part of it.
      (void)contender.loop->OnAnswer(*std::exchange(contender.answer, std::nullopt), clock);
    }
    if (contender.request || contender.answer) return;
    if (OneIn(400)) contender.loop->Release(clock);
    LeaseLoop::Step step = contender.loop->Next(clock, kWall);
    if (!step.call) return;
    contender.request = std::move(step.request);
    contender.arrives_at = now_ + Delay();
  }

  // The network goes on whether the process runs or not.
  void Carry(Contender& contender) {
    if (!contender.request || now_ < contender.arrives_at) return;
    const Request request = *std::exchange(contender.request, std::nullopt);
    const bool lost = OneIn(20);
    Result<Response> answer = Error::Timeout("lost");
    if (!lost || OneIn(2)) answer = server_.Answer(request);
    if (lost) answer = Error::Timeout("lost");
    contender.answer = std::move(answer);
    contender.arrives_at = now_ + Delay();
  }

  std::mt19937_64 random_;
  Time now_ = seconds(1000);
  LeaseServer server_;
  std::vector<Contender> contenders_;
  int made_ = 0;
  long held_ = 0;
};

TEST(LeaseProperty, NoTwoHoldTheLeaseAtOneMoment) {
  for (uint64_t seed = 0; seed < 40 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Contest(seed).Run();
  }
}

// With the options of an operator.
TEST_F(LeaseLoopTest, AServerThatTakesMoreThanFiveSecondsKeepsItsLeader) {
  const Duration slow = milliseconds(5300);
  LeaseLoop a({.name_space = "lockstep", .identity = "a", .renew_deadline = seconds(15) * 4 / 5});
  bool led = false;
  for (const Time until = now_ + minutes(2); now_ < until;) {
    const LeaseLoop::Step step = a.Next(now_, kWall);
    if (!step.call) {
      now_ = step.until;
      continue;
    }
    const Response answer = server_.Answer(step.request);
    const bool in_time = slow < step.timeout;
    now_ += std::min(slow, step.timeout);
    const Status status =
        a.OnAnswer(in_time ? Result<Response>(answer) : Error::Timeout("no answer"), now_);
    ASSERT_TRUE(status.ok()) << status.error().message;
    ASSERT_TRUE(!led || Held(a));
    led = led || Held(a);
  }
  EXPECT_TRUE(led);
}

}  // namespace
}  // namespace lockstep::kube::lease_loop_test
