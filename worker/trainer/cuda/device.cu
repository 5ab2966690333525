// All kernels: one file of device code (cmake/CudaParts.cmake), and one for the tests' emulator.
#include "worker/trainer/cuda/attention.cu"
#include "worker/trainer/cuda/attention_fp32.cu"
#include "worker/trainer/cuda/classifier.cu"
#include "worker/trainer/cuda/elements.cu"
#include "worker/trainer/cuda/mlp_kernels.cu"
#include "worker/trainer/cuda/norm.cu"
#include "worker/trainer/cuda/step.cu"
