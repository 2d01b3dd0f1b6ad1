"""Plays every row of table.py, and starts the machine in every bad way that table.py lists."""
import pathlib
import re
import subprocess
import sys
import time

import pytest

from workshop.vm import machine
from workshop.vm import ports
from workshop.vm import qemu
from tests.e2e import table
from tests.lib.namespace import skip_without_tap

HERE = pathlib.Path(__file__).resolve().parent

ROW_S_MAX = 500


@pytest.mark.parametrize("row", table.PLAYED, ids=lambda row: row.name)
def test_row(row):
    in_namespace = row.net in ("tap", "dpdk")
    if in_namespace:
        skip_without_tap()
    prefix = machine.unshare_words() if in_namespace else []
    done = subprocess.run([*prefix, sys.executable, HERE / "row.py", row.name], capture_output=True, text=True,
                          timeout=ROW_S_MAX)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_value_of_every_column_occurs():
    for column, values in (("boot", machine.BOOTS), ("firmware", ("bios", "uefi")), ("nic", machine.NICS),
                           ("net", ("user", "tap", "dpdk")), ("cpus", (1, 2)), ("memory", ("128M", "8G")),
                           ("body", ("raw", "chunked")), ("start", ("push", "wait")), ("front", ("nginx",)),
                           ("stack", ("own", "lwip"))):
        assert set(values) <= {getattr(row, column) for row in table.PLAYED}, column
    assert len({row.name for row in table.PLAYED}) == len(table.PLAYED)
    assert {row.name for row in table.PLAYED if row.stack == "lwip"} == {f"{name}-lwip" for name in table.LWIP_ROWS}


@pytest.mark.parametrize("bad", table.BAD_STARTS, ids=lambda bad: bad.name)
def test_bad_start_gives_the_reason_and_the_machine_back(bad):
    # Without a screen, because the kernel shows the message there for three seconds.
    options = ["-vga", "none", *qemu.kernel(bad.settings.format(port=ports.free_port(ports.TCP)))]
    if bad.nic:
        wire = "hubport,id=net0,hubid=0" if bad.silent_network else "user,id=net0"
        options += ["-netdev", wire, "-device", f"{machine.NICS['transitional']},netdev=net0"]
    begun = time.monotonic()
    with qemu.Machine(options) as host:
        host.wait_reset()
        log, seconds = host.log, time.monotonic() - begun
    for pattern in bad.says:
        assert re.search(pattern, log), f"nothing like {pattern!r} in:\n{log}"
    for line, count in repeated_lines(log).items():
        assert count <= seconds + 1, f"logged {count} times in {seconds:.1f} s: {line}"


def repeated_lines(log):
    """Counts the repeats of each line in a log, without stamps and numbers. Lists (PCI, statistics) do not count."""
    counts = {}
    for line in log.splitlines():
        text = re.sub(r"\d+", "#", re.sub(r"^\[.*?\] ", "", line))
        counts[text] = counts.get(text, 0) + 1
    return {text: count for text, count in counts.items() if not text.startswith(("pci ", "stats: "))}
