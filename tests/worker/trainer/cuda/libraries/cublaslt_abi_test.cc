// Our declarations of cuBLASLt against the real header, and our descriptions of products against
// the real library, which checks them without a GPU. Compiled only where tools/deps --cuda has
// brought them.
#include <gtest/gtest.h>

#ifdef LOCKSTEP_REAL_CUBLASLT
#include <cublasLt.h>

#include <cstddef>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/nccl/same_abi.h"
#include "worker/trainer/cuda/libraries/blas.h"

namespace lockstep::trainer {
namespace {

using collectives::Rank;

EXPECT_SAME_ABI(cublaslt::Api, get_version, cublasLtGetVersion);
EXPECT_SAME_ABI(cublaslt::Api, get_status_name, cublasLtGetStatusName);
EXPECT_SAME_ABI(cublaslt::Api, create, cublasLtCreate);
EXPECT_SAME_ABI(cublaslt::Api, destroy, cublasLtDestroy);
EXPECT_SAME_ABI(cublaslt::Api, description_create, cublasLtMatmulDescCreate);
EXPECT_SAME_ABI(cublaslt::Api, description_destroy, cublasLtMatmulDescDestroy);
EXPECT_SAME_ABI(cublaslt::Api, description_set, cublasLtMatmulDescSetAttribute);
EXPECT_SAME_ABI(cublaslt::Api, layout_create, cublasLtMatrixLayoutCreate);
EXPECT_SAME_ABI(cublaslt::Api, layout_destroy, cublasLtMatrixLayoutDestroy);
EXPECT_SAME_ABI(cublaslt::Api, preference_create, cublasLtMatmulPreferenceCreate);
EXPECT_SAME_ABI(cublaslt::Api, preference_destroy, cublasLtMatmulPreferenceDestroy);
EXPECT_SAME_ABI(cublaslt::Api, preference_set, cublasLtMatmulPreferenceSetAttribute);
EXPECT_SAME_ABI(cublaslt::Api, get_choices, cublasLtMatmulAlgoGetHeuristic);
EXPECT_SAME_ABI(cublaslt::Api, algorithm_get, cublasLtMatmulAlgoConfigGetAttribute);
EXPECT_SAME_ABI(cublaslt::Api, multiply, cublasLtMatmul);

#define EXPECT_SAME_VALUE(ours, theirs) \
  static_assert(static_cast<long long>(cublaslt::ours) == static_cast<long long>(theirs))

EXPECT_SAME_VALUE(Code::kSuccess, CUBLAS_STATUS_SUCCESS);
EXPECT_SAME_VALUE(Code::kNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED);
EXPECT_SAME_VALUE(Code::kInvalidValue, CUBLAS_STATUS_INVALID_VALUE);
EXPECT_SAME_VALUE(Code::kNotSupported, CUBLAS_STATUS_NOT_SUPPORTED);
EXPECT_SAME_VALUE(Type::kFp32, CUDA_R_32F);
EXPECT_SAME_VALUE(Type::kBf16, CUDA_R_16BF);
EXPECT_SAME_VALUE(Compute::kFp32, CUBLAS_COMPUTE_32F);
EXPECT_SAME_VALUE(Transpose::kPlain, CUBLAS_OP_N);
EXPECT_SAME_VALUE(Transpose::kTurned, CUBLAS_OP_T);
EXPECT_SAME_VALUE(Epilogue::kNone, CUBLASLT_EPILOGUE_DEFAULT);
EXPECT_SAME_VALUE(Epilogue::kBias, CUBLASLT_EPILOGUE_BIAS);
EXPECT_SAME_VALUE(kReduceNone, CUBLASLT_REDUCTION_SCHEME_NONE);
EXPECT_SAME_VALUE(kReduceInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE);
EXPECT_SAME_VALUE(kReduceCompute, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
EXPECT_SAME_VALUE(DescriptionAttribute::kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
EXPECT_SAME_VALUE(DescriptionAttribute::kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
EXPECT_SAME_VALUE(DescriptionAttribute::kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
EXPECT_SAME_VALUE(DescriptionAttribute::kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
EXPECT_SAME_VALUE(PreferenceAttribute::kMaxWorkspaceBytes,
                  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
EXPECT_SAME_VALUE(PreferenceAttribute::kReductionMask, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
EXPECT_SAME_VALUE(PreferenceAttribute::kMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
EXPECT_SAME_VALUE(PreferenceAttribute::kMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
EXPECT_SAME_VALUE(PreferenceAttribute::kMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
EXPECT_SAME_VALUE(PreferenceAttribute::kMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
EXPECT_SAME_VALUE(AlgorithmAttribute::kReduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
EXPECT_SAME_VALUE(Version(CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH), CUBLAS_VERSION);

static_assert(sizeof(cublaslt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cublaslt::Choice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublaslt::Choice, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cublaslt::Choice, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

std::shared_ptr<const BlasLibrary> RealLibrary() {
  Rank::Set("LOCKSTEP_CUBLASLT_LIBRARY", LOCKSTEP_REAL_CUBLASLT);
  Result<std::shared_ptr<const BlasLibrary>> library = BlasLibrary::Load();
  if (!library.ok()) Rank::Must(library.error());
  return *library;
}

TEST(CublasLtAbi, TheRealLibraryHasEveryFunction) {
  collectives::RunRanks(1, [](Rank&) {
    EXPECT_EQ(RealLibrary()->version(), std::to_string(CUBLAS_VER_MAJOR) + "." +
                                            std::to_string(CUBLAS_VER_MINOR) + "." +
                                            std::to_string(CUBLAS_VER_PATCH));
  });
}

TEST(CublasLtAbi, TheRealLibraryTakesTheDescriptionOfEachProduct) {
  collectives::RunRanks(1, [](Rank&) {
    const std::shared_ptr<const BlasLibrary> library = RealLibrary();
    for (const core::Precision precision : {core::Precision::kFp32, core::Precision::kBf16}) {
      for (const ProductKind kind :
           {ProductKind::kForward, ProductKind::kInputGradient, ProductKind::kWeightGradient}) {
        for (const bool by_output : {false, true}) {
          const bool bias = kind == ProductKind::kForward && !by_output;
          const ProductShape shape{kind, precision, 64, 768, 2304, 0, by_output, bias};
          const Result<ProductDescription> made = ProductDescription::Create(library, shape);
          EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
        }
      }
    }
  });
}

TEST(CublasLtAbi, TheRealLibraryTakesThePreferences) {
  collectives::RunRanks(1, [](Rank&) {
    const std::shared_ptr<const BlasLibrary> library = RealLibrary();
    const cublaslt::Api& api = library->api();
    cublaslt::Preference preference = nullptr;
    ASSERT_EQ(api.preference_create(&preference), cublaslt::Code::kSuccess);
    const uint64_t wide = 4096;
    const uint32_t narrow = 16;
    using Attribute = cublaslt::PreferenceAttribute;
    EXPECT_EQ(api.preference_set(preference, Attribute::kMaxWorkspaceBytes, &wide, sizeof(wide)),
              cublaslt::Code::kSuccess);
    for (const Attribute attribute :
         {Attribute::kReductionMask, Attribute::kMinAlignmentA, Attribute::kMinAlignmentB,
          Attribute::kMinAlignmentC, Attribute::kMinAlignmentD}) {
      EXPECT_EQ(api.preference_set(preference, attribute, &narrow, sizeof(narrow)),
                cublaslt::Code::kSuccess);
      EXPECT_NE(api.preference_set(preference, attribute, &wide, sizeof(wide)),
                cublaslt::Code::kSuccess);
    }
    EXPECT_EQ(api.preference_destroy(preference), cublaslt::Code::kSuccess);
  });
}

}  // namespace
}  // namespace lockstep::trainer

#else

TEST(CublasLtAbi, IsComparedWithTheRealHeader) { GTEST_SKIP() << "tools/deps --cuda brings it"; }

#endif
