#!/bin/sh
# What kubelet gives an agent, in a mount and PID namespace of its own: the key from a Secret, an
# emptyDir, a termination log and an init container, on a root that nobody may write. Then the agent,
# as process 1, as a user who is nobody, without a capability.
#   pod.sh AGENT KEY_FILE TERMINATION_LOG IMAGE    (a folder whose programs are on PATH)
set -e
nobody="setpriv --reuid 54321 --regid 54321 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all"

mount -t tmpfs -o mode=0755 pod /mnt
mkdir /mnt/key /mnt/run /mnt/lockstep /mnt/image
cp -r "$4/." /mnt/image
cp "$1" /mnt/image/lockstep-agent
cp "$2" /mnt/key/gang
chmod 0444 /mnt/key/gang
chmod 0777 /mnt/lockstep
mount -t tmpfs -o mode=0777 run /mnt/run
touch /mnt/termination-log
mount --bind "$3" /mnt/termination-log
$nobody /mnt/image/lockstep-agent --install /mnt/lockstep
rm -f /mnt/image/lockstep-agent /mnt/image/lockstep-s3
PATH=/mnt/image:$PATH
mount -o remount,bind,ro /mnt
mount -o remount,bind,ro /
exec $nobody /mnt/lockstep/lockstep-agent
