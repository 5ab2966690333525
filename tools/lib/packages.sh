# What building the programs needs, and how it is installed; sourced after common.sh. Images hold these
# packages in a layer that is made again when this file changes: what only tests need is in tools/deps.
# shellcheck shell=bash disable=SC2154

# shellcheck disable=SC2034 # read by the scripts that source this
build_packages=(
  clang-19 lld-19 ccache cmake ninja-build pkg-config dpkg-dev
  libssl-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libre2-dev libhwloc-dev
  libc-ares-dev zlib1g-dev libdnnl-dev libgloo-dev
  libpmix-dev libevent-dev
  libcpprest-dev libspdlog-dev
  esbuild node-preact python3
)

go_packages=(golang-go ca-certificates)
go_toolchain=golang.org/toolchain@v0.0.1-go1.26.8.linux # and -amd64 or -arm64

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    command -v sudo >/dev/null || die "run this as root, or install sudo"
    sudo --preserve-env=DEBIAN_FRONTEND "$@"
  fi
}

# install_packages PACKAGE...: those that are not installed yet.
install_packages() {
  local installed missing=() package
  installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    sed -n 's/^\([^ :]*\)[^ ]* installed$/\1/p' || true)
  for package in "$@"; do
    grep -qxF -e "$package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  grep -q '^VERSION_CODENAME=bookworm' /etc/os-release ||
    die "knows the packages of Debian 12 only; missing here: ${missing[*]}"
  locked apt install_missing "${missing[@]}"
}

install_missing() {
  say "installing $# packages by apt, which can take minutes: $*"
  export DEBIAN_FRONTEND=noninteractive
  logged apt as_root apt-get update -q -o Acquire::Retries=3
  logged apt as_root apt-get install -q -y --no-install-recommends -o Acquire::Retries=3 "$@"
}

# locked NAME FUNCTION...: two tests may install at once. The lock ends with this shell, or with the
# descriptor.
locked() {
  local lock
  mkdir -p "$cache"
  exec {lock}>"$cache/$1.lock"
  flock "$lock"
  "${@:2}"
  exec {lock}>&-
}

# logged NAME COMMAND...: its output goes to a file, and is shown only if it fails.
logged() {
  local log=$cache/$1.log
  shift
  mkdir -p "$cache"
  "$@" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "failed: $*; all of its output is in $log"
  }
}

# install_static_libraries [FOLDER]: builds them in FOLDER, with the environment's CMAKE_TOOLCHAIN_FILE
# if it is set. Debian has them as shared libraries only, and static programs need them.
install_static_libraries() {
  local name recipe prefix
  for name in prometheus-cpp libcurl simdjson; do
    recipe=$root/tools/lib/$name
    # cmake/Lockstep.cmake looks for the same names.
    prefix=${1:-$cache}/$name-$(sha256sum <"$recipe" | cut -c1-12)
    [ ! -d "$prefix" ] || continue
    say "building a static $name in $prefix"
    logged "$name" "$recipe" "$prefix"
  done
}

# Leaves `go` as $cache/go/bin/go.
install_go() {
  local go toolchain
  toolchain=$go_toolchain-$(dpkg --print-architecture)
  if go=$(command -v go) && is_new_enough "$go"; then
    link_go "$go"
  elif ! is_new_enough "$cache/go/bin/go"; then
    install_packages "${go_packages[@]}"
    say "downloading $toolchain"
    (cd / && GOFLAGS=-modcacherw /usr/bin/go mod download "$toolchain")
    go=$(cd / && /usr/bin/go env GOMODCACHE)/$toolchain
    # Modules are unpacked without their executable bits.
    chmod +x "$go"/bin/* "$go"/pkg/tool/*/*
    link_go "$go/bin/go"
  fi
}

is_new_enough() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge 26 ]
}

link_go() {
  mkdir -p "$cache"
  ln -sfn "$(GOTOOLCHAIN=local "$1" env GOROOT)" "$cache/go"
}
