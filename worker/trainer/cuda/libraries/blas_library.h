// cuBLASLt as this process finds it: libcublasLt.so.13, else .12, opened at run time.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_LIBRARY_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_LIBRARY_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "worker/trainer/cuda/libraries/cublaslt_api.h"

namespace lockstep::trainer {

class BlasLibrary {
 public:
  // libcublasLt.so.13, then .12, or the file that LOCKSTEP_CUBLASLT_LIBRARY names. kNotFound if
  // there is none or it is older than 12.0, with where it was looked for and what to do.
  static Result<std::shared_ptr<const BlasLibrary>> Load();

  const cublaslt::Api& api() const { return api_; }
  // "13.1.1". The bits of a product can be compared where this and the GPU's model are equal.
  std::string version() const;

  // Ok for success; else kInternal: what failed and cuBLASLt's name for it.
  Status Check(const std::string& what, cublaslt::Code code) const;

 private:
  BlasLibrary() = default;

  cublaslt::Api api_;
  size_t version_ = 0;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_LIBRARY_H_
