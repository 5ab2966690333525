#include "worker/trainer/cuda/device_image.h"

#include <cstddef>

// Paths from cmake/CudaParts.cmake.
#define EMBED(name, path)             \
  asm(".pushsection .rodata." #name   \
      ", \"a\"\n"                     \
      ".balign 16\n"                  \
      ".global " #name "\n" #name     \
      ":\n"                           \
      ".incbin \"" path               \
      "\"\n"                          \
      ".global " #name "_end\n" #name \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".popsection\n");               \
  extern "C" const char name[];       \
  extern "C" const char name##_end[]

#ifdef LOCKSTEP_SASS
EMBED(lockstep_sass, LOCKSTEP_SASS);
#endif
EMBED(lockstep_ptx_90, LOCKSTEP_PTX_90);
EMBED(lockstep_ptx_80, LOCKSTEP_PTX_80);

namespace lockstep::trainer {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::span<const DeviceImage> DeviceImages() {
  static const DeviceImage images[] = {
#ifdef LOCKSTEP_SASS
      {"machine code", 80, Between(lockstep_sass, lockstep_sass_end)},
#endif
      {"PTX for sm_90", 90, Between(lockstep_ptx_90, lockstep_ptx_90_end)},
      {"PTX for sm_80", 80, Between(lockstep_ptx_80, lockstep_ptx_80_end)}};
  return images;
}

}  // namespace lockstep::trainer
