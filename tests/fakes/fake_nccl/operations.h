// The fake's collectives, as the stream's thread runs them.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fakes/fake_nccl/exchange.h"
#include "worker/trainer/collectives/nccl/nccl_api.h"

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

// In which order the ranks' values are added: theirs; from slice to slice another one, as a ring's
// slices begin at one rank after the other; or from call to call another one besides, as NVLink's
// switch adds whatever comes first.
enum class Order : uint8_t { kRanks, kRing, kNvls };

// One rank's place in an exchange, used by the stream's thread alone.
class Member {
 public:
  Member(Exchange* exchange, int rank, int world, Order order)
      : exchange_(exchange), rank_(rank), world_(world), order_(order) {}

  // Returns when the jobs of a group are done: sends and receives at the same time, the others
  // before them, in order. Where the ranks disagree, returns when the exchange is stopped, as the
  // real one hangs until it is aborted.
  void Run(const std::vector<Job>& jobs);

 private:
  struct Transfer {
    Job job;
    Mail* slot = nullptr;
    size_t offset = 0;  // bytes posted or taken
    bool begun = false;
    bool done = false;
  };

  void RunCollective(const Job& job);
  bool RunChunk(const Job& job, size_t offset, size_t elements);
  void Combine(const Job& job, size_t offset, size_t elements);
  int FirstOf(const Job& job, size_t slice) const;
  Mail* SlotOf(const Job& job);
  bool StepAny(std::vector<Transfer>& transfers, bool* agreed);
  bool StepSend(Transfer& transfer);
  bool StepReceive(Transfer& transfer, bool* agreed);
  bool Agree(const Signature& mine, const Signature& theirs, int peer);

  Exchange* exchange_;
  int rank_;
  int world_;
  Order order_;
  uint64_t round_ = 0;  // chunks posted
};

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_OPERATIONS_H_
