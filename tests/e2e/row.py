"""Plays one row of the table: `row.py NAME [kvm]`. A program of its own, as rows on TAP run in a network namespace.

Exits with 0 if the row passes. Otherwise prints the reasons."""
import contextlib
import dataclasses
import pathlib
import re
import secrets
import sys
import tempfile
import time

from deploy.control import Client, key_from_text
from workshop.vm import machine
from servers.contest import rounds
from workshop.vm.game import Game, outcome
from tests.e2e import dhcp_server
from tests.e2e import dpdk
from tests.e2e import foreign
from tests.e2e import hostile
from tests.e2e import table

ROOT = pathlib.Path(__file__).resolve().parents[2]

USER = "peregrine"
BOOT_S_MAX = 180                        # UEFI under TCG on a busy machine
DISTURBED_AFTER = 3
GRACE_POLLS = 20                        # without a further answer, 0.1 s each; lost answers never come
GRACE_POLLS_RESTARTED = 200             # TCP sends the digits again after twice an outage's length


def server_words(row, directory):
    # Later words win: the row's own follow these. A count of bursts offers the same on a busy machine.
    words = ["--begin", "player", "--bursts", round(row.seconds / 0.045), "--body", row.body, "--start", row.start,
             "--seed", row.name, "--burst", "20-150", "--interval", "0.02-0.07", "--rate", "12"]
    name = row.round
    if name not in rounds.ROUNDS:
        path = pathlib.Path(directory) / "round"
        path.write_text(name)
        name = path
    return [*words, "--round", name, *row.server]


def guest_words(row):
    """Returns the row's own settings; gwmac=tap stands for the hardware address of the TAP device."""
    return [f"gwmac={machine.tap_mac()}" if word == "gwmac=tap" else word for word in row.settings]


def add_constant(host, control, key, number):
    """Adds a modulus to the running player's. Waits until the player searches for it. Returns that time in ns."""
    Client(control[0], key_from_text(key), control[1], timeout_s=5).set(f"m+={number}")
    host.wait_for(r"\d moduli are searched for")
    return time.time_ns()


def demanded(lines, constant, from_ns):
    """Returns the record without the answers for this modulus alone that were offered before the player knew it."""
    return [line for line in lines if line["kind"] != "answer" or line["constants"] != [constant]
            or line["ns"] > from_ns]


def until_over(host, game, seconds, disturb, grace_polls):
    """Waits until the last digits have been sent and answered. Returns the reason of an earlier end, or None.

    Calls `disturb`, if given, once some answers have been found."""
    end = time.monotonic() + BOOT_S_MAX + 10 * seconds
    while not (board := game.board())["over"]:
        if disturb and any(u["found"] >= DISTURBED_AFTER for u in board["users"]):
            disturb()
            disturb = None
        if host.process.poll() is not None:
            return "the machine ended before the game"
        if time.monotonic() > end:
            return "the game did not end"
        time.sleep(0.1)
    found = polls = 0                   # polls, not seconds: the machine may have stalled for some seconds
    while polls < grace_polls and not any(u["found"] == board["offered"] for u in board["users"]):
        time.sleep(0.1)
        board, polls = game.board(), polls + 1
        if (now := max((u["found"] for u in board["users"]), default=0)) > found:
            found, polls = now, 0
    return None


def play(row, accelerator):
    """Plays the row. Returns the reasons why it fails, the guest's log, and a line of figures."""
    key = "0x" + secrets.token_hex(32)
    problems = []
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="peregrine-row-"))
        switch = None
        if row.net == "tap":
            machine.set_up_namespace()
        elif row.net == "dpdk":
            switch = stack.enter_context(dpdk.Switch(directory))
        setup = machine.Setup(boot=row.boot, firmware=row.firmware, nic=row.nic, nic_more=row.nic_more,
                              net="vhost-user" if switch else row.net, socket=str(switch.socket) if switch else "",
                              cpus=row.cpus, memory=row.memory, lease=row.lease, stack=row.stack, module=row.module,
                              accelerator=accelerator)
        game = stack.enter_context(Game(setup.bind, server_words(row, directory)))
        contest_round = rounds.ROUNDS.get(row.round) or rounds.parse_round(row.round)
        endpoints = game.endpoints(setup.host)
        if row.front:
            front = {**foreign.FRONTS, **hostile.FRONTS}[row.front](setup.bind, game.ports, directory)
            endpoints = stack.enter_context(front).endpoints(setup.host)
        if row.lease:
            stack.enter_context(dhcp_server.DhcpServer(machine.TAP, machine.TAP_HOST, machine.TAP_GUEST))
        known_round = dataclasses.replace(contest_round, known=contest_round.known[:-1]) if row.added else contest_round
        settings = machine.settings_text(setup, known_round, endpoints, USER, key, guest_words(row))
        host, control = machine.start(setup, settings, directory)
        stack.enter_context(host)
        added_ns = []
        disturb = None
        if row.restart:
            disturb = switch.restart
        elif row.added:
            def disturb():
                added_ns.append(add_constant(host, control, key, contest_round.known[-1]))
        grace_polls = GRACE_POLLS_RESTARTED if row.restart else GRACE_POLLS
        if stopped := until_over(host, game, row.seconds, disturb, grace_polls):
            problems.append(stopped)
        statistics = ""
        if host.process.poll() is None:
            statistics, error = machine.send_gg(control, key)
            if error:
                problems.append(f"GG: {error}")
        try:
            host.wait_reset()
        except AssertionError as error:
            problems.append(str(error))
        if not table.report_of(row).search(host.log):
            problems.append(f"no self-report like {table.report_of(row).pattern!r}")
        if not re.search(f"TCP/IP stack {row.stack or 'linux'}", host.log):
            problems.append(f"the stack is another one than {row.stack or 'linux'}")
        lines = game.stop()
        log = host.log
    if not re.search(r"^slow\.01 \d+\.\d{6} [1-9]", statistics, re.MULTILINE):
        problems.append("no slowest answer is kept")
    if row.added:
        last = len(contest_round.known) - 1
        lines = demanded(lines, last, added_ns[0] if added_ns else time.time_ns())
        if not any(line["kind"] == "answer" and line["constants"] == [last] for line in lines):
            problems.append("no answer was offered for the modulus that was added")
    result = outcome(lines, USER)
    if len(result["offered"]) < row.offered_min:
        problems.append(f"only {len(result['offered'])} answers were offered: the row shows nothing")
    for kind in ("missed", "repeated", "wrong"):
        if result[kind]:
            problems.append(f"{kind}: {len(result[kind])}, the first {result[kind][0]}")
    latency = (result["summary"] or {}).get("latency_us", {})
    figures = (f"offered {len(result['offered'])}, submitted {len(result['submitted'])}, "
               f"p50 {latency.get('p50', 0):.0f} us, early {(result['summary'] or {}).get('early', 0)}")
    return problems, f"{log}\n--- statistics ---\n{statistics}", figures


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: row.py NAME [kvm]")
    row = table.row_named(sys.argv[1])
    problems, log, figures = play(row, sys.argv[2] if len(sys.argv) > 2 else "tcg")
    print(f"{row.name}: {figures}")
    if problems:
        sys.exit("\n".join([*problems, "--- the guest's log ---", log]))


if __name__ == "__main__":
    main()
