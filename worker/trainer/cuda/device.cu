// All kernels: one file of device code (cmake/CudaParts.cmake), and one for the tests' emulator.
#include "worker/trainer/cuda/mlp_kernels.cu"
