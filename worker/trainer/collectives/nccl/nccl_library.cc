#include "worker/trainer/collectives/nccl/nccl_library.h"

#include <string_view>

#include "worker/trainer/collectives/cuda/cuda_driver.h"
#include "worker/trainer/collectives/cuda/cuda_library.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kAdvice =
    "install NCCL 2.18 or newer (Debian and Ubuntu: libnccl2; PyPI: nvidia-nccl-cu13), or name the "
    "folder that holds libnccl.so.2 in LD_LIBRARY_PATH (in a job: spec.env)";

Status BindAll(const SharedLibrary& library, nccl::Api* api) {
  Binder bind(library);
  bind("ncclGetVersion", &api->get_version)("ncclGetUniqueId", &api->get_unique_id);
  bind("ncclGetErrorString", &api->get_error_string)("ncclGetLastError", &api->get_last_error);
  bind("ncclCommInitRankConfig", &api->init_rank);
  bind("ncclCommGetAsyncError", &api->get_async_error);
  bind("ncclCommFinalize", &api->finalize)("ncclCommDestroy", &api->destroy);
  bind("ncclCommAbort", &api->abort);
  bind("ncclGroupStart", &api->group_start)("ncclGroupEnd", &api->group_end);
  bind("ncclAllReduce", &api->all_reduce)("ncclBroadcast", &api->broadcast);
  bind("ncclReduceScatter", &api->reduce_scatter)("ncclAllGather", &api->all_gather);
  bind("ncclSend", &api->send)("ncclRecv", &api->receive);
  return bind.status();
}

// Explains those of NCCL's errors that are hard to understand.
struct Hint {
  std::string_view words;
  std::string_view advice;
};
constexpr Hint kHints[] = {
    {"Duplicate GPU", "two processes have one GPU: ask for as many GPUs as processesPerMachine"},
    {"No space left",
     "mount a larger /dev/shm (sharedMemory: 1Gi), or set "
     "NCCL_SHM_DISABLE=1"},
    {"shared memory",
     "mount a larger /dev/shm (sharedMemory: 1Gi), or set "
     "NCCL_CUMEM_HOST_ENABLE=0"},
    {"no socket interface", "NCCL_SOCKET_IFNAME names no interface of this machine"},
    {"ibv_reg_mr",
     "the container must be allowed to lock memory: add the capability IPC_LOCK "
     "(examples/infiniband.yaml)"},
};

std::string AdviceOn(std::string_view words) {
  for (const Hint& hint : kHints) {
    if (words.find(hint.words) != std::string_view::npos) return "; " + std::string(hint.advice);
  }
  return "; NCCL_DEBUG=WARN shows more";
}

ErrorKind KindOf(nccl::Code code) {
  switch (code) {
    case nccl::Code::kSystemError:
    case nccl::Code::kRemoteError:
    case nccl::Code::kTimeout:
      return ErrorKind::kUnavailable;
    case nccl::Code::kInvalidArgument:
    case nccl::Code::kInvalidUsage:
      return ErrorKind::kInvalid;
    default:
      return ErrorKind::kInternal;
  }
}

}  // namespace

std::string NcclVersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::Load() {
  Result<SharedLibrary> opened = SharedLibrary::Open("LOCKSTEP_NCCL_LIBRARY", "libnccl.so.2");
  if (!opened.ok()) return Error::NotFound(opened.error().message + ": " + kAdvice);
  std::shared_ptr<NcclLibrary> library(new NcclLibrary());
  library->path_ = opened->path();
  // Checked first: an old NCCL lacks other functions, too.
  Status version = opened->Bind("ncclGetVersion", &library->api_.get_version);
  if (!version.ok()) return Error::NotFound(version.error().message + ": " + kAdvice);
  if (library->api_.get_version(&library->version_) != nccl::Code::kSuccess)
    return Error::Internal("ncclGetVersion of " + opened->path() + " fails");
  if (library->version_ < nccl::kOldest) {
    return Error::NotFound(opened->path() + " is NCCL " + NcclVersionText(library->version_) +
                           ", too old: " + kAdvice);
  }
  Status bound = BindAll(*opened, &library->api_);
  if (!bound.ok()) return Error::NotFound(bound.error().message + ": " + kAdvice);
  return std::shared_ptr<const NcclLibrary>(std::move(library));
}

void NcclLibrary::ForgetLastWords() const {
  const char* last = api_.get_last_error(nullptr);
  const MutexLock lock(&mutex_);
  old_words_ = last == nullptr ? "" : last;
}

Error NcclLibrary::Failure(const std::string& what, nccl::Code code, nccl::Comm comm,
                           int driver_version) const {
  const char* last = api_.get_last_error(comm);
  std::string words = last == nullptr ? "" : last;
  // The words of cudaErrorInsufficientDriver, which NCCL passes on.
  if (words.find("driver version is insufficient") != std::string::npos) {
    return Error::NotFound("the NVIDIA driver serves CUDA " + CudaVersionText(driver_version) +
                           ", and " + path_ + " (NCCL " + NcclVersionText(version_) +
                           ") was built for a newer one: update the driver, or install an NCCL "
                           "built for CUDA " +
                           std::to_string(driver_version / 1000));
  }
  {
    const MutexLock lock(&mutex_);
    if (words == old_words_) words.clear();
  }
  std::string message = what + ": " + api_.get_error_string(code);
  if (!words.empty()) message += "; NCCL says: " + words;
  return {KindOf(code), message + AdviceOn(words)};
}

}  // namespace lockstep::collectives
