"""Every answer of a digit stream, exactly and in linear time, with Python's integers.

Made apart from app/matcher on purpose: the one checks the other. Let M = 2^a 5^b m with gcd(m, 10) = 1. The
prefix value y_j is the sum of d_k 10^-k mod m. The digits (i, j] are a multiple of m if and only if y_i = y_j. The last
max(a, b) digits decide the factors 2 and 5, or all digits if there are fewer.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Occurrence:
    start: int              # stream position of the first digit, from 0
    end: int                # just past the last one
    constants: tuple        # indices of every M that divides it
    digits: str


class _Constant:
    """The state of one M."""

    def __init__(self, m, n):
        self.n = n
        a = b = 0
        rest = m
        while rest % 2 == 0:
            rest, a = rest // 2, a + 1
        while rest % 5 == 0:
            rest, b = rest // 5, b + 1
        self.m, self.tail, self.tail_digits = rest, 2**a * 5**b, max(a, b)
        self.inverse = pow(10, -1, rest)
        self.value, self.weight = 0, self.inverse       # y_j, and 10^-(j+1)
        self.keys = [0] * n                             # y of the last n positions, by position mod n
        self.starts = {0: []}                           # y -> starts in the window that have it, oldest first

    def push(self, digits, position, found, index):
        """Adds to found[end] the starts of every multiple that ends in these digits."""
        m, n, inverse, keys, table = self.m, self.n, self.inverse, self.keys, self.starts
        value, weight = self.value, self.weight
        for j, digit in enumerate(digits, position):
            slot = j % n
            old = keys[slot]                    # start j - n: too far away for the digit j
            if old is not None and j >= n:
                starts = table[old]
                del starts[0]
                if not starts:
                    del table[old]
            if digit:                           # an answer does not begin with 0
                table.setdefault(value, []).append(j)
                keys[slot] = value
            else:
                keys[slot] = None
            value = (value + digit * weight) % m
            weight = weight * inverse % m
            starts = table.get(value)
            if starts:
                for start in starts:
                    found.setdefault(j + 1, {}).setdefault(start, []).append(index)
        self.value, self.weight = value, weight


class Oracle:
    def __init__(self, n, constants):
        self.n = n
        self.constants = [_Constant(m, n) for m in constants]
        self.keep = max([n] + [c.tail_digits for c in self.constants])
        self.position = 0
        self.text = ""                  # the last digits: `keep` of them or more, once that many exist

    def push(self, text):
        """Takes the next digits; returns the occurrences that end in them: by their end, longest first."""
        digits = [ord(c) - 48 for c in text]
        found = {}
        for index, constant in enumerate(self.constants):
            constant.push(digits, self.position, found, index)
        self.position += len(text)
        self.text += text
        base = self.position - len(self.text)
        answers = []
        for end in sorted(found):
            tails = {}
            for start in sorted(found[end]):
                held = tuple(i for i in found[end][start] if self._tail_holds(i, start - base, end - base, tails))
                if held:
                    answers.append(Occurrence(start, end, held, self.text[start - base:end - base]))
        if len(self.text) > 4 * self.keep:
            self.text = self.text[-self.keep:]
        return answers

    def _tail_holds(self, index, start, end, tails):
        """Returns true if the factors 2 and 5 of an M divide the digits; `tails` caches the result for long ones."""
        constant = self.constants[index]
        if constant.tail == 1:
            return True
        if end - start < constant.tail_digits:
            return int(self.text[start:end]) % constant.tail == 0
        if index not in tails:
            tails[index] = int(self.text[end - constant.tail_digits:end]) % constant.tail == 0
        return tails[index]
