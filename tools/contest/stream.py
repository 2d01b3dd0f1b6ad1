"""The digits of a contest, burst by burst: random digits with random multiples of the M's planted in them.

Everything follows from the seed: the digits, and the sizes and pauses of the bursts. The content does not depend on
where the bursts are cut.
"""
import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Burst:
    index: int
    position: int           # of its first digit in the stream
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
        """A random multiple of a random M, of a random number of digits from those of M to N."""
        m = self.content.choice(self.plantable)
        digits = self.content.randint(len(str(m)), self.round.n)
        low, high = -(-10**(digits - 1) // m), (10**digits - 1) // m
        return str(m * self.content.randint(low, high))
