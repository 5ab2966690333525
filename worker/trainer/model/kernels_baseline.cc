#define LOCKSTEP_KERNELS BaselineKernels
#include "worker/trainer/model/kernels.inc"
