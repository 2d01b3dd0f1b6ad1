"""translations.py drops all translations of the installed QEMU. If it failed, the second and third boot of a round trip
would take minutes longer, and no other test would notice."""
import pathlib
import time

from workshop.vm import qemu
from tests.roundtrip import translations

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_all_translations_are_dropped_and_the_machine_goes_on(tmp_path):
    gdb = tmp_path / "gdb"
    with qemu.Machine([*qemu.kernel("test.trap=wait"), "-vga", "none", "-gdb",
                       f"unix:{gdb},server=on,wait=off"]) as machine:
        machine.wait_for("waiting for the host")
        before = translations.flushes(machine)
        translations.drop(gdb)
        deadline = time.monotonic() + qemu.PATIENCE_S
        while translations.flushes(machine) == before:          # QEMU drops them when the processor runs again
            assert time.monotonic() < deadline, "nothing was dropped"
            time.sleep(0.05)
        machine.wait_for("waiting for the host .* s left", start=len(machine.log))
