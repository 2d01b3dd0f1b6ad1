"""Finds a modulus of which only the set of primes is known, from nothing but the stream's digits.

A planted answer is M times a random number. The *smooth part* of a number is the product of all its factors from M's
primes. A planted answer's smooth part is at least M. A random number's smooth part is small: it exceeds S with
a chance of some 1/S.

A substring whose smooth part is beyond SMOOTH_LEAST is therefore planted, and M is the common part of these. (2 and 5
do not count there: all substrings that end where the planted one ends have the same powers of them.)

A digit ends N substrings. Only those are factored that are multiples of a power of p, for a prime p that does not
divide 10. The prefix values y_i = sum of d_k * 10^-k (mod p^e) in front of such a substring and after it are equal.
The power is small: any M worth finding has it from at least one prime. It is large enough that few others pass."""
import math

SMOOTH_LEAST = 10**18           # with N = 256, 10^6 digits get there by a chance of 10^-8
SIEVE_LEAST = 1 << 20           # a hundred chance passes in 10^6 digits with N = 256


class HiddenError(ValueError):
    """Says why a modulus cannot be found."""


class _Sieve:
    """The places where substrings begin and end that are multiples of a power of one prime."""
    def __init__(self, prime, n):
        self.modulus = prime
        while self.modulus < SIEVE_LEAST:
            self.modulus *= prime
        self.tenth = pow(10, -1, self.modulus)
        self.weight, self.value, self.n = 1, 0, n
        self.starts = {}                        # prefix value -> the place of the digits that follow
        self.in_order = []                      # (start, prefix value), to forget the old ones

    def before_nonzero(self, start):
        """Returns the starts from which the digits up to `start` are a multiple. The digit at `start` is not 0.

        Then makes `start` a start itself. Zeros change no prefix value: no start needs to be kept between them."""
        starts = self.starts.setdefault(self.value, [])
        found = list(starts)
        starts.append(start)
        self.in_order.append((start, self.value))
        if len(self.in_order) > 4 * self.n:
            self._forget(start - 2 * self.n)
        return found

    def push(self, digit):
        self.weight = self.weight * self.tenth % self.modulus
        self.value = (self.value + digit * self.weight) % self.modulus

    def _forget(self, before):
        old = [pair for pair in self.in_order if pair[0] < before]
        self.in_order = self.in_order[len(old):]
        for start, value in old:
            self.starts[value].remove(start)
            if not self.starts[value]:
                del self.starts[value]


class Finder:
    """`primes`: all that the modulus has. `known`: the other moduli. Feed digits by `push`."""
    def __init__(self, n, primes, known=()):
        self.n, self.primes = n, tuple(primes)
        self.sieves = [_Sieve(p, n) for p in self.primes if 10 % p]
        if not self.sieves:
            raise HiddenError("a modulus of 2 and 5 alone has nothing by which the begin of its multiples is known")
        # Their multiples look planted, too, and are not this modulus's.
        self.rivals = [m for m in known if self._stands_out(self._powers(m))]
        self.digits = 0                         # so far
        self.text = ""                          # the last of them, without `skipped`
        self.skipped = 0                        # zeros after 2 N zeros: no answer has as many
        self.last_nonzero_end = 0
        self.planted = 0
        self.powers = None                      # prime -> exponent that all planted ones have
        self.planted_starts = []

    @property
    def constant(self):
        """Returns the common part of all planted answers, 0 before there is one."""
        return math.prod(p**e for p, e in self.powers.items()) if self.powers else 0

    @property
    def doubt(self):
        """Returns the chance that the result is a multiple of M: all random factors share one more prime of the set.

        An answer before a 0 counts one more 2 and 5, because that 0 cannot be distinguished from its own."""
        return min(1.0, sum((1 / p + (0.1 if 10 % p == 0 else 0))**self.planted for p in self.primes))

    def push(self, digits):
        """Returns whether a planted answer was found in them."""
        before = self.planted
        for character in digits:
            if character != "0":
                self._look()
                for sieve in self.sieves:
                    sieve.push(int(character))
                self.last_nonzero_end = self.digits + 1
                self.text, self.skipped = "0" * 2 * self.n if self.skipped else self.text, 0
            else:
                for sieve in self.sieves:
                    sieve.push(0)
            self.digits += 1
            if self.digits - self.last_nonzero_end > 2 * self.n:
                self.skipped += 1
            else:
                self.text += character
        self.text = self.text[-4 * self.n:]
        return self.planted > before

    def _look(self):
        """Examines the substrings that ended before the coming digit, which is not 0, with the zeros after them.

        An answer keeps its zeros: without them it would lack a 2 that M has."""
        starts = {start for sieve in self.sieves for start in sieve.before_nonzero(self.digits)}
        for start in sorted(starts):
            if 0 < self.last_nonzero_end - start <= self.n and start not in self.planted_starts:
                self._judge(start, min(self.digits, start + self.n))

    def _judge(self, start, end):
        origin = self.digits - self.skipped - len(self.text)
        number = int(self.text[start - origin:end - origin])
        powers = self._powers(number)
        if not self._stands_out(powers) or any(number % m == 0 for m in self.rivals):
            return
        self.planted += 1
        self.planted_starts = [*self.planted_starts[-20:], start]
        self.powers = {p: min(e, self.powers[p]) if self.powers else e for p, e in powers.items()}

    @staticmethod
    def _stands_out(powers):
        return math.prod(p**e for p, e in powers.items() if 10 % p) >= SMOOTH_LEAST

    def _powers(self, number):
        powers = {}
        for prime in self.primes:
            exponent = 0
            while number % prime == 0:
                number //= prime
                exponent += 1
            powers[prime] = exponent
        return powers
