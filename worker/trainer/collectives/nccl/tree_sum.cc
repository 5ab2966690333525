#include "worker/trainer/collectives/nccl/tree_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::collectives {
namespace {

// Elements. Slices begin at multiples of 16 bytes, as NCCL and the GPU's widest loads want them.
constexpr size_t kAlignment = 4;
// An allreduce up to here is sent whole to everybody, in one step.
constexpr size_t kWhole = 2048;
constexpr int kMostRanks = 4096;  // of the kernel's

size_t Aligned(size_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

// The most that can be left over by slices.
size_t MostRest(size_t world) { return std::max(kWhole, world * kAlignment); }

// The least buffer that has slices and a rest.
size_t WarmSize(size_t world) {
  const size_t unit = world * kAlignment;
  return (MostRest(world) / unit + 1) * unit + 1;
}

// Sends and receives that run at the same time.
class Group {
 public:
  Group(const nccl::Api& api, nccl::Comm comm, cuda::Stream stream)
      : api_(api), comm_(comm), stream_(stream) {
    Note(api_.group_start());
  }

  void Send(const float* from, size_t count, int peer) {
    if (count == 0 || failed_ != nccl::Code::kSuccess) return;
    Note(api_.send(from, count, nccl::Type::kFloat32, peer, comm_, stream_));
  }
  void Receive(float* to, size_t count, int peer) {
    if (count == 0 || failed_ != nccl::Code::kSuccess) return;
    Note(api_.receive(to, count, nccl::Type::kFloat32, peer, comm_, stream_));
  }
  nccl::Code End() {
    const nccl::Code ended = api_.group_end();
    return failed_ == nccl::Code::kSuccess ? ended : failed_;
  }

 private:
  void Note(nccl::Code code) {
    if (code != nccl::Code::kInProgress && failed_ == nccl::Code::kSuccess) failed_ = code;
  }

  const nccl::Api& api_;
  nccl::Comm comm_;
  cuda::Stream stream_;
  nccl::Code failed_ = nccl::Code::kSuccess;
};

}  // namespace

NcclRanks NcclRanks::Of(const RankGroup& part) const {
  if (part.size == world) return *this;
  return {.rank = (rank - part.first) / part.stride, .world = part.size, .group = part};
}

int NcclRanks::RankOf(size_t place) const {
  return group ? group->RankOf(static_cast<int>(place)) : static_cast<int>(place);
}

int NcclRanks::UsableLocal(int world, int local) {
  const bool usable = local > 0 && std::has_single_bit(static_cast<unsigned>(world)) &&
                      std::has_single_bit(static_cast<unsigned>(local)) && world % local == 0;
  return usable ? local : 1;
}

Result<TreeSum> TreeSum::Make(const std::shared_ptr<const CudaDevice>& device,
                              std::unique_ptr<SliceSum> kernel, int world, size_t staging) {
  if (world > kMostRanks) {
    return Error::TooLarge("the tree adds up to " + std::to_string(kMostRanks) +
                           " ranks; write reduce: Nccl");
  }
  const auto n = static_cast<size_t>(world);
  const size_t unit = n * kAlignment;
  const size_t most = std::max<size_t>(1, staging / sizeof(float) / unit) * unit;
  const size_t room = most + Aligned(most / 2) + n * Aligned(MostRest(n)) + WarmSize(n);
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, room * sizeof(float));
  if (!memory.ok()) return memory.error();
  return TreeSum(std::move(kernel), std::move(*memory), most, n);
}

TreeSum::TreeSum(std::unique_ptr<SliceSum> kernel, DeviceMemory staging, size_t most, size_t world)
    : kernel_(std::move(kernel)),
      staging_(std::move(staging)),
      most_(most),
      warm_(WarmSize(world)) {}

Status TreeSum::WarmUp(const NcclRanks& ranks, const Call& call, const CudaStream& stream) const {
  float* const end = Staging() + staging_.size() / sizeof(float);
  return AllReduce(ranks, call, stream, end - warm_, warm_);
}

Status TreeSum::AllReduce(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                          float* data, size_t count) const {
  const auto world = static_cast<size_t>(ranks.world);
  if (world == 1) return {};
  const size_t unit = world * kAlignment;
  const size_t most = most_ / unit * unit;
  const bool by_machine = ranks.local > 1 && ranks.local < ranks.world;
  while (count > 0) {
    const bool whole = count <= MostRest(world);
    const size_t sliced = whole ? 0 : std::min(count / unit * unit, most);
    const size_t left = count - sliced;
    // With the last slices goes what they leave.
    const size_t rest = whole || left < unit ? left : 0;
    const size_t slice = sliced / world;
    if (by_machine && slice > 0) {
      if (Status done = SumByMachine(ranks, call, stream, data, slice); !done.ok()) return done;
    }
    Status direct = SumDirect(ranks, call, stream, data + (by_machine ? sliced : 0),
                              by_machine ? 0 : slice, rest);
    if (!direct.ok()) return direct;
    if (slice > 0) {
      const Status gathered = GatherSlices(ranks, call, stream, data, slice);
      if (!gathered.ok()) return gathered;
    }
    data += sliced + rest;
    count -= sliced + rest;
  }
  return {};
}

Status TreeSum::GatherSlices(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                             float* data, size_t slice) {
  const auto own = static_cast<size_t>(ranks.rank);
  return call([&](const nccl::Api& api, nccl::Comm comm) {
    if (!ranks.group) {
      return api.all_gather(data + own * slice, data, slice, nccl::Type::kFloat32, comm,
                            stream.get());
    }
    Group group(api, comm, stream.get());
    for (size_t peer = 0; peer < static_cast<size_t>(ranks.world); ++peer) {
      if (peer == own) continue;
      group.Send(data + own * slice, slice, ranks.RankOf(peer));
      group.Receive(data + peer * slice, slice, ranks.RankOf(peer));
    }
    return group.End();
  });
}

// Slice ranks.rank of data[world][slice] becomes its sum, and so does the `rest` behind them.
Status TreeSum::SumDirect(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                          float* data, size_t slice, size_t rest) const {
  if (slice == 0 && rest == 0) return {};
  const auto world = static_cast<size_t>(ranks.world);
  float* const parts = Staging();
  float* const rest_parts = parts + most_ + Aligned(most_ / 2);
  const size_t stride = Aligned(rest);
  Status sent = call([&](const nccl::Api& api, nccl::Comm comm) {
    Group group(api, comm, stream.get());
    for (size_t peer = 0; peer < world; ++peer) {
      const int rank = ranks.RankOf(peer);
      group.Send(data + peer * slice, slice, rank);
      group.Send(data + world * slice, rest, rank);
      group.Receive(parts + peer * slice, slice, rank);
      group.Receive(rest_parts + peer * stride, rest, rank);
    }
    return group.End();
  });
  if (!sent.ok()) return sent;
  const auto n = static_cast<unsigned>(world);
  if (slice > 0) {
    float* const own = data + static_cast<size_t>(ranks.rank) * slice;
    Status sum = kernel_->Launch(
        {.parts = parts, .sum = own, .count = slice, .stride = slice, .n = n}, stream);
    if (!sum.ok()) return sum;
  }
  if (rest == 0) return {};
  return kernel_->Launch(
      {.parts = rest_parts, .sum = data + world * slice, .count = rest, .stride = stride, .n = n},
      stream);
}

// As SumDirect, without a rest. Of the slices, rank l of each machine adds up its machine's parts
// of l, local + l, 2 local + l, ...; then each machine gets the other machines' sums of its own
// ranks' slices.
Status TreeSum::SumByMachine(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                             float* data, size_t slice) const {
  const auto local = static_cast<size_t>(ranks.local);
  const size_t machines = static_cast<size_t>(ranks.world) / local;
  const size_t machine = static_cast<size_t>(ranks.rank) / local;
  const size_t me = static_cast<size_t>(ranks.rank) % local;
  float* const parts = Staging();     // [local][machines][slice], then [machines][slice]
  float* const sums = parts + most_;  // [machines][slice]
  const size_t mine = machines * slice;
  Status within = call([&](const nccl::Api& api, nccl::Comm comm) {
    Group group(api, comm, stream.get());
    for (size_t l = 0; l < local; ++l) {
      for (size_t m = 0; m < machines; ++m) {
        const int rank = ranks.RankOf(machine * local + l);
        group.Send(data + (m * local + l) * slice, slice, rank);
        group.Receive(parts + l * mine + m * slice, slice, rank);
      }
    }
    return group.End();
  });
  if (!within.ok()) return within;
  Status sum = kernel_->Launch({.parts = parts,
                                .sum = sums,
                                .count = mine,
                                .stride = mine,
                                .n = static_cast<unsigned>(local)},
                               stream);
  if (!sum.ok()) return sum;
  Status between = call([&](const nccl::Api& api, nccl::Comm comm) {
    Group group(api, comm, stream.get());
    for (size_t m = 0; m < machines; ++m) {
      const int rank = ranks.RankOf(m * local + me);
      group.Send(sums + m * slice, slice, rank);
      group.Receive(parts + m * slice, slice, rank);
    }
    return group.End();
  });
  if (!between.ok()) return between;
  return kernel_->Launch({.parts = parts,
                          .sum = data + static_cast<size_t>(ranks.rank) * slice,
                          .count = slice,
                          .stride = slice,
                          .n = static_cast<unsigned>(machines)},
                         stream);
}

Status TreeSum::ReduceScatter(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                              const float* in, float* out, size_t count) const {
  const auto world = static_cast<size_t>(ranks.world);
  const size_t most = most_ / world;
  for (size_t at = 0; at < count; at += most) {
    const size_t now = std::min(most, count - at);
    const size_t stride = Aligned(now);
    Status sent = call([&](const nccl::Api& api, nccl::Comm comm) {
      Group group(api, comm, stream.get());
      for (size_t peer = 0; peer < world; ++peer) {
        group.Send(in + peer * count + at, now, ranks.RankOf(peer));
        group.Receive(Staging() + peer * stride, now, ranks.RankOf(peer));
      }
      return group.End();
    });
    if (!sent.ok()) return sent;
    Status sum = kernel_->Launch({.parts = Staging(),
                                  .sum = out + at,
                                  .count = now,
                                  .stride = stride,
                                  .n = static_cast<unsigned>(world)},
                                 stream);
    if (!sum.ok()) return sum;
  }
  return {};
}

}  // namespace lockstep::collectives
