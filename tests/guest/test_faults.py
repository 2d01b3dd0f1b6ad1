"""Plays every row of faults.py. A table of the results closes a run of the tests (tests/conftest.py)."""
import contextlib
import pathlib
import re
import time

from tests.guest import faults
from tests.guest import recorded_run
import pytest
from workshop.vm import qemu

from workshop.vm.game import Game
from workshop.vm.ports import TCP, UDP, free_port


def start_game(row, directory):
    if callable(row.game):
        return row.game()
    path = pathlib.Path(directory) / "round"
    path.write_text(row.game_round)
    return Game("127.0.0.1", ["--round", path, "--begin", "player", *row.game])


@pytest.mark.parametrize("row", faults.ROWS, ids=lambda row: row.name)
def test_fault(row, tmp_path, record_property):
    record_property("fault", (row.name, "", 0))
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        game = stack.enter_context(start_game(row, tmp_path)) if row.game else None
        udp = free_port(TCP, UDP)
        options = [option.format(udp=udp) for option in row.options]
        words = row.words.format(**game.ports) if game else row.words
        scenario = (lambda guest: row.scenario(guest, game, udp)) if row.scenario else None
        log, records = recorded_run.run(words, options, scenario, machine=row.machine, cpus=row.cpus)
    assert [(r.state, r.cause) for r in records] == [(row.state, row.cause)] * 2, log
    for pattern in row.says:
        assert re.search(pattern, log), f"nothing like {pattern!r} in:\n{log}"
    if row.check:
        row.check(recorded_run.statistics_of(records[1]))
    record_property("fault", (row.name, row.cause or "of the last second before it", time.monotonic() - begun))


def test_machine_without_a_reset_method_stays():
    """Proves that each reset method above brought the guest back by itself."""
    with qemu.Machine(qemu.kernel("test.resets=none test.trap=panic") + ["-vga", "none"]) as guest:
        guest.wait_for("back to Linux: panic")
        with pytest.raises(qemu.Timeout):
            guest.wait_event("SHUTDOWN", 2)


def test_table_has_every_exception():
    words = {word for row in faults.ROWS for word in row.words.split()}
    by_hand = {0: "divide", 1: "debug", 2: "wait", 3: "breakpoint", 4: "overflow", 5: "bound", 6: "opcode", 7: "device",
               8: "double", 10: "tss", 11: "segment", 12: "stack-segment", 13: "general", 14: "null", 16: "x87",
               18: "wait"}
    for vector in range(32):
        assert f"test.trap={by_hand.get(vector, f'vector-{vector}')}" in words, vector
