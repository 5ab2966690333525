#include "worker/trainer/cuda/libraries/blas_library.h"

#include <cstdlib>

#include "worker/trainer/collectives/cuda/cuda_library.h"

namespace lockstep::trainer {
namespace {

using collectives::SharedLibrary;

constexpr const char* kVariable = "LOCKSTEP_CUBLASLT_LIBRARY";
constexpr const char* kAdvice =
    "install cuBLAS 12.0 or newer (PyPI: nvidia-cublas for CUDA 13, nvidia-cublas-cu12), or name "
    "the folder that holds libcublasLt.so.13 or .12 in LD_LIBRARY_PATH (in a job: spec.env)";

Result<SharedLibrary> Open() {
  Result<SharedLibrary> newest = SharedLibrary::Open(kVariable, "libcublasLt.so.13");
  if (newest.ok()) return newest;
  Result<SharedLibrary> older = SharedLibrary::Open(kVariable, "libcublasLt.so.12");
  if (older.ok()) return older;
  std::string message = newest.error().message;
  if (older.error().message != message) message += "; " + older.error().message;
  const char* folders = std::getenv("LD_LIBRARY_PATH");
  message += folders == nullptr || *folders == '\0'
                 ? "; LD_LIBRARY_PATH is empty"
                 : "; LD_LIBRARY_PATH is " + std::string(folders);
  return Error::NotFound(message + ": " + kAdvice);
}

Status BindAll(const SharedLibrary& library, cublaslt::Api* api) {
  collectives::Binder bind(library);
  bind("cublasLtGetStatusName", &api->get_status_name);
  bind("cublasLtCreate", &api->create)("cublasLtDestroy", &api->destroy);
  bind("cublasLtMatmulDescCreate", &api->description_create);
  bind("cublasLtMatmulDescDestroy", &api->description_destroy);
  bind("cublasLtMatmulDescSetAttribute", &api->description_set);
  bind("cublasLtMatrixLayoutCreate", &api->layout_create);
  bind("cublasLtMatrixLayoutDestroy", &api->layout_destroy);
  bind("cublasLtMatmulPreferenceCreate", &api->preference_create);
  bind("cublasLtMatmulPreferenceDestroy", &api->preference_destroy);
  bind("cublasLtMatmulPreferenceSetAttribute", &api->preference_set);
  bind("cublasLtMatmulAlgoGetHeuristic", &api->get_choices);
  bind("cublasLtMatmulAlgoConfigGetAttribute", &api->algorithm_get);
  bind("cublasLtMatmul", &api->multiply);
  return bind.status();
}

}  // namespace

Result<std::shared_ptr<const BlasLibrary>> BlasLibrary::Load() {
  const Result<SharedLibrary> opened = Open();
  if (!opened.ok()) return opened.error();
  std::shared_ptr<BlasLibrary> library(new BlasLibrary());
  // Checked first: an old one lacks other functions, too.
  Status version = opened->Bind("cublasLtGetVersion", &library->api_.get_version);
  if (!version.ok()) return Error::NotFound(version.error().message + ": " + kAdvice);
  library->version_ = library->api_.get_version();
  if (library->version_ < cublaslt::kOldest) {
    return Error::NotFound(opened->path() + " is cuBLASLt " + library->version() +
                           ", too old: " + kAdvice);
  }
  if (Status bound = BindAll(*opened, &library->api_); !bound.ok())
    return Error::NotFound(bound.error().message + ": " + kAdvice);
  return std::shared_ptr<const BlasLibrary>(std::move(library));
}

std::string BlasLibrary::version() const {
  return std::to_string(version_ / 10000) + "." + std::to_string(version_ % 10000 / 100) + "." +
         std::to_string(version_ % 100);
}

Status BlasLibrary::Check(const std::string& what, cublaslt::Code code) const {
  if (code == cublaslt::Code::kSuccess) return {};
  return Error::Internal(what + ": " + api_.get_status_name(code));
}

}  // namespace lockstep::trainer
