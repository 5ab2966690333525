#include "worker/trainer/cuda/mlp_image.h"

// LOCKSTEP_MLP_IMAGE: the file, from cmake/CudaParts.cmake.
#ifdef LOCKSTEP_MLP_IMAGE
asm(".pushsection .rodata.lockstep_mlp_image, \"a\"\n"
    ".balign 16\n"
    ".global lockstep_mlp_image\n"
    "lockstep_mlp_image:\n"
    ".incbin \"" LOCKSTEP_MLP_IMAGE
    "\"\n"
    ".global lockstep_mlp_image_end\n"
    "lockstep_mlp_image_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" const char lockstep_mlp_image[];
extern "C" const char lockstep_mlp_image_end[];
#endif

namespace lockstep::trainer {

std::string_view MlpImage() {
#ifdef LOCKSTEP_MLP_IMAGE
  return {lockstep_mlp_image, static_cast<size_t>(lockstep_mlp_image_end - lockstep_mlp_image)};
#else
  return {};
#endif
}

}  // namespace lockstep::trainer
