// What carries the bytes. A Communicator (collectives.h) numbers, records and times operations and
// hands them, in order and from its one issuing thread, to a Transport: Gloo's or NCCL's.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_TRANSPORT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/options.h"

namespace lockstep::collectives {

// Operations begun and not done: enough to keep a GPU's stream fed.
inline constexpr size_t kMostBegun = 64;

enum class OperationKind : uint8_t {
  kAllReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kSend,
  kReceive,
  kExchange,  // `in` to the peer and `out` from it, at the same time
  kBarrier,
};

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  uint64_t number = 0;  // the same on every rank; of its pair alone where there is a peer
  ConstSpan in;         // in place: in.data == out.data
  Span out;
  Reduction reduction = Reduction::kSum;
  int peer = -1;                        // of send, receive and exchange; the root of a broadcast
  std::optional<RankGroup> group = {};  // of an allreduce that is not over all ranks
  int posts = 0;  // of a send: 0 waits for the receiver, else the most that lie here for this peer
  const CudaEvent* after = nullptr;  // in device memory: begins when this is done
  Time deadline{};  // kTimeout after it; as much later as its turn came after Start
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual Memory memory() const = 0;
  virtual std::string Describe() const = 0;
  // Communicator::network.
  virtual MachineNetwork network() const { return {}; }

  // Begins `operation`, after all that began before; may complete it. Called from one thread.
  virtual Status Start(const Operation& operation) = 0;
  // Waits up to `patience` for the oldest operation begun and not yet finished; true when it is
  // done. An error is final. Same thread as Start.
  virtual Result<bool> Finish(Duration patience) = 0;
  // Whether the oldest operation waits for nothing of this rank's own any more, so that from now on
  // peers are late. Same thread as Start.
  virtual bool IsOldestsTurn() const { return true; }
  // In device memory: done when the operation begun last is. It is another operation's once Finish
  // has said that this one is done. Same thread as Start.
  virtual const CudaEvent* LastEnd() const { return nullptr; }
  // From any thread: Start and Finish return with kUnavailable at once, or within the bound that
  // the backend names (NCCL: after which the process must leave by _exit).
  virtual void Abort() = 0;
};

// The ranks' way to each other before and beside the backend: a small store at rank 0, which also
// knows who is alive. One connection a rank, for the life of the Communicator.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  // Values of at most 64 KiB, each key set once.
  virtual Status Set(std::string_view key, std::string_view value) = 0;
  // Waits for the key; kTimeout at the deadline, kUnavailable when a peer is lost.
  virtual Result<std::string> Get(std::string_view key, Time deadline) = 0;
};

// Gloo over TCP: gloo/gloo.cc.
Result<std::unique_ptr<Transport>> ConnectGloo(const Options& options, Rendezvous& rendezvous,
                                               Time deadline);
// NCCL, opened at run time: nccl/nccl.cc. kNotFound says what is missing (libnccl, driver,
// GPU) and what to do.
Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_TRANSPORT_H_
