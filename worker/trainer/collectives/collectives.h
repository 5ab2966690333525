// What the ranks of one generation do together: broadcast, allreduce, reduce-scatter, all-gather,
// send, receive, barrier. One Communicator a process and generation:
//
//   Result<std::unique_ptr<Communicator>> made = Connect(options);      // group/connect.h
//   Communicator& all = **made;
//   Work bucket = all.AllReduceAsync(gradients, count, Reduction::kSum, "bucket 3");
//   ...                                                                 // backward goes on
//   if (Status done = bucket.Wait(); !done.ok()) return done;           // a peer died: exit 75
//
// All ranks call the same operations in the same order, from one thread; one issuing thread of the
// Communicator's carries them out, in that order. Every operation has a number (from 1), stands in
// the flight recorder, and has a deadline: after it all ranks write down what they know and this
// operation and all later ones fail with kTimeout. A peer's death fails them with kUnavailable,
// within milliseconds where the backend sees it and within a second in any case. After the first
// failure nothing works any more: the process exits and the gang starts another generation.
//
// Buffers live in the backend's memory(): host for Gloo, the GPU's for NCCL. They are read or
// written until the operation is done.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_COLLECTIVES_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::collectives {

enum class Memory : uint8_t { kHost, kDevice };
enum class Reduction : uint8_t { kSum, kMin, kMax };
enum class DataType : uint8_t { kFloat32, kInt64, kBFloat16, kByte };

class CudaEvent;
class CudaStream;

// Others are moved, never reduced.
constexpr bool IsReduced(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kInt64;
}

// Bytes of one element.
size_t SizeOf(DataType type);

// Elements in the backend's memory.
struct ConstSpan {
  const void* data = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;
};
struct Span {
  void* data = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;

  operator ConstSpan() const { return {data, count, type}; }  // NOLINT(google-explicit-constructor)
};

// Ranks first, first + stride, ..., `size` of them.
struct RankGroup {
  int first = 0;
  int stride = 1;
  int size = 1;

  int RankOf(int member) const { return first + member * stride; }
};

// One operation under way. Copyable; the last copy may go before the operation is done.
class Work {
 public:
  struct State;

  Work() = default;  // nothing: done, and ok
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Returns when the operation is done or has failed.
  Status Wait();
  bool done() const;
  // In device memory: what comes after this on `stream` waits for the operation's end, and the host
  // only until the operation is in the Communicator's stream. What `stream` then computes counts
  // only where Wait() is ok. Call it in the Communicator's life.
  Status MakeWait(const CudaStream& stream);

 private:
  std::shared_ptr<State> state_;
};

// What moves data between machines.
struct MachineNetwork {
  std::string name = {};            // NCCL's: "IB", "Socket" (TCP), a plugin's; "": not known
  std::optional<bool> direct = {};  // GPUDirect RDMA: cards read the GPU's memory
  std::string why_tcp = {};         // NCCL's own reason for TCP; "": not known

  bool by_tcp() const { return name == "Socket"; }
};
// ", between machines by IB with GPUDirect RDMA"; "" if it is not known.
std::string ToString(const MachineNetwork& network);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual Memory memory() const = 0;
  // "Gloo over TCP on lo", "NCCL 2.28.9 on GPU 0": for people.
  virtual std::string Describe() const = 0;
  // NCCL's, if the ranks are on several machines.
  virtual MachineNetwork network() const { return {}; }

  // `tag` is for the flight recorder and for people: "bucket 3", "parameters".
  //
  // In place; the same bits on every rank. Under Reduce::kTree floats are summed as a balanced
  // tree over the ranks: ((0+1)+(2+3))+..., whatever the slicing.
  // `after`, in device memory: begins when this event is done, as it was recorded before the call,
  // and no host waits for it. The event stays until the operation is done, and is not recorded
  // again before MakeWait has returned or the operation is done. Null: what writes the buffer is
  // done.
  // NOLINTNEXTLINE(google-default-arguments): no override has another default.
  virtual Work AllReduceAsync(Span buffer, Reduction op, std::string_view tag,
                              const CudaEvent* after = nullptr) = 0;
  // The same within groups. All ranks call it at the same place among their collectives, each with
  // the group that it is in; groups may differ in the buffer's size, which may be 0. kInvalid in
  // device memory but for sums of floats as a tree.
  virtual Work AllReduceWithin(const RankGroup& group, Span buffer, Reduction op,
                               std::string_view tag, const CudaEvent* after);
  virtual Status Broadcast(Span buffer, int root, std::string_view tag) = 0;
  // `in` holds world() equal parts; `out` gets the reduction of everybody's part rank().
  virtual Status ReduceScatter(ConstSpan in, Span out, Reduction op, std::string_view tag) = 0;
  // `out` gets world() parts of in.count elements, in rank order. `in` may be its place in `out`.
  virtual Status AllGather(ConstSpan in, Span out, std::string_view tag) = 0;
  // `after` as above.
  virtual Work AllGatherAsync(ConstSpan in, Span out, std::string_view tag, const CudaEvent* after);
  virtual Status Send(ConstSpan buffer, int peer, std::string_view tag) = 0;
  // Sends a copy that the transport makes; Receive() takes it. At most `most` of them to a peer lie
  // here: one more waits until the oldest has been received. A collective of all ranks waits for
  // them all. kInvalid in device memory.
  virtual Status Post(ConstSpan buffer, int peer, int most, std::string_view tag);
  virtual Status Receive(Span buffer, int peer, std::string_view tag) = 0;
  // In device memory alone, `after` as above: sends `out` to the peer and receives `in` from it, at
  // the same time. Either may be empty: then it is a send or a receive. Two ranks that both send
  // first and then receive would wait for each other.
  virtual Work ExchangeAsync(ConstSpan out, Span in, int peer, std::string_view tag,
                             const CudaEvent* after);
  virtual Status Barrier(std::string_view tag) = 0;
  Status AllReduce(Span buffer, Reduction op, std::string_view tag) {
    return AllReduceAsync(buffer, op, tag).Wait();
  }

  // From any thread. Every operation under way or later fails with `reason`: here at once, at the
  // peers as after a peer's death. on_failure is called at the peers, not here.
  virtual void Abort(std::string_view reason) = 0;

  // From any thread, for whoever asks what a gang is at: writes the flight recorder to `dir`, as
  // where an operation is late, and says in a few words which one this rank is in, if any.
  virtual Result<std::string> Record(const std::string& dir) const = 0;

  // Waits for all operations and tells the peers that this rank leaves on purpose, so that they do
  // not take it for dead.
  virtual Status Finish() = 0;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_COLLECTIVES_H_
