#!/usr/bin/env python3
"""Draws the pictures of the documents, docs/*.svg. Run by `make report`.

The times come from docs/performance.json; what was not measured is left out. The arrows of the rooms are those of
tools/workshop/lints/rooms.py, to which tests/structure holds the code.
"""
import argparse
import html
import json
import pathlib
import sys

from command_line import add_version, until_enough
from workshop.lints import rooms as rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
FONT = "font-family='DejaVu Sans, Helvetica, sans-serif'"
# The systems of the bars, in colours that the colour-blind tell apart (Okabe and Ito).
SYSTEMS = {"own": ("Peregrine", "#0072b2"), "lwip": ("lwIP", "#e69f00"), "linux": ("Linux", "#8c8c8c")}
BLUE, ORANGE, GREY, PAPER, INK = "#d6e6f2", "#fbe3cf", "#ececec", "#ffffff", "#1b1b1b"

# The way of one answer: name of the stage, its two lines of text, its colour.
STAGES = (
    ("used ring", ("device has written", "the frame"), GREY),
    ("stack", ("check everything,", "then commit"), BLUE),
    ("HTTP body", ("digits stay", "in the frame"), BLUE),
    ("matcher", ("filter and hash", "find the answer"), ORANGE),
    ("POST", ("fill the holes of a", "prepared frame"), BLUE),
    ("avail ring", ("publish, kick once", "if the device asks"), GREY),
)
# The parts of burst-to-post that net.json times, and the stages that each covers, first and last.
TIMED = (("before-matcher", 0, 2), ("matcher", 3, 3), ("after-matcher", 4, 5))
OFF_PATH = "afterwards, off the path: ACKs, refill, timers, verification, early answers, responses, log"

# The places of the rooms. The dashed line between two rooms of which one sees a single header of the other: its path,
# the place of its text.
ROOMS = {"image": (60, 20), "host": (330, 20), "app": (330, 120), "net": (330, 220), "drivers": (60, 170),
         "kernel": (60, 270), "base": (195, 370)}
ONE_HEADER_LINES = {("drivers", "net"): ("M310,190 C320,190 320,240 328,246", 322, 210),
                    ("host", "kernel"): ("M345,76 C318,90 314,200 306,268", 334, 100)}
ROOM_TEXTS = {
    "image": "boot order, the one loop", "host": "the same programs on Linux; a library",
    "app": "program.h, service, matcher, one room a program", "net": "transport.h, ip, tcp, http, lwip",
    "drivers": "pci, virtio, console, watchdog", "kernel": "cpu, memory, time, firmware, rescue",
    "base": "assert, log, format, sha256, settings",
}


def text(x, y, words, size=12, anchor="middle", weight="normal", fill=INK):
    return (f"<text x='{x}' y='{y}' {FONT} font-size='{size}' text-anchor='{anchor}' font-weight='{weight}' "
            f"fill='{fill}'>{html.escape(words)}</text>")


def box(x, y, width, height, fill):
    return (f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='6' fill='{fill}' stroke='{INK}' "
            "stroke-width='1'/>")


def arrow(x1, y1, x2, y2):
    return f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{INK}' stroke-width='1.2' marker-end='url(#head)'/>"


def document(width, height, title, parts):
    head = ("<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
            "orient='auto'>"
            f"<path d='M0,0 L8,4 L0,8 z' fill='{INK}'/></marker></defs>")
    paper = f"<rect width='{width}' height='{height}' fill='{PAPER}'/>"
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>"
            f"<title>{html.escape(title)}</title>{head}{paper}{''.join(parts)}</svg>\n")


def stage_times(rows):
    """Returns {part of burst-to-post: median in ns} of our own stack, warm; and the whole."""
    prefix = "net/own/burst-to-post"
    times = {row["name"][len(prefix):].lstrip("/"): row["p50"] for row in rows if row["name"].startswith(prefix)
             and not row["name"].startswith((prefix + "/cold", prefix + "/rested"))}
    return times


def data_path(rows):
    times, parts, width, gap = stage_times(rows), [], 118, 28
    for i, (name, lines, fill) in enumerate(STAGES):
        x = 16 + i * (width + gap)
        parts += [box(x, 40, width, 84, fill), text(x + width / 2, 62, name, 14, weight="bold")]
        parts += [text(x + width / 2, 82 + 16 * j, line, 10.5) for j, line in enumerate(lines)]
        if i:
            parts.append(arrow(x - gap + 3, 82, x - 3, 82))
    for row, first, last in TIMED:
        left, right = 16 + first * (width + gap), 16 + last * (width + gap) + width
        if row in times:
            parts += [f"<path d='M{left},130 v6 H{right} v-6' fill='none' stroke='{INK}'/>",
                      text((left + right) / 2, 153, f"{times[row]:.0f} ns", 13, weight="bold")]
    total = 32 + len(STAGES) * (width + gap) - gap
    whole = f", {times['']:.0f} ns at the median" if "" in times else ""
    parts += [text(total / 2, 22, f"one core, one loop, no interrupt, no copy in, no allocation{whole}", 13),
              text(total / 2, 178, OFF_PATH, 12)]
    return document(total, 192, "The way of one answer", parts)


def rooms():
    width, height, parts = 250, 56, []
    for name, (x, y) in ROOMS.items():
        parts += [box(x, y, width, height, BLUE if name in ("app", "net") else GREY),
                  text(x + width / 2, y + 23, name + "/", 15, weight="bold"),
                  text(x + width / 2, y + 43, ROOM_TEXTS[name], 10)]
    for upper, lower in rules.arrows():
        (x1, y1), (x2, y2) = ROOMS[upper], ROOMS[lower]
        if upper == "image" and lower == "app":
            parts.append(arrow(x1 + width - 20, y1 + height, x2 + 10, y2 - 2))
            continue
        shift = 40 if lower == "base" and upper == "kernel" else (-40 if lower == "base" else 0)
        parts.append(arrow(x1 + width / 2, y1 + height, x2 + width / 2 - shift, y2 - 2))
    for rooms_of, header in rules.ONE_HEADER.items():
        path, x, y = ONE_HEADER_LINES[rooms_of]
        parts += [f"<path d='{path}' fill='none' stroke='{INK}' stroke-dasharray='4 3' marker-end='url(#head)'/>",
                  text(x, y, f"{header.split('/')[-1]} only", 9, anchor="start")]
    return document(640, 440, "The rooms; arrows point at what a room may include", parts)


def burst():
    """Draws the digits that a burst is searched in, and the digits that a probe and a key see."""
    cell, left, top = 24, 20, 96
    digits = "41592653589793238462643383279"
    burst_at, start, end, probe = 12, 5, 25, 20

    def x(place):
        return left + place * cell

    parts = []
    for i, digit in enumerate(digits):
        colour = GREY if i < burst_at else BLUE
        colour = ORANGE if start <= i < end else colour
        parts.append(box(x(i), top, cell - 2, 28, colour))
        parts.append(text(x(i) + cell / 2 - 1, top + 19, digit))
    for first, last, words in ((0, burst_at, "window: the last N digits, known before"),
                               (burst_at, len(digits), "burst: a block of up to 256 digits")):
        parts.append(f"<path d='M{x(first)} 66 v-8 H{x(last) - 2} v8' stroke='{INK}' fill='none'/>")
        parts.append(text((x(first) + x(last)) / 2, 48, words))
    parts.append(arrow(x(start), top + 62, x(start), top + 34))
    parts.append(text(x(start), top + 78, "start i", weight="bold"))
    parts.append(arrow(x(end), top + 62, x(end), top + 34))
    parts.append(text(x(end), top + 78, "end j", weight="bold"))
    parts.append(arrow(x(probe), top + 62, x(probe), top + 34))
    parts.append(text(x(probe), top + 78, "probe e", weight="bold"))
    parts.append(f"<path d='M{x(probe)} {top + 92} v8 H{x(probe + 8)} v-8' stroke='{INK}' fill='none'/>")
    parts.append(text(x(probe + 4), top + 118, "K ends that it rules out at once"))
    parts.append(f"<path d='M{x(start)} {top + 92} v8 H{x(burst_at) - 2} v-8' stroke='{INK}' fill='none'/>")
    parts.append(text((x(start) + x(burst_at)) / 2, top + 118, "partial sum, in the cache"))
    parts.append(f"<path d='M{x(burst_at)} {top + 92} v8 H{x(probe) - 4} v-8' stroke='{INK}' fill='none'/>")
    parts.append(text((x(burst_at) + x(probe)) / 2, top + 118, "sum of the pass"))
    return document(left * 2 + len(digits) * cell, 232, "A burst, a probe, a candidate", parts)


def bars(title, unit, groups):
    """Draws groups of bars, (label, {system: value}), on one linear scale. Each bar bears its system's name."""
    left, width, height, y, parts = 24, 320, 17, 46, [text(24, 24, f"{title}, {unit}", 14, "start", "bold")]
    most = max((value for _, values in groups for value in values.values()), default=1)
    for label, values in groups:
        parts.append(text(left, y + 12, label, 12, "start"))
        y += 18
        for system, value in values.items():
            name, colour = SYSTEMS[system]
            parts += [f"<rect x='{left}' y='{y}' width='{max(1, value / most * width):.1f}' height='{height - 3}' "
                      f"fill='{colour}'/>",
                      text(left + max(1, value / most * width) + 5, y + 11, f"{value:,.0f} {name}" if value >= 100 else
                           f"{value:.3g} {name}", 11, "start")]
            y += height
        y += 8
    return document(480, y + 6, f"{title}, {unit}", parts)


def systems_of(rows, names):
    """Returns {system: median} of those rows by name that there are."""
    medians = {row["name"]: row["p50"] for row in rows}
    return {system: medians[name] for system, name in names.items() if name in medians}


def compared(rows):
    """Returns the pictures that compare systems: {file: drawing}."""
    pause = [(label, systems_of(rows, {system: f"wire/vhost-user/{part}/{row}/10ms" for system, part in (
        ("own", "own"), ("lwip", "lwip"), ("linux", "guest"))})) for label, row in (
            ("burst to POST", "burst"), ("UDP echo", "udp"), ("TCP echo", "tcp"), ("tick to order", "trade"))]
    sizes = [(f"{protocol.upper()}, {size} bytes", systems_of(rows, {
        system: f"halfrtt/{part}/{protocol}/{size}" for system, part in (
            ("own", "own"), ("lwip", "lwip"), ("linux", "guest"))}))
        for protocol in ("udp", "tcp") for size in (4, 1024)]
    cpus = [(f"{count} CPU{'s' if count > 1 else ''}; Linux: Go's net/http", systems_of(rows, {
        "own": f"digest/cpus-{count}/rounds-1000/64", "linux": f"digest/cpus-{count}/go/rounds-1000/64"}))
        for count in (1, 2)]
    return {"performance-pause.svg": bars("The first one after 10 ms", "us", pause),
            "performance-half-round-trips.svg": bars("Half a round trip, back to back", "us", sizes),
            "performance-second-cpu.svg": bars("Requests a second, each 1,000 rounds of SHA-256", "1/s", cpus)}


def draw(rows, folder):
    for file, drawing in compared(rows).items():
        (folder / file).write_text(drawing)
    (folder / "data-path.svg").write_text(data_path(rows))
    (folder / "rooms.svg").write_text(rooms())
    (folder / "burst.svg").write_text(burst())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_version(parser)
    parser.parse_args()
    draw(json.loads((ROOT / "docs/performance.json").read_text()), ROOT / "docs")
    print("figures: docs/*.svg")


if __name__ == "__main__":
    sys.exit(until_enough(main))
