# Building images with buildah, each kept as a docker-archive; sourced after common.sh.
# shellcheck shell=bash disable=SC2154

images=$cache/images
base_image=docker.io/library/debian:bookworm-slim

# prepare_images: makes a store that is separate from the user's, with overlay mounts where the
# kernel allows them, else with plain copies. Waits for another run that builds in it.
prepare_images() {
  "$root/tools/deps" --images
  mkdir -p "$images"
  exec {images_lock}>"$images/lock"
  flock "$images_lock"

  export BUILDAH_ISOLATION=chroot CONTAINERS_STORAGE_CONF=$images/storage.conf
  cat >"$CONTAINERS_STORAGE_CONF" <<CONF
[storage]
driver = "overlay"
graphroot = "$images/storage"
runroot = "${XDG_RUNTIME_DIR:-/run}/lockstep-images"
CONF
  # Only an interrupted run can have left anything here.
  buildah rm --all >/dev/null 2>&1 || sed -i 's/"overlay"/"vfs"/' "$CONTAINERS_STORAGE_CONF"
}

# fingerprint PATH...: of the text of these files and folders, and of the base.
fingerprint() {
  {
    echo "$base_image"
    buildah images --quiet --no-trunc "$base_image"
    cd "$root" || return
    git ls-files -z --cached --others --exclude-standard -- "$@" | sort -z |
      xargs -0 --no-run-if-empty sha256sum -- 2>/dev/null
  } | sha256sum | cut -c1-16
}

# prepare_base: Debian from the registry, else made from Debian's packages, which need no registry;
# never made where a digest says which Debian is wanted.
prepare_base() {
  ! buildah inspect --type image "$base_image" >/dev/null 2>&1 || return 0
  say "looking for $base_image in the registry"
  if ! timeout 60 buildah pull --quiet "$base_image" >"$images/pull.log" 2>&1; then
    [[ $base_image != *@* ]] || die "$base_image cannot be pulled: $(tail -n 1 "$images/pull.log")"
    say "the registry cannot be reached; making $base_image with debootstrap"
    "$root/tools/lib/debian-base" "$base_image" >"$images/base.log" 2>&1 || {
      tail -n 30 "$images/base.log" >&2
      die "could not make $base_image; all of the output is in $images/base.log"
    }
  fi
}

# build_image ARCHIVE NAME DOCKERFILE CONTEXT PATH... [-- BUILDAH-OPTION...]: $images/ARCHIVE.tar
# with the image NAME. Does nothing if PATHs and base are what it was built from.
build_image() {
  local archive=$images/$1.tar name=$2 dockerfile=$3 context=$4 paths=() wanted
  shift 4
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    paths+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift

  wanted="$name $(fingerprint "$dockerfile" "${paths[@]}")"
  if [ -f "$archive" ] && [ "$(cat "$archive.built" 2>/dev/null)" = "$wanted" ]; then return 0; fi
  say "building $name; the output is in ${archive%.tar}.log"
  SECONDS=0
  build_stages "$name" "$root/$dockerfile" "$@" "$context" >"${archive%.tar}.log" 2>&1 || {
    tail -n 30 "${archive%.tar}.log" >&2
    die "could not build $name; all of the output is in ${archive%.tar}.log"
  }
  rm -f "$archive.new"
  buildah push --quiet "$name" "docker-archive:$archive.new:$name"
  # Renamed last, so that readers of the old archive are not disturbed.
  mv "$archive.new" "$archive"
  echo "$wanted" >"$archive.built"
  # Removes earlier images of this name and the layers that only they use. Images in use by another
  # run of buildah stay.
  buildah rmi --prune >/dev/null || true
  say "built $name in $SECONDS s"
}

# build_stages NAME DOCKERFILE ARGUMENT...: the base is local by now; nothing else may come from a
# registry.
build_stages() {
  local name=$1 build=(buildah build --pull-never --layers --file "$2")
  shift 2
  # A name of its own keeps this stage's layers from being pruned.
  if grep -q ' AS toolchain$' "${build[-1]}"; then
    "${build[@]}" --target toolchain --tag localhost/lockstep/toolchain "$@" || return
  fi
  "${build[@]}" --tag "$name" "$@"
}

# size_of_image ARCHIVE: the line of image_size.py, which takes seconds, once for each build.
size_of_image() {
  local archive=$images/$1.tar base
  if [ ! "$archive.size" -nt "$archive" ]; then
    readarray -t base < <(buildah inspect --type image \
      --format '{{range .OCIv1.RootFS.DiffIDs}}{{println .}}{{end}}' "$base_image" | grep .)
    "$root/tools/lib/image_size.py" "$archive" "${base[@]}" >"$archive.size"
  fi
  cat "$archive.size"
}
