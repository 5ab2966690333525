#include "worker/agent/files/file_worker.h"

#include <future>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/no_threads.h"

namespace lockstep::agent {
namespace {

using FileWorkerTest = LoopTest;

TEST_F(FileWorkerTest, WorksElsewhereAndAnswersOnTheLoopInOrder) {
  auto worker = std::move(*FileWorker::Create(loop()));
  std::thread::id here = std::this_thread::get_id();
  std::vector<int> answers;
  bool elsewhere = true;
  bool answered_here = true;
  for (int i = 0; i < 100; ++i) {
    worker->Run([i] { return std::make_pair(i, std::this_thread::get_id()); },
                [&](std::pair<int, std::thread::id> done) {
                  answers.push_back(done.first);
                  elsewhere = elsewhere && done.second != here;
                  answered_here = answered_here && std::this_thread::get_id() == here;
                });
  }
  ASSERT_TRUE(RunUntil([&] { return answers.size() == 100; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(answers[static_cast<size_t>(i)], i);
  EXPECT_TRUE(elsewhere);
  EXPECT_TRUE(answered_here);
}

TEST_F(FileWorkerTest, WorkThatStandsStillHoldsUpNoTimer) {
  auto worker = std::move(*FileWorker::Create(loop()));
  std::promise<void> release;
  bool answered = false;
  worker->Run(
      [wait = release.get_future().share()] {
        wait.get();
        return 0;
      },
      [&](int) { answered = true; });
  Settle();
  EXPECT_FALSE(answered);
  release.set_value();
  EXPECT_TRUE(RunUntil([&] { return answered; }));
}

TEST_F(FileWorkerTest, IsAnErrorWhereTheSystemHasNoThreadLeft) {
  const NoThreads none;
  const auto worker = FileWorker::Create(loop());
  ASSERT_FALSE(worker.ok());
  EXPECT_EQ(worker.error().kind, ErrorKind::kBroken);
}

TEST_F(FileWorkerTest, EndsWithWorkInItsQueue) {
  auto worker = std::move(*FileWorker::Create(loop()));
  bool answered = false;
  for (int i = 0; i < 10; ++i) worker->Run([] { return 0; }, [&](int) { answered = true; });
  worker.reset();
  Settle();
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace lockstep::agent
