#include "worker/trainer/engine/replica.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>

namespace lockstep::trainer {

namespace {

constexpr size_t kBlock = size_t{64} * 1024;  // floats

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

// The ranks whose hash differs from the most frequent one.
std::string Strangers(const std::vector<int64_t>& hashes) {
  std::map<int64_t, size_t> votes;
  for (const int64_t hash : hashes) ++votes[hash];
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string ranks;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == most->first) continue;
    if (!ranks.empty()) ranks += ", ";
    ranks += std::to_string(rank);
  }
  return ranks;
}

}  // namespace

Replica::Replica(const Shape& model)
    : shape(model),
      layout(Parameters(model)),
      parameters(ParameterCount(model)),
      moment1(parameters.size()),
      moment2(parameters.size()) {}

uint64_t MixHashes(std::span<const uint64_t> hashes) {
  uint64_t mixed = kOffset;
  for (const uint64_t hash : hashes) mixed = Mix(mixed, hash);
  return mixed;
}

uint64_t HashOf(std::span<const float> values, Threads& threads) {
  std::vector<uint64_t> hashes((values.size() + kBlock - 1) / kBlock);
  threads.For(hashes.size(), [&](size_t block) {
    const size_t begin = block * kBlock;
    hashes[block] = HashOfBlock(values.subspan(begin, std::min(kBlock, values.size() - begin)));
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

Status BroadcastReplica(Replica& replica, collectives::Communicator& all, Threads& threads) {
  if (all.world() == 1) return {};
  struct Part {
    std::vector<float>* values;
    const char* name;
  };
  for (const Part& part :
       {Part{&replica.parameters, "parameters"}, Part{&replica.moment1, "first moments"},
        Part{&replica.moment2, "second moments"}}) {
    Status sent = all.Broadcast(
        {part.values->data(), part.values->size(), collectives::DataType::kFloat32}, 0, part.name);
    if (!sent.ok()) return sent;
  }
  return CompareReplicas(HashOf(replica, true, threads), all);
}

Status CompareReplicas(uint64_t hash, collectives::Communicator& all) {
  if (all.world() == 1) return {};
  const auto mine = static_cast<int64_t>(hash);
  std::vector<int64_t> hashes(static_cast<size_t>(all.world()));
  Status gathered =
      all.AllGather({&mine, 1, collectives::DataType::kInt64},
                    {hashes.data(), hashes.size(), collectives::DataType::kInt64}, "checksums");
  if (!gathered.ok()) return gathered;
  const std::string strangers = Strangers(hashes);
  if (strangers.empty()) return {};
  return Error::Internal("the replicas have come apart: rank " + strangers +
                         " holds other bits than the rest; look at the memory of its machine "
                         "before anything else, and go on from the last checkpoint");
}

}  // namespace lockstep::trainer
