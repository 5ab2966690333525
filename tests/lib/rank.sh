#!/bin/busybox sh
# A rank that does what the test tells it: the first line of its gate is its exit code. The gate is
# a FIFO that the test holds open; once it is a plain file, every later generation reads the same.
# STUBBORN: SIGTERM means nothing to it.
[ -z "$STUBBORN" ] || trap '' TERM
[ ! -e "$GATES/hook" ] || . "$GATES/hook"
read -r code <"$GATES/$RANK"
exit "${code:-0}"
