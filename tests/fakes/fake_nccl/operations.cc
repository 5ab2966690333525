#include "tests/fakes/fake_nccl/operations.h"

#include <algorithm>
#include <cstddef>
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
    case Type::kBfloat16:  // refused at the call
      return;
  }
}

bool IsTransfer(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

}  // namespace

size_t SizeOf(Type type) {
  switch (type) {
    case Type::kFloat32:
      return 4;
    case Type::kInt64:
      return 8;
    case Type::kBfloat16:
      return 2;
    case Type::kUint8:
      break;
  }
  return 1;
}

void Member::Run(const std::vector<Job>& jobs) {
  std::vector<Transfer> transfers;
  for (const Job& job : jobs) {
    if (IsTransfer(job.kind)) {
      transfers.push_back({.job = job, .slot = SlotOf(job)});
    } else {
      RunCollective(job);
    }
  }
  while (!transfers.empty()) {
    bool agreed = true;
    const bool moved = exchange_->WaitUntil([&] { return StepAny(transfers, &agreed); });
    if (!moved || !agreed) return;
    std::erase_if(transfers, [](const Transfer& transfer) { return transfer.done; });
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
  const size_t run = std::max<size_t>(
      1, (job.count + static_cast<size_t>(world_) - 1) / static_cast<size_t>(world_));
  while (first < last) {
    const size_t slice = (first - base) / run;
    const size_t now = std::min(last, base + (slice + 1) * run) - first;
    char* into = out + (first - base) * size;
    const size_t skip = (first - offset) * size;
    const int begin = FirstOf(job, slice);
    std::memcpy(into, chunk(begin) + skip, now * size);
    for (int step = 1; step < world_; ++step)
      ReduceAny(into, chunk((begin + step) % world_) + skip, now, job.type, job.op);
    first += now;
  }
}

// The rank that a slice's sum begins with; the others follow in the ring's order.
int Member::FirstOf(const Job& job, size_t slice) const {
  const auto world = static_cast<uint64_t>(world_);
  switch (order_) {
    case Order::kRanks:
      return 0;
    case Order::kRing:
      return static_cast<int>((slice + 1) % world);
    case Order::kNvls:
      return static_cast<int>((slice + job.number) % world);
  }
}

Mail* Member::SlotOf(const Job& job) {
  const auto own = static_cast<size_t>(rank_);
  const auto peer = static_cast<size_t>(job.peer);
  auto& mail = exchange_->region().mail;
  return job.kind == Kind::kSend ? &mail[own][peer] : &mail[peer][own];
}

// Whether any of them has moved. Those that one pair of ranks has in one direction take turns, in
// order.
bool Member::StepAny(std::vector<Transfer>& transfers, bool* agreed) {
  bool moved = false;
  for (auto transfer = transfers.begin(); transfer != transfers.end() && *agreed; ++transfer) {
    const bool first = std::none_of(transfers.begin(), transfer, [&](const Transfer& earlier) {
      return !earlier.done && earlier.job.kind == transfer->job.kind &&
             earlier.slot == transfer->slot;
    });
    if (!first) continue;
    moved = (transfer->job.kind == Kind::kSend ? StepSend(*transfer)
                                               : StepReceive(*transfer, agreed)) ||
            moved;
  }
  return moved || !*agreed;
}

// Done when the last chunk was taken, like a kernel that waits for its peer.
bool Member::StepSend(Transfer& transfer) {
  Mail& slot = *transfer.slot;
  const Job& job = transfer.job;
  const size_t bytes = job.count * SizeOf(job.type);
  const uint64_t posted = slot.posted.load();
  if (slot.taken.load() != posted) return false;
  if (transfer.begun && transfer.offset == bytes) {
    transfer.done = true;
    return true;
  }
  const size_t now = std::min(kMailChunk, bytes - transfer.offset);
  slot.signature = SignatureOf(job);
  slot.signature.kind = 0;  // a send meets a receive
  if (now > 0)
    std::memcpy(slot.data.data(), static_cast<const char*>(job.in) + transfer.offset, now);
  transfer.offset += now;
  transfer.begun = true;
  slot.posted.store(posted + 1);
  exchange_->Ring();
  return true;
}

bool Member::StepReceive(Transfer& transfer, bool* agreed) {
  Mail& slot = *transfer.slot;
  const Job& job = transfer.job;
  const size_t bytes = job.count * SizeOf(job.type);
  const uint64_t taken = slot.taken.load();
  if (slot.posted.load() == taken) return false;
  Signature mine = SignatureOf(job);
  mine.kind = 0;
  *agreed = Agree(mine, slot.signature, job.peer);
  if (!*agreed) return false;
  const size_t now = std::min(kMailChunk, bytes - transfer.offset);
  if (now > 0) std::memcpy(static_cast<char*>(job.out) + transfer.offset, slot.data.data(), now);
  transfer.offset += now;
  transfer.done = transfer.offset == bytes;
  slot.taken.store(taken + 1);
  exchange_->Ring();
  return true;
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
