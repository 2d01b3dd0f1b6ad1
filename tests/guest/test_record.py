"""The flight record after each kind of end, read from the guest's memory after its reset by the reader Linux uses."""
import re
import sys

import pytest
import qemu

sys.path.insert(0, str(qemu.ROOT / "tools"))
from peregrine_lib import blackbox

LOW, HIGH = (0x90000, 32768), (0x6000000, 131072)
REGIONS = "blackbox=" + ",".join(f"0x{address:x},{size}" for address, size in (LOW, HIGH))
GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"
NIC = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"]


def fly(words, options=(), poke=None, **machine):
    """Until the guest resets the machine; its memory stays. The log, and the records of both regions."""
    options = qemu.kernel(f"{REGIONS} {words}") + ["-vga", "none", "-action", "shutdown=pause", *options]
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


def test_trap_is_recorded_with_registers_and_callers():
    log, records = fly("test.trap=null")
    symbols = blackbox.Symbols(qemu.IMAGE)
    for record in records:
        assert (record.state, record.cause) == (2, "page fault")
        assert record.registers["vector"] == 14 and record.registers["cr2"] == 0
        assert f"rip {record.registers['rip']:016x}" in log
        names = [symbols(address).split("+")[0] for address in record.backtrace]
        assert names[:2] == ["trap_null", "selftest_trap"] and names[-1] == "enter_64", names
        assert record.log.rstrip().endswith("back to Linux: page fault")
    assert records[1].log.replace("\r", "") == log, "the record's log is not what the serial line carried"


@pytest.mark.parametrize("words, options, cause", [
    ("test.trap=panic", [], "panic"),
    ("test.trap=nested", [], "a trap inside a trap"),
    ("nonsense", [], "the settings cannot be used"),
    (GAME, [], "no network device"),
    (GAME + " deadline=1.5", NIC, "deadline"),
    (GAME + " ip=10.0.2.15/24 server.timeout=0.5", NIC, "server lost"),
    (GAME + " net.timeout=0.5", [*NIC[:1], "user,id=n,restrict=on,ipv4=off", *NIC[2:]], "network lost"),
])
def test_every_end_is_recorded(words, options, cause):
    log, records = fly(words, options)
    assert [(r.state, r.cause) for r in records] == [(2, cause)] * 2, log
    assert bool(records[0].registers) == ("nested" in words)
    if NIC[0] in options:
        assert re.search(r"^player\.turns [1-9]", records[0].statistics, re.MULTILINE), records[0].statistics


def test_running_machine_leaves_its_last_second():
    """A reset from outside, which the kernel cannot know of."""
    def reset(guest):
        guest.wait_for("playing with")
        guest.wait_for(r"^\[ *[3-9]\.\d+\]", 30)
        guest.qmp("stop")
    options = qemu.kernel(f"{REGIONS} {GAME} net.timeout=30") + ["-vga", "none", "-netdev", "user,id=n,ipv4=off",
                                                                "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(options, memory="256M") as guest:
        reset(guest)
        record = record_at(guest, *HIGH)
    assert record.state == 0 and record.sequence >= 2 and record.uptime_ns > 1e9
    assert "player.uptime_ns" in record.statistics and "peregrine" in record.log


@pytest.mark.parametrize("machine", ["pc", "q35", "microvm"])
def test_loop_with_interrupts_off_is_ended_by_the_second_cpu(machine):
    log, records = fly("watchdog=1 test.trap=hang", machine=machine, cpus=2)
    assert "looks after the loop" in log
    for record in records:
        assert (record.state, record.cause) == (2, "watchdog: the loop stood still"), log
        assert record.registers["vector"] == 2
        assert blackbox.Symbols(qemu.IMAGE)(record.registers["rip"]).startswith("trap_hang+"), log


def test_loop_that_does_not_answer_an_nmi_is_reset_by_the_second_cpu():
    _, records = fly("watchdog=1 test.trap=hang-deaf", cpus=2)
    assert {record.cause for record in records} == {"watchdog: the loop stood still and did not answer an NMI"}
    assert "a loop with interrupts off" in records[0].log


def test_watchdog_leaves_a_loop_that_turns_alone():
    log, records = fly(GAME + " watchdog=1 deadline=4", NIC, cpus=2)
    assert "looks after the loop" in log and records[0].cause == "deadline", log


def test_watchdog_without_a_second_cpu_says_so():
    assert "watchdog: no second CPU, so none" in fly("watchdog=1 test.trap=panic")[0]


def test_region_that_is_not_free_is_left_out():
    with qemu.Machine(qemu.kernel("blackbox=0x1000000,4096,0xa0000,4096,0xfffff0000000,4096 test.trap=panic") + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert re.findall(r"blackbox: (0x[0-9a-f]+), 4096 bytes: not free RAM", guest.log) == ["0x1000000", "0xa0000", "0xfffff0000000"]
