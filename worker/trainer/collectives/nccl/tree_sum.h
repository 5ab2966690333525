// Sums of floats over NCCL in the order of ReduceTree() (gloo/reduce.h): the same bits as on Gloo,
// whatever NCCL's own algorithm, a buffer's size or the GPUs' wiring. n ranks, rank r owns slice r:
//
//   each rank sends its part of slice r to rank r, for all r       one group of ncclSend, ncclRecv
//   rank r adds the n parts in the tree's order                    SliceSum
//   all get all slices                                             ncclAllGather, in place
//
// Each byte crosses a link as often as in a ring. Where n is a power of two, and the ranks of each
// machine are too and follow each other, the tree's lower levels are those of one machine, which
// adds up its own ranks first: between machines goes one part in place of one a rank.
//
// What is left of a buffer that n does not divide, and a buffer that is small, is sent whole to
// all.
//
// A group of ranks does the same by sends and receives alone: no communicator of its own, which
// would take buffers of its own on the GPU, is needed for them.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_TREE_SUM_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_TREE_SUM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/cuda/slice_sum.h"
#include "worker/trainer/collectives/nccl/nccl_api.h"

namespace lockstep::collectives {

// Those that add up, and which of them lie on one machine.
struct NcclRanks {
  int rank = 0;   // this one's place among them
  int world = 1;  // how many they are
  int local = 1;  // ranks r * local .. (r + 1) * local - 1 are one machine's; 1: not known
  std::optional<RankGroup> group = {};  // of the communicator's ranks; none: all of them

  // Of all ranks, the group that this one is in.
  NcclRanks Of(const RankGroup& part) const;
  // A place's number in the communicator.
  int RankOf(size_t place) const;

  // The largest `local` that the tree can use, of `local` ranks on each machine. LOCAL_RANK has no
  // say in it: of processes that see their own GPU alone it is 0.
  static int UsableLocal(int world, int local);
};

class TreeSum {
 public:
  // Calls a function that launches work by NCCL on `stream`, and settles it.
  using Call =
      std::function<Status(const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& launch)>;

  // `staging`: the bytes of a buffer that is summed at a time; a longer one takes several rounds.
  static Result<TreeSum> Make(const std::shared_ptr<const CudaDevice>& device,
                              std::unique_ptr<SliceSum> kernel, int world, size_t staging);

  // Puts a sum on `stream` that calls all of NCCL that AllReduce does, of no use but that.
  Status WarmUp(const NcclRanks& ranks, const Call& call, const CudaStream& stream) const;
  // Both put work on `stream` and wait for none of it. In place.
  Status AllReduce(const NcclRanks& ranks, const Call& call, const CudaStream& stream, float* data,
                   size_t count) const;
  // `in`: world parts of `count`, of which `out` may be this rank's own.
  Status ReduceScatter(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                       const float* in, float* out, size_t count) const;

 private:
  TreeSum(std::unique_ptr<SliceSum> kernel, DeviceMemory staging, size_t most, size_t world);
  float* Staging() const { return static_cast<float*>(staging_.data()); }
  Status SumDirect(const NcclRanks& ranks, const Call& call, const CudaStream& stream, float* data,
                   size_t slice, size_t rest) const;
  Status SumByMachine(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                      float* data, size_t slice) const;
  // Of data[world][slice], each rank's own slice goes to all.
  static Status GatherSlices(const NcclRanks& ranks, const Call& call, const CudaStream& stream,
                             float* data, size_t slice);

  std::unique_ptr<SliceSum> kernel_;
  // In floats: parts of slices [most_], sums of a machine [most_ / 2], the rest's parts, and the
  // warm-up's buffer.
  DeviceMemory staging_;
  size_t most_;  // elements of a round
  size_t warm_;  // of the warm-up
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_TREE_SUM_H_
