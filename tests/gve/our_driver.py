"""drivers/gve/ on the model of Google's virtual NIC, in QEMU: frames without a stack, games, programs, and a device
that misbehaves. `make check-gve` plays it."""
import random
import re
import time

import pytest

from tests.e2e import row, table
from tests.gve import machine
from tests.guest import test_cards, test_digest, test_echo, test_nic, test_trade
from tests.guest.cable import Cable
from workshop.vm import machine as vm
from workshop.vm import qemu

MAC = bytes.fromhex("525400677665")
FORMATS = {
    "lists": ("format=qpl", "tx_pages=128"),
    "raw": ("format=rda",),
    "lists-1": ("format=qpl", "tx_pages=128", "revision=1", "entries=1024"),
    "raw-1": ("format=rda", "revision=1", "entries=16"),
    "dqo": ("format=dqo",),
    "dqo-1": ("format=dqo", "revision=1", "entries=1024"),
}
NAMES = {"lists": "GQI with page lists", "raw": "GQI with raw addressing", "dqo": "DQO with raw addressing"}
COUNTER_NAMES = ("rx_frames", "tx_frames", "rx_kicks", "tx_kicks", "state_exits", "tx_ring_full", "tx_still_held",
                 "tx_no_buffer", "tx_stalled_seconds", "faults", "rx_drop_error", "rx_drop_short", "rx_drop_long")
UP = ["describe_device", "configure_device_resources"]


@pytest.fixture(scope="module", autouse=True)
def namespace():
    vm.set_up_namespace(tap=False)


@pytest.fixture
def wire(tmp_path, monkeypatch):
    monkeypatch.setattr(test_nic, "GUEST", MAC)
    monkeypatch.setattr(test_nic, "COUNTER_NAMES", COUNTER_NAMES)
    cable = Cable(tmp_path)
    yield cable
    cable.close()


def nic_echo(tmp_path, wire, *settings, word="word"):
    options = [*qemu.kernel(word, image=test_nic.IMAGE), "-vga", "none"]
    return machine.start(tmp_path, options, f"dgram={wire.far},{wire.near}", *settings)


@pytest.mark.parametrize("name", FORMATS)
def test_every_frame_comes_back(name, tmp_path, wire):
    chance = random.Random(test_nic.SEED)
    with nic_echo(tmp_path, wire, *FORMATS[name], "mtu=1500") as (guest, device):
        guest.wait_for("echoing")
        queue_format = NAMES[name.removesuffix("-1")]
        assert re.search(rf"gve: pci 00:0.\.0 1ae0:0042, revision {int('1' in name)}, format {queue_format}, .* mac "
                         "52:54:00:67:76:65, mtu 1500, link up", guest.log), guest.log
        for burst_frames in (1, 1, 2, 16, 16, 10):
            test_nic.exchange(wire, chance, burst_frames, test_nic.ECHO)
        for _ in range(12):
            test_nic.exchange(wire, chance, 12, test_nic.ECHO)
        seen = test_nic.counters(wire)
        wire.send(test_nic.frame(test_nic.RESET))
        guest.wait_reset()
    assert device.close() == 0, device.log
    assert seen["rx_frames"] == 191 and seen["tx_frames"] == seen["tx_kicks"] == 190, seen
    assert not any(seen[name] for name in COUNTER_NAMES if name.startswith(("rx_drop", "faults"))), seen
    lists = ["register_page_list"] * 2 if name.startswith("lists") else []
    types = ["get_ptype_map"] if name.startswith("dqo") else []
    queues = ["create_tx_queue", "create_rx_queue"]
    assert device.commands() == [f"{command} passed" for command in UP + lists + queues + types]


@pytest.mark.parametrize("queue_format", ["rda", "dqo"])
def test_frames_wake_a_sleeping_machine(queue_format, tmp_path, wire):
    chance = random.Random(test_nic.SEED)
    with nic_echo(tmp_path, wire, f"format={queue_format}", "mtu=1500", word="sleep") as (guest, _):
        guest.wait_for("echoing and sleeping")
        for burst_frames in [1] * 20 + [2, 3, 16]:
            begin = time.monotonic()
            test_nic.exchange(wire, chance, burst_frames, test_nic.ECHO)
            assert time.monotonic() - begin < 8, "a frame did not wake it"


def test_link_is_followed_and_a_wish_for_a_reset_ends_it(tmp_path, wire):
    with nic_echo(tmp_path, wire, "format=rda") as (guest, device):
        guest.wait_for("echoing")
        device.order("link down")
        guest.wait_for("link down")
        said = len(guest.log)
        device.order("link up")
        guest.wait_for("link up$", start=said)
        device.order("reset")
        guest.wait_for("back to Linux: the gVNIC is gone or asks for a reset, its status: 6")
        guest.wait_reset()


# A fault of each structure that the device writes after the start: what the machine says.
FAULTS = {
    "length": ("rda", "rx:60:2:0xffff:3", "a received frame is longer than its buffer: 65535"),
    "sequence": ("rda", "rx:62:2:0x0006:3", "a receive descriptor has an impossible sequence number: 6"),
    "counter": ("rda", "counter:0:4:0x1000:3", "the gVNIC counts frames that it was not given: 4096"),
    "gone": ("rda", "registers:0:4:0xffffffff:8", "the gVNIC is gone or asks for a reset, its status: 4294967295"),
    "buffer": ("dqo", "rx:12:2:0xff00:3", "a received frame is in a buffer that the device does not have"),
    "tag": ("dqo", "tx_completion:2:2:0xff00:3", "a frame is reported as sent that the device does not have"),
    "type": ("dqo", "tx_completion:1:1:0x80:3", "a transmit completion has no known type"),
}
NO_DOORBELL = "the gVNIC puts a doorbell where there is none, or another one: 2147483647"
REFUSALS = {
    "description": ("description:10:2:3", "the gVNIC's transmit queue has an impossible size: 3"),
    "doorbell": ("resources:0:4:0x7fffffff", NO_DOORBELL),
    "irq": ("irq_index:0:4:0x7fffffff", NO_DOORBELL),
    "status": ("status:0:4:0xfffffff7", "the gVNIC refuses a command, with status: 4294967287"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_device_that_misbehaves_sends_the_machine_home(name, tmp_path, wire):
    queue_format, fault, said = FAULTS[name]
    with nic_echo(tmp_path, wire, f"format={queue_format}", f"fault={fault}") as (guest, _):
        guest.wait_for("echoing")
        for _ in range(8):
            wire.send(test_nic.frame(test_nic.ECHO, bytes(46)))
        guest.wait_for(f"back to Linux: {said}")
        guest.wait_reset()


@pytest.mark.parametrize("name", REFUSALS)
def test_device_whose_answers_are_wrong_is_refused(name, tmp_path, wire):
    fault, said = REFUSALS[name]
    with nic_echo(tmp_path, wire, "format=qpl", "tx_pages=128", f"fault={fault}") as (guest, _):
        guest.wait_for(f"gve: pci 00:0..0 1ae0:0042: {said}")
        guest.wait_reset()


VIRTIO = "52:54:00:00:00:02"


@pytest.mark.parametrize("words, driven, left", [
    ("", "network: up, 10.0.2.15 mask", "1ae0:0042$"),
    (f"nic={VIRTIO}", "network: up, 10.0.2.15 mask", "1ae0:0042$"),
    ("nic=52:54:00:67:76:65", "gve: pci 00:03.0 1ae0:0042, ", f"1af4:1000 {VIRTIO}$")])
def test_a_machine_with_both_cards_drives_the_named_one_or_the_first(words, driven, left, tmp_path, wire):
    options = [*qemu.kernel(f"{test_cards.WORDS} {words}", image=test_cards.ECHO), "-vga", "none",
               "-netdev", "user,id=n,restrict=on", "-device", f"virtio-net-pci,netdev=n,mac={VIRTIO}"]
    with machine.start(tmp_path, options, f"dgram={wire.far},{wire.near}", "format=dqo") as (guest, _):
        guest.wait_for(driven)
        guest.wait_for(rf"left alone: pci 00:0[0-9]\.0 {left}")


@pytest.fixture(params=FORMATS)
def instead_of_virtio(request, tmp_path, monkeypatch):
    """Makes qemu.Machine start machines whose NIC is the model, on a hub with the network that virtio's would be on."""
    virtio = qemu.Machine

    def start(options, memory="256M", **words):
        options = [str(word) for word in options]
        user = options[options.index("-netdev") + 1]
        nic = next(i for i, word in enumerate(options) if "netdev=" in word and options[i - 1] == "-device")
        near, far = tmp_path / "near", tmp_path / "far"
        device = machine.Device(tmp_path, f"dgram={far},{near}", "mtu=1500", *FORMATS[request.param])
        wire = f"dgram,id=wire,local.type=unix,local.path={near},remote.type=unix,remote.path={far}"
        hub = [f"hubport,id=hub{i},hubid=0,netdev={end}" for i, end in
               enumerate((re.search(r"id=(\w+)", user)[1], "wire"))]
        options[nic - 1:nic + 1] = ["-netdev", wire, "-netdev", hub[0], "-netdev", hub[1],
                                    *machine.nic_options(device, memory)]
        words["machine"] = "pc,memory-backend=ram"
        return virtio(options, memory=memory, program=machine.QEMU, network=True, **words)
    monkeypatch.setattr(qemu, "Machine", start)


def test_game_is_played(instead_of_virtio):
    problems, log, figures = row.play(table.Row("gve", stack="own", report=r"gve: pci 00:\S+ 1ae0:0042, "), "tcg")
    assert not problems, f"{problems}, {figures}\n{log}"


def test_echo_answers(instead_of_virtio):
    test_echo.test_echo_answers_over_the_wire_shows_its_page_and_ends_by_gg()


def test_digest_answers_on_all_paths(instead_of_virtio):
    test_digest.test_all_paths_over_the_wire_and_gg_resets_the_machine()


def test_kernel_trades(instead_of_virtio):
    test_trade.test_kernel_trades_and_cancels_its_open_order_before_it_resets()
