// Our declarations of CUDA and NCCL against the real headers. Compiled only where tools/deps --cuda
// has brought them; most of it is decided by the compiler.
#include <gtest/gtest.h>

#ifdef LOCKSTEP_REAL_NCCL_HEADERS
// cuda.h renames functions to their newest versions, and we bind versions by name.
#include <cuda.h>
#include <gmock/gmock.h>
#include <nccl.h>

#include <cstddef>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/nccl/same_abi.h"
#include "worker/trainer/collectives/cuda/cuda_api.h"
#include "worker/trainer/collectives/nccl/nccl_api.h"

namespace lockstep::collectives {
namespace {

EXPECT_SAME_ABI(nccl::Api, get_version, ncclGetVersion);
EXPECT_SAME_ABI(nccl::Api, get_unique_id, ncclGetUniqueId);
EXPECT_SAME_ABI(nccl::Api, get_error_string, ncclGetErrorString);
EXPECT_SAME_ABI(nccl::Api, get_last_error, ncclGetLastError);
EXPECT_SAME_ABI(nccl::Api, init_rank, ncclCommInitRankConfig);
EXPECT_SAME_ABI(nccl::Api, get_async_error, ncclCommGetAsyncError);
EXPECT_SAME_ABI(nccl::Api, finalize, ncclCommFinalize);
EXPECT_SAME_ABI(nccl::Api, destroy, ncclCommDestroy);
EXPECT_SAME_ABI(nccl::Api, abort, ncclCommAbort);
EXPECT_SAME_ABI(nccl::Api, group_start, ncclGroupStart);
EXPECT_SAME_ABI(nccl::Api, group_end, ncclGroupEnd);
EXPECT_SAME_ABI(nccl::Api, all_reduce, ncclAllReduce);
EXPECT_SAME_ABI(nccl::Api, broadcast, ncclBroadcast);
EXPECT_SAME_ABI(nccl::Api, reduce_scatter, ncclReduceScatter);
EXPECT_SAME_ABI(nccl::Api, all_gather, ncclAllGather);
EXPECT_SAME_ABI(nccl::Api, send, ncclSend);
EXPECT_SAME_ABI(nccl::Api, receive, ncclRecv);

// With cuda.h's renaming, cuMemAlloc here is cuMemAlloc_v2, the symbol that we bind.
EXPECT_SAME_ABI(cuda::Api, init, cuInit);
EXPECT_SAME_ABI(cuda::Api, driver_get_version, cuDriverGetVersion);
EXPECT_SAME_ABI(cuda::Api, get_error_name, cuGetErrorName);
EXPECT_SAME_ABI(cuda::Api, get_error_string, cuGetErrorString);
EXPECT_SAME_ABI(cuda::Api, device_get_count, cuDeviceGetCount);
EXPECT_SAME_ABI(cuda::Api, device_get, cuDeviceGet);
EXPECT_SAME_ABI(cuda::Api, device_get_name, cuDeviceGetName);
EXPECT_SAME_ABI(cuda::Api, device_get_attribute, cuDeviceGetAttribute);
EXPECT_SAME_ABI(cuda::Api, primary_context_set_flags, cuDevicePrimaryCtxSetFlags_v2);
EXPECT_SAME_ABI(cuda::Api, primary_context_retain, cuDevicePrimaryCtxRetain);
EXPECT_SAME_ABI(cuda::Api, primary_context_release, cuDevicePrimaryCtxRelease_v2);
EXPECT_SAME_ABI(cuda::Api, context_set_current, cuCtxSetCurrent);
EXPECT_SAME_ABI(cuda::Api, stream_create, cuStreamCreateWithPriority);
EXPECT_SAME_ABI(cuda::Api, stream_destroy, cuStreamDestroy_v2);
EXPECT_SAME_ABI(cuda::Api, stream_synchronize, cuStreamSynchronize);
EXPECT_SAME_ABI(cuda::Api, stream_wait_event, cuStreamWaitEvent);
EXPECT_SAME_ABI(cuda::Api, event_create, cuEventCreate);
EXPECT_SAME_ABI(cuda::Api, event_destroy, cuEventDestroy_v2);
EXPECT_SAME_ABI(cuda::Api, event_record, cuEventRecord);
EXPECT_SAME_ABI(cuda::Api, event_query, cuEventQuery);
EXPECT_SAME_ABI(cuda::Api, event_synchronize, cuEventSynchronize);
EXPECT_SAME_ABI(cuda::Api, event_elapsed_time, cuEventElapsedTime);
EXPECT_SAME_ABI(cuda::Api, memory_info, cuMemGetInfo_v2);
EXPECT_SAME_ABI(cuda::Api, memory_allocate, cuMemAlloc_v2);
EXPECT_SAME_ABI(cuda::Api, memory_free, cuMemFree_v2);
EXPECT_SAME_ABI(cuda::Api, host_allocate, cuMemHostAlloc);
EXPECT_SAME_ABI(cuda::Api, host_free, cuMemFreeHost);
EXPECT_SAME_ABI(cuda::Api, host_register, cuMemHostRegister);
EXPECT_SAME_ABI(cuda::Api, host_unregister, cuMemHostUnregister);
EXPECT_SAME_ABI(cuda::Api, memory_set, cuMemsetD8Async);
EXPECT_SAME_ABI(cuda::Api, copy_to_device, cuMemcpyHtoDAsync_v2);
EXPECT_SAME_ABI(cuda::Api, copy_to_host, cuMemcpyDtoHAsync_v2);
EXPECT_SAME_ABI(cuda::Api, module_load, cuModuleLoadData);
EXPECT_SAME_ABI(cuda::Api, module_unload, cuModuleUnload);
EXPECT_SAME_ABI(cuda::Api, module_get_function, cuModuleGetFunction);
EXPECT_SAME_ABI(cuda::Api, launch_kernel, cuLaunchKernel);

#define EXPECT_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))

EXPECT_SAME_VALUE(nccl::Code::kSuccess, ncclSuccess);
EXPECT_SAME_VALUE(nccl::Code::kUnhandledCudaError, ncclUnhandledCudaError);
EXPECT_SAME_VALUE(nccl::Code::kSystemError, ncclSystemError);
EXPECT_SAME_VALUE(nccl::Code::kInternalError, ncclInternalError);
EXPECT_SAME_VALUE(nccl::Code::kInvalidArgument, ncclInvalidArgument);
EXPECT_SAME_VALUE(nccl::Code::kInvalidUsage, ncclInvalidUsage);
EXPECT_SAME_VALUE(nccl::Code::kRemoteError, ncclRemoteError);
EXPECT_SAME_VALUE(nccl::Code::kInProgress, ncclInProgress);
EXPECT_SAME_VALUE(nccl::Type::kUint8, ncclUint8);
EXPECT_SAME_VALUE(nccl::Type::kInt64, ncclInt64);
EXPECT_SAME_VALUE(nccl::Type::kFloat32, ncclFloat32);
EXPECT_SAME_VALUE(nccl::Type::kBfloat16, ncclBfloat16);
EXPECT_SAME_VALUE(nccl::Op::kSum, ncclSum);
EXPECT_SAME_VALUE(nccl::Op::kMax, ncclMax);
EXPECT_SAME_VALUE(nccl::Op::kMin, ncclMin);
EXPECT_SAME_VALUE(sizeof(nccl::UniqueId), sizeof(ncclUniqueId));
EXPECT_SAME_VALUE(nccl::Config::kUndefined, NCCL_CONFIG_UNDEF_INT);
EXPECT_SAME_VALUE(nccl::Version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_VERSION_CODE);
EXPECT_SAME_VALUE(cuda::kSuccess, CUDA_SUCCESS);
EXPECT_SAME_VALUE(cuda::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
EXPECT_SAME_VALUE(cuda::kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
EXPECT_SAME_VALUE(cuda::kNewerDriverWanted, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
EXPECT_SAME_VALUE(cuda::kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
EXPECT_SAME_VALUE(cuda::kNoDevice, CUDA_ERROR_NO_DEVICE);
EXPECT_SAME_VALUE(cuda::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
EXPECT_SAME_VALUE(cuda::kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
EXPECT_SAME_VALUE(cuda::kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
EXPECT_SAME_VALUE(cuda::kContained, CUDA_ERROR_CONTAINED);
EXPECT_SAME_VALUE(cuda::kPrimaryContextActive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
EXPECT_SAME_VALUE(cuda::kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
EXPECT_SAME_VALUE(cuda::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
EXPECT_SAME_VALUE(cuda::kCompatNotSupported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
EXPECT_SAME_VALUE(cuda::kUnknown, CUDA_ERROR_UNKNOWN);
EXPECT_SAME_VALUE(cuda::kNotReady, CUDA_ERROR_NOT_READY);
EXPECT_SAME_VALUE(cuda::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
EXPECT_SAME_VALUE(cuda::kScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
EXPECT_SAME_VALUE(cuda::kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
EXPECT_SAME_VALUE(cuda::kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
EXPECT_SAME_VALUE(cuda::kPciBus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
EXPECT_SAME_VALUE(cuda::kPciDevice, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
EXPECT_SAME_VALUE(cuda::kPciDomain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
EXPECT_SAME_VALUE(cuda::kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
EXPECT_SAME_VALUE(cuda::kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);

// Our configuration is the first part of theirs.
#define EXPECT_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(nccl::Config, ours) == offsetof(ncclConfig_t, theirs))

EXPECT_SAME_PLACE(size, size);
EXPECT_SAME_PLACE(magic, magic);
EXPECT_SAME_PLACE(version, version);
EXPECT_SAME_PLACE(blocking, blocking);
EXPECT_SAME_PLACE(cga_cluster_size, cgaClusterSize);
EXPECT_SAME_PLACE(min_ctas, minCTAs);
EXPECT_SAME_PLACE(max_ctas, maxCTAs);
EXPECT_SAME_PLACE(net_name, netName);
EXPECT_SAME_PLACE(split_share, splitShare);
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));

TEST(NcclAbi, TheConfigurationCarriesNcclsMagic) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(nccl::Config{}.magic, theirs.magic);
  EXPECT_LT(nccl::Config{}.version, theirs.version);
}

TEST(NcclAbi, TheRealLibraryHasEveryFunction) {
  RunRanks(1, [](Rank&) {
    Rank::Set("LOCKSTEP_NCCL_LIBRARY", LOCKSTEP_REAL_NCCL);
    const Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::Load();
    ASSERT_TRUE(library.ok()) << library.error().message;
    EXPECT_EQ((*library)->version(), NCCL_VERSION_CODE);
  });
}

// The real one sees the fake's driver, and its words for one that is too old are understood.
TEST(NcclAbi, TheRealLibraryOnAnOldDriverIsToldApart) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_NCCL_LIBRARY", LOCKSTEP_REAL_NCCL);
    Rank::Set("FAKE_DRIVER", "12040");
    const auto made = rank.TryConnect();
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kNotFound) << made.error().message;
    EXPECT_THAT(made.error().message,
                ::testing::HasSubstr("the NVIDIA driver serves CUDA 12.4, and "));
  });
}

}  // namespace
}  // namespace lockstep::collectives

#else

TEST(NcclAbi, IsComparedWithTheRealHeaders) { GTEST_SKIP() << "tools/deps --cuda brings them"; }

#endif
