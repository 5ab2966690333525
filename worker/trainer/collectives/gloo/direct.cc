#include "worker/trainer/collectives/gloo/direct.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "worker/trainer/collectives/gloo/reduce.h"

namespace lockstep::collectives {
namespace {

// The watchdog ends a late operation; Gloo's own timeout, which would name no rank, only follows.
constexpr Duration kGrace = seconds(5);
// Slices begin at multiples of this.
constexpr size_t kAlignment = 64;
// Rows of chunks that a rank has room for: one is added while the next comes in.
constexpr size_t kRows = 2;
// Chunks that a rank asks for at a time.
constexpr size_t kWindow = 2;

std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }
const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }

std::chrono::milliseconds Patience(const Operation& operation) {
  return duration_cast<milliseconds>(std::max<Duration>(operation.deadline - BootTime(), {}) +
                                     kGrace);
}

void AwaitReceived(gloo::transport::UnboundBuffer& buffer, size_t count, const Operation& of) {
  for (size_t i = 0; i < count; ++i) buffer.waitRecv(nullptr, Patience(of));
}

void AwaitSent(gloo::transport::UnboundBuffer& buffer, size_t count, const Operation& of) {
  for (size_t i = 0; i < count; ++i) buffer.waitSend(nullptr, Patience(of));
}

// The slot of an operation between two ranks. Kind and size are hashed into it, so ranks that
// disagree about them never meet: they fail at the deadline, with evidence, and corrupt no buffer.
uint64_t Slot(const Operation& operation, OperationKind kind, uint64_t step) {
  const size_t bytes = std::max(operation.in.count * SizeOf(operation.in.type),
                                operation.out.count * SizeOf(operation.out.type));
  uint64_t hash = (bytes + 1) * 0x9E3779B97F4A7C15u;
  hash ^= (static_cast<uint64_t>(kind) + 1) * 0xD1B54A32D192ED03u;
  hash ^= (static_cast<uint64_t>(operation.reduction) + 1) * 0x8CB92BA72F3D8DD7u;
  constexpr uint64_t kPrefix = 0x4C;  // Gloo's own are below 0x10
  return kPrefix << 56 | (operation.number & 0xffffff) << 32 | (hash >> 40) << 8 | (step & 0xff);
}

uint64_t Slot(const Operation& operation, uint64_t step) {
  return Slot(operation, operation.kind, step);
}

}  // namespace

struct Direct::Exchange {
  const Operation& operation;
  const std::byte* in;         // [n slices]
  Buffer input;                // of `in`
  std::byte* own;              // where this rank's reduced slice goes
  std::vector<Slice> slices;   // of `in`, by rank
  std::vector<Buffer> parts;   // by rank: [kRows chunks] that came from there
  std::vector<std::byte*> at;  // by rank: parts' memory
};

Direct::Buffer Direct::Bind(const void* data, size_t bytes) {
  // Gloo does not write to what it sends.
  return context_->createUnboundBuffer(const_cast<void*>(data), bytes);
}

template <typename Visit>
void Direct::ForPeers(Visit visit) const {
  for (int step = 1; step < size_; ++step) visit((me_ + step) % size_);
}

template <typename Visit>
void Direct::ForSenders(Visit visit) const {
  for (int step = 1; step < size_; ++step) visit((me_ + size_ - step) % size_);
}

size_t Direct::MostChunks(const std::vector<Slice>& slices) const {
  size_t most = 0;
  for (const Slice& slice : slices) most = std::max(most, Chunks(slice));
  return most;
}

std::vector<Direct::Slice> Direct::Slices(size_t bytes) const {
  const auto world = static_cast<size_t>(size_);
  const size_t units = (bytes + kAlignment - 1) / kAlignment;
  std::vector<Slice> slices(world);
  for (size_t rank = 0; rank < world; ++rank) {
    const size_t begin = std::min(bytes, units * rank / world * kAlignment);
    const size_t end = std::min(bytes, units * (rank + 1) / world * kAlignment);
    slices[rank] = {begin, end - begin};
  }
  return slices;
}

Direct::Slice Direct::Chunk(const Slice& slice, size_t index) const {
  const size_t from = index * sizes_.chunk;
  return {slice.begin + from, std::min(sizes_.chunk, slice.size - from)};
}

void Direct::Enter(const RankGroup& group) {
  group_ = group;
  me_ = (context_->rank - group.first) / group.stride;
  size_ = group.size;
}

void Direct::AllReduce(const Operation& operation) {
  Enter(operation.group.value_or(everybody_));
  AllReduceInGroup(operation);
  Enter(everybody_);
}

void Direct::AllReduceInGroup(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  if (bytes <= sizes_.whole) {
    AllReduceWhole(operation);
    return;
  }
  std::byte* const data = Bytes(operation.out.data);
  const auto me = static_cast<size_t>(me_);
  Exchange exchange{.operation = operation,
                    .in = data,
                    .input = Bind(data, bytes),
                    .own = nullptr,
                    .slices = Slices(bytes),
                    .parts = {},
                    .at = {}};
  const std::vector<Slice>& slices = exchange.slices;
  exchange.own = data + slices[me].begin;
  // The result of slice p overwrites what was sent of it. That is safe: rank p can send the result
  // only after it has received all parts of it.
  const Buffer result = Bind(data, bytes);
  const std::vector<Incoming> parts = ReduceRows(&exchange);
  const std::vector<Incoming> results = GatherRows(exchange, result.get());
  SendChunks(&exchange);
  ReceiveRows(operation, 0, parts, [&](size_t row) {
    ReduceRow(exchange, row);
    const Slice chunk = Chunk(slices[me], row);
    ForPeers([&](int peer) {
      result->send(group_.RankOf(peer), Slot(operation, 1), chunk.begin, chunk.size);
    });
  });
  ReceiveRows(operation, 1, results, [](size_t) {});
  AwaitSent(*result, parts.size(), operation);
  AwaitSent(*exchange.input, results.size(), operation);
}

void Direct::AllReduceWhole(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  const auto world = static_cast<size_t>(size_);
  scratch_.resize(std::max(scratch_.size(), bytes * world));
  const Buffer received = Bind(scratch_.data(), bytes * world);
  const Buffer own = Bind(operation.out.data, bytes);
  std::vector<const void*> sources(world, operation.out.data);
  ForPeers([&](int peer) {
    const size_t offset = bytes * static_cast<size_t>(peer);
    sources[static_cast<size_t>(peer)] = scratch_.data() + offset;
    received->recv(group_.RankOf(peer), Slot(operation, 0), offset, bytes);
  });
  ForPeers([&](int peer) { own->send(group_.RankOf(peer), Slot(operation, 0), 0, bytes); });
  AwaitReceived(*received, world - 1, operation);
  AwaitSent(*own, world - 1, operation);
  ReduceTree(operation.reduction, operation.out.type, sources, operation.out.count,
             operation.out.data);
}

void Direct::SendChunks(Exchange* exchange) {
  const uint64_t slot = Slot(exchange->operation, 0);
  const size_t most = MostChunks(exchange->slices);
  for (size_t i = 0; i < most; ++i) {
    ForPeers([&](int peer) {
      const Slice& slice = exchange->slices[static_cast<size_t>(peer)];
      if (i >= Chunks(slice)) return;
      const Slice chunk = Chunk(slice, i);
      exchange->input->send(group_.RankOf(peer), slot, chunk.begin, chunk.size);
    });
  }
}

std::vector<Direct::Incoming> Direct::ReduceRows(Exchange* exchange) {
  const auto world = static_cast<size_t>(size_);
  const Slice& own = exchange->slices[static_cast<size_t>(me_)];
  const size_t room = kRows * std::min(sizes_.chunk, own.size);
  scratch_.resize(std::max(scratch_.size(), room * world));
  exchange->parts.resize(world);
  exchange->at.resize(world);
  ForPeers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    exchange->at[p] = scratch_.data() + room * p;
    exchange->parts[p] = Bind(exchange->at[p], room);
  });
  std::vector<Incoming> incoming;
  for (size_t row = 0; row < Chunks(own); ++row) {
    ForSenders([&](int peer) {
      incoming.push_back({exchange->parts[static_cast<size_t>(peer)].get(),
                          peer,
                          {row % kRows * sizes_.chunk, Chunk(own, row).size},
                          row});
    });
  }
  return incoming;
}

std::vector<Direct::Incoming> Direct::GatherRows(const Exchange& exchange,
                                                 gloo::transport::UnboundBuffer* result) const {
  std::vector<Incoming> incoming;
  const size_t rows = MostChunks(exchange.slices);
  for (size_t row = 0; row < rows; ++row) {
    ForSenders([&](int peer) {
      const Slice& slice = exchange.slices[static_cast<size_t>(peer)];
      if (row < Chunks(slice)) incoming.push_back({result, peer, Chunk(slice, row), row});
    });
  }
  return incoming;
}

template <typename Whole>
void Direct::ReceiveRows(const Operation& operation, uint64_t step,
                         const std::vector<Incoming>& incoming, Whole whole) {
  const uint64_t slot = Slot(operation, step);
  size_t asked = 0;
  for (size_t i = 0; i < incoming.size(); ++i) {
    const size_t row = incoming[i].row;
    while (asked < incoming.size() && asked < i + kWindow && incoming[asked].row < row + kRows) {
      const Incoming& next = incoming[asked++];
      next.buffer->recv(group_.RankOf(next.peer), slot, next.chunk.begin, next.chunk.size);
    }
    AwaitReceived(*incoming[i].buffer, 1, operation);
    if (i + 1 == incoming.size() || incoming[i + 1].row != row) whole(row);
  }
}

void Direct::ReduceRow(const Exchange& exchange, size_t row) {
  const auto me = static_cast<size_t>(me_);
  const Operation& operation = exchange.operation;
  const Slice chunk = Chunk(exchange.slices[me], row);
  std::vector<const void*> sources(exchange.slices.size(), exchange.in + chunk.begin);
  ForPeers([&](int peer) {
    const auto p = static_cast<size_t>(peer);
    sources[p] = exchange.at[p] + row % kRows * sizes_.chunk;
  });
  ReduceTree(operation.reduction, operation.out.type, sources,
             chunk.size / SizeOf(operation.out.type), exchange.own + row * sizes_.chunk);
}

void Direct::ReduceScatter(const Operation& operation) {
  const size_t part = operation.out.count * SizeOf(operation.out.type);
  const auto world = static_cast<size_t>(context_->size);
  if (part == 0) return;
  Exchange exchange{.operation = operation,
                    .in = Bytes(operation.in.data),
                    .input = Bind(operation.in.data, part * world),
                    .own = Bytes(operation.out.data),
                    .slices = std::vector<Slice>(world),
                    .parts = {},
                    .at = {}};
  for (size_t rank = 0; rank < world; ++rank) exchange.slices[rank] = {rank * part, part};
  const std::vector<Incoming> parts = ReduceRows(&exchange);
  SendChunks(&exchange);
  ReceiveRows(operation, 0, parts, [&](size_t row) { ReduceRow(exchange, row); });
  AwaitSent(*exchange.input, parts.size(), operation);
}

void Direct::AllGather(const Operation& operation) {
  const size_t part = operation.in.count * SizeOf(operation.in.type);
  const auto world = static_cast<size_t>(context_->size);
  std::byte* const own = Bytes(operation.out.data) + part * static_cast<size_t>(context_->rank);
  if (part == 0) return;
  const Buffer all = Bind(operation.out.data, part * world);
  ForPeers([&](int peer) {
    all->recv(peer, Slot(operation, 0), part * static_cast<size_t>(peer), part);
  });
  if (operation.in.data != own) std::memmove(own, operation.in.data, part);
  const Buffer mine = Bind(own, part);
  ForPeers([&](int peer) { mine->send(peer, Slot(operation, 0), 0, part); });
  AwaitReceived(*all, world - 1, operation);
  AwaitSent(*mine, world - 1, operation);
}

void Direct::Broadcast(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  if (bytes == 0) return;
  if (bytes <= sizes_.small_broadcast || context_->size == 2) {
    BroadcastTree(operation);
  } else {
    BroadcastSlices(operation);
  }
}

// Ranks counted from the root: r receives from r less its highest bit, then sends on to r + 2^k
// for all 2^k above its own.
void Direct::BroadcastTree(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  const int world = context_->size;
  const int relative = (context_->rank - operation.peer + world) % world;
  const Buffer buffer = Bind(operation.out.data, bytes);
  int bit = 1;
  while (bit * 2 <= relative) bit *= 2;
  if (relative > 0) {
    buffer->recv((relative - bit + operation.peer) % world, Slot(operation, 0), 0, bytes);
    AwaitReceived(*buffer, 1, operation);
    bit *= 2;
  }
  size_t sent = 0;
  for (; relative + bit < world; bit *= 2, ++sent) {
    buffer->send((relative + bit + operation.peer) % world, Slot(operation, 0), 0, bytes);
  }
  AwaitSent(*buffer, sent, operation);
}

// The root sends slice r to rank r, which sends it on to everybody else.
void Direct::BroadcastSlices(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  const std::vector<Slice> slices = Slices(bytes);
  const auto me = static_cast<size_t>(context_->rank);
  const int root = operation.peer;
  const bool is_root = context_->rank == root;
  const Buffer own = Bind(operation.out.data, bytes);
  const Buffer others = Bind(operation.out.data, bytes);
  size_t coming = 0;
  size_t going = 0;
  const auto send = [&](int peer, const Slice& slice, uint64_t step) {
    others->send(peer, Slot(operation, step), slice.begin, slice.size);
    ++going;
  };
  if (!is_root) {
    own->recv(root, Slot(operation, 0), slices[me].begin, slices[me].size);
    ForPeers([&](int peer) {
      const Slice& slice = slices[static_cast<size_t>(peer)];
      others->recv(peer, Slot(operation, 1), slice.begin, slice.size);
      ++coming;
    });
    AwaitReceived(*own, 1, operation);
  } else {
    ForPeers([&](int peer) { send(peer, slices[static_cast<size_t>(peer)], 0); });
  }
  ForPeers([&](int peer) {
    if (peer != root) send(peer, slices[me], 1);
  });
  AwaitReceived(*others, coming, operation);
  AwaitSent(*others, going, operation);
}

void Direct::Send(const Operation& operation) {
  const size_t bytes = operation.in.count * SizeOf(operation.in.type);
  const Buffer buffer = Bind(operation.in.data, bytes);
  buffer->send(operation.peer, Slot(operation, OperationKind::kSend, 0), 0, bytes);
  AwaitSent(*buffer, 1, operation);
}

void Direct::Post(const Operation& operation) {
  std::deque<Posted>& posts = posts_[operation.peer];
  while (posts.size() >= static_cast<size_t>(operation.posts)) {
    AwaitSent(*posts.front().buffer, 1, operation);
    posts.pop_front();
  }
  const size_t bytes = operation.in.count * SizeOf(operation.in.type);
  const std::byte* from = Bytes(operation.in.data);
  Posted& posted = posts.emplace_back(Posted{{from, from + bytes}, nullptr});
  posted.buffer = Bind(posted.bytes.data(), bytes);
  posted.buffer->send(operation.peer, Slot(operation, OperationKind::kSend, 0), 0, bytes);
}

void Direct::AwaitPosts(const Operation& operation) {
  for (auto& [peer, posts] : posts_) {
    for (; !posts.empty(); posts.pop_front()) AwaitSent(*posts.front().buffer, 1, operation);
  }
}

void Direct::Receive(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  const Buffer buffer = Bind(operation.out.data, bytes);
  buffer->recv(operation.peer, Slot(operation, OperationKind::kSend, 0), 0, bytes);
  AwaitReceived(*buffer, 1, operation);
}

// In round k every rank tells the one 2^k further; after log2(n) rounds all have heard of all.
void Direct::Barrier(const Operation& operation) {
  const int world = context_->size;
  std::byte token{1};
  std::byte heard{};
  const Buffer out = Bind(&token, 1);
  const Buffer in = Bind(&heard, 1);
  uint64_t step = 0;
  for (int distance = 1; distance < world; distance *= 2, ++step) {
    in->recv((context_->rank + world - distance) % world, Slot(operation, step), 0, 1);
    out->send((context_->rank + distance) % world, Slot(operation, step), 0, 1);
    AwaitReceived(*in, 1, operation);
    AwaitSent(*out, 1, operation);
  }
}

}  // namespace lockstep::collectives
