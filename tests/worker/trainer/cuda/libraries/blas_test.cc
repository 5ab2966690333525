#include "worker/trainer/cuda/libraries/blas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/cuda/fake_gpu.h"
#include "tests/worker/trainer/model/random.h"
#include "worker/trainer/model/bf16.h"

namespace lockstep::trainer {
namespace {

using collectives::DeviceMemory;
using collectives::Rank;
using core::Precision;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kRows = 24;
constexpr size_t kIn = 16;
constexpr size_t kOut = 40;
constexpr size_t kStride = 48;

// Numbers of x, w, y and the bias, as a precision keeps them.
struct Numbers {
  Numbers(Precision precision, size_t count, uint32_t seed)
      : values(Random(seed).Numbers<float>(count, 1)) {
    if (precision == Precision::kFp32) return;
    for (float& value : values) value = ToFloat(ToBf16(value));
  }
  std::vector<float> values;
};

// What a product is to give, in double; [rows, columns] of the result's own stride.
std::vector<double> Reference(const ProductShape& shape, const std::vector<float>& first,
                              const std::vector<float>& second, const std::vector<float>& bias) {
  const size_t stride = shape.y_stride == 0 ? shape.out : shape.y_stride;
  const auto w = [&](const std::vector<float>& values, size_t i, size_t o) {
    return static_cast<double>(values[shape.by_output ? o * shape.in + i : i * shape.out + o]);
  };
  std::vector<double> result;
  switch (shape.kind) {
    case ProductKind::kForward:
      result.assign(shape.rows * stride, 0);
      for (size_t n = 0; n < shape.rows; ++n) {
        for (size_t o = 0; o < shape.out; ++o) {
          double sum = shape.bias ? static_cast<double>(bias[o]) : 0;
          for (size_t i = 0; i < shape.in; ++i)
            sum += static_cast<double>(first[n * shape.in + i]) * w(second, i, o);
          result[n * stride + o] = sum;
        }
      }
      break;
    case ProductKind::kInputGradient:
      result.assign(shape.rows * shape.in, 0);
      for (size_t n = 0; n < shape.rows; ++n) {
        for (size_t i = 0; i < shape.in; ++i) {
          for (size_t o = 0; o < shape.out; ++o)
            result[n * shape.in + i] +=
                static_cast<double>(first[n * stride + o]) * w(second, i, o);
        }
      }
      break;
    case ProductKind::kWeightGradient:
      result.assign(shape.in * shape.out, 0);
      for (size_t i = 0; i < shape.in; ++i) {
        for (size_t o = 0; o < shape.out; ++o) {
          double sum = 0;
          for (size_t n = 0; n < shape.rows; ++n)
            sum += static_cast<double>(first[n * shape.in + i]) *
                   static_cast<double>(second[n * stride + o]);
          result[shape.by_output ? o * shape.in + i : i * shape.out + o] = sum;
        }
      }
      break;
  }
  return result;
}

// Whether the result is fp32 in any precision.
bool IsWide(const ProductShape& shape) {
  return shape.part || shape.kind == ProductKind::kWeightGradient;
}

// One GPU with products on it.
class Machine {
 public:
  explicit Machine(Rank& rank, size_t workspace_bytes = 4096)
      : rank_(rank), workspace_(rank.Allocate(workspace_bytes)), stream_(MakeStream(rank)) {
    UseFakeBlas();
    Result<std::shared_ptr<const BlasLibrary>> library = BlasLibrary::Load();
    if (!library.ok()) Rank::Must(library.error());
    Result<std::unique_ptr<Products>> products =
        Products::Create(rank.device(), *library, {workspace_.data(), workspace_bytes});
    if (!products.ok()) Rank::Must(products.error());
    products_ = std::move(*products);
  }

  Products& products() { return *products_; }
  const collectives::CudaStream& stream() const { return stream_; }

  DeviceMemory Put(const std::vector<float>& values, Precision precision) {
    if (precision == Precision::kFp32) return rank_.ToDevice(values);
    std::vector<Bf16> bf16;
    for (const float value : values) bf16.push_back(ToBf16(value));
    return rank_.ToDevice(bf16);
  }
  std::vector<float> Get(const DeviceMemory& memory, Precision precision) {
    if (precision == Precision::kFp32) return rank_.ToHost<float>(memory);
    std::vector<float> values;
    for (const Bf16 value : rank_.ToHost<Bf16>(memory)) values.push_back(ToFloat(value));
    return values;
  }

  // The result of the product of these numbers, over memory that holds none.
  std::vector<float> Run(const ProductShape& shape, const std::vector<float>& first,
                         const std::vector<float>& second, const std::vector<float>& bias,
                         size_t count) {
    const Result<size_t> product = products_->Add(shape);
    if (!product.ok()) Rank::Must(product.error());
    const DeviceMemory a = Put(first, shape.precision);
    const DeviceMemory b = Put(second, shape.precision);
    const DeviceMemory c = Put(bias, shape.precision);
    const Precision precision = IsWide(shape) ? Precision::kFp32 : shape.precision;
    const DeviceMemory result =
        Put(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()), precision);
    Rank::Must(products_->Run(*product, {a.data(), b.data(), result.data(), c.data()}, stream_));
    Rank::Must(stream_.Synchronize());
    return Get(result, precision);
  }

 private:
  static collectives::CudaStream MakeStream(Rank& rank) {
    Result<collectives::CudaStream> stream = collectives::CudaStream::Create(rank.device());
    if (!stream.ok()) Rank::Must(stream.error());
    return std::move(*stream);
  }

  Rank& rank_;
  DeviceMemory workspace_;
  collectives::CudaStream stream_;
  std::unique_ptr<Products> products_;
};

// The products of a model.
std::vector<ProductShape> Shapes(Precision precision) {
  std::vector<ProductShape> shapes;
  for (const bool by_output : {false, true}) {
    for (const size_t stride : {size_t{0}, kStride}) {
      for (const ProductKind kind :
           {ProductKind::kForward, ProductKind::kInputGradient, ProductKind::kWeightGradient})
        shapes.push_back({kind, precision, kRows, kIn, kOut, stride, by_output});
    }
  }
  shapes.push_back({ProductKind::kForward, precision, kRows, kIn, kOut, 0, false, true});
  // Parts of sums over shards.
  for (const ProductKind kind : {ProductKind::kForward, ProductKind::kInputGradient})
    shapes.push_back({kind, precision, kRows, kIn, kOut, 0, false, false, true});
  // The head's weight gradient, of a vocabulary that is no multiple of anything.
  shapes.push_back({ProductKind::kWeightGradient, precision, kRows, kIn, 37, kStride, true});
  return shapes;
}

TEST(Products, AreThoseOfALinearMap) {
  collectives::RunRanks(1, [](Rank& rank) {
    Machine machine(rank);
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      const std::vector<float> x = Numbers(precision, kRows * kIn, 1).values;
      const std::vector<float> w = Numbers(precision, kIn * kOut, 2).values;
      const std::vector<float> y = Numbers(precision, kRows * kStride, 3).values;
      const std::vector<float> bias = Numbers(precision, kOut, 4).values;
      for (const ProductShape& shape : Shapes(precision)) {
        const std::vector<float>& first = shape.kind == ProductKind::kInputGradient ? y : x;
        const std::vector<float>& second = shape.kind == ProductKind::kWeightGradient ? y : w;
        const std::vector<double> right = Reference(shape, first, second, bias);
        const std::vector<float> got = machine.Run(shape, first, second, bias, right.size());
        const double tolerance = precision == Precision::kBf16 && !IsWide(shape) ? 1e-2 : 1e-5;
        const size_t stride = shape.y_stride == 0 ? shape.out : shape.y_stride;
        for (size_t i = 0; i < right.size(); ++i) {
          // Nothing is written between the rows.
          if (shape.kind == ProductKind::kForward && i % stride >= shape.out) {
            EXPECT_TRUE(std::isnan(got[i])) << ToString(shape) << " at " << i;
            continue;
          }
          ASSERT_NEAR(got[i], right[i], tolerance * (1 + std::abs(right[i])))
              << ToString(shape) << (shape.by_output ? " by output" : "") << " at " << i;
        }
      }
    }
  });
}

TEST(Products, HaveTheSameBitsInEveryRun) {
  collectives::RunRanks(1, [](Rank& rank) {
    Machine machine(rank);
    const ProductShape shape{ProductKind::kWeightGradient, Precision::kFp32, kRows, kIn, kOut};
    const std::vector<float> x = Numbers(Precision::kFp32, kRows * kIn, 1).values;
    const std::vector<float> y = Numbers(Precision::kFp32, kRows * kOut, 3).values;
    const std::vector<float> once = machine.Run(shape, x, y, {0}, kIn * kOut);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(machine.Run(shape, x, y, {0}, kIn * kOut), once);
    }
  });
}

TEST(Products, OfAnAlgorithmThatAddsInWhateverOrderAreRefused) {
  collectives::RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_CHOICES", "1");
    Machine machine(rank);
    const Result<size_t> product =
        machine.products().Add({ProductKind::kForward, Precision::kBf16, kRows, kIn, kOut});
    ASSERT_FALSE(product.ok());
    EXPECT_EQ(product.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(
        product.error().message,
        AllOf(HasSubstr("cuBLASLt 13.1.1 has no algorithm for y[24, 40] = x[24, 16] w, bf16"),
              HasSubstr("install a newer cuBLAS")));
  });
}

TEST(Products, TakeNoMoreWorkspaceThanThereIs) {
  collectives::RunRanks(1, [](Rank& rank) {
    Machine machine(rank, 0);
    const ProductShape shape{ProductKind::kForward, Precision::kFp32, kRows, kIn, kOut};
    const std::vector<float> x = Numbers(Precision::kFp32, kRows * kIn, 1).values;
    const std::vector<float> w = Numbers(Precision::kFp32, kIn * kOut, 2).values;
    EXPECT_NEAR(machine.Run(shape, x, w, {0}, kRows * kOut)[0], Reference(shape, x, w, {})[0],
                1e-5);
  });
}

TEST(Products, AreDoneInTheOrderOfTheirStream) {
  collectives::RunRanks(1, [](Rank& rank) {
    Machine machine(rank);
    const ProductShape shape{ProductKind::kForward, Precision::kFp32, kRows, kIn, kIn};
    const Result<size_t> product = machine.products().Add(shape);
    ASSERT_TRUE(product.ok());
    std::vector<float> twice(kIn * kIn);
    for (size_t i = 0; i < kIn; ++i) twice[i * kIn + i] = 2;
    const DeviceMemory x = machine.Put(std::vector<float>(kRows * kIn, 1), Precision::kFp32);
    const DeviceMemory y = machine.Put(std::vector<float>(kRows * kIn), Precision::kFp32);
    const DeviceMemory w = machine.Put(twice, Precision::kFp32);
    for (int i = 0; i < 5; ++i) {
      Rank::Must(
          machine.products().Run(*product, {x.data(), w.data(), y.data()}, machine.stream()));
      Rank::Must(
          machine.products().Run(*product, {y.data(), w.data(), x.data()}, machine.stream()));
    }
    Rank::Must(machine.stream().Synchronize());
    EXPECT_EQ(machine.Get(x, Precision::kFp32), std::vector<float>(kRows * kIn, 1024));
  });
}

TEST(Products, AreRefusedWhereTheyAreNoneOfAModels) {
  const auto reason = [](const ProductShape& shape) {
    const Status checked = CheckProduct(shape);
    EXPECT_FALSE(checked.ok()) << ToString(shape);
    if (checked.ok()) return std::string();
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalid);
    return checked.error().message;
  };
  const ProductKind forward = ProductKind::kForward;
  EXPECT_THAT(reason({forward, Precision::kBf16, 8, 12, 16}),
              HasSubstr("y[8, 16] = x[8, 12] w, bf16: rows must be multiples of 8 numbers"));
  EXPECT_THAT(reason({forward, Precision::kFp32, 8, 16, 50257}),
              HasSubstr("multiples of 4 numbers (16 bytes): choose a width that is, and pad"));
  EXPECT_THAT(reason({forward, Precision::kFp32, 0, 16, 16}), HasSubstr("from 1 to 2147483647"));
  EXPECT_THAT(reason({forward, Precision::kFp32, size_t{1} << 31, 16, 16}),
              HasSubstr("from 1 to 2147483647"));
  EXPECT_THAT(reason({forward, Precision::kFp32, 8, 16, 16, 8}), HasSubstr("8 elements apart"));
  EXPECT_THAT(reason({ProductKind::kInputGradient, Precision::kFp32, 8, 16, 16, 0, false, true}),
              HasSubstr("a bias is added by the forward product"));
}

TEST(BlasLibrary, SaysWhereItLookedAndWhatToDo) {
  collectives::RunRanks(1, [](Rank&) {
    Rank::Set("LOCKSTEP_CUBLASLT_LIBRARY", "/nowhere/libcublasLt.so.13");
    Rank::Set("LD_LIBRARY_PATH", "/opt/cuda");
    const auto library = BlasLibrary::Load();
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(
        library.error().message,
        AllOf(HasSubstr("/nowhere/libcublasLt.so.13"), HasSubstr("LD_LIBRARY_PATH is /opt/cuda"),
              HasSubstr("install cuBLAS 12.0 or newer"), HasSubstr("spec.env")));
  });
}

TEST(BlasLibrary, LooksForTheNewestThenTheOneBefore) {
  collectives::RunRanks(1, [](Rank&) {
    unsetenv("LOCKSTEP_CUBLASLT_LIBRARY");
    const auto library = BlasLibrary::Load();
    if (library.ok()) return;  // this machine has one
    EXPECT_THAT(library.error().message,
                AllOf(HasSubstr("libcublasLt.so.13"), HasSubstr("libcublasLt.so.12")));
  });
}

TEST(BlasLibrary, RefusesOneThatIsTooOld) {
  collectives::RunRanks(1, [](Rank&) {
    UseFakeBlas();
    Rank::Set("FAKE_CUBLASLT", "110508");
    const auto library = BlasLibrary::Load();
    ASSERT_FALSE(library.ok());
    EXPECT_THAT(library.error().message,
                AllOf(HasSubstr("cuBLASLt 11.5.8, too old"), HasSubstr("12.0 or newer")));
  });
}

TEST(BlasLibrary, RefusesAFileThatIsNone) {
  collectives::RunRanks(1, [](Rank&) {
    Rank::Set("LOCKSTEP_CUBLASLT_LIBRARY", "libm.so.6");
    const auto library = BlasLibrary::Load();
    ASSERT_FALSE(library.ok());
    EXPECT_THAT(library.error().message, HasSubstr("libm.so.6 has no function cublasLtGetVersion"));
  });
}

}  // namespace
}  // namespace lockstep::trainer
