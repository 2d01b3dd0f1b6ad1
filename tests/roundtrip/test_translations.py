"""translations.py does what it says, with the QEMU there is. Without it the round trip's second and third boot take
minutes longer, and nothing else tells."""
import pathlib
import time

from vm import qemu
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
        while translations.flushes(machine) == before:          # it is done when the processor runs again
            assert time.monotonic() < deadline, "nothing was dropped"
            time.sleep(0.05)
        machine.wait_for("waiting for the host .* s left", start=len(machine.log))
