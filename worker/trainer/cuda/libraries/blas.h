// The model's matrix products on a GPU, by cuBLASLt. Those of a linear map y = x w + bias,
// row-major: y, dx = dy w' and dw = x' dy.
//
//   Result<std::unique_ptr<Products>> products = Products::Create(device, library, {data, bytes});
//   Result<size_t> y = (*products)->Add({ProductKind::kForward, Precision::kBf16, rows, in, out});
//   (*products)->Run(*y, {.first = x, .second = w, .result = y_data}, stream);
//
// The same bits in every run on GPUs of one model with one version of cuBLASLt: the algorithm of a
// shape is chosen once, by what the shape is alone, among those whose partial sums are added in a
// fixed order. All products share one workspace, so they belong on one stream.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/libraries/blas_library.h"

namespace lockstep::trainer {

enum class ProductKind : uint8_t {
  kForward,         // y[rows, out] = x[rows, in] w[in, out]
  kInputGradient,   // dx[rows, in] = dy[rows, out] w'
  kWeightGradient,  // dw[in, out] = x' dy, in fp32
};

struct ProductShape {
  ProductKind kind = ProductKind::kForward;
  core::Precision precision = core::Precision::kFp32;  // of x, w, y, dx and dy
  size_t rows = 0;
  size_t in = 0;
  size_t out = 0;
  // Elements from one row of y or dy to the next, where that is more than `out`.
  size_t y_stride = 0;
  // w and dw are [out, in]: of the head, whose weight is the token embedding.
  bool by_output = false;
  bool bias = false;  // y + bias[out], which has the type of y
  bool part = false;  // y or dx, as part of a sum, is fp32
};

// "y[512, 2304] = x[512, 768] w, bf16".
std::string ToString(const ProductShape& shape);

// kInvalid, with what to write instead, for what the products of a model never are.
Status CheckProduct(const ProductShape& shape);

struct ProductArguments {
  const void* first = nullptr;   // x or dy, as `kind` has them
  const void* second = nullptr;  // w or dy
  void* result = nullptr;
  const void* bias = nullptr;
};

// Ends an object by the library's own function.
template <typename Object>
struct BlasDestroy {
  cublaslt::Code (*function)(Object*) = nullptr;
  void operator()(Object* object) const { function(object); }
};

// A product as cuBLASLt describes it. Made without a GPU.
class ProductDescription {
 public:
  static Result<ProductDescription> Create(std::shared_ptr<const BlasLibrary> library,
                                           const ProductShape& shape);

  // Of `handle`'s GPU: chooses the algorithm. kInvalid if there is none that keeps order.
  Status Choose(cublaslt::Handle handle, size_t workspace_bytes);
  Status Run(cublaslt::Handle handle, const ProductArguments& arguments, void* workspace,
             collectives::cuda::Stream stream) const;

 private:
  template <typename Object>
  using Owned = std::unique_ptr<Object, BlasDestroy<Object>>;
  using OwnedLayout = Owned<cublaslt::LayoutObject>;

  // A column-major matrix.
  struct Matrix {
    size_t rows;
    size_t columns;
    size_t stride;
  };

  ProductDescription(std::shared_ptr<const BlasLibrary> library, const ProductShape& shape)
      : library_(std::move(library)), shape_(shape) {}
  Status Describe();
  Status SetUp(cublaslt::Transpose a, cublaslt::Transpose b);
  Status MakeLayout(const Matrix& matrix, cublaslt::Type type, OwnedLayout* layout);
  Status SetBias(const void* bias) const;

  std::shared_ptr<const BlasLibrary> library_;
  ProductShape shape_;
  Owned<cublaslt::DescriptionObject> description_;
  OwnedLayout a_;
  OwnedLayout b_;
  OwnedLayout result_;
  bool first_is_a_ = false;
  cublaslt::Algorithm algorithm_{};
  size_t workspace_bytes_ = 0;  // that the algorithm takes
};

struct Workspace {
  // What NVIDIA recommends for Hopper; more than earlier GPUs need.
  static constexpr size_t kBytes = size_t{32} << 20;

  void* data = nullptr;
  size_t bytes = 0;
};

class Products {
 public:
  // `workspace` is the caller's, and outlives this.
  static Result<std::unique_ptr<Products>> Create(
      std::shared_ptr<const collectives::CudaDevice> device,
      std::shared_ptr<const BlasLibrary> library, const Workspace& workspace);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // A number for Run. kInvalid as CheckProduct, or where this cuBLASLt has no algorithm for it.
  Result<size_t> Add(const ProductShape& shape);
  // Enqueues the product; waits for nothing and allocates nothing.
  Status Run(size_t product, const ProductArguments& arguments,
             const collectives::CudaStream& stream) const;

 private:
  Products(std::shared_ptr<const collectives::CudaDevice> device,
           std::shared_ptr<const BlasLibrary> library, const Workspace& workspace)
      : device_(std::move(device)), library_(std::move(library)), workspace_(workspace) {}

  std::shared_ptr<const collectives::CudaDevice> device_;
  std::shared_ptr<const BlasLibrary> library_;
  Workspace workspace_;
  cublaslt::Handle handle_ = nullptr;
  std::vector<ProductDescription> products_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_BLAS_H_
