# Functions of all scripts of tools/. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034 # read by the scripts that source this
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
export PATH=$PATH:/usr/sbin:/sbin

# Makes ccache hash paths relative to the root, so that clones share objects.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
# They name the clone, and what they change is the same in each (cmake/Lockstep.cmake).
export CCACHE_IGNOREOPTIONS='-ffile-prefix-map=*'

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# The comment block under a script's first line is its help.
help() {
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  exit 0
}

# Prints the usage on standard error and exits with 2, for an unknown argument.
usage_error() {
  say "unknown argument '$1'; see tools/${0##*/} --help"
  exit 2
}

# configure PRESET: prepares build/PRESET, quietly unless that fails.
configure() { alone_in "$1" _configure "$1" || exit; }

# build PRESET [TARGET...]
build() { alone_in "$1" _build "$@"; }

# alone_in PRESET FUNCTION...: waits until no other process configures or builds
# build/PRESET. Suites run beside each other, and ninja fails while CMake writes the file that it reads.
alone_in() {
  mkdir -p "$root/build/$1"
  (
    flock 7
    "${@:2}" 7>&-
  ) 7>"$root/build/$1/lock"
}

_configure() {
  local log=$root/build/$1/configure.log
  (cd "$root" && cmake --preset "$1") >"$log" 2>&1 || {
    cat "$log" >&2
    die "CMake could not configure preset $1; tools/deps installs what it needs"
  }
}

_build() {
  local preset=$1
  shift
  _configure "$preset"
  cmake --build "$root/build/$preset" ${1:+--target "$@"} >&2
}

# build_from_debian PREFIX PACKAGE[=VERSION] [-DOPTION=VALUE]...: static libraries under PREFIX, of
# Debian's source package, hardened as our own code is (cmake/Lockstep.cmake); also PREFIX/record and
# PREFIX/copyright (tools/lib/debian-source). CMAKE_TOOLCHAIN_FILE in the environment is honoured.
build_from_debian() {
  local prefix=$1 package=$2 flags='-ffunction-sections -fdata-sections -fstack-protector-strong'
  shift 2
  flags+=' -D_FORTIFY_SOURCE=3'
  [ "$(uname -m)" != x86_64 ] || [ -n "${CMAKE_TOOLCHAIN_FILE:-}" ] || flags+=' -fcf-protection'
  (
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$root/tools/lib/debian-source" "$work" "$package"
    flags+=" -ffile-prefix-map=$work/source/=" # the same bytes from any folder
    cmake -S "$work/source" -B "$work/out" -G Ninja \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 \
      -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
      -DCMAKE_C_FLAGS_RELEASE='-O2 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' \
      -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
      -DCMAKE_INSTALL_PREFIX="$prefix.new" -DCMAKE_INSTALL_LIBDIR=lib "$@"
    cmake --build "$work/out"
    rm -rf "$prefix.new"
    cmake --install "$work/out"
    cp "$work/record" "$work/copyright" "$prefix.new/"
    # Renamed last: a build that was cut off leaves nothing that looks finished.
    rm -rf "$prefix"
    mv "$prefix.new" "$prefix"
  )
}
