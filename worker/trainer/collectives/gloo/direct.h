// Collectives over Gloo's point-to-point messages: every rank talks to every other one directly.
// Reduced sums have the order of ReduceTree() over the ranks, however a buffer is cut into slices
// and chunks, so their bits depend on nothing but the values and the number of ranks. One thread.
//
// A large allreduce of n ranks (rank r owns slice r of the buffer, sent in chunks):
//
//   each rank sends its part of slice r to rank r, for all r       reduce-scatter
//   rank r adds the n parts of a chunk in the tree's order
//   and offers the result to all, while the next chunk comes in    all-gather
//
// Each byte crosses a connection twice, as in a ring, but after 2 steps instead of 2 (n - 1). What
// is sent waits at its sender until the receiver asks for it, and every rank asks for few chunks at
// a time, beginning with another peer than its neighbours do: many transfers at once cost more
// system calls for the same bytes.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_DIRECT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_DIRECT_H_

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// Sizes in bytes; other values than these are for tests.
struct DirectSizes {
  // An allreduce up to here sends whole buffers to everybody, in one step.
  size_t whole = 8 << 10;
  size_t chunk = 1 << 20;  // a multiple of 64
  // A broadcast up to here goes down a binomial tree; above, slices are scattered and gathered.
  size_t small_broadcast = 64 << 10;
};

// Every function throws gloo::Exception, as Gloo does, and blocks until the operation is done.
class Direct {
 public:
  Direct(gloo::Context* context, DirectSizes sizes)
      : context_(context), sizes_(sizes), everybody_{0, 1, context->size} {
    Enter(everybody_);
  }

  void AllReduce(const Operation& operation);
  void ReduceScatter(const Operation& operation);
  void AllGather(const Operation& operation);
  void Broadcast(const Operation& operation);
  void Send(const Operation& operation);
  void Post(const Operation& operation);
  // Returns when all that was posted has been received.
  void AwaitPosts(const Operation& operation);
  void Receive(const Operation& operation);
  void Barrier(const Operation& operation);

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  // A part of a buffer, in bytes.
  struct Slice {
    size_t begin = 0;
    size_t size = 0;
  };
  // A copy on its way.
  struct Posted {
    std::vector<std::byte> bytes;
    Buffer buffer;
  };
  // A chunk that a peer sends. Row i holds the i-th chunks of all peers.
  struct Incoming {
    gloo::transport::UnboundBuffer* buffer;
    int peer;
    Slice chunk;  // of `buffer`
    size_t row;
  };
  // One buffer's way through reduce-scatter and all-gather.
  struct Exchange;

  Buffer Bind(const void* data, size_t bytes);
  // From now on ranks are counted within `group`, which this one is in.
  void Enter(const RankGroup& group);
  // Calls `visit` with every other rank, the next one first: no rank is everybody's first.
  template <typename Visit>
  void ForPeers(Visit visit) const;
  // The same the other way round: step i of one is what the peers' step i of the other awaits.
  template <typename Visit>
  void ForSenders(Visit visit) const;
  std::vector<Slice> Slices(size_t bytes) const;
  size_t Chunks(const Slice& slice) const { return (slice.size + sizes_.chunk - 1) / sizes_.chunk; }
  Slice Chunk(const Slice& slice, size_t index) const;
  size_t MostChunks(const std::vector<Slice>& slices) const;

  void AllReduceInGroup(const Operation& operation);
  void AllReduceWhole(const Operation& operation);
  void BroadcastTree(const Operation& operation);
  void BroadcastSlices(const Operation& operation);
  std::vector<Incoming> ReduceRows(Exchange* exchange);
  std::vector<Incoming> GatherRows(const Exchange& exchange,
                                   gloo::transport::UnboundBuffer* result) const;
  // Receives all of `incoming`, a few at a time, and calls `whole` with each row once it is here.
  template <typename Whole>
  void ReceiveRows(const Operation& operation, uint64_t step, const std::vector<Incoming>& incoming,
                   Whole whole);
  void ReduceRow(const Exchange& exchange, size_t row);
  void SendChunks(Exchange* exchange);

  gloo::Context* const context_;
  const DirectSizes sizes_;
  const RankGroup everybody_;
  RankGroup group_;                          // of the operation
  int me_ = 0;                               // this rank's place in it
  int size_ = 1;                             // and its size
  std::map<int, std::deque<Posted>> posts_;  // by peer, the oldest first
  std::vector<std::byte> scratch_;           // kept: memory once touched stays
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GLOO_DIRECT_H_
