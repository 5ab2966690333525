#include "base/loop/lifetime.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/base/loop_test_base.h"

namespace lockstep {
namespace {

struct Owner {
  std::string heard;
  Lifetime lifetime;
};

using LifetimeInLoop = LoopTest;

TEST(Lifetime, AGuardedCallPassesItsArgumentsWhileTheOwnerLives) {
  Owner owner;
  auto call = owner.lifetime.Guard([&](const std::string& word) { owner.heard += word; });
  call("a");
  call("b");
  EXPECT_EQ(owner.heard, "ab");
}

TEST(Lifetime, AGuardedCallDoesNothingAfterItsOwner) {
  int calls = 0;
  auto owner = std::make_unique<Owner>();
  std::function<void()> call = owner->lifetime.Guard([&] { ++calls; });
  const Lifetime::Watch watch = owner->lifetime.watch();
  EXPECT_FALSE(watch.gone());
  owner.reset();
  call();
  EXPECT_TRUE(watch.gone());
  EXPECT_EQ(calls, 0);
}

TEST_F(LifetimeInLoop, ACallFromAnotherThreadIsMadeInTheLoop) {
  Owner owner;
  std::thread::id where;
  std::function<void(std::string)> call = owner.lifetime.Hop(loop(), [&](const std::string& word) {
    owner.heard = word;
    where = std::this_thread::get_id();
  });
  std::thread([&] { call("answer"); }).join();
  EXPECT_EQ(owner.heard, "");
  loop()->RunOnce();
  EXPECT_EQ(owner.heard, "answer");
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST_F(LifetimeInLoop, AnAnswerThatComesAfterTheOwnerIsDropped) {
  int calls = 0;
  auto owner = std::make_unique<Owner>();
  std::thread([call = owner->lifetime.Hop(loop(), [&] { ++calls; })]() mutable { call(); }).join();
  owner.reset();
  loop()->RunOnce();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace lockstep
