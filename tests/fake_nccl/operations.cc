#include "tests/fake_nccl/operations.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace lockstep::fake_nccl {
namespace {

using collectives::nccl::Op;
using collectives::nccl::Type;

Signature SignatureOf(const Job& job) {
  return {.number = job.number,
          .kind = static_cast<int32_t>(job.kind),
          .type = static_cast<int32_t>(job.type),
          .op = static_cast<int32_t>(job.op),
          .root = job.kind == Kind::kBroadcast ? job.peer : -1,
          .count = job.count};
}

template <typename T>
void Reduce(char* into, const char* from, size_t elements, Op op) {
  for (size_t i = 0; i < elements; ++i) {
    T a;
    T b;
    std::memcpy(&a, into + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    if (op == Op::kSum) a += b;
    if (op == Op::kMin) a = std::min(a, b);
    if (op == Op::kMax) a = std::max(a, b);
    std::memcpy(into + i * sizeof(T), &a, sizeof(T));
  }
}

void ReduceAny(char* into, const char* from, size_t elements, Type type, Op op) {
  switch (type) {
    case Type::kFloat32:
      return Reduce<float>(into, from, elements, op);
    case Type::kInt64:
      return Reduce<int64_t>(into, from, elements, op);
    case Type::kUint8:
      return Reduce<uint8_t>(into, from, elements, op);
  }
}

}  // namespace

size_t SizeOf(Type type) {
  switch (type) {
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
      return 8;
    case Type::kUint8:
      break;
  }
  return 1;
}

void Member::Run(const Job& job) {
  switch (job.kind) {
    case Kind::kSend:
      return Send(job);
    case Kind::kReceive:
      return Receive(job);
    default:
      return RunCollective(job);
  }
}

void Member::RunCollective(const Job& job) {
  const auto world = static_cast<size_t>(world_);
  const size_t elements = job.kind == Kind::kReduceScatter ? job.count * world : job.count;
  const size_t step = kChunk / SizeOf(job.type);
  size_t offset = 0;
  // At least one chunk, so that operations without elements are compared too.
  do {
    const size_t now = std::min(step, elements - offset);
    if (!RunChunk(job, offset, now)) return;
    offset += now;
  } while (offset < elements);
}

// Everybody posts its chunk and reads all of the others'. `offset` and `elements` are in elements
// of the input.
bool Member::RunChunk(const Job& job, size_t offset, size_t elements) {
  Region& region = exchange_->region();
  Slot<kChunk>& own = region.slots[static_cast<size_t>(rank_)];
  const auto all = [&](auto member) {
    return exchange_->WaitUntil([&, this] {
      for (int rank = 0; rank < world_; ++rank) {
        if ((region.slots[static_cast<size_t>(rank)].*member).load() < round_) return false;
      }
      return true;
    });
  };
  if (!all(&Slot<kChunk>::taken)) return false;
  ++round_;
  own.signature = SignatureOf(job);
  const size_t size = SizeOf(job.type);
  if (elements > 0 && (job.kind != Kind::kBroadcast || rank_ == job.peer))
    std::memcpy(own.data.data(), static_cast<const char*>(job.in) + offset * size, elements * size);
  own.posted.store(round_);
  exchange_->Ring();

  if (!all(&Slot<kChunk>::posted)) return false;
  for (int rank = 0; rank < world_; ++rank) {
    if (!Agree(own.signature, region.slots[static_cast<size_t>(rank)].signature, rank))
      return false;
  }
  if (elements > 0) Combine(job, offset, elements);
  own.taken.store(round_);
  exchange_->Ring();
  return true;
}

void Member::Combine(const Job& job, size_t offset, size_t elements) {
  Region& region = exchange_->region();
  const size_t size = SizeOf(job.type);
  auto* out = static_cast<char*>(job.out);
  const auto chunk = [&](int rank) { return region.slots[static_cast<size_t>(rank)].data.data(); };
  if (job.kind == Kind::kBroadcast) {
    std::memcpy(out + offset * size, chunk(job.peer), elements * size);
    return;
  }
  if (job.kind == Kind::kAllGather) {
    for (int rank = 0; rank < world_; ++rank) {
      const size_t place = static_cast<size_t>(rank) * job.count + offset;
      std::memcpy(out + place * size, chunk(rank), elements * size);
    }
    return;
  }
  // The part of the chunk that is this rank's to reduce.
  size_t first = offset;
  size_t last = offset + elements;
  size_t base = 0;
  if (job.kind == Kind::kReduceScatter) {
    base = static_cast<size_t>(rank_) * job.count;
    first = std::max(first, base);
    last = std::min(last, base + job.count);
    if (first >= last) return;
  }
  char* into = out + (first - base) * size;
  const size_t skip = (first - offset) * size;
  std::memcpy(into, chunk(0) + skip, (last - first) * size);
  for (int rank = 1; rank < world_; ++rank)
    ReduceAny(into, chunk(rank) + skip, last - first, job.type, job.op);
}

void Member::Send(const Job& job) {
  auto& slot = exchange_->region().mail[static_cast<size_t>(rank_)][static_cast<size_t>(job.peer)];
  const size_t bytes = job.count * SizeOf(job.type);
  size_t offset = 0;
  do {
    const size_t now = std::min(kMailChunk, bytes - offset);
    const uint64_t before = slot.posted.load();
    if (!exchange_->WaitUntil([&] { return slot.taken.load() == before; })) return;
    slot.signature = SignatureOf(job);
    slot.signature.kind = 0;  // a send meets a receive
    if (now > 0) std::memcpy(slot.data.data(), static_cast<const char*>(job.in) + offset, now);
    slot.posted.store(before + 1);
    exchange_->Ring();
    // Done when it was taken, like a kernel that waits for its peer.
    if (!exchange_->WaitUntil([&] { return slot.taken.load() == before + 1; })) return;
    offset += now;
  } while (offset < bytes);
}

void Member::Receive(const Job& job) {
  auto& slot = exchange_->region().mail[static_cast<size_t>(job.peer)][static_cast<size_t>(rank_)];
  const size_t bytes = job.count * SizeOf(job.type);
  Signature mine = SignatureOf(job);
  mine.kind = 0;
  size_t offset = 0;
  do {
    const size_t now = std::min(kMailChunk, bytes - offset);
    const uint64_t before = slot.taken.load();
    if (!exchange_->WaitUntil([&] { return slot.posted.load() == before + 1; })) return;
    if (!Agree(mine, slot.signature, job.peer)) return;
    if (now > 0) std::memcpy(static_cast<char*>(job.out) + offset, slot.data.data(), now);
    slot.taken.store(before + 1);
    exchange_->Ring();
    offset += now;
  } while (offset < bytes);
}

bool Member::Agree(const Signature& mine, const Signature& theirs, int peer) {
  if (mine == theirs) return true;
  std::fprintf(stderr,
               "fake NCCL: rank %d is at operation %llu (kind %d, %llu elements of type %d), "
               "rank %d at %llu (kind %d, %llu of type %d): hanging until aborted\n",
               rank_, static_cast<unsigned long long>(mine.number), mine.kind,
               static_cast<unsigned long long>(mine.count), mine.type, peer,
               static_cast<unsigned long long>(theirs.number), theirs.kind,
               static_cast<unsigned long long>(theirs.count), theirs.type);
  exchange_->WaitUntil([] { return false; });
  return false;
}

}  // namespace lockstep::fake_nccl
