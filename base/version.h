// The version of Lockstep; CMakeLists.txt and CHANGELOG.md name the same.
#ifndef LOCKSTEP_BASE_VERSION_H_
#define LOCKSTEP_BASE_VERSION_H_

namespace lockstep {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_VERSION_H_
