// A world of one: no sockets, no peers.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_ALONE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_ALONE_H_

#include <map>
#include <string>
#include <string_view>

#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// One thread.
class AloneRendezvous final : public Rendezvous {
 public:
  int rank() const override { return 0; }
  int world() const override { return 1; }
  Status Set(std::string_view key, std::string_view value) override;
  // kTimeout at once for a key that is not set: nobody else will.
  Result<std::string> Get(std::string_view key, Time deadline) override;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// Every operation is a copy, or nothing.
class AloneTransport final : public Transport {
 public:
  Memory memory() const override { return Memory::kHost; }
  std::string Describe() const override { return "one rank alone"; }
  Status Start(const Operation& operation) override;
  Result<bool> Finish(Duration) override { return true; }
  void Abort() override {}
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_ALONE_H_
