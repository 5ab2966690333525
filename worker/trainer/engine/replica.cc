#include "worker/trainer/engine/replica.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

#include "worker/trainer/collectives/agreed.h"
#include "worker/trainer/model/shards.h"

namespace lockstep::trainer {

namespace {

constexpr size_t kHashBlock = size_t{64} * 1024;  // floats

// FNV-1a's step, over 32 bits at a time.
constexpr uint64_t kOffset = 14695981039346656037ULL;
constexpr uint64_t kPrime = 1099511628211ULL;

uint64_t Mix(uint64_t hash, uint64_t value) { return (hash ^ value) * kPrime; }

uint64_t HashOfBlock(std::span<const float> values) {
  // Four chains, so that one multiplication needn't wait for the last.
  std::array<uint64_t, 4> chains{kOffset, kOffset + 1, kOffset + 2, kOffset + 3};
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &values[i], sizeof bits);
    chains[i % chains.size()] = Mix(chains[i % chains.size()], bits);
  }
  uint64_t hash = kOffset;
  for (const uint64_t chain : chains) hash = Mix(hash, chain);
  return hash;
}

constexpr std::array kArrays = {&Replica::parameters, &Replica::moment1, &Replica::moment2};
constexpr std::array<const char*, 3> kNames = {"parameters", "first moments", "second moments"};

collectives::ConstSpan SpanOf(std::span<const float> values) {
  return {values.data(), values.size(), collectives::DataType::kFloat32};
}

collectives::Span SpanOf(std::span<float> values) {
  return {values.data(), values.size(), collectives::DataType::kFloat32};
}

Status SendPart(const Replica& whole, const Stage& stage, int rank,
                collectives::Communicator& all) {
  std::vector<float> part(OwnedCount(whole.shape, stage));
  for (size_t i = 0; i < kArrays.size(); ++i) {
    TakePart(whole.shape, stage, whole.*kArrays[i], part);
    Status sent = all.Send(SpanOf(std::span<const float>(part)), rank, kNames[i]);
    if (!sent.ok()) return sent;
  }
  if (!stage.has_head_copy()) return {};
  const auto head = std::span(whole.parameters).first(HeadCount(whole.shape));
  return all.Send(SpanOf(head), rank, "head");
}

Status ReceivePart(Replica& part, collectives::Communicator& all) {
  for (size_t i = 0; i < kArrays.size(); ++i) {
    const auto owned = std::span(part.*kArrays[i]).first(part.moment1.size());
    Status got = all.Receive(SpanOf(owned), 0, kNames[i]);
    if (!got.ok()) return got;
  }
  if (!part.stage.has_head_copy()) return {};
  return all.Receive(SpanOf(part.head()), 0, "head");
}

// Of ranks place, place + step, ... those whose hash differs from the most frequent one.
std::string Strangers(const std::vector<int64_t>& hashes, size_t place, size_t step) {
  std::map<int64_t, size_t> votes;
  for (size_t rank = place; rank < hashes.size(); rank += step) ++votes[hashes[rank]];
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string ranks;
  for (size_t rank = place; rank < hashes.size(); rank += step) {
    if (hashes[rank] == most->first) continue;
    if (!ranks.empty()) ranks += ", ";
    ranks += std::to_string(rank);
  }
  return ranks;
}

}  // namespace

Replica::Replica(const Shape& model, const Stage& of)
    : shape(model), stage(of), layout(Parameters(model, of)) {
  AllocateArrays();
}

void Replica::FreeArrays() {
  for (const auto array : kArrays) std::vector<float>().swap(this->*array);
}

void Replica::AllocateArrays() {
  parameters.assign(HeldCount(shape, stage), 0.0F);
  moment1.assign(OwnedCount(shape, stage), 0.0F);
  moment2.assign(moment1.size(), 0.0F);
}

uint64_t MixHashes(std::span<const uint64_t> hashes) {
  uint64_t mixed = kOffset;
  for (const uint64_t hash : hashes) mixed = Mix(mixed, hash);
  return mixed;
}

uint64_t HashOf(std::span<const float> values, Threads& threads) {
  std::vector<uint64_t> hashes((values.size() + kHashBlock - 1) / kHashBlock);
  threads.For(hashes.size(), [&](size_t block) {
    const size_t begin = block * kHashBlock;
    hashes[block] = HashOfBlock(values.subspan(begin, std::min(kHashBlock, values.size() - begin)));
  });
  return MixHashes(hashes);
}

uint64_t HashOf(const Replica& replica, bool with_moments, Threads& threads) {
  std::vector<uint64_t> hashes{HashOf(replica.parameters, threads)};
  if (with_moments) {
    hashes.push_back(HashOf(replica.moment1, threads));
    hashes.push_back(HashOf(replica.moment2, threads));
  }
  return MixHashes(hashes);
}

Status BroadcastReplica(Replica& replica, collectives::Communicator& all, Threads& threads,
                        int root) {
  if (all.world() == 1) return {};
  struct Part {
    std::vector<float>* values;
    const char* name;
  };
  for (const Part& part :
       {Part{&replica.parameters, "parameters"}, Part{&replica.moment1, "first moments"},
        Part{&replica.moment2, "second moments"}}) {
    Status sent =
        all.Broadcast({part.values->data(), part.values->size(), collectives::DataType::kFloat32},
                      root, part.name);
    if (!sent.ok()) return sent;
  }
  return CompareReplicas(HashOf(replica, true, threads), all);
}

Status DealReplica(const Replica* whole, Replica& part, const Mesh& mesh,
                   collectives::Communicator& all, Threads& threads) {
  if (part.stage.is_model()) return BroadcastReplica(part, all, threads);
  for (int rank = 0; rank < mesh.world; ++rank) {
    const Stage stage = mesh.StageOf(rank);
    if (mesh.rank != 0 && mesh.rank != rank) continue;
    if (mesh.rank == rank) {
      if (rank == 0) {
        for (const auto array : kArrays) {
          TakePart(part.shape, part.stage, whole->*array, part.*array);
        }
      } else if (Status got = ReceivePart(part, all); !got.ok()) {
        return got;
      }
      continue;
    }
    Status sent = SendPart(*whole, stage, rank, all);
    if (!sent.ok()) return sent;
  }
  return CompareReplicas(HashOf(part, true, threads), all, mesh.ranks());
}

Status GatherReplica(const Replica& part, Replica* whole, const Mesh& mesh,
                     collectives::Communicator& all) {
  if (part.stage.is_model() || mesh.pipeline() != 0) return {};
  for (size_t i = 0; i < kArrays.size(); ++i) {
    const auto owned = std::span(part.*kArrays[i]).first(part.moment1.size());
    if (mesh.rank != 0) {
      Status sent = all.Send(SpanOf(owned), 0, kNames[i]);
      if (!sent.ok()) return sent;
      continue;
    }
    PutPart(part.shape, part.stage, owned, whole->*kArrays[i]);
    std::vector<float> other;
    for (int rank = 1; rank < mesh.ranks(); ++rank) {
      const Stage stage = mesh.StageOf(rank);
      const size_t count = OwnedCount(part.shape, stage);
      const bool in_place = stage.shards.count == 1;
      if (!in_place) other.resize(count);
      const auto into =
          in_place ? std::span(whole->*kArrays[i]).subspan(BeginOf(part.shape, stage), count)
                   : std::span(other);
      Status got = all.Receive(SpanOf(into), rank, kNames[i]);
      if (!got.ok()) return got;
      if (!in_place) PutPart(part.shape, stage, other, whole->*kArrays[i]);
    }
  }
  return {};
}

Status CompareReplicas(uint64_t hash, collectives::Communicator& all, int ranks) {
  if (all.world() == 1) return {};
  const auto mine = static_cast<int64_t>(hash);
  std::vector<int64_t> hashes(static_cast<size_t>(all.world()));
  Status gathered =
      all.AllGather({&mine, 1, collectives::DataType::kInt64},
                    {hashes.data(), hashes.size(), collectives::DataType::kInt64}, "checksums");
  if (!gathered.ok()) return gathered;
  std::string strangers;
  for (int place = 0; place < ranks && strangers.empty(); ++place) {
    strangers = Strangers(hashes, static_cast<size_t>(place), static_cast<size_t>(ranks));
  }
  if (strangers.empty()) return {};
  return Agreed(Error::Internal("the replicas differ: rank " + strangers +
                                " has other bits than the rest; check the memory of its machine "
                                "first, and continue from the last checkpoint"),
                all);
}

}  // namespace lockstep::trainer
