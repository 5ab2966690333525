#if defined(__x86_64__)
#define LOCKSTEP_KERNELS V4Kernels
#define LOCKSTEP_KERNELS_TARGET "arch=x86-64-v4"
#include "worker/trainer/model/kernels.inc"
#endif
