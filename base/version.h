// The version of Lockstep, which is that of CMakeLists.txt.
#ifndef LOCKSTEP_BASE_VERSION_H_
#define LOCKSTEP_BASE_VERSION_H_

namespace lockstep {

// MAJOR.MINOR.PATCH. Its definition is in version.cc.in, so a new version compiles one file.
extern const char* const kVersion;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_VERSION_H_
