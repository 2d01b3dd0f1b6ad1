"""The verdict on a HOST: its facts in words, the faults found, the values that are handed over to the kernel.

There are two ways to the kernel, and a fault may stand in one of them alone. It stops nothing while the other is
open: then it is shown as a note."""
import contextlib
import dataclasses
import re

from . import settings

STOP, WARN, NOTE = "stop", "warning", "note"
GRUB, KEXEC = "grub", "kexec"
NAMES = {GRUB: "GRUB", KEXEC: "kexec"}


@dataclasses.dataclass
class Finding:
    level: str
    text: str
    advice: str = ""
    way: str = ""                           # the one that it concerns; "": both


@dataclasses.dataclass
class Verdict:
    """Everything that `check` says, and what `install` uses."""
    report: list = dataclasses.field(default_factory=list)         # (name, value)
    findings: list = dataclasses.field(default_factory=list)
    handed_over: dict = dataclasses.field(default_factory=dict)    # settings words that Linux knows
    given: dict = dataclasses.field(default_factory=dict)          # the user's own settings words
    protocol: str = ""                          # multiboot2 or linux; "": neither
    regions: list = dataclasses.field(default_factory=list)        # (address, bytes) of the black box
    way: str = ""                           # the one that is being judged

    @contextlib.contextmanager
    def only(self, way):
        """Lets the findings of a `with` block concern one way alone."""
        before, self.way = self.way, way
        yield
        self.way = before

    def stop(self, text, advice=""):
        self.findings.append(Finding(STOP, text, advice, self.way))

    def warn(self, text, advice=""):
        self.findings.append(Finding(WARN, text, advice, self.way))

    def note(self, text, advice=""):
        self.findings.append(Finding(NOTE, text, advice, self.way))

    def say(self, what, value):
        self.report.append((what, value))

    @property
    def added(self):
        """Returns the settings words that are added to the user's own."""
        return settings.additions(self.given, self.handed_over)

    def stops(self, way):
        """Returns the findings that stop one way."""
        return [finding for finding in self.findings if finding.level == STOP and finding.way in ("", way)]

    @property
    def ways(self):
        """Returns the ways that are open, the one by GRUB first."""
        return [way for way in NAMES if not self.stops(way)]

    def lines(self, way=""):
        """Returns the report of `check`, as lines."""
        width = max((len(what) for what, _ in self.report), default=0)
        return [f"{what:{width}}  {value}" for what, value in self.report] + self.finding_lines(way)

    def finding_lines(self, way="", *, with_words=True):
        """Returns the values that are handed over and the findings, as lines. With a `way` nothing is shown of the
        other."""
        lines = []
        if self.added and with_words:
            lines.append(f"hand over  {' '.join(f'{k}={v}' for k, v in self.added.items())}")
        for finding in self.findings:
            if way and finding.way not in ("", way):
                continue
            level = finding.level
            if level == STOP and not way and self.ways:
                level = NOTE
            concerns = f"not by {NAMES[finding.way]}: " if finding.way and finding.level == STOP else ""
            lines.append(f"{level}: {concerns}{finding.text}")
            if finding.advice:
                lines.append(f"    {finding.advice}")
        return lines


def others_may(mode):
    """Returns true if group or others have any right by a mode as `stat -c %a` prints it."""
    return bool(re.fullmatch("[0-7]+", mode.strip())) and int(mode, 8) & 0o077 != 0
