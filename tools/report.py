#!/usr/bin/env python3
"""Writes docs/performance.md and its plots from build/bench/*.json. Run by `make report`.

Every file holds rows {"name", "unit", "n", "p50", "p99", "machine", "commit", "command"}. The page is about one commit
on one machine: files of another commit or machine are refused by name, unless --mixed says that each table may name its
own. A row's name is a path; its first part chooses the table.

Exit code: 0 written; 1 nothing to report, or the files do not belong together; 2 wrong usage.
"""
import argparse
import json
import pathlib
import re
import sys

import figures
from command_line import add_version

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Tables in the order of the page. Each has the first part of a row's name, a heading, a sentence on how it is measured,
# and the parts of a name that become columns.
SECTIONS = (
    ("net", "The network, ring to ring",
     "A hosted program: the kernel's driver over a model device in memory, a stack, the player.\n"
     "A figure is the least of several runs, and the stacks take turns. A sample of a short row is the mean of\n"
     "several events (tests/bench/bench_net.c).", ("own", "lwip")),
    ("matcher", "The matcher",
     "A hosted program. A figure is taken over the least time of each burst in several runs.",
     ("avx512", "avx2", "scalar")),
    ("wire", "On the wire", "A probe outside the machine times a frame to its answer, or a burst to its POST.",
     ("own", "lwip", "guest")),
    ("halfrtt", "Half round trips",
     "An echo of that many bytes, back to back. `linux` is a program of the host, over its loopback and its sockets;\n"
     "the others are guests, from descriptor to descriptor.", ("own", "lwip", "guest", "linux")),
    ("digest", "The digest program", "A hosted program on one core, beside public programs in the same run.", ()),
    ("balance", "Several machines behind HAProxy",
     "Three hosted digests of unequal speed, with HAProxy and wrk on one machine ([balance.md](balance.md)).\n"
     "The first part of a row's name is wrk's count of connections.", ()),
    ("time", "The time program", "A client outside the machine times a request to its response.",
     ("kernel", "chronyd")),
    ("roundtrip", "From Linux to the kernel",
     "Seconds from `peregrine fly` to the first digit of a game: a Debian in QEMU under TCG, one boot each.\n"
     "A busy machine gives upper bounds; rows of one load can be compared.", ()),
    ("base", "The leaf modules", "Hosted programs on two cores.", ()),
    ("contest", "The contest server", "Measured by the server itself under load.", ()),
    ("instructions", "Instructions", "Counted by valgrind; they do not depend on the machine's load.", ()),
    ("coverage", "Coverage", "Lines and branches that `make coverage` reaches, by folder.", ()),
)
EXPLAINED = {"warm": "bursts follow each other", "cold": "64 MB are walked through between two bursts",
             "rested": "the processor did other work for milliseconds between two bursts"}
OTHERS_MAX = 0.05       # processors busy with other work; less counts as an idle machine


class ReportError(Exception):
    pass


def load(folder):
    """Returns all rows of the folder's files, each with its file's name under "file"."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        try:
            found = json.loads(path.read_text())
        except ValueError as error:
            raise ReportError(f"{path}: not JSON: {error}") from None
        for row in found:
            lacking = [key for key in ("name", "unit", "p50", "machine", "commit", "command") if key not in row]
            if lacking:
                raise ReportError(f"{path}: a row lacks {', '.join(lacking)}: {json.dumps(row)[:100]}")
            rows.append({**row, "file": path.name})
    if not rows:
        raise ReportError(f"{folder}: no rows; `make bench` writes them")
    return rows


def check_together(rows):
    """Refuses rows of more than one commit or machine."""
    for what in ("commit", "machine"):
        found = {}
        for row in rows:
            found.setdefault(row[what], set()).add(row["file"])
        if len(found) > 1:
            values = "; ".join(f"{value}: {', '.join(sorted(files))}" for value, files in sorted(found.items()))
            raise ReportError(f"the files are of more than one {what} ({values}); measure again or say --mixed")


def figure(value):
    """Formats a number with three significant digits."""
    if value is None:
        return ""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.1f}"


def cell(row):
    """Formats a row's figures: the median, the 99th percentile, the spread, a star if the machine was not idle."""
    text = figure(row["p50"])
    text += f" ({figure(row['p99'])})" if row.get("p99") is not None else ""
    text += f" ±{figure(row['spread'])}" if row.get("spread") else ""
    return text + ("\\*" if row.get("others", 0) > OTHERS_MAX else "")


def table(rows, columns):
    """Returns the table: rows whose names differ only in a part that is one of the columns share a line."""
    lines = {}
    for row in rows:
        parts = row["name"].split("/")[1:]
        column = next((part for part in parts if part in columns), "")
        label = "/".join(part for part in parts if part != column)
        lines.setdefault((label, row["unit"]), {})[column] = row
    shown = [column for column in ("", *columns) if any(column in line for line in lines.values())]
    return "\n".join([f"| row | unit | {' | '.join(shown)} | n |".replace("|  |", "| p50 (p99) |"),
                      f"|---|---|{'--:|' * len(shown)}--:|"]
                     + [f"| {label} | {unit} | {' | '.join(cell(line[c]) if c in line else '' for c in shown)} | "
                        f"{'/'.join(dict.fromkeys(str(row['n']) for row in line.values() if 'n' in row))} |"
                        for (label, unit), line in lines.items()])


def sources(rows):
    """Returns a sentence on the commits and machines of rows that may be of several."""
    found = dict.fromkeys(f"commit {row['commit']} on {row['machine']}" for row in rows)
    return f"Measured at {'; '.join(found)}."


def series(rows):
    """Returns the rows that a plot can show: {title: [(label, p50, p99)]}, one plot for each unit."""
    plots = {}
    for row in rows:
        plots.setdefault(row["unit"], []).append((row["name"].split("/", 1)[-1], row["p50"], row.get("p99")))
    return {unit: bars for unit, bars in plots.items() if 2 <= len(bars) <= 60}


def plot(path, title, unit, bars):
    """Draws horizontal bars, p50 solid, p99 a line to the right. The axis is logarithmic if figures span a decade."""
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams["svg.hashsalt"] = "peregrine"         # equal rows give an equal file
    labels, p50, p99 = zip(*bars)
    drawn, axes = plt.subplots(figsize=(8, 0.8 + 0.22 * len(bars)))
    places = range(len(bars))
    axes.barh(places, p50, height=0.6, color="#0072b2", label="p50")
    for place, low, high in zip(places, p50, p99):
        if high is not None and high > low:
            axes.plot([low, high], [place, place], color="#d55e00", linewidth=1.5, marker="|",
                      label="to p99" if place == 0 else None)
    axes.set_yticks(list(places), labels, fontsize=7)
    axes.invert_yaxis()
    positive = [value for value in (*p50, *(v for v in p99 if v is not None)) if value > 0]
    if positive and max(positive) > 10 * min(positive):
        axes.set_xscale("log")
    axes.set_xlabel(unit, fontsize=8)
    axes.set_title(title, fontsize=9, loc="left")
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    drawn.tight_layout()
    drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(drawn)


def page(rows, plots_folder, with_source, note=""):
    """Returns the page's text; writes the plots beside it."""
    parts = ["# Performance", "",
             "<!-- Written by `make report` from build/bench/*.json. Do not edit: run `make bench report`. -->", ""]
    if not with_source:
        parts += [f"Commit {rows[0]['commit']} on {rows[0]['machine']}.", ""]
    parts += [note, ""] if note else []
    parts += ["`28 (31) ±2`: the median is 28, the 99th percentile 31; the medians of the runs lie within 2.",
              f"`n` is the number of samples. A star says that other work took more than {OTHERS_MAX:.0%}",
              "of a processor meanwhile. Each table names its first row's command; the JSON files have all.", ""]
    known = {section[0] for section in SECTIONS}
    others = sorted({row["name"].split("/")[0] for row in rows} - known)
    for name, heading, how, columns in (*SECTIONS, *((other, other, "", ()) for other in others)):
        chosen = [row for row in rows if row["name"].split("/")[0] == name]
        if not chosen:
            continue
        parts += [f"## {heading}", "", how, f"Command: `{chosen[0]['command']}`", ""]
        steps = {row["clock_step_ns"] for row in chosen if "clock_step_ns" in row}
        parts += [f"The clock steps by {figure(max(steps))} ns.", ""] if steps else []
        parts += [sources(chosen), ""] if with_source else []
        kinds = {part for row in chosen for part in row["name"].split("/")}
        parts += [f"- `{kind}`: {text}" for kind, text in EXPLAINED.items() if kind in kinds]
        parts += [""] if parts[-1].startswith("- ") else []
        for unit, bars in series(chosen).items():
            file = f"performance-{name}-{re.sub('[^a-z]+', '-', unit.lower()).strip('-') or 'share'}.svg"
            plot(plots_folder / file, heading, unit, bars)
            parts += [f"![{heading}, {unit}]({file})", ""]
        parts += [table(chosen, columns), ""]
    return "\n".join(parts).rstrip() + "\n"


def main(words=None):
    parser = argparse.ArgumentParser(prog="report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/bench", help="folder of the JSON files")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--mixed", action="store_true",
                        help="rows of several commits or machines; each table names them")
    parser.add_argument("--note", default="", help="a sentence under the heading, such as what else the machine did")
    add_version(parser)
    options = parser.parse_args(words)
    try:
        rows = load(options.bench)
        if not options.mixed:
            check_together(rows)
        for old in options.out.parent.glob("performance-*.svg"):
            old.unlink()
        options.out.write_text(page(rows, options.out.parent, options.mixed, options.note))
    except ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    figures.draw(rows, options.out.parent)
    print(f"report: {options.out}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
