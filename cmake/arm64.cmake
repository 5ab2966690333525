# Toolchain of the preset release-arm64: this machine's clang, with the headers and libraries that
# `tools/deps --arm64` unpacks. Programs of the build run by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

if(DEFINED ENV{XDG_CACHE_HOME})
  set(LOCKSTEP_ARM64 $ENV{XDG_CACHE_HOME}/lockstep/arm64)
else()
  set(LOCKSTEP_ARM64 $ENV{HOME}/.cache/lockstep/arm64)
endif()
if(NOT IS_DIRECTORY ${LOCKSTEP_ARM64}/sysroot)
  message(FATAL_ERROR "${LOCKSTEP_ARM64}/sysroot does not exist; run tools/deps --arm64")
endif()
set(CMAKE_SYSROOT ${LOCKSTEP_ARM64}/sysroot)

set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -fuse-ld=lld)

# The second folder holds the libraries that tools/deps builds itself.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT} ${LOCKSTEP_ARM64})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# QEMU computes the architected pointer authentication very slowly; impdef is another one.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max,pauth-impdef=on -L ${CMAKE_SYSROOT})
