"""The verdict on a HOST: its facts in words, the faults found, the values that are handed over to the kernel."""
import dataclasses
import re

from . import settings

STOP, WARN, NOTE = "stop", "warning", "note"


@dataclasses.dataclass
class Finding:
    level: str
    text: str
    advice: str = ""


@dataclasses.dataclass
class Verdict:
    """Everything that `check` says, and what `install` uses."""
    report: list = dataclasses.field(default_factory=list)         # (name, value)
    findings: list = dataclasses.field(default_factory=list)
    handed_over: dict = dataclasses.field(default_factory=dict)    # settings words that Linux knows
    given: dict = dataclasses.field(default_factory=dict)          # the user's own settings words
    protocol: str = ""                          # multiboot2 or linux; "": neither
    needs_default_saved: bool = False
    default: str = ""                       # GRUB_DEFAULT as it is
    regions: list = dataclasses.field(default_factory=list)        # (address, bytes) of the black box

    def stop(self, text, advice=""):
        self.findings.append(Finding(STOP, text, advice))

    def warn(self, text, advice=""):
        self.findings.append(Finding(WARN, text, advice))

    def note(self, text, advice=""):
        self.findings.append(Finding(NOTE, text, advice))

    def say(self, what, value):
        self.report.append((what, value))

    @property
    def added(self):
        """Returns the settings words that are added to the user's own."""
        return settings.additions(self.given, self.handed_over)

    @property
    def stops(self):
        return [finding for finding in self.findings if finding.level == STOP]

    def lines(self):
        """Returns the report of `check`, as lines."""
        width = max((len(what) for what, _ in self.report), default=0)
        return [f"{what:{width}}  {value}" for what, value in self.report] + self.finding_lines()

    def finding_lines(self, *, with_words=True):
        """Returns the values that are handed over and the findings, as lines: `install` shows all, `fly` no words."""
        lines = []
        if self.added and with_words:
            lines.append(f"hand over  {' '.join(f'{k}={v}' for k, v in self.added.items())}")
        for finding in self.findings:
            lines.append(f"{finding.level}: {finding.text}")
            if finding.advice:
                lines.append(f"    {finding.advice}")
        return lines


def others_may(mode):
    """Returns true if group or others have any right by a mode as `stat -c %a` prints it."""
    return bool(re.fullmatch("[0-7]+", mode.strip())) and int(mode, 8) & 0o077 != 0
