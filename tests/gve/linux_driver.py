"""Linux's own driver on the model of Google's virtual NIC: the model is right where this driver works.

In a network namespace with a TAP device, which is the wire to the guest. `make check-gve` plays it."""
import itertools
import lzma
import random
import re
import socket
import subprocess
import time

import pytest

from tests.gve import machine
from tests.lib import waiting
from workshop.vm import linux_guest, qemu
from workshop.vm import machine as vm

SECONDS = 60               # the length of each row's TCP
ECHO_PORT = 7
CARRIER = "/sys/class/net/eth0/carrier"
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mkdir /sys
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
insmod /gve.ko
ip addr add {vm.TAP_GUEST}/{vm.TAP_BITS} dev eth0
ip link set eth0 up
nc -ll -p {ECHO_PORT} -e cat &
echo guest: ready
exec sh
"""
# The admin queue's commands, all of which pass: tests/gve/README.md.
NEW = ("verify_driver_compatibility", "configure_rss")     # 6.1 does not send these
LISTS = ["register_page_list", "unregister_page_list"]
RESOURCES = ["configure_device_resources", "get_ptype_map", "report_stats"]
UP = ["register_page_list", "register_page_list", "create_tx_queue", "create_rx_queue"]
DOWN = ["destroy_tx_queue", "destroy_rx_queue", "unregister_page_list", "unregister_page_list"]
END = ["report_stats", "deconfigure_device_resources"]


@pytest.fixture(scope="module", autouse=True)
def wire():
    vm.set_up_namespace()


def guest_options(release, directory):
    """Returns QEMU's options for a guest with the kernel of this Debian, or of sid."""
    tree = machine.SID if release == "sid" else linux_guest.kernel_tree()
    packed = next(tree.glob("**/google/gve/gve.ko*"))
    module = directory / "gve.ko"
    module.write_bytes(lzma.decompress(packed.read_bytes()) if packed.suffix == ".xz" else packed.read_bytes())
    files = linux_guest.program_files() | {"gve.ko": module}
    (directory / "initramfs").write_bytes(linux_guest.initramfs(files, INIT))
    # Linux would look for ticks of its timer for some cycles of the TSC, in which a busy host may let QEMU wait.
    words = "console=ttyS0 panic=-1 no_timer_check"
    return qemu.kernel(words, directory / "initramfs", next(tree.glob("boot/vmlinuz-*")))


def ping():
    """Pings the guest three times; returns the replies."""
    busybox = linux_guest.package("busybox-static") / "bin/busybox"
    done = subprocess.run([busybox, "ping", "-c", "3", "-W", "10", vm.TAP_GUEST], capture_output=True, text=True)
    return int(re.search(r"(\d+) packets received", done.stdout)[1])


def echo(seconds):
    """Sends random bytes to the guest's echo for some time, and compares what comes back. Returns their count."""
    draw, total, block = random.Random(1), 0, 1 << 16
    with socket.create_connection((vm.TAP_GUEST, ECHO_PORT), timeout=30) as connection:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            data = draw.randbytes(block)
            connection.sendall(data)
            back = b""
            while len(back) < block:
                part = connection.recv(block - len(back))
                assert part, "the guest closed the connection"
                back += part
            assert back == data
            total += block
    return total


class Shell:
    """The guest's shell on its serial line."""

    def __init__(self, guest):
        self.guest, self.numbers = guest, itertools.count()

    def run(self, command):
        """Runs a command, and waits for its end."""
        number = next(self.numbers)
        self.guest.send(f"{command}; echo done: $((1000 + {number}))\n")
        self.guest.wait_for(f"^done: {1000 + number}$")

    def wait_carrier(self, value):
        self.run(f"while [ $(cat {CARRIER}) != {value} ]; do sleep 0.1; done")


# Linux 6.1 knows devices of PCI revision 0 alone.
@pytest.mark.parametrize("release, queue_format, revision",
                         [("ours", "qpl", 0), ("ours", "rda", 0), ("ours", "dqo", 0),
                          ("sid", "qpl", 1), ("sid", "rda", 1), ("sid", "dqo", 1)])
def test_carries_tcp(tmp_path, release, queue_format, revision):
    options = guest_options(release, tmp_path)
    settings = [f"tap={vm.TAP}", f"format={queue_format}", f"revision={revision}", "entries=1024", "tx_pages=512"]
    with machine.start(tmp_path, options, *settings) as (guest, device):
        shell = Shell(guest)
        guest.wait_for("guest: ready", 180)
        assert ping() == 3, guest.log[-2000:] + str(device.log)
        carried = echo(SECONDS)
        device.order("link down")
        shell.wait_carrier(0)
        device.order("link up")
        shell.wait_carrier(1)
        assert ping() == 3
        device.order("reset")
        waiting.wait_for(lambda: device.commands().count("create_rx_queue passed") == 2, "the driver resets the device")
        shell.wait_carrier(1)
        assert ping() == 3
        shell.run("ip link set eth0 down; ip link set eth0 up")
        echo(1)
        shell.run("ip link set eth0 down")
        shell.run("rmmod gve")
    assert device.close() == 0, device.log
    other_formats = {"qpl": ["get_ptype_map"], "rda": ["get_ptype_map", *LISTS], "dqo": LISTS}[queue_format]
    sent = ["describe_device", *RESOURCES, *UP, *RESOURCES, *UP, *DOWN, *UP, *DOWN, *END]
    expected = [f"{name} passed" for name in sent if name not in other_formats]
    assert [line for line in device.commands() if not line.startswith(NEW)] == expected
    print(f"{release}, {queue_format}, revision {revision}: {carried / 1e6:.0f} MB each way; {device.log[-1]}")
