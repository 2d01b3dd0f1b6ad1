#!/bin/bash
# Makes build/distributions/gve/, once: Debian sid's QEMU, whose vfio-user-pci Debian 12 and 13 do not have, and sid's
# kernel. Needs root, mmdebstrap and a network.
set -eu
cd "$(dirname "$0")/../.."
ready=build/distributions/gve.ready
[ ! -e $ready ] || exit 0
# shellcheck source=tests/distributions/bare.sh
. tests/distributions/bare.sh
NAME=gve make_root sid qemu-system-x86 linux-image-cloud-amd64
touch $ready
