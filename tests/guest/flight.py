"""A flight whose record is read from the guest's memory after its reset, by the reader that Linux uses."""
import sys

import qemu

sys.path.insert(0, str(qemu.ROOT / "tools"))
from peregrine_lib import blackbox      # noqa: E402

LOW, HIGH = (0x90000, 32768), (0x6000000, 131072)
REGIONS = "blackbox=" + ",".join(f"0x{address:x},{size}" for address, size in (LOW, HIGH))
RUNNING, TOLD, FAILED = 0, 1, 2         # a record's state


def fly(words, options=(), poke=None, image=qemu.IMAGE, **machine):
    """Until the guest resets the machine, as QMP tells; its memory stays. The log, and the records of both regions."""
    options = qemu.kernel(f"{REGIONS} {words}", image=image) + ["-vga", "none", "-action", "shutdown=pause", *options]
    with qemu.Machine(options, memory="256M", **machine) as guest:
        if poke:
            poke(guest)
        guest.wait_reset()
        return guest.log, [record_at(guest, *region) for region in (LOW, HIGH)]


def record_at(guest, address, size):
    path = qemu.BUILD / f"region-{guest.process.pid}"
    try:
        guest.qmp("pmemsave", val=address, size=size, filename=str(path))
        return blackbox.newest([path.read_bytes()])[0]
    finally:
        path.unlink(missing_ok=True)


def statistics_of(record):
    """The record's statistics; whole numbers as such."""
    values = {}
    for line in record.statistics.splitlines():
        name, _, value = line.partition(" ")
        values[name] = int(value) if value.isdigit() else value
    return values
