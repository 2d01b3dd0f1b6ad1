"""The crash record after each kind of end, read from the guest's memory after its reset by the reader Linux uses."""
import os
import re
import signal
import time

from tests.guest import recorded_run
import pytest
from workshop.vm import qemu
from tests.guest.recorded_run import HIGH, REGIONS, blackbox, record_at, run

GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"
DEBUG = blackbox.DebugFile(qemu.DEBUG)
NIC = ["-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"]


def functions_of(record):
    return [DEBUG(address, i > 0).split()[-1] for i, address in enumerate(record.backtrace)]


def test_trap_is_recorded_with_registers_and_callers():
    log, records = run("test.trap=null")
    for record in records:
        assert (record.state, record.cause) == (2, "page fault")
        assert f"peregrine {record.version}, program player, build {record.build_id}" in log
        assert record.registers["vector"] == 14 and record.registers["cr2"] == 0
        assert f"rip {record.registers['rip']:016x}" in log
        names = functions_of(record)
        assert names[:2] == ["trap_null", "selftest_trap"] and names[-1] == "enter_64", names
        assert record.log.rstrip().endswith("back to Linux: page fault")
    assert records[1].log.replace("\r", "") == log, "the record's log is not that of the serial line"


def test_trap_during_a_game_is_recorded_with_statistics():
    log, records = run(GAME + " test.trap=opcode test.after=1.5", NIC)
    for record in records:
        assert (record.state, record.cause) == (2, "invalid opcode"), log
        names = functions_of(record)
        assert names[0] == "trap_opcode" and "kernel_main" in names, names
        assert record.uptime_ns > 1.5e9
    assert recorded_run.statistics_of(records[1])["player.turns"] > 0


def test_end_of_a_game_is_recorded_with_its_statistics():
    log, records = run(GAME + " deadline=1", NIC)
    assert [(r.state, r.cause) for r in records] == [(recorded_run.FAILED, "deadline")] * 2, log
    assert not records[0].registers
    assert re.search(r"time: after \d+ s the TSC is \d+ us (ahead of|behind) the ACPI PM timer", log), log
    assert abs(records[0].wall_ns / 1e9 - time.time()) < 10
    assert re.search(r"^player\.turns [1-9]", records[0].statistics, re.MULTILINE), records[0].statistics


def test_reset_from_outside_leaves_the_record_of_the_last_second():
    """The kernel cannot notice such a reset."""
    def reset(guest):
        guest.wait_for("playing with")
        guest.wait_for(r"^\[ *[3-9]\.\d+\]")
        guest.qmp("stop")
    options = qemu.kernel(f"{REGIONS} {GAME} net.timeout=30")
    options += ["-vga", "none", "-netdev", "user,id=n,ipv4=off", "-device", "virtio-net-pci,netdev=n"]
    with qemu.Machine(options, memory="256M") as guest:
        reset(guest)
        record = record_at(guest, *HIGH)
    assert record.state == 0 and record.sequence >= 2 and record.uptime_ns > 1e9
    assert "program.uptime_ns" in record.statistics and "peregrine" in record.log


def test_hanging_loop_is_recorded_with_its_address():
    log, records = run("watchdog=1 test.trap=hang", cpus=2)
    for record in records:
        assert record.registers["vector"] == 2
        assert re.fullmatch(r"kernel/rescue/selftest\.c:\d+ trap_hang", DEBUG(record.registers["rip"])), log


@pytest.mark.parametrize("cpus, words, who", [(2, "", "worker 1"), (2, "cpus=2", "worker 1"),
                                              (1, "", "a timer's NMI")])
def test_watchdog_leaves_a_loop_that_turns_alone(cpus, words, who):
    log, records = run(GAME + f" watchdog=1 deadline=4 {words}", NIC, cpus=cpus)
    assert f"watchdog: after 1000 ms without a turn, by {who}" in log and records[0].cause == "deadline", log
    checks = recorded_run.statistics_of(records[1])["watchdog.checks"]
    assert 4 <= checks <= 1000, "worker 1 checks at most 100 times a second: a check costs the first CPU time"


@pytest.mark.parametrize("cpus", [1, 2])
def test_watchdog_leaves_a_starved_machine_alone(cpus):
    """The host stops the whole machine again and again during its start, each time for longer than the watchdog's
    limit."""
    def starve(guest):
        guest.wait_for("watchdog: after 2000 ms")
        for _ in range(4):
            os.kill(guest.process.pid, signal.SIGSTOP)
            time.sleep(2.2)
            os.kill(guest.process.pid, signal.SIGCONT)
            time.sleep(0.03)
    moduli = ",".join(str(10**150 + i) for i in range(1, 8, 2))      # their tables take long to compute
    words = f"feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=1024 m={moduli} watchdog=2 deadline=2"
    log, records = run(words, NIC, scenario=starve, cpus=cpus)
    assert records[0].cause == "deadline", log


def test_machine_without_a_watchdog_is_reported():
    log = run("watchdog=1 test.trap=panic", machine="pc,acpi=off")[0]
    assert "watchdog: no worker and no timer that can send an NMI\n" in log.replace("\r", "")
    assert "watchdog: this machine has none; a loop that hangs stays until a reset from outside" in log


def test_region_that_is_not_free_is_left_out():
    with qemu.Machine(qemu.kernel("blackbox=0x1000000,4096,0xa0000,4096,0xfffff0000000,4096 test.trap=panic")
                      + ["-vga", "none"]) as guest:
        guest.wait_reset()
    assert re.findall(r"blackbox: (0x[0-9a-f]+), 4096 bytes: not free RAM",
                      guest.log) == ["0x1000000", "0xa0000", "0xfffff0000000"]
