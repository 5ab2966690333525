// Red zones: bytes between the buffers of one piece of the GPU's memory. Under AddressSanitizer, on
// the tests' driver, an access to one ends the process. Nothing else sees a kernel that goes beyond
// its buffer, because what it meets there is memory of the same allocation. Other builds have none.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_RED_ZONE_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_RED_ZONE_H_

#include <cstddef>

#include "base/sanitizer.h"

#ifdef LOCKSTEP_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::trainer {

#ifdef LOCKSTEP_ASAN
inline constexpr size_t kRedZone = 256;  // bytes at least, behind each buffer; keeps its alignment
inline void Guard(const void* begin, const void* end) {
  ASAN_POISON_MEMORY_REGION(
      begin, static_cast<size_t>(static_cast<const char*>(end) - static_cast<const char*>(begin)));
}
#else
inline constexpr size_t kRedZone = 0;
// Forbids [begin, end), until the memory is freed.
inline void Guard(const void* /*begin*/, const void* /*end*/) {}
#endif

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_RED_ZONE_H_
