"""The whole memory after the reset: no key and no password is left, whatever ended the run."""
import pathlib
import struct

import pytest

from tests.guest import faults, recorded_run
from workshop.vm import qemu
from workshop.vm.game import Game

KEY, PASSWORD = "0x" + "5ec2e7" * 5 + "4b", "Sesame+open/42"
RAW = bytes.fromhex(KEY[2:])
PADDED = [bytes(byte ^ pad for byte in RAW) for pad in (0x36, 0x5c)]    # as HMAC hashes it, RFC 2104 section 2
SECRETS = (RAW, KEY[2:].encode(), PASSWORD.encode(), PASSWORD.replace("+", "%2B").replace("/", "%2F").encode(),
           *PADDED, *(struct.pack("<4I", *struct.unpack(">4I", padded)) for padded in PADDED))
GAME = f"feed=10.0.2.2:{{input}} submit=10.0.2.2:{{output}} user=u n=12 m=823,108 capture=1514,64 key={KEY} "


def left_in(guest, directory):
    """Returns the places of secrets in the guest's memory."""
    path = pathlib.Path(directory) / "memory"
    guest.qmp("pmemsave", val=0, size=256 << 20, filename=str(path))
    memory = path.read_bytes()
    path.unlink()
    return [(secret, hex(memory.find(secret))) for secret in SECRETS if secret in memory]


@pytest.mark.parametrize("words, by_module", [
    ("deadline=4", False), ("deadline=4", True), ("test.trap=panic test.after=3", False),
    ("watchdog=1 test.trap=hang test.after=3", True), ("test.trap=null", False), ("nonsense", True)])
def test_no_secret_is_left_after_the_reset(words, by_module, tmp_path):
    (tmp_path / "round").write_text(faults.ROUND)
    with Game("127.0.0.1", ["--round", tmp_path / "round", "--begin", "player", *faults.SERVER]) as game:
        text = f"{recorded_run.REGIONS} {GAME.format(**game.ports)}{words} passwd={PASSWORD}"
        (tmp_path / "settings").write_text(text)
        options = qemu.kernel(module=tmp_path / "settings") if by_module else qemu.kernel(text)
        options += ["-vga", "none", "-action", "shutdown=pause", "-netdev", "user,id=n", "-device",
                    "virtio-net-pci,netdev=n"]
        with qemu.Machine(options, memory="256M", cpus=2) as guest:
            if "test.after" in words:
                guest.wait_for("playing with")
                assert left_in(guest, tmp_path), "the search finds nothing in a kernel that plays"
            guest.wait_reset()
            assert left_in(guest, tmp_path) == []
            assert recorded_run.record_at(guest, *recorded_run.HIGH).cause
