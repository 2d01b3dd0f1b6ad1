"""The guest's serial line, shown as it comes; and the reason of its end."""
import re

from deploy import statistics

STATISTICS = "] stats: "


def say(text=""):
    print(text, flush=True)


class Log:
    """The guest's serial line, as far as it was not shown yet."""

    def __init__(self, host):
        self.host, self.shown = host, 0

    def show(self, count=0):
        """Prints new lines of the log, whole ones only, without the statistics: all of them, or the last `count`."""
        for line in [line for line in self.take() if STATISTICS not in line][-count:]:
            say(f"  | {line}")

    def take(self):
        """Returns the whole lines that have come since the last call."""
        lines = self.host.log.split("\n")[:-1]
        new, self.shown = lines[self.shown:], len(lines)
        return new


def shown_statistics(text, everything):
    return text.rstrip("\n") if everything else statistics.table(text)


def statistics_in(log):
    """Returns the statistics that a machine logs at its end."""
    return "".join(line.partition(STATISTICS)[2] + "\n" for line in log.splitlines() if STATISTICS in line)


def end_of(text):
    """Returns (the cause of the machine's end, the line with the reason); None for what the log does not have.

    A panic and a trap have a line of their own; any other reason stands before the cause."""
    cause = re.search(r"back to Linux: (.*)", text)
    lines = text[:cause.start() if cause else None].splitlines()[:-1]
    before = [re.sub(r"^\[ *[\d.]+\] ", "", line) for line in lines]
    faults = [line for line in before if re.match(r"(panic|trap): ", line)]
    reason = faults[0] if faults else before[-1] if cause and before else None
    return cause and cause[1].strip(), reason
