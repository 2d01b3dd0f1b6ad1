"""DPDK's testpmd as the guest's network device, as in clouds: a vhost-user port on one side, a TAP on the other.

The contest's address is on the loopback device, so the address outlives testpmd. The TAP does not."""
import os
import pathlib
import subprocess
import time

from workshop.vm import machine
from workshop.vm import qemu

TAP = "dtap0"
START_S_MAX = 60


class Switch:
    """testpmd between the guest and a TAP. Needs a network namespace of its own."""

    def __init__(self, directory):
        self.socket, self.log = pathlib.Path(directory) / "switch", pathlib.Path(directory) / "testpmd.log"
        machine.set_up_namespace(tap=False)
        self._ip("addr", "add", f"{machine.TAP_HOST}/32", "dev", "lo")
        self._start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def restart(self):
        """Kills testpmd as a crash would, and starts it again."""
        self._end()
        self.socket.unlink()
        self._start()

    def _start(self):
        cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["dpdk-testpmd", "--lcores", f"0@({cpus}),1@({cpus})", "--no-huge", "-m", "512", "--no-pci",
                 "--no-telemetry", "--file-prefix", f"peregrine-{os.getpid()}",
                 "--vdev", f"net_vhost0,iface={self.socket}", "--vdev", f"net_tap0,iface={TAP}",
                 "--", "--total-num-mbufs=4096", "--auto-start", "--disable-link-check"],
                stdin=subprocess.PIPE, stdout=log, stderr=log, preexec_fn=qemu.die_with_parent,
                env={**os.environ, "RUNTIME_DIRECTORY": str(self.socket.parent)})   # /var/run needs root
        end = time.monotonic() + START_S_MAX
        while "binding succeeded" not in self.log.read_text(encoding="utf-8"):
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text(encoding="utf-8")
            time.sleep(0.05)
        self._ip("link", "set", TAP, "up")
        self._ip("route", "add", f"{machine.TAP_HOST}/{machine.TAP_BITS}".replace(".1/", ".0/"), "dev", TAP,
                 "src", machine.TAP_HOST)

    def _end(self):
        self.process.kill()
        self.process.wait(START_S_MAX)
        self.process.stdin.close()

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, timeout=START_S_MAX)
