"""A run whose record is read from the guest's memory after its reset, by the reader that Linux uses."""

from workshop.vm import qemu

from deploy import blackbox

LOW, HIGH = (0x90000, 32768), (0x6000000, 131072)
REGIONS = "blackbox=" + ",".join(f"0x{address:x},{size}" for address, size in (LOW, HIGH))
RUNNING, ORDERED, FAILED = 0, 1, 2         # a record's state


def run(words, options=(), scenario=None, image=qemu.IMAGE, **machine):
    """Runs until the guest resets the machine, as QMP reports. Returns the log, and the records of both regions."""
    options = qemu.kernel(f"{REGIONS} {words}", image=image) + ["-vga", "none", "-action", "shutdown=pause", *options]
    with qemu.Machine(options, memory="256M", **machine) as guest:
        if scenario:
            scenario(guest)
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
    """Returns the record's statistics; whole numbers as such."""
    values = {}
    for line in record.statistics.splitlines():
        name, _, value = line.partition(" ")
        values[name] = int(value) if value.isdigit() else value
    return values
