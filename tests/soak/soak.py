"""The soak: a game for hours over a faulty network. `make soak HOURS=1` runs this program.

The kernel plays in QEMU at some ten answers a second. The wire loses, repeats and delays frames. The server closes both
connections now and then, is killed and comes back. The lease moves to another address. Strangers flood the guest and
forge GG.

Exits with 0 if no answer was lost while the player was connected, and none was wrong or repeated. Pools and memory must
not grow, and the guest may obey no forged command. Prints a line a minute; writes build/bench/soak.json."""
import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import time

from servers.contest import record, rounds
from deploy import control
from tests.e2e import dhcp_server
from tests.soak import faulty_run, faulty_wire
from workshop.vm import machine
from workshop.vm.game import Game, outcome

USER = "peregrine"
LEASES = ("10.77.0.2", "10.77.0.3")
PORT_BASE = 10000                           # all ports are free in the network namespace
S_NS = 10**9
BEFORE_NS, AFTER_NS = 1 * S_NS, 1 * S_NS    # around a break by this program; answers may be lost then
FLOOD_RATE = 1000
RECONNECT_S_MEDIAN, RECONNECT_S_MAX = 0.5, 2.5  # the server refuses for 0.1 s; a dropped SYN costs 1 s
EARLY_RISK = "1e-12"                        # at 1e-5 a burst, one is wrong in three hours


class Soak(faulty_run.FaultyRun):
    close_after, settings = 97, ()              # bursts between two closes by the server; more words for the guest

    def __init__(self, seconds, directory, tools):
        super().__init__(seconds, directory, tools, "soak")
        self.cycle_s = min(300.0, max(24.0, seconds / 3))
        self.records = []
        self.restarts = self.leases = self.floods = self.forged = 0
        self.dhcp = tools.enter_context(dhcp_server.DhcpServer(
            machine.TAP, machine.TAP_HOST, LEASES[0], mask="255.255.255.0", lease_s=20 if seconds > 60 else 6))
        self.game = self.new_game()
        words = ["wait=sleep", "server.timeout=60", f"early.risk={EARLY_RISK}", *self.settings]
        self.start_guest(machine.settings_text(machine.Setup(net="tap", lease=True), rounds.ROUNDS["online"],
                                               self.game.endpoints(machine.TAP_HOST), USER, self.key, words))

    @property
    def guest_address(self):
        return self.dhcp.guest

    def new_game(self):
        words = ["--begin", "now", "--round", "online", "--seed", f"soak-{self.restarts}", "--burst", "50-300",
                 "--interval", "0.05-0.15", "--rate", "16", "--close-after", str(self.close_after),
                 "--close-for", "0.1"]
        return Game(machine.TAP_HOST, words, PORT_BASE)

    # ---- the faults

    def schedule(self):
        cycle, number = self.cycle_s, 0
        flood_s = min(10.0, cycle * 0.08)
        while (start := 4 + number * cycle) < self.seconds:
            kinds = [faulty_wire.FLOODS[(2 * number + i) % len(faulty_wire.FLOODS)] for i in (0, 1)]
            yield start + 0.05 * cycle, lambda: self.set_faulty(True)
            yield start + 0.30 * cycle, lambda: self.set_faulty(False)
            yield start + 0.35 * cycle, lambda kind=kinds[0]: self.begin_flood(kind)
            yield start + 0.35 * cycle + flood_s, self.end_flood
            yield start + 0.50 * cycle, self.restart_server
            yield start + 0.62 * cycle, self.forge_gg
            yield start + 0.70 * cycle, self.move_lease
            yield start + 0.84 * cycle, lambda kind=kinds[1]: (self.set_faulty(True), self.begin_flood(kind))
            yield start + 0.84 * cycle + flood_s, lambda: (self.set_faulty(False), self.end_flood())
            number += 1

    def begin_flood(self, kind):
        self.floods += 1
        self.wire.flood = (kind, FLOOD_RATE, socket.inet_aton(self.dhcp.guest))

    def end_flood(self):
        self.wire.flood = None

    def end_faults(self):
        super().end_faults()
        self.end_flood()

    def restart_server(self):
        killed_ns = time.time_ns()
        self.game.process.kill()
        self.game.process.wait(60)
        self.keep_record(until_ns=killed_ns)
        self.restarts += 1
        time.sleep(0.5)
        self.game = self.new_game()

    def keep_record(self, until_ns):
        """Keeps the record of the server that was killed, without a last line that was cut."""
        text = self.game.record_path.read_bytes()
        self.game.record_path.write_bytes(text[:text.rfind(b"\n") + 1])
        self.records.append((record.read(self.game.record_path), until_ns))
        self.game.close()

    def forge_gg(self):
        self.forged += 1
        with contextlib.suppress(control.ControlError):
            self.client(key="another key of strangers", timeout_s=0.3).gg()
            self.problems.append("a forged GG was answered")

    def move_lease(self):
        """Refuses the next renewal: the guest gets another address."""
        self.leases += 1
        self.dhcp.guest = LEASES[self.leases % 2]

    def line(self):
        values = self.samples[-1][1] if self.samples else {}
        board = {}
        with contextlib.suppress(OSError, ValueError):
            board = self.game.board()
        user = next(iter(board.get("users", [])), {})
        return (f"offered {board.get('offered')} and found {user.get('found')} since restart {self.restarts}, answers "
                f"{values.get('player.answers')}, leases {self.leases}, floods {self.floods}, forged GG {self.forged}, "
                f"send queue {values.get('pool.send_queue_bytes_used')} bytes, buffers free "
                f"{values.get('pool.tx_buffers_free')} and {values.get('pool.rx_buffers_free')}, QEMU "
                f"{values.get('rss', 0) >> 20} MiB")

    def end(self):
        """Ends guest and server; keeps the last record."""
        left_ns = time.time_ns()
        self.send_home()
        lines = self.game.stop()
        self.records.append((lines, left_ns))
        self.game.close()

    # ---- the verdict

    def breaks_of(self, lines, until_ns):
        """Returns the times (from, to) in ns during which this program had cut off the player of this server."""
        opened = [line["ns"] for line in lines if line["kind"] == "feed-open" and "ns" in line]
        found = [(until_ns - BEFORE_NS, time.time_ns())]
        for refused_ns in self.dhcp.refused_ns:
            again = min((ns for ns in opened if ns > refused_ns), default=refused_ns + 10 * S_NS)
            found.append((refused_ns - BEFORE_NS, again + AFTER_NS))
        return found

    def evaluate(self):
        """Returns the figures. Adds to the problems."""
        figures = {"offered": 0, "submitted": 0, "missed": 0, "wrong": 0, "repeated": 0, "late": 0, "cut": 0,
                   "again": 0, "stale": 0}
        first, before = {}, set()       # `before`: submitted to an earlier server; the player submits no answer twice
        for lines, until_ns in self.records:
            result = outcome(lines, USER)
            cut = self.digits_cut(lines, until_ns)
            missed = [digits for digits in result["missed"] if digits not in cut and digits not in before]
            figures["again"] += len(before.intersection(result["missed"]) - cut)
            before.update(result["submitted"])
            wrong = [line for line in result["wrong"] if line["ns"] > self.stale_until(lines)]
            figures["stale"] += len(result["wrong"]) - len(wrong)
            late = [line for line in lines if line["kind"] == "submission" and line["verdict"].startswith("late")
                    and line["digits"] not in cut]
            for name, found in (("missed", missed), ("wrong", wrong), ("repeated", result["repeated"]),
                                ("late", late)):
                figures[name] += len(found)
                if found:
                    first.setdefault(name, found[0])
            figures["offered"] += len(result["offered"])
            figures["submitted"] += len(result["submitted"])
            figures["cut"] += len(cut)
        self.problems += [f"{name}: {figures[name]}, the first {each}" for name, each in first.items()]
        return figures

    def stale_until(self, lines):
        """Returns the time in ns until which this server may get answers to digits of the killed server before it."""
        if lines is self.records[0][0]:
            return 0
        return min((line["ns"] for line in lines if line["kind"] == "feed-open"), default=0) + AFTER_NS

    def digits_cut(self, lines, until_ns):
        """Returns the answers that were in transit during one of this program's breaks."""
        bursts = sorted((line["position"], line["ns"]) for line in lines if line["kind"] == "burst")
        spans = self.breaks_of(lines, until_ns)
        ends = {}
        at = 0
        for line in sorted((line for line in lines if line["kind"] == "answer"), key=lambda line: line["end"]):
            while at + 1 < len(bursts) and bursts[at + 1][0] < line["end"]:
                at += 1
            begun = max((ns for position, ns in bursts[max(0, at - 30):at + 1] if position <= line["start"]),
                        default=bursts[max(0, at - 30)][1])
            ends[line["digits"]] = (begun, bursts[at][1])
        return {digits for digits, (begun, ended) in ends.items()
                if any(begun <= to and ended >= since for since, to in spans)}

    def check_samples(self):
        """Checks the player's figures, too, and if no forged command was refused."""
        if not super().check_samples():
            return False
        last = self.samples[-1][1]
        if last["pool.send_queue_bytes_used"]:
            self.problems.append(f"the send queue holds {last['pool.send_queue_bytes_used']} bytes at the end")
        if self.forged and not last["control.drop_mac"]:
            self.problems.append("no forged command was refused")
        if last["submit.dropped_no_room"]:
            self.problems.append("answers were dropped for want of room")
        return True

    def keep(self):
        for number, (lines, _) in enumerate(self.records):
            path = faulty_run.KEPT / f"record-{number}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")


class Reconnect(Soak):
    """Strangers' frames all the time, while the server, a neighbour that is no gateway, closes its connections.

    Each stranger's frame comes from another address of the link. The guest's answers must not evict the server's entry
    from the ARP table. Forged ARP replies claim the server's address."""
    close_after, settings = 15, (f"ip={LEASES[0]}/24",)

    def schedule(self):
        kinds = ("syn", "ping", "arp", "claim")
        for number, kind in enumerate(kinds):
            yield 3 + number * (self.seconds - 3) / len(kinds), lambda kind=kind: self.begin_flood(kind)

    def evaluate(self):
        figures = super().evaluate()
        gaps = gaps_s(self.records)
        if len(gaps) < 4 or statistics.median(gaps) > RECONNECT_S_MEDIAN or gaps[-1] > RECONNECT_S_MAX:
            self.problems.append(f"connections again after {[f'{gap:.2f}' for gap in gaps]} s")
        return figures


def gaps_s(records):
    """Returns the seconds from each close by the server to the player's next input connection, sorted."""
    gaps = []
    for lines, _ in records:
        closed = None
        for line in lines:
            if line["kind"] == "feed-close":
                closed = line.get("ns")
            elif line["kind"] == "feed-open" and closed:
                gaps.append((line["ns"] - closed) / S_NS)
                closed = None
    return sorted(gaps)


def write(soak, figures, gaps, command):
    more = {**figures, "restarts": soak.restarts, "leases": len(soak.dhcp.refused_ns), "floods": soak.floods,
            "forged_gg": soak.forged, **soak.figures(("pool.", "clock.", "session."))}
    soak.rows("soak").keep("soak/reconnect", "s", len(gaps), gaps[len(gaps) // 2] if gaps else None,
                           gaps[min(len(gaps) - 1, len(gaps) * 99 // 100)] if gaps else None, command, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--reconnect", action="store_true", help="only closes by the server under strangers' frames")
    parser.add_argument("--inside", action="store_true", help="the network namespace is there already")
    options = parser.parse_args()
    if not options.inside:
        os.execvp("unshare", [*machine.unshare_words(), sys.executable, __file__, *sys.argv[1:], "--inside"])
    soak, figures = faulty_run.run(Reconnect if options.reconnect else Soak, options.seconds)
    gaps = gaps_s(soak.records)
    if not options.reconnect:
        write(soak, figures, gaps, f"make soak SECONDS={options.seconds:g}")
    print("soak: " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    if gaps:
        print(f"soak: {len(gaps)} connections again after {gaps[len(gaps) // 2]:.3f} s at the median, "
              f"{gaps[-1]:.3f} s at most")
    sys.exit(soak.report())


if __name__ == "__main__":
    main()
