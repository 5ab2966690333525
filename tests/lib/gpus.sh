#!/bin/sh
# What a machine with NVIDIA GPUs shows in sysfs and /dev, in a mount namespace of its own:
#   unshare --mount gpus.sh COUNT COMMAND...
set -e
count=$1
shift

mount --make-rprivate /
mount -t tmpfs devices /sys/bus/pci/devices
dev=$(mktemp -d)
mount -t tmpfs dev "$dev"
for file in null zero full random urandom tty; do
  touch "$dev/$file"
  mount --bind "/dev/$file" "$dev/$file"
done
for folder in shm pts; do
  mkdir "$dev/$folder"
  mount --rbind "/dev/$folder" "$dev/$folder"
done
ln -s pts/ptmx "$dev/ptmx"
ln -s /proc/self/fd "$dev/fd"
number=0
while [ $number -lt "$count" ]; do
  gpu=/sys/bus/pci/devices/0000:0$number:00.0
  mkdir "$gpu"
  echo 0x10de >"$gpu/vendor"
  echo 0x030200 >"$gpu/class"
  echo -1 >"$gpu/numa_node"
  touch "$dev/nvidia$number"
  number=$((number + 1))
done
mount --move "$dev" /dev
rmdir "$dev"
exec "$@"
