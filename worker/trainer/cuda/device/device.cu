// All kernels: one file of device code (cmake/CudaParts.cmake), and one for the tests' emulator.
#include "worker/trainer/cuda/device/attention.cu"
#include "worker/trainer/cuda/device/attention_fp32.cu"
#include "worker/trainer/cuda/device/classifier.cu"
#include "worker/trainer/cuda/device/elements.cu"
#include "worker/trainer/cuda/device/mlp_kernels.cu"
#include "worker/trainer/cuda/device/norm.cu"
#include "worker/trainer/cuda/device/step.cu"
