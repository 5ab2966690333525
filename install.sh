#!/bin/sh
# install.sh [--from DIR|URL] [--version VERSION] [--prefix DIR] [--key FILE]
# install.sh --uninstall [--prefix DIR]
#
# Installs Lockstep from a release: one folder, or one address, with the tarballs, SHA256SUMS and
# SHA256SUMS.sig. Nothing is installed unless the signature and the checksum are right. If anything
# fails, what was installed before stays as it was.
#
#   --from DIR|URL     the release; without it the address that this script was released with
#   --version VERSION  needed only if the release has several versions
#   --prefix DIR       without it /usr/local for root, else ~/.local
#   --key FILE         the public key that signed the release, or a file allowed_signers with it;
#                      without it the key that this script was released with
#   --uninstall        removes what this script installed under the prefix
#
# The programs are kept in PREFIX/lib/lockstep/VERSION-SUM. PREFIX/bin and PREFIX/share hold links.
# An upgrade keeps the version before it, because running jobs may still start its agents.
set -eu

# `tools/package tarball` writes both into the copy beside the tarballs.
release_url=''
release_key=''

say() { printf 'install.sh: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

usage_error() {
  say "$*; see --help"
  exit 2
}

show_help() {
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "$0"
  exit 0
}

need() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 || die "needs $1 (package $2), which is not in PATH"
}

# fetch NAME: copies or downloads a file of the release into $scratch.
fetch() {
  case $from in
    http://* | https://*)
      if command -v curl >/dev/null 2>&1; then
        curl -fsSL --retry 2 --connect-timeout 20 --speed-limit 1000 --speed-time 30 \
          --max-filesize 268435456 -o "$scratch/$1" "$from/$1" || lost "$1"
      else
        wget -q -T 30 -O "$scratch/$1" "$from/$1" || lost "$1"
      fi
      ;;
    *)
      [ -f "$from/$1" ] || die "$from has no $1"
      cp "$from/$1" "$scratch/$1" || die "cannot copy $from/$1 to $scratch"
      ;;
  esac
}

lost() { die "the download of $from/$1 failed; nothing was installed, so run this again"; }

check_signature() {
  # "TYPE BASE64 [COMMENT]", as in id_ed25519.pub, or that behind "lockstep-release [OPTION]".
  key=$release_key
  [ -z "$key_file" ] || key=$(head -n 1 "$key_file") || die "cannot read --key $key_file"
  [ -n "$key" ] || usage_error "no key is built into this script: name one with --key FILE"
  case $key in
    ssh-* | sk-* | ecdsa-*) key="lockstep-release $key" ;;
    'lockstep-release '*) ;;
    *) die "--key $key_file is no public key as ssh-keygen writes it" ;;
  esac
  printf '%s\n' "$key" >"$scratch/signers"
  ssh-keygen -Y verify -f "$scratch/signers" -I lockstep-release -n lockstep-release \
    -s "$scratch/SHA256SUMS.sig" <"$scratch/SHA256SUMS" >/dev/null 2>&1 ||
    die "SHA256SUMS of $from does not have a good signature by the release key: do not use these files"
}

# Sets $tarball to the one name in SHA256SUMS that fits this computer.
choose_tarball() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) arch=amd64 ;;
    Linux-aarch64) arch=arm64 ;;
    *) die "there are no programs for $(uname -s) on $(uname -m), only for Linux on x86_64 and aarch64" ;;
  esac
  names=$(sed -n "s/^[0-9a-f]\{64\}  \(lockstep-[0-9][0-9A-Za-z.+~-]*-linux-$arch\.tar\.gz\)\$/\1/p" \
    "$scratch/SHA256SUMS")
  if [ -n "$version" ]; then
    names=$(printf '%s\n' "$names" | grep -Fx "lockstep-$version-linux-$arch.tar.gz" || true)
  fi
  case $names in
    '') die "$from has no Lockstep ${version:+$version }for linux-$arch" ;;
    *"
"*) die "$from has several versions, so choose one with --version: $(printf '%s' "$names" | tr '\n' ' ')" ;;
  esac
  tarball=$names
  version=${tarball#lockstep-}
  version=${version%"-linux-$arch.tar.gz"}
}

check_sum() {
  grep -F "  $tarball" "$scratch/SHA256SUMS" >"$scratch/sum"
  (cd "$scratch" && sha256sum -c sum >/dev/null 2>&1) ||
    die "$tarball does not have the checksum of SHA256SUMS: the download is broken, or the file was changed"
  sum=$(cut -c 1-12 "$scratch/sum")
}

# link_text PATH: what a link at PREFIX/PATH holds to reach $home/PATH.
link_text() {
  text=lib/lockstep/${home##*/}/$1
  rest=$1
  while [ "$rest" != "${rest#*/}" ]; do
    text=../$text
    rest=${rest#*/}
  done
  printf '%s' "$text"
}

is_ours() { # PATH: a link that this script made
  [ -L "$1" ] || return 1
  case $(readlink "$1") in
    ../*lib/lockstep/[0-9]*) return 0 ;;
    *) return 1 ;;
  esac
}

# files FOLDER: the paths below FOLDER that get links.
files() { (cd "$1" && find bin share ! -type d | sort); }

# Notes each link and its earlier text in one line for undo(), because a signal may come at any time.
set_link() { # PATH TEXT
  earlier=$(if [ -L "$prefix/$1" ]; then readlink "$prefix/$1"; fi) || return
  printf '%s\t%s\n' "$1" "$earlier" >>"$stage/links"
  mkdir -p "$(dirname "$prefix/$1")" &&
    ln -s "$2" "$stage/link" && mv -f "$stage/link" "$prefix/$1" &&
    # It leads nowhere if a folder above it is itself a link, such as ~/.local/bin to ~/bin.
    [ -e "$prefix/$1" ]
}

# Puts the links and the folder back as they were before this run.
undo() {
  if [ -f "$stage/links" ]; then
    while IFS='	' read -r path text; do
      rm -f "$prefix/$path"
      [ -z "$text" ] || ln -s "$text" "$prefix/$path"
    done <"$stage/links"
  fi
  # Without its tree in the stage, this run has moved it to $home.
  if [ -n "$placing" ] && [ ! -d "$tree" ]; then rm -rf "$home"; fi
  if [ -d "$stage/replaced" ]; then mv "$stage/replaced" "$home"; fi
}

# Runs at every exit, and after Ctrl-C.
clean() {
  status=$?
  trap - EXIT
  trap '' INT TERM HUP # a second Ctrl-C must not stop undo()
  if [ -n "$stage" ]; then
    [ "$finished" = yes ] || undo
    rm -rf "$stage"
    if [ "$finished" != yes ]; then rmdir "$prefix/lib/lockstep" "$prefix/lib" 2>/dev/null || true; fi
  fi
  [ -z "$scratch" ] || rm -rf "$scratch"
  exit "$status"
}

install_release() {
  need tar tar
  need gzip gzip
  need sha256sum coreutils
  need ssh-keygen openssh-client
  case $from in
    '') usage_error "say where the release is with --from DIR|URL" ;;
    http://* | https://*) command -v curl >/dev/null 2>&1 || need wget "wget or curl" ;;
    *) [ -d "$from" ] || die "--from $from is neither a folder nor an http address" ;;
  esac
  scratch=$(mktemp -d) || die "cannot make a folder for downloads; set TMPDIR to one with space"
  fetch SHA256SUMS
  fetch SHA256SUMS.sig
  check_signature
  choose_tarball
  fetch "$tarball"
  check_sum

  mkdir -p "$prefix/lib/lockstep" 2>/dev/null ||
    die "cannot write to $prefix; choose another folder with --prefix, or run this as root"
  prefix=$(cd "$prefix" && pwd)
  home=$prefix/lib/lockstep/$version-$sum
  stage=$(mktemp -d "$prefix/lib/lockstep/.install.XXXXXX") ||
    die "cannot write to $prefix/lib/lockstep; choose another folder with --prefix, or run this as root"
  tar -xzof "$scratch/$tarball" -C "$stage" 2>"$scratch/errors" ||
    die "cannot unpack into $prefix, which may be full: $(head -n 1 "$scratch/errors")"
  tree=$stage/${tarball%.tar.gz}
  [ -x "$tree/bin/lockstep" ] || die "$tarball has no program lockstep"
  "$tree/bin/lockstep" --version >/dev/null ||
    die "the programs of $tarball do not run on this computer"
  for path in $(files "$tree"); do
    if [ -e "$prefix/$path" ] || [ -L "$prefix/$path" ]; then
      is_ours "$prefix/$path" ||
        die "$prefix/$path was not installed by this script: remove it, or choose another --prefix"
    fi
  done

  before=$(readlink "$prefix/bin/lockstep" 2>/dev/null || true)
  placing=yes
  if [ -d "$home" ]; then mv "$home" "$stage/replaced"; fi
  mv "$tree" "$home"
  for path in $(files "$home"); do
    set_link "$path" "$(link_text "$path")" ||
      die "cannot write the link $prefix/$path, or its folder is a link to elsewhere; choose another --prefix"
  done
  finished=yes
  remove_leftovers "$before"
  say "installed lockstep $version in $prefix/bin"
  case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) say "$prefix/bin is not in PATH" ;;
  esac
}

# Removes links to files that the new version does not have, and all versions but it and $1's. Removes
# no version if $1 is the new version's, because the version before it is unknown then.
remove_leftovers() {
  for folder in "$prefix"/lib/lockstep/[0-9]*; do
    [ "$folder" != "$home" ] || continue
    for path in $(files "$folder"); do
      if is_ours "$prefix/$path" && [ ! -e "$home/$path" ]; then rm -f "$prefix/$path"; fi
    done
    case $1 in
      *"/${home##*/}/"* | *"/${folder##*/}/"*) ;;
      *) rm -rf "$folder" ;;
    esac
  done
}

uninstall() {
  [ -d "$prefix/lib/lockstep" ] || die "this script has installed nothing under $prefix"
  [ -w "$prefix/lib/lockstep" ] || die "cannot write to $prefix/lib/lockstep; run this as root"
  for folder in "$prefix"/lib/lockstep/[0-9]*; do
    [ -d "$folder" ] || continue
    for path in $(files "$folder"); do
      if is_ours "$prefix/$path"; then rm -f "$prefix/$path" || die "cannot remove $prefix/$path"; fi
    done
  done
  rm -rf "$prefix/lib/lockstep"
  say "removed lockstep from $prefix"
}

main() {
  from=$release_url version='' key_file='' action=install_release
  scratch='' stage='' placing='' finished=no
  if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=${HOME:-/nonexistent}/.local; fi
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) show_help ;;
      --uninstall) action=uninstall ;;
      --from | --version | --prefix | --key)
        [ -n "${2:-}" ] || usage_error "$1 needs a value"
        case $1 in
          --from) from=${2%/} ;;
          --version) version=$2 ;;
          --prefix) prefix=$2 ;;
          --key) key_file=$2 ;;
        esac
        shift
        ;;
      *) usage_error "unknown argument '$1'" ;;
    esac
    shift
  done
  umask 022
  trap clean EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "$action"
}

# Last, so that a script that arrived in part does nothing.
main "$@"
