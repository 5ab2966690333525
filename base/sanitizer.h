// LOCKSTEP_ASAN: this is compiled with AddressSanitizer.
#ifndef LOCKSTEP_BASE_SANITIZER_H_
#define LOCKSTEP_BASE_SANITIZER_H_

#if defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOCKSTEP_ASAN 1
#endif
#endif

#endif  // LOCKSTEP_BASE_SANITIZER_H_
