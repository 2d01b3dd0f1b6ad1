"""The exact record of a contest: one JSON object a line, in the order in which things happened.

kind "contest"      the options, N and all M's
kind "feed-open"    an input connection begins: id, ip, position of the first digit it will get
kind "feed-close"   it ended: id, position of the first digit it did not get
kind "burst"        index, position, digits, ns: when its first byte was given to TCP (contest/clock.py, as every ns)
kind "answer"       an occurrence whose last digit was in the burst before this line: start, end, constants, digits,
                    first: whether these digits are a new answer
kind "submission"   ns (the kernel's receive time), ip, user, digits, verdict: the line of the response
kind "resolved"     what became of an early submission
kind "invalid"      an HTTP request that could not be understood: ns, ip, reason
kind "fault"        a defect of the server that ended one connection: ns, ip, port, reason
kind "summary"      at the end, one for each user
"""
import contextlib
import errno
import json
import logging
import os

LOG = logging.getLogger("contest")


class RecordError(ValueError):
    """Says why a record is wrong."""


class Record:
    """A file that holds one contest. A failed write ends the record, not the game; `error` says why."""

    def __init__(self, path):
        self.error = ""
        self.path, self.file = path, None
        if path:
            self.file = open(path, "a", encoding="ascii", buffering=1 << 16)
            if os.fstat(self.file.fileno()).st_size:        # 0 for a device or a pipe
                self.file.close()
                raise FileExistsError(errno.EEXIST, "is not empty; name another file for the record", path)

    def log(self, kind, **fields):
        if self.file:
            self._attempt(self.file.write, json.dumps({"kind": kind, **fields}) + "\n")

    def flush(self):
        if self.file:
            self._attempt(self.file.flush)

    def close(self):
        if self.file:
            self._attempt(self.file.close)
            self.file = None

    def _attempt(self, call, *arguments):
        try:
            call(*arguments)
        except OSError as error:
            self.error = f"the record {self.path} ends here: {error.strerror}"
            LOG.error("%s; the game goes on", self.error)
            file, self.file = self.file, None
            with contextlib.suppress(OSError):      # the buffered rows cannot be written either
                file.close()


def parse(lines, name):
    """Returns the lines of a record as objects. Raises RecordError. Leaves out a last line that was cut off."""
    found = []
    try:
        for line in lines:
            if line.endswith("\n"):
                entry = json.loads(line)
                if not isinstance(entry, dict) or "kind" not in entry:
                    raise ValueError
                found.append(entry)
    except ValueError as error:
        raise RecordError(f"{name}: line {len(found) + 1} is no line of a record") from error
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return parse(file, path)


def offered_to(lines, ip=None):
    """Returns the occurrences that a player could see whole: every digit came over one input connection (from `ip`)."""
    ranges, opened = [], {}
    last = 0
    for line in lines:
        if line["kind"] == "burst":
            last = line["position"] + len(line["digits"])
        elif line["kind"] == "feed-open" and ip in (None, line["ip"]):
            opened[line["id"]] = line["position"]
        elif line["kind"] == "feed-close" and line["id"] in opened:
            ranges.append((opened.pop(line["id"]), line["position"]))
    ranges += [(start, last) for start in opened.values()]
    return [line for line in lines if line["kind"] == "answer"
            and any(start <= line["start"] and line["end"] <= end for start, end in ranges)]
