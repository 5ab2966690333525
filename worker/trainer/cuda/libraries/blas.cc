#include "worker/trainer/cuda/libraries/blas.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace lockstep::trainer {
namespace {

using core::Precision;
using cublaslt::Code;
using cublaslt::Transpose;

constexpr uint32_t kAlignment = 16;  // bytes, of every array and row
constexpr int kChoices = 8;          // algorithms looked at

size_t Stride(const ProductShape& shape) {
  return shape.y_stride == 0 ? shape.out : shape.y_stride;
}

size_t SizeOf(Precision precision) { return precision == Precision::kBf16 ? 2 : 4; }

cublaslt::Type TypeOf(Precision precision) {
  return precision == Precision::kBf16 ? cublaslt::Type::kBf16 : cublaslt::Type::kFp32;
}

std::string Numbers(size_t rows, size_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

// Sets attributes until the first failure. Each has one size, that of its type.
template <typename Object, typename Attribute>
class Attributes {
 public:
  using Set = Code (*)(Object*, Attribute, const void*, size_t);
  Attributes(Object* object, Set set) : object_(object), set_(set) {}

  template <typename Value>
  Attributes& operator()(Attribute attribute, const Value& value) {
    if (code_ == Code::kSuccess) code_ = set_(object_, attribute, &value, sizeof(value));
    return *this;
  }
  Code code() const { return code_; }

 private:
  Object* object_;
  Set set_;
  Code code_ = Code::kSuccess;
};

// Not atomic, nor in the order in which parts happen to end.
bool KeepsOrder(const cublaslt::Api& api, const cublaslt::Algorithm& algorithm) {
  uint32_t reduction = cublaslt::kReduceInPlace;
  size_t written = 0;
  const Code code = api.algorithm_get(&algorithm, cublaslt::AlgorithmAttribute::kReduction,
                                      &reduction, sizeof(reduction), &written);
  return code == Code::kSuccess &&
         (reduction == cublaslt::kReduceNone || reduction == cublaslt::kReduceCompute);
}

}  // namespace

std::string ToString(const ProductShape& shape) {
  std::string text;
  const std::string x = Numbers(shape.rows, shape.in);
  const std::string y = Numbers(shape.rows, shape.out);
  switch (shape.kind) {
    case ProductKind::kForward:
      text = "y" + y + " = x" + x + " w";
      break;
    case ProductKind::kInputGradient:
      text = "dx" + x + " = dy" + y + " w'";
      break;
    case ProductKind::kWeightGradient:
      text = "dw" + Numbers(shape.in, shape.out) + " = x' dy of " + std::to_string(shape.rows) +
             " rows";
      break;
  }
  return text + (shape.bias ? " + bias, " : ", ") +
         (shape.precision == Precision::kBf16 ? "bf16" : "fp32") +
         (shape.part ? ", of a sum in fp32" : "");
}

Status CheckProduct(const ProductShape& shape) {
  const auto refuse = [&shape](const std::string& why) {
    return Error::Invalid("the product " + ToString(shape) + ": " + why);
  };
  const size_t stride = Stride(shape);
  for (const size_t size : {shape.rows, shape.in, shape.out, stride}) {
    if (size < 1 || size > size_t{std::numeric_limits<int32_t>::max()})
      return refuse("each size must be from 1 to 2147483647");
  }
  if (stride < shape.out)
    return refuse("rows of y are " + std::to_string(stride) + " elements apart, fewer than it has");
  const size_t multiple = kAlignment / SizeOf(shape.precision);
  if (shape.in % multiple != 0 || stride % multiple != 0) {
    return refuse("rows must be multiples of " + std::to_string(multiple) +
                  " numbers (16 bytes): choose a width that is, and pad the vocabulary");
  }
  if (shape.bias && (shape.kind != ProductKind::kForward || shape.by_output))
    return refuse("a bias is added by the forward product of a [in, out] weight alone");
  if (shape.bias && shape.part) return refuse("a bias is added to the sum, not to its parts");
  return {};
}

Result<ProductDescription> ProductDescription::Create(std::shared_ptr<const BlasLibrary> library,
                                                      const ProductShape& shape) {
  if (Status checked = CheckProduct(shape); !checked.ok()) return checked.error();
  ProductDescription description(std::move(library), shape);
  if (Status described = description.Describe(); !described.ok()) return described.error();
  return description;
}

// A row-major matrix is its transpose to cuBLASLt, so y = x w is asked for as y' = w' x'.
Status ProductDescription::Describe() {
  const auto [kind, precision, rows, in, out, unused, by_output, bias, part] = shape_;
  const size_t stride = Stride(shape_);
  const Matrix x{in, rows, in};
  const Matrix y{out, rows, stride};
  const Matrix w = by_output ? Matrix{in, out, in} : Matrix{out, in, out};
  Matrix a = w;
  Matrix b = x;
  Matrix result = y;
  Transpose transpose_a = by_output ? Transpose::kTurned : Transpose::kPlain;
  Transpose transpose_b = Transpose::kPlain;
  switch (kind) {
    case ProductKind::kForward:
      break;
    case ProductKind::kInputGradient:
      transpose_a = by_output ? Transpose::kPlain : Transpose::kTurned;
      b = y;
      result = x;
      break;
    case ProductKind::kWeightGradient:
      first_is_a_ = by_output;
      a = by_output ? x : y;
      b = by_output ? y : x;
      transpose_a = Transpose::kPlain;
      transpose_b = Transpose::kTurned;
      result = w;
      break;
  }
  const cublaslt::Type type = TypeOf(precision);
  if (Status set = SetUp(transpose_a, transpose_b); !set.ok()) return set;
  if (Status made = MakeLayout(a, type, &a_); !made.ok()) return made;
  if (Status made = MakeLayout(b, type, &b_); !made.ok()) return made;
  const bool wide = part || kind == ProductKind::kWeightGradient;
  return MakeLayout(result, wide ? cublaslt::Type::kFp32 : type, &result_);
}

Status ProductDescription::SetUp(Transpose a, Transpose b) {
  const cublaslt::Api& api = library_->api();
  cublaslt::Description description = nullptr;
  if (Status made = library_->Check(
          "cublasLtMatmulDescCreate",
          api.description_create(&description, cublaslt::Compute::kFp32, cublaslt::Type::kFp32));
      !made.ok())
    return made;
  description_ = {description, {api.description_destroy}};
  using Attribute = cublaslt::DescriptionAttribute;
  const Code code = Attributes(description, api.description_set)(Attribute::kTransposeA, a)(
                        Attribute::kTransposeB, b)
                        .code();
  if (Status set = library_->Check("cublasLtMatmulDescSetAttribute", code);
      !set.ok() || !shape_.bias)
    return set;
  Status biased = library_->Check(
      "cublasLtMatmulDescSetAttribute",
      Attributes(description, api.description_set)(Attribute::kEpilogue, cublaslt::Epilogue::kBias)
          .code());
  if (!biased.ok()) return biased;
  // The choice of an algorithm looks at the alignment of the address alone.
  return SetBias(reinterpret_cast<const void*>(uintptr_t{kAlignment}));  // NOLINT
}

Status ProductDescription::SetBias(const void* bias) const {
  return library_->Check("cublasLtMatmulDescSetAttribute of a bias",
                         library_->api().description_set(
                             description_.get(), cublaslt::DescriptionAttribute::kBiasPointer,
                             static_cast<const void*>(&bias), sizeof(bias)));
}

Status ProductDescription::MakeLayout(const Matrix& matrix, cublaslt::Type type,
                                      OwnedLayout* layout) {
  const cublaslt::Api& api = library_->api();
  cublaslt::Layout made = nullptr;
  const Code code = api.layout_create(&made, type, matrix.rows, matrix.columns,
                                      static_cast<int64_t>(matrix.stride));
  if (code == Code::kSuccess) *layout = {made, {api.layout_destroy}};
  return library_->Check("cublasLtMatrixLayoutCreate", code);
}

Status ProductDescription::Choose(cublaslt::Handle handle, size_t workspace_bytes) {
  const cublaslt::Api& api = library_->api();
  cublaslt::Preference made = nullptr;
  if (Status created =
          library_->Check("cublasLtMatmulPreferenceCreate", api.preference_create(&made));
      !created.ok())
    return created;
  const Owned<cublaslt::PreferenceObject> preference(made, {api.preference_destroy});
  using Attribute = cublaslt::PreferenceAttribute;
  const Code set =
      Attributes(made, api.preference_set)(Attribute::kMaxWorkspaceBytes,
                                           uint64_t{workspace_bytes})(
          Attribute::kReductionMask, uint32_t{cublaslt::kReduceCompute})(
          Attribute::kMinAlignmentA, kAlignment)(Attribute::kMinAlignmentB, kAlignment)(
          Attribute::kMinAlignmentC, kAlignment)(Attribute::kMinAlignmentD, kAlignment)
          .code();
  if (Status done = library_->Check("cublasLtMatmulPreferenceSetAttribute", set); !done.ok())
    return done;

  std::array<cublaslt::Choice, kChoices> choices{};
  int found = 0;
  const Code code = api.get_choices(handle, description_.get(), a_.get(), b_.get(), result_.get(),
                                    result_.get(), made, kChoices, choices.data(), &found);
  for (int i = 0; code == Code::kSuccess && i < found; ++i) {
    const cublaslt::Choice& choice = choices.at(static_cast<size_t>(i));
    if (choice.state != Code::kSuccess || choice.workspace > workspace_bytes) continue;
    if (!KeepsOrder(api, choice.algorithm)) continue;
    algorithm_ = choice.algorithm;
    workspace_bytes_ = choice.workspace;
    return {};
  }
  return Error::Invalid("cuBLASLt " + library_->version() + " has no algorithm for " +
                        ToString(shape_) + " (" + api.get_status_name(code) +
                        "): choose precision fp32 or another width, or install a newer cuBLAS");
}

Status ProductDescription::Run(cublaslt::Handle handle, const ProductArguments& arguments,
                               void* workspace, collectives::cuda::Stream stream) const {
  if (shape_.bias) {
    if (Status set = SetBias(arguments.bias); !set.ok()) return set;
  }
  const float one = 1;
  const float zero = 0;
  const void* a = first_is_a_ ? arguments.first : arguments.second;
  const void* b = first_is_a_ ? arguments.second : arguments.first;
  const Code code =
      library_->api().multiply(handle, description_.get(), &one, a, a_.get(), b, b_.get(), &zero,
                               arguments.result, result_.get(), arguments.result, result_.get(),
                               &algorithm_, workspace, workspace_bytes_, stream);
  if (code == Code::kSuccess) return {};
  return library_->Check("cublasLtMatmul of " + ToString(shape_), code);
}

Result<std::unique_ptr<Products>> Products::Create(
    std::shared_ptr<const collectives::CudaDevice> device,
    std::shared_ptr<const BlasLibrary> library, const Workspace& workspace) {
  if (Status entered = device->Enter(); !entered.ok()) return entered.error();
  std::unique_ptr<Products> products(
      new Products(std::move(device), std::move(library), workspace));
  const BlasLibrary& blas = *products->library_;
  if (Status made = blas.Check("cublasLtCreate", blas.api().create(&products->handle_));
      !made.ok()) {
    return Error::NotFound(made.error().message + ": cuBLASLt " + blas.version() +
                           " does not start on a driver that "
                           "serves CUDA " +
                           collectives::CudaVersionText(products->device_->driver().version()) +
                           ": update the driver, or install the cuBLAS of its CUDA");
  }
  return products;
}

Products::~Products() {
  products_.clear();
  if (handle_ != nullptr && device_->Enter().ok()) library_->api().destroy(handle_);
}

Result<size_t> Products::Add(const ProductShape& shape) {
  if (Status entered = device_->Enter(); !entered.ok()) return entered.error();
  Result<ProductDescription> description = ProductDescription::Create(library_, shape);
  if (!description.ok()) return description.error();
  if (Status chosen = description->Choose(handle_, workspace_.bytes); !chosen.ok())
    return chosen.error();
  products_.push_back(std::move(*description));
  return products_.size() - 1;
}

Status Products::Run(size_t product, const ProductArguments& arguments,
                     const collectives::CudaStream& stream) const {
  if (Status entered = device_->Enter(); !entered.ok()) return entered;
  return products_.at(product).Run(handle_, arguments, workspace_.data, stream.get());
}

}  // namespace lockstep::trainer
