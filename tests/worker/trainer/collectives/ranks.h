// Several ranks as threads of the test's process.
//
//   RunRanks(4, {}, [](Communicator& all) { EXPECT_TRUE(all.Barrier("").ok()); });
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANKS_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANKS_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/net/free_port.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/store/socket.h"

namespace lockstep::collectives {

// A port that nobody listens on now, and no other test's.
inline uint16_t FreePort() {
  const Result<uint32_t> port = FindFreePort(std::random_device()());
  EXPECT_TRUE(port.ok());
  return port.ok() ? static_cast<uint16_t>(*port) : uint16_t{0};
}

inline Options TestOptions(int world) {
  Options options;
  options.world = world;
  options.master_address = "127.0.0.1";
  options.master_port = FreePort();
  options.identity = "test/1";
  options.backend = Backend::kGloo;
  return options;
}

// Connects all ranks, each in a thread of its own, and calls `body` there.
inline void RunRanksWith(const Options& options, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(options.world));
  for (int rank = 0; rank < options.world; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      Result<std::unique_ptr<Communicator>> made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      body(**made);
      const Status finished = (*made)->Finish();
      EXPECT_TRUE(finished.ok()) << finished.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void RunRanks(int world, const std::function<void(Communicator&)>& body) {
  RunRanksWith(TestOptions(world), body);
}

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANKS_H_
