#include "base/loop/event_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/loop_test_base.h"

namespace lockstep {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    EXPECT_EQ(pipe2(fds.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read_end.reset(fds[0]);
    write_end.reset(fds[1]);
  }
  void Put(char c) const { EXPECT_EQ(write(write_end.get(), &c, 1), 1); }
  UniqueFd read_end;
  UniqueFd write_end;
};

class EventLoopTest : public LoopTest {};

TEST_F(EventLoopTest, CallsBackWhenADescriptorIsReady) {
  const Pipe pipe;
  std::string got;
  ASSERT_TRUE(loop()
                  ->Watch(pipe.read_end.get(), EPOLLIN,
                          [&](uint32_t) {
                            char c = 0;
                            if (read(pipe.read_end.get(), &c, 1) == 1) got.push_back(c);
                          })
                  .ok());
  pipe.Put('a');
  ASSERT_TRUE(RunUntil([&] { return !got.empty(); }));
  EXPECT_EQ(got, "a");
}

TEST_F(EventLoopTest, RefusesWhatCannotBeWaitedFor) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Status watched = loop()->Watch(null.get(), EPOLLIN, [](uint32_t) {});
  ASSERT_FALSE(watched.ok());
  EXPECT_EQ(watched.error().kind, ErrorKind::kDenied);
}

TEST_F(EventLoopTest, DropsAnEventOfADescriptorThatWasUnwatchedEarlierInTheRound) {
  const Pipe one;
  const Pipe two;
  int calls = 0;
  const auto callback = [&](uint32_t) {
    ++calls;
    loop()->Unwatch(one.read_end.get());
    loop()->Unwatch(two.read_end.get());
  };
  ASSERT_TRUE(loop()->Watch(one.read_end.get(), EPOLLIN, callback).ok());
  ASSERT_TRUE(loop()->Watch(two.read_end.get(), EPOLLIN, callback).ok());
  one.Put('a');
  two.Put('b');
  Settle();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, DoesNotTakeANewDescriptorForAnOldOneOfTheSameNumber) {
  const Pipe trigger;
  Pipe old;
  const Pipe reused;
  int calls = 0;
  ASSERT_TRUE(
      loop()
          ->Watch(
              trigger.read_end.get(), EPOLLIN,
              [&](uint32_t) {
                loop()->Unwatch(trigger.read_end.get());
                loop()->Unwatch(old.read_end.get());
                // The number now stands for a pipe with nothing in it.
                ASSERT_GE(dup2(reused.read_end.get(), old.read_end.get()), 0);
                ASSERT_TRUE(
                    loop()->Watch(old.read_end.get(), EPOLLIN, [&](uint32_t) { ++calls; }).ok());
              })
          .ok());
  ASSERT_TRUE(loop()->Watch(old.read_end.get(), EPOLLIN, [](uint32_t) {}).ok());
  trigger.Put('t');
  old.Put('o');
  Settle();
  EXPECT_EQ(calls, 0);
}

TEST_F(EventLoopTest, FiresTimersInTheOrderOfTheirTimes) {
  std::string order;
  const Time now = BootTime();
  loop()->StartTimer(now + milliseconds(2), [&] { order += 'c'; });
  loop()->StartTimer(now - seconds(5), [&] { order += 'a'; });
  loop()->StartTimer(now + milliseconds(1), [&] { order += 'b'; });
  ASSERT_TRUE(RunUntil([&] { return order.size() == 3; }));
  EXPECT_EQ(order, "abc");
}

TEST_F(EventLoopTest, ACancelledTimerNeverFiresEvenWhenItIsDueInTheSameRound) {
  bool fired = false;
  TimerId second = 0;
  loop()->StartTimer(Time(1), [&] { loop()->CancelTimer(second); });
  second = loop()->StartTimer(Time(2), [&] { fired = true; });
  Settle();
  EXPECT_FALSE(fired);
  loop()->CancelTimer(second);
  loop()->CancelTimer(0);
}

TEST_F(EventLoopTest, ATimerFiresAtItsTimeWhateverTheLoopWaitedForBefore) {
  const auto wait = [&] {  // a round that begins with nothing due
    loop()->PostFromAnyThread([] {});
    loop()->RunOnce();
  };
  const Time now = BootTime();
  bool is_cancelled = false;
  const TimerId cancelled =
      loop()->StartTimer(now + milliseconds(2), [&] { EXPECT_FALSE(is_cancelled); });
  wait();
  is_cancelled = true;
  loop()->CancelTimer(cancelled);
  Time later{};
  loop()->StartTimer(now + milliseconds(20), [&] { later = BootTime(); });
  wait();
  ASSERT_TRUE(RunUntil([&] { return later != Time(); }));
  EXPECT_GE(later, now + milliseconds(20));

  const TimerId far = loop()->StartTimer(BootTime() + hours(1), [] { FAIL(); });
  wait();
  bool sooner = false;
  loop()->StartTimer(BootTime() + milliseconds(1), [&] { sooner = true; });
  EXPECT_TRUE(RunUntil([&] { return sooner; }));
  loop()->CancelTimer(far);
}

TEST_F(EventLoopTest, ATimerThatStartsAnotherForThePastDoesNotStarveTheRest) {
  int fired = 0;
  std::function<void()> again = [&] {
    ++fired;
    loop()->StartTimer(Time(1), again);
  };
  again();
  loop()->RunOnce();
  loop()->RunOnce();
  EXPECT_EQ(fired, 3);
}

TEST_F(EventLoopTest, RunsWhatIsPostedAtTheEndOfTheRound) {
  std::string order;
  loop()->StartTimer(Time(1), [&] {
    loop()->Post([&] {
      order += 'p';
      loop()->Post([&] { order += 'q'; });
    });
    order += 't';
  });
  loop()->RunOnce();
  EXPECT_EQ(order, "tpq");
}

TEST_F(EventLoopTest, CallsBackForASignal) {
  int seen = 0;
  loop()->OnSignal(SIGUSR1, [&] { ++seen; });
  loop()->OnSignal(SIGUSR2, [&] { seen += 10; });
  raise(SIGUSR2);
  ASSERT_TRUE(RunUntil([&] { return seen > 0; }));
  EXPECT_EQ(seen, 10);
}

TEST_F(EventLoopTest, ASignalThatTheProcessIgnoresStaysIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  int seen = 0;
  loop()->OnSignal(SIGHUP, [&] { ++seen; });
  loop()->OnSignal(SIGUSR2, [&] { seen += 10; });
  raise(SIGHUP);
  raise(SIGUSR2);
  ASSERT_TRUE(RunUntil([&] { return seen > 0; }));
  EXPECT_EQ(seen, 10);
  std::signal(SIGHUP, before);
}

TEST_F(EventLoopTest, RunsWhatOtherThreadsPostInTheOrderOfEach) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 1000;
  std::array<std::vector<int>, kThreads> got;
  std::vector<std::thread> threads;
  for (std::vector<int>& mine : got) {
    threads.emplace_back([this, &mine] {
      for (int i = 0; i < kPosts; ++i) {
        loop()->PostFromAnyThread([&mine, i] { mine.push_back(i); });
      }
    });
  }
  const bool all = RunUntil([&] {
    return std::all_of(got.begin(), got.end(),
                       [](const std::vector<int>& one) { return one.size() == kPosts; });
  });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(all);
  for (const std::vector<int>& one : got) EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
}

}  // namespace
}  // namespace lockstep
