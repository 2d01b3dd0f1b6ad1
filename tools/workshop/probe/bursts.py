"""The bursts of a probe: random digits that end in an answer."""
import random

from servers.contest.oracle import Oracle


class Bursts:
    def __init__(self, contest_round, seed):
        self.round, self.random = contest_round, random.Random(f"wire {seed}")
        self.oracle = Oracle(contest_round.n, contest_round.constants)

    def draw(self, digits=100, answer_digits=60):
        """Returns random digits that end in a multiple, and all answers that end in them, the planted one first."""
        m = self.random.choice([m for m in self.round.constants if len(str(m)) < answer_digits])
        low, high = -(-10**(answer_digits - 1) // m), (10**answer_digits - 1) // m
        answer = str(m * self.random.randint(low, high))
        burst = "".join(self.random.choices("0123456789", k=digits - answer_digits)) + answer
        others = [o.digits for o in self.oracle.push(burst) if o.digits != answer]
        return burst, [answer, *dict.fromkeys(others)]
