"""A machine with Google's virtual NIC: the model at a vfio-user socket, and a QEMU that has the client.

QEMU has it from 10.1 on. That of tests/gve/set_up.sh runs here by its own loader and libraries."""
import contextlib
import pathlib
import subprocess
import threading

from workshop.vm import qemu

DEVICE = qemu.BUILD / "host/gve-device"
SID = qemu.BUILD / "distributions/gve"
QEMU = [SID / "lib64/ld-linux-x86-64.so.2", "--library-path", SID / "usr/lib/x86_64-linux-gnu",
        SID / "usr/bin/qemu-system-x86_64", "-L", SID / "usr/share/seabios", "-L", SID / "usr/share/qemu"]


class Device:
    """The model's process. `log` has its lines: each command of the driver, and the counters at the end."""

    def __init__(self, directory, *settings):
        self.socket = pathlib.Path(directory) / "gve"
        self.process = subprocess.Popen([DEVICE, self.socket, *settings], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, preexec_fn=qemu.die_with_parent)
        assert self.process.stdout.readline() == "listening\n"
        self.log = []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def order(self, line):
        """Gives an order: "link down", "link up", "reset"."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def commands(self):
        """Returns the driver's commands in their order, each with its answer: "describe_device passed"."""
        return [line.removeprefix("command ").strip() for line in self.log if line.startswith("command ")]

    def close(self):
        """Waits for the end, which is that of its client; returns the exit status. Safe to call twice."""
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            qemu.end_process(self.process)
        self.reader.join(10)
        return self.process.returncode


def nic_options(device, memory):
    """Returns QEMU's options of the NIC, and of memory that the model can map, for `pc,memory-backend=ram`."""
    nic = '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"%s"}}' % device.socket
    return ["-object", f"memory-backend-memfd,id=ram,size={memory},share=on", "-device", nic]


@contextlib.contextmanager
def start(directory, options, *settings, memory="256M"):
    """Starts the model with these settings, and QEMU with these options and the model as its NIC."""
    device = Device(directory, *settings)
    try:
        with qemu.Machine([*nic_options(device, memory), *options], machine="pc,memory-backend=ram", memory=memory,
                          program=QEMU) as machine:
            yield machine, device
    finally:
        device.close()
