"""Finds a hidden modulus from the answers that boards show: no known modulus divides a hidden one's answer.

A board elides long answers in the middle. The stream, if there is one, shows the digits between the ends; without the
stream an elided answer is of no use. The common part of all hidden answers is the modulus, or a multiple of it. Only
the primes that the board names count.
"""
import math
import re

from servers.contest.hidden import HiddenError

ELISION = " ..... "
ANSWER = re.compile(r"^([1-9][0-9]*)( \.{5} ([0-9]+))?$", re.MULTILINE)


def answers_on(board):
    """Returns the answers of a board's text: digits, or (first, last) of an elided one."""
    solved = board.split("Recent Solved", 1)[-1]
    return {(match[1], match[3]) if match[2] else match[1] for match in ANSWER.finditer(solved)}


def in_full(answers, n, stream=""):
    """Returns the answers with all their digits, those elided where the stream has them."""
    found = set()
    for answer in answers:
        if isinstance(answer, str):
            found.add(answer)
            continue
        first, last = answer
        at = stream.find(first)
        while at >= 0:
            end = stream.find(last, at + len(first), at + n)
            if end >= 0:
                found.add(stream[at:end + len(last)])
                break
            at = stream.find(first, at + 1)
    return found


class AnswerFinder:
    """`primes`: all that the modulus has. `known`: the other moduli."""

    def __init__(self, primes, known=()):
        if not primes:
            raise HiddenError("no primes are given")
        self.primes, self.known = tuple(primes), tuple(known)
        self.seen = set()
        self.powers = None

    @property
    def planted(self):
        return len(self.seen)

    @property
    def constant(self):
        return math.prod(p**e for p, e in self.powers.items()) if self.powers else 0

    @property
    def doubt(self):
        """Returns the chance that all factors share one more prime. Answers that differ in their zeros count once."""
        distinct = len({digits.rstrip("0") for digits in self.seen})
        return min(1.0, sum((1 / p + (0.1 if 10 % p == 0 else 0)) ** distinct for p in self.primes))

    def push(self, answers):
        """Takes answers in full; returns whether there was a new one of the hidden modulus."""
        before = len(self.seen)
        for digits in answers - self.seen:
            number = int(digits)
            if any(number % m == 0 for m in self.known):
                continue
            self.seen.add(digits)
            powers = {p: _exponent(number, p) for p in self.primes}
            self.powers = {p: min(e, self.powers[p]) for p, e in powers.items()} if self.powers else powers
        return len(self.seen) > before


def _exponent(number, prime):
    exponent = 0
    while number % prime == 0:
        number, exponent = number // prime, exponent + 1
    return exponent
