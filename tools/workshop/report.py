#!/usr/bin/env python3
"""Writes the pages' figures from docs/performance.json. Run by `make report`.

`make bench` writes build/bench/*.json: rows {"name", "unit", "n", "p50", "p99", "machine", "commit", "command"}. The
name of a row is a path, and its first part the family. A family that was measured again takes the place of its rows in
docs/performance.json, which is kept in the tree: the one source of every figure. From it come docs/performance.md,
which answers questions, docs/benchmarks.md, which lists the rows, the pictures, and the tables that README.md and the
programs' pages quote between marks.

Exit code: 0 written; 1 a file of rows is wrong, or a family is of two commits or machines; 2 wrong usage.
"""
import argparse
import json
import pathlib
import re
import sys
import textwrap
from dataclasses import dataclass

from workshop import figures
from command_line import add_version, until_enough

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHERS_MAX = 0.05       # processors busy with other work; less counts as an idle machine

# Each family of rows: how it is measured.
FAMILIES = {
    "net": "A hosted program: the kernel's driver over a model device in memory, a stack, the program; ring to ring. "
           "The least of several runs, in turn; each draws another secret.",
    "matcher": "A hosted program. A figure is taken over the least time of each burst in several runs.",
    "wire": "A probe outside the machine times a frame to its answer, or a burst to its POST. The machines run in QEMU "
            "without KVM, and the probe is their card (vhost-user).",
    "halfrtt": "An echo of that many bytes, back to back. `linux` is a program of the host over its loopback; the "
               "others are guests, from descriptor to descriptor.",
    "digest": "A hosted program beside public programs in the same run.",
    "balance": "Three hosted digests of unequal speed, with HAProxy and wrk on one machine.",
    "time": "A client outside the machine times a request to its response.",
    "roundtrip": "Seconds from `peregrine fly` to the first digit of a game: a Debian in QEMU without KVM, one boot.",
    "base": "Hosted programs on two cores.",
    "contest": "Measured by the contest server itself under load.",
    "instructions": "Counted by valgrind.",
    "coverage": "Lines and branches that `make coverage` reaches.",
}


class ReportError(Exception):
    pass


# ---- rows ----

def load(path):
    """Returns the rows of a file."""
    try:
        rows = json.loads(path.read_text())
    except ValueError as error:
        raise ReportError(f"{path}: not JSON: {error}") from None
    for row in rows:
        lacking = [key for key in ("name", "unit", "p50", "machine", "commit", "command") if key not in row]
        if lacking:
            raise ReportError(f"{path}: a row lacks {', '.join(lacking)}: {json.dumps(row)[:100]}")
    return rows


def family(row):
    return row["name"].split("/")[0]


def merge(kept, measured):
    """Returns the rows with each family that was measured in the place of what was kept of it."""
    again = {family(row) for row in measured}
    rows = [row for row in kept if family(row) not in again] + measured
    for name in FAMILIES:
        for what in ("commit", "machine"):
            found = sorted({row[what] for row in rows if family(row) == name})
            if len(found) > 1:
                raise ReportError(f"the rows of {name} are of more than one {what} ({', '.join(found)}); measure again")
    return sorted(rows, key=lambda row: list(FAMILIES).index(family(row)) if family(row) in FAMILIES else 99)


def figure(value):
    """Formats a number with three significant digits."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.1f}"


class Figures:
    """The rows by name."""

    def __init__(self, rows):
        self.rows = {row["name"]: row for row in rows}

    def median(self, name):
        """Formats a row's median; a dash if it was not measured, a star if the machine was not idle."""
        row = self.rows.get(name)
        if row is None:
            return "-"
        return figure(row["p50"]) + ("\\*" if row.get("others", 0) > OTHERS_MAX else "")

    def cell(self, name):
        row = self.rows.get(name)
        tail = f" ({figure(row['p99'])})" if row and row.get("p99") is not None else ""
        return self.median(name) + tail

    def times(self, slow, fast):
        """Formats how many times the first row's median is the second's."""
        return figure(round(self.rows[slow]["p50"] / self.rows[fast]["p50"], 1))

    def fill(self, text):
        """Returns the text with figures in the place of {row} and of {row / row}, without the sentences that name a row
        which is not measured."""
        place = re.compile(r"\{([^{}]+)\}")
        sentences = [sentence for sentence in re.split(r"(?<=\.) ", text)
                     if all(name in self.rows for names in place.findall(sentence) for name in names.split(" / "))]
        return place.sub(lambda match: self.times(*match[1].split(" / ")) if " / " in match[1]
                         else self.median(match[1]), " ".join(sentences))

    def sources(self, names):
        commits = {}
        for name in filter(self.rows.__contains__, names):
            commits.setdefault(self.rows[name]["machine"], {})[self.rows[name]["commit"]] = None
        found = [f"{', '.join(commits[machine])} on {machine}" for machine in commits]
        return f"Measured at commit {'; '.join(found)}." if found else "Not measured on the newest code yet."


# ---- tables ----

@dataclass
class Table:
    """Lines of (label, unit, a row's name for each column; "": none)."""
    columns: tuple
    lines: tuple

    def names(self):
        return [name for _, _, *names in self.lines for name in names if name]

    def text(self, found, write=Figures.cell):
        return "\n".join([f"| | unit | {' | '.join(self.columns)} |", "|---|---|" + "--:|" * len(self.columns)]
                         + [f"| {label} | {unit} | {' | '.join(write(found, name) if name else '' for name in names)} |"
                            for label, unit, *names in self.lines])


SYSTEMS = {"own": "own stack", "lwip": "lwIP", "guest": "Linux guest"}


def wire(protocol, gap, systems=SYSTEMS):
    return [f"wire/vhost-user/{system}/{protocol}/{gap}ms" for system in systems]


def net(row):
    return [f"net/{stack}/{row}" for stack in ("own", "lwip")]


FIRST_SCREEN = Table(tuple(SYSTEMS.values()), tuple((label, "us", *wire(protocol, 10)) for label, protocol in (
    ("first answer after a pause: burst to POST", "burst"), ("echo over UDP", "udp"), ("echo over TCP", "tcp"))))
TRADE = Table(("own stack", "lwIP"), (
    ("`trade warm`: a datagram in the ring to the order's frame", "ns", *net("trade")),
    ("its p99.9 (p99.99)", "ns", *net("trade/single/tail")),
    ("`trade rested`: the same after 2 ms of rest", "ns", *net("trade/rested")),
    ("`trade-bulk warm`: a message of 40 full datagrams", "ns", *net("trade-bulk")),
    ("`trade-rate`: 64 symbols, 10^5 messages a second: a datagram to the book", "ns", *net("trade-rate")),
    ("datagrams lost of these", "", *net("trade-rate/lost"))))
CARDS = {"virtio": "virtio-net", "gqi-lists": "gVNIC, GQI, page lists", "gqi-raw": "GQI, raw", "dqo-raw": "DQO, raw"}
CARD = Table(tuple(CARDS.values()), tuple((label, "ns", *(f"net/{card}/{row}" for card in CARDS)) for label, row in (
    ("a frame in the ring to the stack", "receive"), ("a frame from the stack to the ring", "send"))))
QUOTED = {"README.md": ("first-screen", FIRST_SCREEN), "app/trade/README.md": ("trade", TRADE),
          "tests/gve/README.md": ("cards", CARD)}


# ---- questions ----

@dataclass
class Question:
    """A question; its answer, in which {row} is that row's median and {row / row} the ratio of two; its table; the
    command that measures the table; a picture's file."""
    title: str
    answer: str
    table: Table
    command: str
    picture: str = ""


WIRE_PROBE = "tools/wire_probe.py --wire vhost-user own lwip guest tuned"
TRADERS = {**SYSTEMS, "tuned": "tuned Linux guest"}
QUESTIONS = (
    Question("How long does an answer take, from the burst to its POST?",
             "{wire/vhost-user/own/burst/1ms} us on the wire, where lwIP takes {wire/vhost-user/lwip/burst/1ms} and "
             "a Linux guest {wire/vhost-user/guest/burst/1ms}. Between the card's rings it is "
             "{net/own/burst-to-post} ns.",
             Table(tuple(SYSTEMS.values()), (("on the wire, a burst each 1 ms", "us", *wire("burst", 1)),
                                             ("ring to ring, warm", "ns", *net("burst-to-post"), ""))), WIRE_PROBE),
    Question("And the first one after a pause?",
             "{wire/vhost-user/own/burst/10ms} us after 10 ms. Linux takes {wire/vhost-user/guest/burst/10ms / "
             "wire/vhost-user/own/burst/10ms} times as long, lwIP {wire/vhost-user/lwip/burst/10ms / "
             "wire/vhost-user/own/burst/10ms} times: idle time rehearses what comes.",
             Table(tuple(SYSTEMS.values()), (
                 ("on the wire, a burst each 10 ms", "us", *wire("burst", 10)),
                 ("ring to ring, rested for 2 ms", "ns", *net("burst-to-post/rested"), ""),
                 ("ring to ring, 64 MB walked through", "ns", *net("burst-to-post/cold"), ""))), WIRE_PROBE,
             "performance-pause.svg"),
    Question("How long does an echo take?",
             "{wire/vhost-user/own/udp/10ms} us over UDP and {wire/vhost-user/own/tcp/10ms} over TCP after 10 ms. A "
             "Linux guest takes {wire/vhost-user/guest/udp/10ms} and {wire/vhost-user/guest/tcp/10ms}.",
             Table(tuple(SYSTEMS.values()), tuple(
                 (f"{name}, {gap} ms", "us", *wire(protocol, gap))
                 for name, protocol in (("UDP", "udp"), ("TCP", "tcp"), ("ping", "icmp")) for gap in (1, 10))),
             WIRE_PROBE),
    Question("How does the time grow with the size?",
             "Half a round trip of 4 bytes takes {halfrtt/own/udp/4} us over UDP, of 1,024 bytes "
             "{halfrtt/own/udp/1024}.",
             Table((*SYSTEMS.values(), "Linux, host"), tuple(
                 (f"{protocol.upper()}, {size} bytes", "us",
                  *(f"halfrtt/{system}/{protocol}/{size}" for system in (*SYSTEMS, "linux")))
                 for protocol in ("udp", "tcp") for size in (4, 64, 256, 1024))),
             "tools/wire_probe.py --table own lwip guest linux", "performance-half-round-trips.svg"),
    Question("How long is the way from a tick to an order?",
             "{wire/vhost-user/own/trade/10ms} us on the wire after 10 ms, {wire/vhost-user/own/trade/1ms} after 1 ms. "
             "The same program takes "
             "{wire/vhost-user/tuned/trade/10ms} and {wire/vhost-user/tuned/trade/1ms} on sockets that it polls "
             "(`recvmmsg`, `SO_BUSY_POLL`, `TCP_NODELAY`), in a Linux guest that is set up for it.",
             Table(tuple(TRADERS.values()), (
                 *((f"on the wire, a tick each {gap} ms", "us", *wire("trade", gap, TRADERS)) for gap in (1, 10)),
                 *((label, unit, *names, "", "") for label, unit, *names in TRADE.lines))), WIRE_PROBE),
    Question("How many digits a second does the matcher search?",
             "A digit takes {matcher/online/avx2/1000/warm} ns on one core with AVX2: the contest's moduli, N = 256, "
             "bursts of 1,000.",
             Table(("AVX-512", "AVX2", "scalar"), tuple(
                 (f"bursts of {burst:,}", "ns/digit",
                  *(f"matcher/online/{simd}/{burst}/warm" for simd in ("avx512", "avx2", "scalar")))
                 for burst in (32, 100, 256, 1000))), "make bench-matcher"),
    Question("What does a second CPU give?",
             "The digest answers {digest/cpus-2/rounds-1000/64 / digest/cpus-1/rounds-1000/64} times as many "
             "requests, and short ones no longer wait for long ones.",
             Table(("1 CPU", "2 CPUs", "Go, 1 CPU", "Go, 2 CPUs"), (
                 ("requests of 1,000 rounds", "requests/s", "digest/cpus-1/rounds-1000/64",
                  "digest/cpus-2/rounds-1000/64", "digest/cpus-1/go/rounds-1000/64", "digest/cpus-2/go/rounds-1000/64"),
                 ("a short request beside long ones, p50", "us", "digest/cpus-1/rounds-1-beside-long/p50",
                  "digest/cpus-2/rounds-1-beside-long/p50", "", ""),
                 ("bytes hashed by mercha", "MB/s", "digest/cpus-1/mercha", "digest/cpus-2/mercha", "", ""))),
             "make bench-digest", "performance-second-cpu.svg"),
    Question("How many requests a second does a small server take?",
             "{time/kernel/requests} of NTP, {time/kernel/requests / time/chronyd/requests} times chronyd's on this "
             "machine.",
             Table(("kernel", "chronyd"), (("NTP requests", "1/s", "time/kernel/requests", "time/chronyd/requests"),
                                           ("one request", "us", "time/kernel/request", "time/chronyd/request"))),
             "make bench-time"),
    Question("How long is the way from Linux to the kernel?",
             "{roundtrip/grub/bios/fly-to-playing} s by GRUB and {roundtrip/kexec/kexec/fly-to-playing} s by kexec, "
             "under QEMU's slow emulation. Most of it is the end of Linux.",
             Table(("from `fly` to the first digit",), tuple(
                 (name, "s", f"roundtrip/{row}/fly-to-playing") for name, row in (
                     ("Debian 12, BIOS, GRUB", "grub/bios"), ("Debian 12, UEFI, GRUB", "grub/uefi"),
                     ("Debian 13, BIOS, GRUB", "grub/trixie-bios"), ("Debian 13, UEFI, GRUB", "grub/trixie-uefi"),
                     ("kexec", "kexec/kexec"), ("systemd-boot, kexec", "kexec/systemd-boot")))),
             "make check-roundtrip"),
    Question("What does a capture cost?",
             "An answer takes {net/own/burst-to-post/captured} ns instead of {net/own/burst-to-post} while 128 bytes "
             "of each frame are kept.",
             Table(("without", "with"), tuple(
                 (name, "ns", f"net/own/{row}", f"net/own/{row}/captured") for name, row in (
                     ("burst to POST", "burst-to-post"), ("segment in", "segment-in"), ("answer out", "answer-out")))),
             "make bench-net"),
)


# ---- pages ----

def performance(found):
    parts = ["# Performance", "", "<!-- Written by `make report` from docs/performance.json. Do not edit. -->", "",
             "`28 (31)`: the median is 28, the 99th percentile 31. Each question names the command that measures it.",
             f"A star says that other work took more than {OTHERS_MAX:.0%} of a processor. A dash: not measured.",
             "[benchmarks.md](benchmarks.md) lists all rows; [performance.json](performance.json) has their figures.",
             "All machines here are virtual, without KVM for guests: what counts is the ratio in one row.", ""]
    for question in QUESTIONS:
        answer = textwrap.fill(found.fill(question.answer), 118)
        parts += [f"## {question.title}", "", answer, ""]
        parts += [f"![{question.title}]({question.picture})", ""] if question.picture else []
        source = f"`{question.command}`. {found.sources(question.table.names())}"
        parts += [question.table.text(found), "", textwrap.fill(source, 118, break_on_hyphens=False), ""]
    return "\n".join(parts).rstrip() + "\n"


def benchmarks(found):
    parts = ["# Benchmarks", "", "<!-- Written by `make report` from docs/performance.json. Do not edit. -->", "",
             "Every row of [performance.json](performance.json), by family. A row has its median, its 99th percentile,",
             "its spread over the runs, the count of samples, and the command that measured it. `make bench` measures",
             "again.", ""]
    for name, how in FAMILIES.items():
        rows = [row for row in found.rows.values() if family(row) == name]
        if not rows:
            continue
        parts += [f"## {name}", "", textwrap.fill(how, 118), "", f"{found.sources([row['name'] for row in rows])}", ""]
        groups = {}
        for row in rows:
            path = row["name"].split("/")[1:]
            groups.setdefault((path[0], row["unit"]), []).append("/".join(path[1:]))
        for (first, unit), others in groups.items():
            names = " ".join(f"{first}/{rest}" if rest else first for rest in others)
            parts += [f"In {unit}:", "", "```", textwrap.fill(names, 118, break_on_hyphens=False), "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def quote(page, mark, text):
    """Returns the page with the text between the marks of its figures."""
    begin, end = f"<!-- figures: {mark}, made by `make report` -->\n", "<!-- figures: end -->"
    if begin not in page:
        raise ReportError(f"a page lacks the mark {begin.strip()}")
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + text + "\n" + end, page, flags=re.S)


def write(rows, root):
    found = Figures(rows)
    (root / "docs/performance.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    (root / "docs/performance.md").write_text(performance(found))
    (root / "docs/benchmarks.md").write_text(benchmarks(found))
    for name, (mark, table) in QUOTED.items():
        text = f"{table.text(found)}\n\n{found.sources(table.names())}"
        (root / name).write_text(quote((root / name).read_text(), mark, text))
    figures.draw(rows, root / "docs")


def main(words=None):
    parser = argparse.ArgumentParser(prog="report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/bench", help="folder of new rows")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the tree whose pages are written")
    add_version(parser)
    options = parser.parse_args(words)
    kept = options.root / "docs/performance.json"
    try:
        measured = [row for path in sorted(options.bench.glob("*.json")) for row in load(path)]
        rows = merge(load(kept) if kept.exists() else [], measured)
        if not rows:
            raise ReportError(f"{options.bench}: no rows; `make bench` writes them")
        write(rows, options.root)
    except ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(f"report: {len(measured)} rows measured, {len(rows)} in all: {options.root / 'docs/performance.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(until_enough(main))
