#include "cli/convert/accelerate_keys.h"

#include <algorithm>
#include <array>
#include <string>

namespace lockstep::convert {
namespace {

using Section = AccelerateSection;

// As accelerate 0.27 to 1.15 have them: utils/launch.py sets the variables, the plugins in
// utils/dataclasses.py read them.
constexpr auto kKeys = std::to_array<AccelerateKey>({
    {Section::kDynamo, "dynamo-backend", "ACCELERATE_DYNAMO_BACKEND"},
    {Section::kDynamo, "dynamo-mode", "ACCELERATE_DYNAMO_MODE"},
    {Section::kDynamo, "dynamo-use-fullgraph", "ACCELERATE_DYNAMO_USE_FULLGRAPH", "", true},
    {Section::kDynamo, "dynamo-use-dynamic", "ACCELERATE_DYNAMO_USE_DYNAMIC", "", true},
    {Section::kDynamo, "dynamo-use-regional-compilation",
     "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "", true},
    {Section::kDeepSpeed, "deepspeed-config-file", "ACCELERATE_DEEPSPEED_CONFIG_FILE"},
    {Section::kDeepSpeed, "zero-stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
    {Section::kDeepSpeed, "offload-optimizer-device",
     "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"},
    {Section::kDeepSpeed, "offload-param-device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"},
    {Section::kDeepSpeed, "offload-optimizer-nvme-path",
     "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"},
    {Section::kDeepSpeed, "offload-param-nvme-path",
     "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"},
    {Section::kDeepSpeed, "gradient-accumulation-steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"},
    {Section::kDeepSpeed, "gradient-clipping", "ACCELERATE_GRADIENT_CLIPPING"},
    {Section::kDeepSpeed, "zero3-init-flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT"},
    {Section::kDeepSpeed, "zero3-save-16bit-model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"},
    {Section::kDeepSpeed, "deepspeed-hostfile", ""},
    {Section::kDeepSpeed, "deepspeed-exclusion-filter", ""},
    {Section::kDeepSpeed, "deepspeed-inclusion-filter", ""},
    {Section::kDeepSpeed, "deepspeed-multinode-launcher", ""},
    {Section::kDeepSpeed, "deepspeed-moe-layer-cls-names",
     "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"},
    {Section::kFsdp, "fsdp-version", "FSDP_VERSION", "1"},
    {Section::kFsdp, "fsdp-offload-params", "FSDP_OFFLOAD_PARAMS", "false"},
    {Section::kFsdp, "fsdp-min-num-params", "FSDP_MIN_NUM_PARAMS", "100000000"},
    {Section::kFsdp, "fsdp-sharding-strategy", "FSDP_SHARDING_STRATEGY", "FULL_SHARD"},
    {Section::kFsdp, "fsdp-reshard-after-forward", "FSDP_RESHARD_AFTER_FORWARD", "true"},
    {Section::kFsdp, "fsdp-auto-wrap-policy", "FSDP_AUTO_WRAP_POLICY"},
    {Section::kFsdp, "fsdp-transformer-layer-cls-to-wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP"},
    {Section::kFsdp, "fsdp-backward-prefetch-policy", "FSDP_BACKWARD_PREFETCH"},
    {Section::kFsdp, "fsdp-backward-prefetch", "FSDP_BACKWARD_PREFETCH"},
    {Section::kFsdp, "fsdp-state-dict-type", "FSDP_STATE_DICT_TYPE"},
    {Section::kFsdp, "fsdp-forward-prefetch", "FSDP_FORWARD_PREFETCH", "false"},
    {Section::kFsdp, "fsdp-use-orig-params", "FSDP_USE_ORIG_PARAMS", "true"},
    {Section::kFsdp, "fsdp-cpu-ram-efficient-loading", "FSDP_CPU_RAM_EFFICIENT_LOADING", "true"},
    {Section::kFsdp, "fsdp-sync-module-states", "FSDP_SYNC_MODULE_STATES", "true"},
    {Section::kFsdp, "fsdp-activation-checkpointing", "FSDP_ACTIVATION_CHECKPOINTING", "false"},
    {Section::kFsdp, "fsdp-activation-checkpointing-offload",
     "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "false"},
    {Section::kFsdp, "fsdp-ignored-modules", "FSDP_IGNORED_MODULES"},
    {Section::kMegatron, "megatron-lm-tp-degree", "MEGATRON_LM_TP_DEGREE", "1"},
    {Section::kMegatron, "megatron-lm-use-custom-fsdp", "MEGATRON_LM_USE_CUSTOM_FSDP"},
    {Section::kMegatron, "megatron-lm-no-load-optim", "MEGATRON_LM_NO_LOAD_OPTIM"},
    {Section::kMegatron, "megatron-lm-eod-mask-loss", "MEGATRON_LM_EOD_MASK_LOSS"},
    {Section::kMegatron, "megatron-lm-overlap-cpu-optimizer-d2h-h2d",
     "MEGATRON_LM_OVERLAP_CPU_OPTIMIZER_D2H_H2D"},
    {Section::kMegatron, "megatron-lm-no-save-optim", "MEGATRON_LM_NO_SAVE_OPTIM"},
    {Section::kMegatron, "megatron-lm-optimizer-cpu-offload", "MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD"},
    {Section::kMegatron, "megatron-lm-use-precision-aware-optimizer",
     "MEGATRON_LM_USE_PRECISION_AWARE_OPTIMIZER"},
    {Section::kMegatron, "megatron-lm-decoder-last-pipeline-num-layers",
     "MEGATRON_LM_DECODER_LAST_PIPELINE_NUM_LAYERS"},
    {Section::kMegatron, "megatron-lm-pp-degree", "MEGATRON_LM_PP_DEGREE", "1"},
    {Section::kMegatron, "megatron-lm-num-micro-batches", "MEGATRON_LM_NUM_MICRO_BATCHES"},
    {Section::kMegatron, "megatron-lm-sequence-parallelism", "MEGATRON_LM_SEQUENCE_PARALLELISM"},
    {Section::kMegatron, "megatron-lm-recompute-activations", "MEGATRON_LM_RECOMPUTE_ACTIVATIONS"},
    {Section::kMegatron, "megatron-lm-use-distributed-optimizer",
     "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER"},
    {Section::kMegatron, "megatron-lm-gradient-clipping", "MEGATRON_LM_GRADIENT_CLIPPING", "1.0"},
    {Section::kMegatron, "megatron-lm-recompute-granularity", "MEGATRON_LM_RECOMPUTE_GRANULARITY"},
    {Section::kMegatron, "megatron-lm-recompute-method", "MEGATRON_LM_RECOMPUTE_METHOD"},
    {Section::kMegatron, "megatron-lm-recompute-num-layers", "MEGATRON_LM_RECOMPUTE_NUM_LAYERS"},
    {Section::kMegatron, "megatron-lm-attention-backend", "MEGATRON_LM_ATTENTION_BACKEND"},
    {Section::kMegatron, "megatron-lm-expert-model-parallel-size",
     "MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE"},
    {Section::kMegatron, "megatron-lm-context-parallel-size", "MEGATRON_LM_CONTEXT_PARALLEL_SIZE"},
    {Section::kMegatron, "megatron-lm-attention-dropout", "MEGATRON_LM_ATTENTION_DROPOUT"},
    {Section::kMegatron, "megatron-lm-hidden-dropout", "MEGATRON_LM_HIDDEN_DROPOUT"},
    {Section::kMegatron, "megatron-lm-attention-softmax-in-fp32",
     "MEGATRON_LM_ATTENTION_SOFTMAX_IN_FP32"},
    {Section::kMegatron, "megatron-lm-expert-tensor-parallel-size",
     "MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE"},
    {Section::kMegatron, "megatron-lm-calculate-per-token-loss",
     "MEGATRON_LM_CALCULATE_PER_TOKEN_LOSS"},
    {Section::kMegatron, "megatron-lm-use-rotary-position-embeddings",
     "MEGATRON_LM_USE_ROTARY_POSITION_EMBEDDINGS"},
    {Section::kParallelism, "parallelism-config-dp-replicate-size",
     "PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "1"},
    {Section::kParallelism, "parallelism-config-dp-shard-size", "PARALLELISM_CONFIG_DP_SHARD_SIZE",
     "1"},
    {Section::kParallelism, "parallelism-config-tp-size", "PARALLELISM_CONFIG_TP_SIZE", "1"},
    {Section::kParallelism, "parallelism-config-cp-size", "PARALLELISM_CONFIG_CP_SIZE", "1"},
    {Section::kParallelism, "parallelism-config-cp-backend", "PARALLELISM_CONFIG_CP_BACKEND",
     "torch"},
    {Section::kParallelism, "parallelism-config-cp-comm-strategy",
     "PARALLELISM_CONFIG_CP_COMM_STRATEGY"},
    {Section::kParallelism, "parallelism-config-sp-size", "PARALLELISM_CONFIG_SP_SIZE", "1"},
    {Section::kParallelism, "parallelism-config-sp-backend", "PARALLELISM_CONFIG_SP_BACKEND",
     "deepspeed"},
    {Section::kParallelism, "parallelism-config-sp-seq-length", "PARALLELISM_CONFIG_SP_SEQ_LENGTH"},
    {Section::kParallelism, "parallelism-config-sp-seq-length-is-variable",
     "PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE"},
    {Section::kParallelism, "parallelism-config-sp-attn-implementation",
     "PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION"},
    {Section::kFp8, "fp8-backend", "ACCELERATE_FP8_BACKEND"},
    {Section::kFp8, "fp8-use-autocast-during-eval", "ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL", "",
     true},
    {Section::kFp8, "fp8-margin", "ACCELERATE_FP8_MARGIN"},
    {Section::kFp8, "fp8-interval", "ACCELERATE_FP8_INTERVAL"},
    {Section::kFp8, "fp8-format", "ACCELERATE_FP8_FORMAT"},
    {Section::kFp8, "fp8-amax-history-len", "ACCELERATE_FP8_AMAX_HISTORY_LEN"},
    {Section::kFp8, "fp8-amax-compute-algo", "ACCELERATE_FP8_AMAX_COMPUTE_ALGO"},
    {Section::kFp8, "fp8-override-linear-precision", ""},
    {Section::kFp8, "fp8-opt-level", "ACCELERATE_FP8_OPT_LEVEL"},
    {Section::kFp8, "fp8-enable-fsdp-float8-all-gather",
     "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER"},
    {Section::kFp8, "fp8-pad-inner-dim", "ACCELERATE_FP8_PAD_INNER_DIM"},
    {Section::kFp8, "fp8-amax-history-length", "ACCELERATE_FP8_AMAX_HISTORY_LEN"},
    {Section::kFp8, "fp8-amax-compute-algorithm", "ACCELERATE_FP8_AMAX_COMPUTE_ALGO"},
    {Section::kFp8, "fp8-optimization-level", "ACCELERATE_FP8_OPT_LEVEL"},
});

constexpr auto kOptions = [] {
  std::array<KnownOption, kKeys.size()> options{};
  for (size_t i = 0; i < kKeys.size(); ++i) {
    options[i] = {.names = kKeys[i].option, .values = kKeys[i].is_flag ? 0 : 1, .remark = kUsed};
  }
  return options;
}();

}  // namespace

std::string SectionName(AccelerateSection section) {
  switch (section) {
    case Section::kDynamo:
      return "dynamo_config";
    case Section::kDeepSpeed:
      return "deepspeed_config";
    case Section::kFsdp:
      return "fsdp_config";
    case Section::kMegatron:
      return "megatron_lm_config";
    case Section::kParallelism:
      return "parallelism_config";
    case Section::kFp8:
      return "fp8_config";
  }
  return {};
}

std::span<const AccelerateKey> AccelerateKeys() { return kKeys; }

std::span<const KnownOption> AccelerateKeyOptions() { return kOptions; }

const AccelerateKey* FindAccelerateKey(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto* known = std::find_if(kKeys.begin(), kKeys.end(),
                                   [&](const AccelerateKey& key) { return key.option == dashed; });
  return known == kKeys.end() ? nullptr : known;
}

}  // namespace lockstep::convert
