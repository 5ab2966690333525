// The GPU's kernels, for the host.
#include "worker/trainer/cuda/device/device.cu"
