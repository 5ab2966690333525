// Collectives over Gloo's point-to-point messages: every rank talks to every other one directly.
// Reduced sums have the order of ReduceTree() over the ranks, however a buffer is cut into slices
// and chunks, so their bits depend on nothing but the values and the number of ranks. One thread.
//
// A large allreduce of n ranks (rank r owns slice r of the buffer, sent in chunks):
//
//   each rank sends its part of slice r to rank r, for all r      reduce-scatter
//   rank r adds the n parts of a chunk in the tree's order
//   and sends the result to all, while the next chunk comes in    all-gather
//
// Each byte crosses a connection twice, as in a ring, but in 2 steps instead of 2 (n - 1).
#ifndef LOCKSTEP_WORKER_COLLECTIVES_DIRECT_H_
#define LOCKSTEP_WORKER_COLLECTIVES_DIRECT_H_

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/collectives/transport.h"

namespace lockstep::collectives {

// Sizes in bytes; other values than these are for tests.
struct DirectSizes {
  // An allreduce up to here sends whole buffers to everybody, in one step.
  size_t whole = 8 << 10;
  size_t chunk = 512 << 10;
  // A broadcast up to here goes down a binomial tree; above, slices are scattered and gathered.
  size_t small_broadcast = 64 << 10;
};

// Every function throws gloo::Exception, as Gloo does, and blocks until the operation is done.
class Direct {
 public:
  Direct(gloo::Context* context, DirectSizes sizes) : context_(context), sizes_(sizes) {}

  void AllReduce(const Operation& operation);
  void ReduceScatter(const Operation& operation);
  void AllGather(const Operation& operation);
  void Broadcast(const Operation& operation);
  void Send(const Operation& operation);
  void Receive(const Operation& operation);
  void Barrier(const Operation& operation);

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  // A part of a buffer, in bytes.
  struct Slice {
    size_t begin = 0;
    size_t size = 0;
  };
  // One buffer's way through reduce-scatter and all-gather.
  struct Exchange;

  Buffer Bind(const void* data, size_t bytes);
  // Calls `visit` with every other rank, the next one first: no rank is everybody's first.
  template <typename Visit>
  void ForPeers(Visit visit) const;
  std::vector<Slice> Slices(size_t bytes) const;
  size_t Chunks(const Slice& slice) const { return (slice.size + sizes_.chunk - 1) / sizes_.chunk; }
  Slice Chunk(const Slice& slice, size_t index) const;

  void AllReduceWhole(const Operation& operation);
  void BroadcastTree(const Operation& operation);
  void BroadcastSlices(const Operation& operation);
  void PostReceives(Exchange* exchange, size_t chunk);
  void ReduceChunk(Exchange* exchange, size_t chunk);
  void SendChunks(Exchange* exchange);

  gloo::Context* const context_;
  const DirectSizes sizes_;
  std::vector<std::byte> scratch_;  // kept: memory once touched stays
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_COLLECTIVES_DIRECT_H_
