#!/bin/sh
# What a container runtime gives a program of an image, in a mount and PID namespace of its own:
# /proc, /sys, /dev, and /dev/shm and /run as emptyDirs are, on a root that nobody may write.
#   image_root.sh ROOT USER:GROUP MOUNTS COMMAND...     $IMAGE_ENVIRONMENT: NAME=VALUE lines
set -e
root=$1
user=${2%:*}
group=${2#*:}
mounts=$3
shift 3

mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 run "$root/run"
for folder in $mounts; do
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
done
mount -o remount,bind,ro "$root"
IFS='
'
# shellcheck disable=SC2086 # one word a line
exec env -i $IMAGE_ENVIRONMENT setpriv --no-new-privs --inh-caps=-all \
  /usr/sbin/chroot --userspec="$user:$group" --groups= "$root" "$@"
