// The part of NCCL's C API (libnccl.so.2) that Lockstep uses, declared here so that it builds
// without NCCL and runs where there is none. tests/worker/trainer/collectives/nccl/nccl_abi_test.cc
// compares it with the real nccl.h where `tools/deps --cuda` has been run. Names without "nccl";
// meanings are those of NVIDIA's "NCCL API" manual.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_API_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_API_H_

#include <climits>
#include <cstddef>

#include "worker/trainer/collectives/cuda/cuda_api.h"

namespace lockstep::collectives::nccl {

struct CommObject;
using Comm = CommObject*;

enum class Code : int {  // ncclResult_t
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
  kTimeout = 8,  // since 2.30
};

enum class Type : int { kUint8 = 1, kInt64 = 4, kFloat32 = 7, kBfloat16 = 9 };  // ncclDataType_t
enum class Op : int { kSum = 0, kMax = 2, kMin = 3 };                           // ncclRedOp_t

struct UniqueId {  // ncclUniqueId: rank 0 makes one for each communicator, all get it
  char bytes[128];
};

// 21803 is 2.18.3.
constexpr int Version(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}
inline constexpr int kOldest = Version(2, 18, 0);

// ncclConfig_t as NCCL 2.18 has it. Later ones append members; NCCL reads `size` bytes and takes
// defaults for those that a configuration of this `version` cannot have.
struct Config {
  static constexpr int kUndefined = INT_MIN;

  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldest;
  int blocking = kUndefined;  // 0: calls return kInProgress, and can be aborted
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
};

// What libnccl exports, by the names in nccl_library.cc.
struct Api {
  Code (*get_version)(int* version) = nullptr;
  Code (*get_unique_id)(UniqueId* id) = nullptr;
  const char* (*get_error_string)(Code code) = nullptr;
  const char* (*get_last_error)(Comm comm) = nullptr;

  Code (*init_rank)(Comm* comm, int ranks, UniqueId id, int rank, Config* config) = nullptr;
  Code (*get_async_error)(Comm comm, Code* error) = nullptr;
  Code (*finalize)(Comm comm) = nullptr;
  Code (*destroy)(Comm comm) = nullptr;
  Code (*abort)(Comm comm) = nullptr;

  // Between the two, calls on one communicator are gathered by their thread, and launched as one by
  // the second; sends and receives among them run at the same time.
  Code (*group_start)() = nullptr;
  Code (*group_end)() = nullptr;

  Code (*all_reduce)(const void* in, void* out, size_t count, Type type, Op op, Comm comm,
                     cuda::Stream stream) = nullptr;
  Code (*broadcast)(const void* in, void* out, size_t count, Type type, int root, Comm comm,
                    cuda::Stream stream) = nullptr;
  Code (*reduce_scatter)(const void* in, void* out, size_t out_count, Type type, Op op, Comm comm,
                         cuda::Stream stream) = nullptr;
  Code (*all_gather)(const void* in, void* out, size_t in_count, Type type, Comm comm,
                     cuda::Stream stream) = nullptr;
  Code (*send)(const void* buffer, size_t count, Type type, int peer, Comm comm,
               cuda::Stream stream) = nullptr;
  Code (*receive)(void* buffer, size_t count, Type type, int peer, Comm comm,
                  cuda::Stream stream) = nullptr;
};

}  // namespace lockstep::collectives::nccl

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_API_H_
