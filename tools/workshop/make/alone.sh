#!/usr/bin/env bash
# alone.sh COMMAND...: runs the command while no other one holds the lock of this tree. Two makes that build in one tree
# would write the same files.
exec {tree}<"$(dirname "$0")/../../.."
flock -n "$tree" || { echo "make: another make builds here, waiting" >&2; flock "$tree"; }
exec "$@"
