// Several ranks as threads of the test's process.
//
//   RunRanks(4, {}, [](Communicator& all) { EXPECT_TRUE(all.Barrier("").ok()); });
#ifndef LOCKSTEP_TESTS_WORKER_COLLECTIVES_RANKS_H_
#define LOCKSTEP_TESTS_WORKER_COLLECTIVES_RANKS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "worker/collectives/connect.h"
#include "worker/collectives/socket.h"

namespace lockstep::collectives {

// A port that nobody listens on now.
inline uint16_t FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    ADD_FAILURE() << "no socket";
    return 0;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(fd.get(), any, size), 0);
  EXPECT_EQ(getsockname(fd.get(), any, &size), 0);
  return ntohs(address.sin_port);
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

#endif  // LOCKSTEP_TESTS_WORKER_COLLECTIVES_RANKS_H_
