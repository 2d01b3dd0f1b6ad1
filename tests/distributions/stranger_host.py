"""stranger_host.py FOLDER: makes the HOST that stranger.sh boots the kernel on. GRUB's next boot is the kernel that is
installed there, in QEMU; its ports 7 and 40404 are forwarded."""
import pathlib
import sys

from tests.deploy.fakehost import FakeHost

host = FakeHost(pathlib.Path(sys.argv[1]))
host.reboots_into('''/usr/bin/timeout 300 /usr/bin/qemu-system-x86_64 -m 256M -cpu max -display none -no-reboot \
    -kernel "$ROOT/boot/peregrine/peregrine.elf" -initrd "$settings" -serial "file:$ROOT/fake/serial" \
    -device virtio-net-pci,netdev=net0,mac=52:54:00:12:34:56 \
    -netdev user,id=net0,hostfwd=tcp:127.0.0.1:7007-:7,hostfwd=udp:127.0.0.1:40404-:40404''')
