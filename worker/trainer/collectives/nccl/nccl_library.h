// NCCL as this process finds it: libnccl.so.2, opened at run time.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LIBRARY_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LIBRARY_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "worker/trainer/collectives/nccl/nccl_api.h"

namespace lockstep::collectives {

// "2.28.9" of 22809.
std::string NcclVersionText(int version);

class NcclLibrary {
 public:
  // libnccl.so.2, or the file that LOCKSTEP_NCCL_LIBRARY names. kNotFound if it isn't there or is
  // older than 2.18, with what to do.
  static Result<std::shared_ptr<const NcclLibrary>> Load();

  const nccl::Api& api() const { return api_; }
  int version() const { return version_; }

  // Call before what may fail: NCCL keeps its last words for the whole process and for ever, and
  // those that are older than this are not quoted.
  void ForgetLastWords() const;
  // What failed, NCCL's name for it, its own last words, and what to do. kNotFound if the driver is
  // too old for this NCCL (`driver_version`: CudaDriver::version), kInvalid for a call that NCCL
  // refuses, kUnavailable for a peer, the network or the system.
  Error Failure(const std::string& what, nccl::Code code, nccl::Comm comm,
                int driver_version) const;

 private:
  NcclLibrary() = default;

  nccl::Api api_;
  std::string path_;
  int version_ = 0;
  mutable Mutex mutex_;
  mutable std::string old_words_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_LIBRARY_H_
