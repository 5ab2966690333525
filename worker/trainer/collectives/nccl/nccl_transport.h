// The Transport on NCCL: device memory, one communicator, one stream. Start launches an operation
// and an event behind it; Finish looks at the event and at NCCL's asynchronous error.
//
// The kernels that write a buffer must be done when its operation starts, or come before the event
// that the operation names: the stream here knows of no other. A buffer may be used again when
// Finish said so, and after a failure only when the transport is gone: until then a kernel may
// still wait with it, and cuMemFree for that kernel.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_TRANSPORT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_TRANSPORT_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/nccl/nccl_comm.h"
#include "worker/trainer/collectives/nccl/tree_sum.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

struct NcclLimits {
  // How long NCCL may take to end: after an abort the process then leaves by _exit(75), and after
  // work that was done ThreadsLeftBehind() says so.
  Duration end = seconds(15);
  // Operations begun and not finished; the next Start waits for the oldest.
  size_t in_flight = kMostBegun;
  // The bytes of a buffer that the tree sums at a time: it takes half as much again of the GPU's
  // memory.
  size_t staging = size_t{32} << 20U;
};

// ConnectNccl (transport.h) with other limits.
Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline, const NcclLimits& limits);

class NcclTransport final : public Transport {
 public:
  // An operation's place in the stream: `begins` is done when all before it is, `ends` with it.
  struct Marks {
    CudaEvent begins;
    CudaEvent ends;
  };
  // What a transport is made of; the marks are as many as operations may be in flight.
  struct Parts {
    std::shared_ptr<const CudaDevice> device;
    CudaStream stream;
    std::vector<Marks> marks;
    DeviceMemory barrier;         // int64 {1, sum}
    std::optional<TreeSum> tree;  // of floats' sums, unless NCCL makes them
  };

  static Result<Parts> Prepare(std::shared_ptr<const CudaDevice> device, const NcclLimits& limits);

  NcclTransport(Parts parts, std::shared_ptr<const NcclLibrary> library, const NcclRanks& ranks,
                const NcclLimits& limits);
  ~NcclTransport() override;

  // A first allreduce of ones, which must give the number of ranks, and a first sum by the tree:
  // NCCL connects ranks when they first need it, and takes memory then.
  Status Init(const nccl::UniqueId& id, Time deadline);

  Memory memory() const override { return Memory::kDevice; }
  std::string Describe() const override;
  MachineNetwork network() const override { return network_; }
  // What connects the ranks, of which some are on other machines.
  void SetNetwork(MachineNetwork network) { network_ = std::move(network); }
  Status Start(const Operation& operation) override;
  Result<bool> Finish(Duration patience) override;
  bool IsOldestsTurn() const override;
  const CudaEvent* LastEnd() const override;
  void Abort() override { comm_.Abort(); }

 private:
  struct Pending {
    size_t marks;  // in parts_.marks
    Operation operation;
    Duration allowed;
    Time launched;
    std::optional<Time> begun;  // seen to be its turn
  };

  Status Validate(const Operation& operation) const;
  bool IsTreeSum(const Operation& operation) const;
  // What TreeSum launches by.
  TreeSum::Call CallOf(std::string what, Time deadline);
  // Puts it into the stream.
  Status Launch(const Operation& operation, Time deadline);
  nccl::Code LaunchNccl(const Operation& operation, const nccl::Api& api, nccl::Comm comm);
  Status Begin(const Operation& operation);
  // Waits until the oldest operation is done, at most to its deadline.
  Status Drain();
  Result<bool> Poll(Duration patience);
  Status LookAtTurn(Pending& oldest, Time now) const;
  Status WarmUp(Time deadline);
  // Keeps the first error: every later call returns it.
  Status Keep(Status status);

  Parts parts_;
  const NcclRanks ranks_;
  MachineNetwork network_;
  std::vector<size_t> free_marks_;
  std::deque<Pending> pending_;
  size_t done_unasked_ = 0;  // of Start's waiting: finished before Finish asked
  std::optional<Error> failure_;
  NcclComm comm_;  // ends first: nothing may be under way when the rest goes
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_TRANSPORT_H_
