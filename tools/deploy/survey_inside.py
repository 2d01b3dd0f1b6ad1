"""peregrine survey --fly: boots a machine once with the program survey, and reads the measurements in its record.
app/survey/README.md describes the rows."""
import contextlib
import json
import os
import pathlib
import re
import secrets
import sys
import tempfile

from . import blackbox, boot_once, commands, control, settings
from .commands import BAD_RECORD, OK, REMOTE, describe, say
from .programs import SURVEY
from .verdict import GRUB

REFUSAL = "not measured: "
ROUND_TRIPS = ("echo", "echo_asleep", "wake_msi", "ring_to_ring")
MACHINE_LINES = re.compile(r"\] ((?:cpu|second CPU|clock|virtio-net|gve): .*)")


def survey(hosts, options):
    """Surveys one machine after the other; returns the exit code of the first that failed."""
    found = []
    options.wait += options.seconds     # without a control channel, all of the survey passes in silence
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        codes = [boot_once.guarded(survey_host, host, options, found) for host in hosts]
    if options.json:
        say(json.dumps(found, indent=2))
    return next((code for code in codes if code), OK)


def survey_host(host, options, found):
    words = words_of(options)
    settings.check(words, "the settings of the survey", SURVEY)
    way = options.by or way_of(host, options, words)
    if way == GRUB:
        with tempfile.TemporaryDirectory(prefix="peregrine-") as directory:
            config = pathlib.Path(directory) / "survey.conf"
            with open(os.open(config, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
                file.write(settings.compose(words, {}, {}, SURVEY))
            commands.install(host, config, options.kernel, options.bzimage, return_to=options.return_to,
                             program=SURVEY)
        words = None
    boot = boot_once.prepare(host, options, way, words, "the settings of the survey", SURVEY)
    before, _ = blackbox.newest(commands.fetch_regions(host, boot.regions))

    def report(_host, _options):
        return _report(host, options, before, found)
    code = boot_once.go(host, options, boot, report)
    if way == GRUB:
        say(f"the survey stays installed: peregrine uninstall {host.name}, or install the kernel that shall play")
    return code


def way_of(host, options, words):
    """Returns the way by which HOST can be surveyed: GRUB, where it can be installed, else kexec."""
    verdict = commands.judge(host, options.kernel, options.bzimage, return_to=options.return_to, given=words)
    for line in [] if verdict.ways else verdict.finding_lines():
        say("  " + line)
    if not verdict.ways:
        raise commands.Refused("not by GRUB and not by kexec: nothing was changed")
    return verdict.ways[0]


def words_of(options):
    """Returns the settings of the survey: the user's own, with what the measurements need."""
    words = settings.read(options.config) if options.config else {}
    words.setdefault("key", "0x" + secrets.token_hex(32))
    words.setdefault("wait", "sleep")
    words["survey.seconds"] = f"{options.seconds:g}"
    if options.echo:
        words["echo"] = ":".join(map(str, options.echo))
    return words


def _report(host, options, before, found):
    """Reads the record and prints its measurements. `before` is the record of an earlier run, or None."""
    record, reasons = blackbox.newest(commands.fetch_regions(host))
    if not record or (before and (record.sequence, record.uptime_ns) == (before.sequence, before.uptime_ns)):
        return commands.no_record([] if record else reasons)
    statistics = control.parse(record.statistics)
    if statistics.get("program") != SURVEY:
        say("the crash record is not of the survey")
        return BAD_RECORD
    result = {"host": host.name, "cause": record.cause, "build": record.build_id,
              "seconds": record.uptime_ns / 1e9, "machine": MACHINE_LINES.findall(blackbox.printable(record.log)),
              "rows": rows_of(statistics)}
    found.append(result)
    if not options.json:
        say("\n".join(table(result)))
    if record.cause == "finished":
        return OK
    say("the survey did not end by itself:")
    describe(record, options.debug)
    return REMOTE


def rows_of(statistics):
    """Returns the rows of the survey's statistics. A row without a sample has the key not_measured."""
    rows = []
    for key in statistics:
        if not key.startswith("survey.") or f"{key}.count" not in statistics:
            continue
        name, fact = key.removeprefix("survey."), blackbox.printable(str(statistics[key]))
        values = {suffix: statistics.get(f"{key}.{suffix}")
                  for suffix in ("count", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")}
        if not all(isinstance(value, int) for value in values.values()):
            rows.append({"name": name, "not_measured": "its numbers are not in the record"})
        elif fact.startswith(REFUSAL):
            rows.append({"name": name, "not_measured": fact.removeprefix(REFUSAL)})
        elif not values["count"]:
            rows.append({"name": name, "not_measured": why_no_sample(name, statistics)})
        else:
            rows.append({"name": name, "sample": fact, **values, **per_digit(fact, values)})
    return rows


def why_no_sample(name, statistics):
    sent, answered = (statistics.get(f"survey.echo_{what}") for what in ("sent", "answered"))
    if name in ROUND_TRIPS and sent and not answered:
        return f"none of {sent} datagrams came back"
    return "no sample came of it"


def per_digit(fact, values):
    """Returns the time of one digit, if a sample is a search of several."""
    digits = re.match(r"search of ([1-9][0-9]{0,8}) digits", fact)
    return {"ns_per_digit": values["p50_ns"] / int(digits[1])} if digits else {}


def table(result):
    """Returns the measurements of one machine as lines."""
    measured = [row for row in result["rows"] if "count" in row]
    cells = [("ns", "p50", "p99", "longest", "samples", "one sample")]
    cells += [(row["name"], *(str(row[key]) for key in ("p50_ns", "p99_ns", "max_ns", "count")),
               row["sample"] + (f"; {row['ns_per_digit']:.2f} ns a digit" if "ns_per_digit" in row else ""))
              for row in measured]
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    lines = [f"{result['host']}: {result['cause']} after {result['seconds']:.0f} s, build {result['build']}"]
    lines += [f"  {line}" for line in result["machine"]]
    lines += [f"{line[0]:{widths[0]}}  {'  '.join(f'{line[i]:>{widths[i]}}' for i in range(1, 5))}  {line[5]}"
              for line in cells]
    return lines + [f"{row['name']:{widths[0]}}  not measured: {row['not_measured']}" for row in result["rows"]
                    if row not in measured]
