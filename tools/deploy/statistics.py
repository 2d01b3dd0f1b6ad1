"""The statistics for people: host/statistics.c makes the same table at the end of a program on Linux."""
import os
import re
import sys

from . import control

ALARM = re.compile(r"\btrade_(stopped|stuck) 1\b")
RED, PLAIN = "\x1b[1;31m", "\x1b[0m"
COLUMNS, MODULE_COLUMNS = 100, 14
HISTOGRAM_COLUMNS = ("count", "mean_ns", "p50_ns", "p99_ns", "max_ns")
HISTOGRAM = (*HISTOGRAM_COLUMNS, "p90_ns", "p999_ns", "p9999_ns")


def table(text):
    """Returns the values that are not 0 in `name value` lines, a row for each module, and a row for each histogram that
    is not empty. The slowest ways are left out. A trader that is stopped or stuck is red on a terminal."""
    values = control.parse(text)
    histograms = [name[:-len("p50_ns")] for name in values if name.endswith(".p50_ns")]
    histograms = [prefix for prefix in histograms if all(type(values.get(prefix + part)) is int for part in HISTOGRAM)]
    shown = {name: value for name, value in values.items() if value != 0 and not name.startswith("slow.")
             and not any(name == prefix + part for prefix in histograms for part in HISTOGRAM)}
    lines = "\n".join([*rows(shown), *histogram_rows(values, histograms)])
    has_colours = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not os.environ.get("NO_COLOR")
    return ALARM.sub(RED + r"\g<0>" + PLAIN, lines) if has_colours else lines


def rows(values):
    """Yields lines of values, by the part of the names before the first dot."""
    line, module = "", None
    for name, value in values.items():
        before, module = module, name.partition(".")[0]
        item = f"{name.partition('.')[2]} {value}".strip()
        if before == module and len(line) + 2 + len(item) <= COLUMNS:
            line += f", {item}"
            continue
        if before is not None:
            yield line + "," * (before == module)
        line = f"{'' if before == module else module:{MODULE_COLUMNS - 1}} {item}"
    if module is not None:
        yield line


def histogram_rows(values, histograms):
    """Yields a line for each histogram that is not empty, after a head."""
    filled = [prefix for prefix in histograms if values[prefix + "count"] > 0]
    if filled:
        yield f"\n{'microseconds':30}" + "".join(f" {name:>11}" for name in ("count", "average", "p50", "p99", "max"))
    for prefix in filled:
        count, *times = (values[prefix + part] for part in HISTOGRAM_COLUMNS)
        yield f"{prefix[:-1]:30} {count:11}" + "".join(f" {ns / 1e3:11.2f}" for ns in times)
