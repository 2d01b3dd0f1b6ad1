"""The digits of a contest, burst by burst: random digits with random multiples of the M's planted in them.

Everything follows from the seed: the digits, and the sizes and pauses of the bursts. The content does not depend on
where the bursts are cut.
"""
import dataclasses
import random
import re

from servers.contest import record


@dataclasses.dataclass(frozen=True)
class Burst:
    index: int
    position: int           # the first digit's in the stream
    digits: str
    pause_s: float          # between the burst before and this one


class Stream:
    def __init__(self, contest_round, seed, rate=1.0, burst=(50, 300), interval_s=(0.2, 0.5)):
        self.round = contest_round
        self.burst, self.interval_s = burst, interval_s
        self.content = random.Random(f"content {seed}")
        self.cuts = random.Random(f"cuts {seed}")
        self.plantable = [m for m in contest_round.constants if len(str(m)) <= contest_round.n]
        digits_a_second = sum(burst) / max(sum(interval_s), 1e-6)
        self.spacing = digits_a_second / rate if rate > 0 and self.plantable else None     # digits from plant to plant
        self.ready = ""
        self.index = self.position = 0

    def state(self):
        """Returns the generator's state before the next burst, as JSON can hold it."""
        return {"index": self.index, "position": self.position, "ready": self.ready,
                "content": self.content.getstate(), "cuts": self.cuts.getstate()}

    def restore(self, state):
        self.index, self.position, self.ready = state["index"], state["position"], state["ready"]
        for generator, (version, words, gauss) in ((self.content, state["content"]), (self.cuts, state["cuts"])):
            generator.setstate((version, tuple(words), gauss))

    def next_burst(self):
        count = self.cuts.randint(*self.burst)
        pause_s = self.cuts.uniform(*self.interval_s)
        while len(self.ready) < count:
            self._grow()
        digits, self.ready = self.ready[:count], self.ready[count:]
        burst = Burst(self.index, self.position, digits, pause_s)
        self.index += 1
        self.position += count
        return burst

    def _grow(self):
        if self.spacing is None:
            self.ready += self._random_digits(1000)
            return
        planted = self._planted()
        gap = self.spacing - len(planted)
        self.ready += self._random_digits(int(self.content.expovariate(1 / gap)) if gap > 0 else 0) + planted

    def _random_digits(self, count):
        chunks = [1000] * (count // 1000) + [count % 1000]     # Python converts integers of up to 4300 digits
        return "".join(str(self.content.randrange(10**c)).zfill(c) for c in chunks if c)

    def _planted(self):
        """Returns a random multiple of a random M, with a random number of digits from those of M to N."""
        m = self.content.choice(self.plantable)
        digits = self.content.randint(len(str(m)), self.round.n)
        low, high = -(-10**(digits - 1) // m), (10**digits - 1) // m
        return str(m * self.content.randint(low, high))


class RecordedStream:
    """The bursts of a record (contest/record.py), with the pauses they had. The first comes at once."""

    def __init__(self, path):
        bursts = [(line.get("digits"), line.get("ns")) for line in record.read(path) if line["kind"] == "burst"]
        if not all(isinstance(digits, str) and re.fullmatch("[0-9]*", digits) and isinstance(ns, int)
                   for digits, ns in bursts):
            raise record.RecordError(f"{path}: a burst lacks its digits or its time")
        self.bursts = [(digits, ns) for digits, ns in bursts if digits]
        if not self.bursts:
            raise record.RecordError(f"{path}: holds no burst; `contest record` or `contest export --record` makes one")
        self.index = self.position = 0

    def state(self):
        return {"index": self.index}

    def next_burst(self):
        digits, ns = self.bursts[min(self.index, len(self.bursts) - 1)]
        before_ns = self.bursts[min(self.index, len(self.bursts)) - 1][1] if self.index else ns
        burst = Burst(self.index, self.position, digits, max(ns - before_ns, 0) / 1e9)
        self.index += 1
        self.position += len(digits)
        return burst
