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

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Tables in the order of the page: the first part of a row's name, a heading, and one sentence on how it is measured.
SECTIONS = (
    ("net", "The network, ring to ring",
     "A hosted program: the kernel's driver over a model device in memory, a stack, the player.\n"
     "A figure is the least of several runs, and the stacks take turns."),
    ("matcher", "The matcher",
     "A hosted program. A figure is taken over the least time of each burst in several runs."),
    ("wire", "On the wire", "A probe outside the machine times a frame to its answer, or a burst to its POST."),
    ("digest", "The digest program", "A hosted program on one core, beside public programs in the same run."),
    ("time", "The time program", "A client outside the machine times a request to its response."),
    ("roundtrip", "From Linux to the kernel",
     "Seconds from `peregrine fly` to the first digit of a game: a Debian in QEMU under TCG, one flight each.\n"
     "A busy machine gives upper bounds; rows of one load can be compared."),
    ("base", "The leaf modules", "Hosted programs on two cores."),
    ("contest", "The contest server", "Measured by the server itself under load."),
    ("instructions", "Instructions", "Counted by valgrind; they do not depend on the machine's load."),
    ("coverage", "Coverage", "Lines and branches that `make coverage` reaches, by folder."),
)
EXPLAINED = {"warm": "bursts follow each other", "cold": "64 MB are walked through between two bursts",
             "rested": "the processor did other work for milliseconds between two bursts"}


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
            told = "; ".join(f"{value}: {', '.join(sorted(files))}" for value, files in sorted(found.items()))
            raise ReportError(f"the files are of more than one {what} ({told}); measure again or say --mixed")


def figure(value):
    """Formats a number with three significant digits."""
    if value is None:
        return ""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.1f}"


def table(rows, with_source):
    lines = ["| row | unit | p50 | p99 | spread | n | command |", "|---|---|--:|--:|--:|--:|---|"]
    for row in rows:
        source = f" ({row['commit']}, {row['machine']})" if with_source else ""
        command = row["command"].replace("|", "\\|")
        lines.append(f"| {row['name']} | {row['unit']} | {figure(row['p50'])} | {figure(row.get('p99'))} | "
                     f"{figure(row.get('spread'))} | {row.get('n', '')} | `{command}`{source} |")
    return "\n".join(lines)


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
    plt.rcParams["svg.hashsalt"] = "peregrine"         # the same rows give the same file
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
        parts += [f"Commit {rows[0]['commit']} on {rows[0]['machine']}. Each row names the command that measures it.",
                  ""]
    parts += [note, ""] if note else []
    parts += ["`p50` and `p99` are the median and the 99th percentile, `n` the number of samples, `spread` the largest",
              "median of the runs less the least.", ""]
    known = {name for name, *_ in SECTIONS}
    others = sorted({row["name"].split("/")[0] for row in rows} - known)
    for name, heading, how in (*SECTIONS, *((other, other, "") for other in others)):
        chosen = [row for row in rows if row["name"].split("/")[0] == name]
        if not chosen:
            continue
        parts += [f"## {heading}", "", how, ""]
        kinds = {part for row in chosen for part in row["name"].split("/")}
        parts += [f"- `{kind}`: {text}" for kind, text in EXPLAINED.items() if kind in kinds]
        parts += [""] if parts[-1].startswith("- ") else []
        for unit, bars in series(chosen).items():
            file = f"performance-{name}-{re.sub('[^a-z]+', '-', unit.lower()).strip('-') or 'share'}.svg"
            plot(plots_folder / file, heading, unit, bars)
            parts += [f"![{heading}, {unit}]({file})", ""]
        parts += [table(chosen, with_source), ""]
    return "\n".join(parts).rstrip() + "\n"


def main(words=None):
    parser = argparse.ArgumentParser(prog="report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/bench", help="folder of the JSON files")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--mixed", action="store_true", help="rows of several commits or machines; each row names its "
                                                             "own")
    parser.add_argument("--note", default="", help="a sentence under the heading, such as what else the machine did")
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
