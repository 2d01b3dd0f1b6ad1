"""Machines with several network cards: the kernel drives the one that nic= names, else the first that has a network."""
import re

import pytest
from workshop.vm import qemu

WORDS = "port=7 http.port=80 key=correct-horse-battery"
GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"
ECHO, LWIP = qemu.BUILD / "echo/peregrine.elf", qemu.BUILD / "other/peregrine.elf"
FIRST, SECOND = "52:54:00:00:00:01", "52:54:00:00:00:02"

# Networks: two with a DHCP server, whose addresses tell them apart; one with nobody in it.
NET_2, NET_3, EMPTY = "user,id=n{},restrict=on", "user,id=n{},restrict=on,net=10.0.3.0/24", "hubport,id=n{},hubid=9"
VIRTIO, E1000 = "virtio-net-pci", "e1000"
PC = "pc"


def cards(*rows):
    """Returns options for cards, each (device, network), with the addresses 52:54:00:00:00:01, :02, ..."""
    options = ["-vga", "none"]
    for number, (device, network) in enumerate(rows, 1):
        options += ["-netdev", network.format(number),
                    "-device", f"{device},netdev=n{number},id=c{number},mac=52:54:00:00:00:{number:02x}"]
    return options


# name: settings, machine, cards, the address that DHCP gives the card that is taken, the others in the log
ROWS = {
    "the-first": ("", PC, cards((VIRTIO, NET_2), (VIRTIO, NET_3)), "10.0.2.15", r"pci 00:03.0 1af4:1000$"),
    "the-first-by-name": (f"nic={FIRST}", PC, cards((VIRTIO, NET_2), (VIRTIO, NET_3)), "10.0.2.15",
                          r"pci 00:03.0 1af4:1000$"),
    "the-second-by-name": (f"nic={SECOND}", PC, cards((VIRTIO, NET_2), (VIRTIO, NET_3)), "10.0.3.15",
                           rf"pci 00:02.0 1af4:1000 {FIRST}$"),
    "in-the-other-order": (f"nic={SECOND.upper()}", PC, cards((VIRTIO, NET_3), (VIRTIO, NET_2)), "10.0.2.15",
                           rf"pci 00:02.0 1af4:1000 {FIRST}$"),
    "an-e1000-before": (f"nic={SECOND}", PC, cards((E1000, NET_2), (VIRTIO, NET_3)), "10.0.3.15",
                        r"pci 00:02.0 8086:100e$"),
    "mmio": (f"nic={FIRST}", "microvm", cards(("virtio-net-device", NET_2), ("virtio-net-device", NET_3)), "10.0.2.15",
             r"mmio 0x[0-9a-f]+( " + SECOND + ")?$"),
    "mmio-and-pci": (f"nic={SECOND}", "microvm,pcie=on", cards(("virtio-net-device", NET_2), (VIRTIO, NET_3)),
                     "10.0.3.15", rf"mmio 0x[0-9a-f]+ {FIRST}$"),
    "standby": (f"nic={FIRST}", "q35",
                ["-device", "pcie-root-port,id=rp,chassis=1", *cards((f"{VIRTIO},failover=on", NET_2)),
                 "-netdev", NET_3.format(2),
                 "-device", f"e1000e,netdev=n2,id=primary,bus=rp,failover_pair_id=c1,mac={FIRST}"], "10.0.2.15", None),
}


@pytest.mark.parametrize("row", ROWS)
def test_right_card_is_driven(row):
    words, machine, options, address, others = ROWS[row]
    with qemu.Machine(qemu.kernel(f"{WORDS} {words}", image=ECHO) + options, machine=machine, network=True) as guest:
        guest.wait_for(rf"network: up, {address} mask")
        assert "trying the next card" not in guest.log
        if others:
            assert re.search(rf"left alone: {others}", guest.log, re.MULTILINE), guest.log


@pytest.mark.parametrize("image, words", [(ECHO, WORDS), (LWIP, GAME)], ids=["own", "lwip"])
@pytest.mark.parametrize("why", ["DHCP offer", "link"])
def test_next_card_is_tried_if_the_first_gets_no_network(why, image, words):
    options = ["-S", *cards((VIRTIO, EMPTY), (E1000, NET_3), (VIRTIO, NET_2))]
    with qemu.Machine(qemu.kernel(f"{words} net.timeout=8", image=image) + options, network=True) as guest:
        if why == "link":
            guest.qmp("set_link", name="c1", up=False)
        guest.qmp("cont")
        guest.wait_for(rf"network: no {why} within half of net.timeout=; trying the next card")
        guest.wait_for("network: up, 10.0.2.15 mask")
        assert re.search(r"virtio-net: pci 00:04.0 .* mac 52:54:00:00:00:03, ", guest.log), guest.log


def test_next_card_is_tried_though_the_network_is_waited_for_without_end():
    """The machine's own watchdog is fed meanwhile: it would reset after 20 s."""
    options = cards((VIRTIO, EMPTY), (VIRTIO, NET_2)) + ["-device", "i6300esb"]
    words = f"{WORDS} net.timeout=0 watchdog=10"
    with qemu.Machine(qemu.kernel(words, image=ECHO) + options, network=True) as guest:
        guest.wait_for("network: no DHCP offer within 30 s; trying the next card")
        guest.wait_for("network: up, 10.0.2.15 mask")


def test_card_with_an_address_of_its_own_and_no_link_gives_way():
    """With ip= there is nothing to wait for on the second card. A capture goes on there."""
    options = ["-S", *cards((VIRTIO, EMPTY), (VIRTIO, NET_2))]
    words = f"{WORDS} net.timeout=8 ip=10.0.2.15/24 gw=10.0.2.2 capture=64,16"
    with qemu.Machine(qemu.kernel(words, image=ECHO) + options, network=True) as guest:
        guest.qmp("set_link", name="c1", up=False)
        guest.qmp("cont")
        guest.wait_for("network: up, 10.0.2.15 mask")
        assert f"mac {SECOND}" in guest.log and "trying the next card" in guest.log


def test_machine_without_any_network_goes_home_after_the_last_card():
    options = cards((VIRTIO, EMPTY), (VIRTIO, EMPTY))
    with qemu.Machine(qemu.kernel(f"{WORDS} net.timeout=3", image=ECHO) + options, network=True) as guest:
        guest.wait_for("back to Linux: network lost")
    assert guest.log.count("trying the next card") == 1, guest.log


def test_named_card_does_not_give_way():
    options = cards((VIRTIO, EMPTY), (VIRTIO, NET_2))
    with qemu.Machine(qemu.kernel(f"{WORDS} net.timeout=3 nic={FIRST}", image=ECHO) + options, network=True) as guest:
        guest.wait_for("back to Linux: network lost")
    assert "trying the next card" not in guest.log


@pytest.mark.parametrize("nic", ["52:54:00:00:00:09", FIRST], ids=["unknown", "of-the-e1000"])
def test_card_that_cannot_be_driven_is_refused_and_all_are_named(nic):
    options = cards((E1000, NET_2), (VIRTIO, NET_3))
    with qemu.Machine(qemu.kernel(f"{WORDS} nic={nic}", image=ECHO) + options, network=True) as guest:
        guest.wait_reset()
    refusal = rf"nic={nic} is no virtio card or gVNIC of this machine; it has:(.*)"
    names = set(re.search(refusal, guest.log)[1].split(" pci "))
    assert {f"00:03.0 1af4:1000 {SECOND}", "00:02.0 8086:100e"} <= names, guest.log
    assert "back to Linux: no network device" in guest.log
