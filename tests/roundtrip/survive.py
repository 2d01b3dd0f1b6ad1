#!/usr/bin/python3
"""Measures which memory keeps its content over a reset and a boot of Debian, for docs/blackbox.md. No test.

    survive.py bios|uefi MIB [SECONDS]     in a network namespace of its own (`unshare -n`)

Debian is booted, restarted, and stopped at the reset. All of its RAM, which is a file, is then filled with a pattern,
except for 640 KiB to 1 MiB, where SeaBIOS lives. Debian boots again, and the pages are compared three times: when Linux
begins, when ssh answers, and SECONDS (60) after that with the page cache grown by reading /usr."""
import contextlib
import mmap
import pathlib
import re
import struct
import sys
import tempfile
import time


from tests.roundtrip import trip as round_trip
from workshop.vm import machine

PAGE = 4096
ROM = range(0xA0, 0x100)


def pattern(page):
    return struct.pack("<QQ", 0x5045524547524e45, page) * (PAGE // 16)


class Memory:
    def __init__(self, path, mib):
        self.pages = mib << 8
        path.touch()
        with open(path, "r+b") as file:
            file.truncate(mib << 20)
            self.map = mmap.mmap(file.fileno(), mib << 20)

    def fill(self):
        for page in range(self.pages):
            if page not in ROM:
                self.map[page * PAGE:(page + 1) * PAGE] = pattern(page)

    def kept(self, first, bytes_):
        """Counts the pages of [first, first + bytes_) that still hold the pattern."""
        pages = range(first // PAGE, (first + bytes_) // PAGE)
        return sum(self.map[p * PAGE:(p + 1) * PAGE] == pattern(p) for p in pages), len(pages)

    def report(self, when, regions):
        total, of = self.kept(0, self.pages * PAGE)
        print(f"{when}: {100 * total / of:.1f} % of all RAM kept; regions of the black box (pages kept of pages): "
              + ", ".join("0x%x %d/%d" % (address, *self.kept(address, size)) for address, size in regions), flush=True)


def main():
    firmware, mib = sys.argv[1], int(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    with contextlib.ExitStack() as stack:
        round_trip.BUILD.mkdir(parents=True, exist_ok=True)
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="survive-", dir="/dev/shm")))
        memory = Memory(directory / "ram", mib)
        machine.set_up_namespace()
        trip = round_trip.Trip(firmware, directory, stack)
        before = trip.power_on(memory=f"{mib}M", more=[
            "-object", f"memory-backend-file,id=ram,size={mib}M,mem-path={directory}/ram,share=on", "-machine",
            "memory-backend=ram",
            "-no-shutdown", "-action", "reboot=shutdown"])
        text = trip.peregrine("check")
        regions = [(int(a, 16), int(k) << 10) for k, a in re.findall(r"(\d+)K@(0x[0-9a-f]+)", text)]
        trip.ssh("sudo sync; sudo systemctl reboot", check=False)
        trip.guest.wait_event("SHUTDOWN", 300)
        memory.fill()
        trip.guest.qmp("set-action", reboot="reset", shutdown="poweroff")
        said = len(trip.guest.log)
        trip.guest.qmp("system_reset")
        time.sleep(1)
        trip.guest.qmp("cont")
        trip.guest.wait_for("Linux version", 300, said)
        memory.report("Linux begins", regions)
        trip.wait_linux(before)
        memory.report("ssh answers", regions)
        trip.ssh("sudo find /usr -type f -exec cat {} + >/dev/null; cat /proc/meminfo | head -3; sleep %g" % seconds,
                 check=False)
        memory.report("later, /usr read", regions)


if __name__ == "__main__":
    main()
