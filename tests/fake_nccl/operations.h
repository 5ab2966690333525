// The fake's collectives, as the stream's thread runs them.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_

#include <cstddef>
#include <cstdint>

#include "tests/fake_nccl/exchange.h"
#include "worker/collectives/nccl/nccl_api.h"

namespace lockstep::fake_nccl {

enum class Kind : int32_t { kAllReduce, kBroadcast, kReduceScatter, kAllGather, kSend, kReceive };

struct Job {
  Kind kind = Kind::kAllReduce;
  uint64_t number = 0;  // of this rank's collectives; of its pair for send and receive
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;  // as in the call
  collectives::nccl::Type type = collectives::nccl::Type::kUint8;
  collectives::nccl::Op op = collectives::nccl::Op::kSum;
  int peer = -1;  // or root
};

size_t SizeOf(collectives::nccl::Type type);

// One rank's place in an exchange, used by the stream's thread alone.
class Member {
 public:
  Member(Exchange* exchange, int rank, int world)
      : exchange_(exchange), rank_(rank), world_(world) {}

  // Returns when the job is done; or, where the ranks disagree, when the exchange is stopped, as
  // the real one hangs until it is aborted.
  void Run(const Job& job);

 private:
  void RunCollective(const Job& job);
  bool RunChunk(const Job& job, size_t offset, size_t elements);
  void Combine(const Job& job, size_t offset, size_t elements);
  void Send(const Job& job);
  void Receive(const Job& job);
  bool Agree(const Signature& mine, const Signature& theirs, int peer);

  Exchange* exchange_;
  int rank_;
  int world_;
  uint64_t round_ = 0;  // chunks posted
};

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_
