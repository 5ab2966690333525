// The fake's RAS: listens, as the real one, in each process and at one port for all of a machine,
// and tells how many operations each rank of the latest communicator has launched.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_RAS_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_RAS_H_

#include <mutex>
#include <string>
#include <thread>

#include "tests/fakes/fake_nccl/exchange.h"

namespace lockstep::fake_nccl {

class Ras {
 public:
  // At NCCL_RAS_ADDR, from its first communicator on, where FAKE_RAS is set.
  static void Tell(Exchange* exchange, int world);
  static void Forget(Exchange* exchange);

 private:
  Ras();
  static Ras& TheOne();
  void Run(const std::stop_token& stop) const;
  void Answer(int client) const;
  std::string Status() const;

  int listener_ = -1;
  mutable std::mutex mutex_;
  Exchange* exchange_ = nullptr;
  int world_ = 0;
  std::jthread thread_;
};

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_RAS_H_
