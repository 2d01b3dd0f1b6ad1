"""The network driver in QEMU, without a stack: tests/guest/nic_echo.c returns every frame, over each transport.

One row is one kind of device. Each gets a few hundred frames of random sizes in bursts longer than its ring, while
nic_echo.c holds borrowed buffers. Every frame must come back, in order, byte for byte. SEED=n replays."""
import os
import random
import re
import struct
import time

import pytest
from workshop.vm import qemu

ECHO, HOLD, COUNTERS, RESET, GROUPS = 0x88B5, 0x88B6, 0x88B7, 0x88B8, 0x88B9
COUNTER_NAMES = ("rx_frames", "tx_frames", "rx_kicks", "tx_kicks", "rx_rekicks", "tx_rekicks", "state_exits",
                 "tx_ring_full", "tx_still_held", "tx_no_buffer", "tx_stalled_seconds", "rx_merged", "rx_drop_short",
                 "rx_drop_long", "rx_drop_bad_merge")
SEED = int(os.environ.get("SEED", "20220220"), 0)

ROOT_PORT = ["-device", "pcie-root-port,id=rp,chassis=1"]
SWITCH = ROOT_PORT + ["-device", "x3130-upstream,id=us,bus=rp", "-device", "xio3130-downstream,id=ds,bus=us,chassis=2"]
EXPANDER = ["-device", "pxb-pcie,id=expander,bus_nr=40", "-device", "pcie-root-port,id=rp,bus=expander,chassis=3"]

# name: machine, device, other options, a regular expression for the driver's report. A legacy device chooses the sizes
# of its rings itself: the transmit ring has 256 entries in QEMU 7.2 and 1,024 in QEMU 10.
ROWS = {
    "legacy": ("pc", "virtio-net-pci,disable-modern=on", [], r"1af4:1000, legacy, .* rx (256|1024) tx (256|1024)"),
    "legacy-plain": ("pc", "virtio-net-pci,disable-modern=on,any_layout=off,mrg_rxbuf=off,event_idx=off,"
                     "guest_announce=off", [],
                     r"legacy, features MAC STATUS, "),
    "legacy-merging": ("pc", "virtio-net-pci,disable-modern=on,any_layout=off", [],
                       r"legacy, features EVENT_IDX .*MRG"),
    "legacy-large-ring": ("pc", "virtio-net-pci,disable-modern=on,rx_queue_size=1024", [],
                          r"legacy, .* rx 1024 tx (256|1024)"),
    "transitional": ("pc", "virtio-net-pci", [], r"1af4:1000, transitional"),
    "modern": ("q35", "virtio-net-pci,disable-legacy=on", [], r"1af4:1041, modern, features VERSION_1 EVENT_IDX"),
    "modern-plain": ("q35", "virtio-net-pci,disable-legacy=on,mrg_rxbuf=off,event_idx=off,host_mtu=1400,"
                     "guest_announce=off,ctrl_rx=off", [],
                     r"modern, features VERSION_1 MAC STATUS MTU, .* mtu 1400"),
    "modern-large-ring": ("q35", "virtio-net-pci,disable-legacy=on,rx_queue_size=1024", [],
                          r"modern, .* rx 256 tx 256"),
    "modern-port-doorbell": ("q35", "virtio-net-pci,modern-pio-notify=on", [], r"transitional"),
    "root-port": ("q35", "virtio-net-pci,bus=rp", ROOT_PORT, r"pci 01:00.0 1af4:1041, modern"),
    "switch": ("q35", "virtio-net-pci,bus=ds", SWITCH, r"pci 03:00.0 1af4:1041, modern"),
    "second-host-bridge": ("q35", "virtio-net-pci,bus=rp", EXPANDER, r"pci 29:00.0 1af4:1041, modern"),
    "high-memory": ("q35", "virtio-net-pci,disable-legacy=on", ["-m", "8G"], r"modern"),
    "mmio-v2": ("microvm,acpi=off", "virtio-net-device", ["-global", "virtio-mmio.force-legacy=off"],
                r"mmio 0xfeb00e00, mmio v2"),
    "mmio-v1": ("microvm,acpi=off", "virtio-net-device", ["-global", "virtio-mmio.force-legacy=on"],
                r"mmio 0xfeb00e00, mmio v1"),
    "mmio-v1-plain": ("microvm,acpi=off", "virtio-net-device,any_layout=off,mrg_rxbuf=off,event_idx=off", [],
                      r"mmio v1, features MAC STATUS"),
    "mmio-acpi": ("microvm", "virtio-net-device", ["-global", "virtio-mmio.force-legacy=off"], r"mmio v2"),
    "platform": ("pc", "virtio-net-pci,disable-legacy=on,iommu_platform=on", [],
                 r"features VERSION_1 EVENT_IDX ACCESS_PLATFORM"),
    "platform-root-port": ("q35", "virtio-net-pci,bus=rp,iommu_platform=on", ROOT_PORT, r"ACCESS_PLATFORM"),
    "platform-mmio": ("microvm", "virtio-net-device,iommu_platform=on",
                      ["-global", "virtio-mmio.force-legacy=off"], r"mmio v2, features .* ACCESS_PLATFORM"),
    "platform-no-acpi": ("pc,acpi=off", "virtio-net-pci,disable-legacy=on,iommu_platform=on", [], r"ACCESS_PLATFORM"),
    "iommu-not-insisted-on": ("q35", "virtio-net-pci,disable-legacy=on", ["-device", "intel-iommu"],
                              r"features VERSION_1 EVENT_IDX MAC"),
    "no-firmware-pci": ("microvm,pcie=on", "virtio-net-pci", [], r"pci 00:01.0 1af4:1000, transitional"),
    "no-firmware-root-port": ("microvm,pcie=on", "virtio-net-pci,bus=rp", ROOT_PORT, r"pci 01:00.0 1af4:1041, modern"),
}

IMAGE = qemu.BUILD / "kernel/nic_echo.elf"


def start(wire, machine, device, options=(), word="word"):
    command = [*qemu.kernel(word, image=IMAGE), "-netdev", wire.netdev, *options,
               "-device", device + ",netdev=n,mac=52:54:00:ab:cd:ef"]
    return qemu.Machine(command, machine=machine, network=True)


GUEST, OURS = bytes.fromhex("525400abcdef"), bytes.fromhex("020000000001")


def frame(kind, payload=b""):
    return GUEST + OURS + struct.pack(">H", kind) + payload


def counters(wire):
    wire.send(frame(COUNTERS))
    answer = wire.receive()
    assert answer and answer[12:14] == struct.pack(">H", COUNTERS), answer
    return dict(zip(COUNTER_NAMES, struct.unpack_from(f">{len(COUNTER_NAMES)}Q", answer, 14)))


def exchange(wire, chance, burst_frames, kind):
    """Sends one burst, then takes all of it back, in order."""
    sent = [frame(kind, chance.randbytes(chance.choice((46, 100, 700, 1500, chance.randrange(0, 1501)))))
            for _ in range(burst_frames)]
    for one in sent:
        wire.send(one)
    for number, one in enumerate(sent):
        got = wire.receive()
        assert got is not None, f"frame {number} of {burst_frames} did not come back"
        got = got[:len(one)] if len(one) < 60 else got      # QEMU may pad short frames
        assert got == OURS + GUEST + one[12:], f"frame {number} of {burst_frames}: {len(got)} bytes for {len(one)}"


@pytest.mark.parametrize("row", ROWS)
def test_every_frame_comes_back(row, wire):
    machine, device, options, report = ROWS[row]
    chance = random.Random(SEED)
    with start(wire, machine, device, options) as guest:
        guest.wait_for("echoing")
        line = guest.wait_for(r"virtio-net: .*\n").group()
        assert re.search(report, line), line
        assert "mac 52:54:00:ab:cd:ef" in line and "link up" in line
        for burst_frames in (1, 1, 2, 16, 64, 40):
            exchange(wire, chance, burst_frames, ECHO)
        for _ in range(4):
            exchange(wire, chance, 50, HOLD)                # up to 63 buffers are borrowed at any time
        seen = counters(wire)
        wire.send(frame(RESET))
        guest.wait_reset()
    assert seen["rx_frames"] == 325 and seen["tx_frames"] == 324, f"SEED={SEED}: {seen}"
    assert seen["tx_kicks"] <= seen["tx_frames"]
    assert seen["rx_kicks"] <= 3 + seen["rx_rekicks"], "receive is polled"
    assert not any(seen[n] for n in COUNTER_NAMES if n.startswith("rx_drop")), seen


@pytest.mark.parametrize("merging", ["on", "off"])
def test_frames_that_are_too_long_are_dropped_and_counted(merging, wire):
    with start(wire, "q35", f"virtio-net-pci,disable-legacy=on,mrg_rxbuf={merging}") as guest:
        guest.wait_for("echoing")
        for payload_bytes in (1501, 2000, 5000, 9000):
            wire.send(frame(ECHO, bytes(payload_bytes)))
        exchange(wire, random.Random(SEED), 8, ECHO)        # the long frames left no rest in the ring
        seen = counters(wire)
    if merging == "on":
        assert seen["rx_drop_long"] == 1 and seen["rx_drop_bad_merge"] == 3, seen
    else:
        assert seen["rx_drop_long"] == 1 and seen["rx_frames"] == 9, seen       # QEMU delivers no larger frame


@pytest.mark.parametrize("machine, device", [
    ("q35", "virtio-net-pci,disable-legacy=on"), ("q35", "virtio-net-pci,disable-legacy=on,guest_announce=off"),
    ("pc", "virtio-net-pci,disable-modern=on"), ("microvm", "virtio-net-device")],
    ids=["modern", "modern-without-announcements", "legacy", "mmio"])
def test_groups_are_in_the_devices_filter(machine, device, wire):
    """QEMU shows the table of the device, and passes other frames on all the same: its device begins promiscuous."""
    groups = [bytes.fromhex(f"01005e0101{n:02x}") for n in range(9)]
    with start(wire, machine, device) as guest:
        guest.wait_for("echoing")
        for count in (2, 9, 0, 1):
            wire.send(frame(GROUPS, bytes([count]) + b"".join(groups[:count]) + bytes(60)))
            assert wire.receive()[12:14] == struct.pack(">H", GROUPS)
            wanted, deadline = sorted(group.hex(":") for group in groups[:count]), time.monotonic() + qemu.PATIENCE_S
            while sorted(guest.qmp("query-rx-filter")[0]["multicast-table"]) != wanted:
                assert time.monotonic() < deadline, guest.qmp("query-rx-filter")
            exchange(wire, random.Random(SEED), 8, ECHO)
        assert guest.qmp("query-rx-filter")[0]["unicast-table"] == []


def cpu_seconds(pid):
    """Returns the CPU time of a process, proc(5)."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SLEEPERS = {
    "legacy": "virtio-net-pci,disable-modern=on",
    "legacy-plain": "virtio-net-pci,disable-modern=on,any_layout=off,mrg_rxbuf=off,event_idx=off",
    "modern": "virtio-net-pci,disable-legacy=on",
    "modern-without-event-index": "virtio-net-pci,disable-legacy=on,event_idx=off",
}


@pytest.mark.parametrize("row", SLEEPERS)
def test_frames_wake_a_sleeping_machine(row, wire):
    """A frame that does not wake the machine comes back after ten seconds, or out of order."""
    chance = random.Random(SEED)
    with start(wire, "q35", SLEEPERS[row], word="sleep") as guest:
        guest.wait_for("echoing and sleeping")
        for burst_frames in [1] * 30 + [2, 3, 20, 40]:
            begin = time.monotonic()
            exchange(wire, chance, burst_frames, ECHO)
            assert time.monotonic() - begin < 8, "a frame did not wake it"
            time.sleep(chance.choice((0, 0, 0.001, 0.005)))
        used = cpu_seconds(guest.process.pid)
        time.sleep(1)
        assert cpu_seconds(guest.process.pid) - used < 0.3, "it does not sleep"
        seen = counters(wire)
    assert not any(seen[n] for n in COUNTER_NAMES if n.startswith("rx_drop")), seen


def test_machine_without_msix_does_not_sleep(wire):
    with start(wire, "microvm,acpi=off", "virtio-net-device", word="sleep") as guest:
        guest.wait_for("echoing$")


def test_link_changes_are_logged_after_a_silence(wire):
    with start(wire, "q35", "virtio-net-pci,disable-legacy=on") as guest:
        guest.wait_for("echoing")
        guest.qmp("set_link", name="n", up=False)
        guest.wait_for("link down")
        said = len(guest.log)
        guest.qmp("set_link", name="n", up=True)
        guest.wait_for("link up$", start=said)


@pytest.mark.parametrize("iommu, table", [("intel-iommu", "DMAR"), ("amd-iommu", "IVRS"), ("virtio-iommu-pci", "VIOT")])
def test_device_that_insists_on_an_iommu_is_refused_with_a_message(iommu, table, wire):
    with start(wire, "q35", "virtio-net-pci,disable-legacy=on,iommu_platform=on", ["-device", iommu]) as guest:
        guest.wait_for(f"insists on ACCESS_PLATFORM, and this machine has an IOMMU or encrypted memory: {table}$")
        guest.wait_reset()


def test_machine_without_a_virtio_device_lists_its_pci_functions(wire):
    with start(wire, "q35", "e1000e", ROOT_PORT) as guest:
        guest.wait_for("back to Linux: no virtio network device and no gVNIC")
        assert re.search(r"pci 00:[0-9a-f]{2}\.0 8086:10d3 class 020000$", guest.log, re.MULTILINE), guest.log
        assert "class 060400, a bridge" in guest.log
        guest.wait_reset()


@pytest.mark.parametrize("machine, device, others, unused", [
    ("q35", "virtio-net-pci,disable-legacy=on,addr=5",
     ["-device", "e1000e,addr=4", "-device", "virtio-net-pci,addr=6", "-device", "virtio-rng-pci,addr=7"],
     r"pci 00:04.0 8086:10d3 pci 00:06.0 1af4:1000"),
    ("microvm,acpi=off", "virtio-net-device", ["-device", "virtio-net-device", "-device", "virtio-rng-device"],
     r"mmio 0xfeb00a00"),
    ("microvm,pcie=on", "virtio-net-device", ["-device", "virtio-net-pci"], r"pci 00:01.0 1af4:1000"),
])
def test_unused_network_devices_are_named(machine, device, others, unused, wire):
    """QEMU gives the highest virtio-mmio address to the device made first, and lists this device first."""
    with start(wire, machine, device, others) as guest:
        guest.wait_for("echoing")
        assert re.search(rf"left alone: {unused}$", guest.log, re.MULTILINE), guest.log


def test_single_network_device_leaves_none_unused(wire):
    with start(wire, "q35", "virtio-net-pci,disable-legacy=on") as guest:
        guest.wait_for("echoing")
        assert "left alone" not in guest.log
