"""The moduli of a round: N, the M's, and which of them the players do not know.

A round file holds `key=value` words, separated by white space; `#` starts a comment:
    n=256               longest answer, in digits
        m=823,108           the moduli that players know
        hidden=3^50*7^30    moduli that players do not know, a comma between them; products and powers are understood
"""
import dataclasses
import re

WORD = re.compile(r"([a-z]+)=(\S+)")
N_MAX = 4096                    # Python makes no text of more than 4300 digits
CONSTANT_BITS_MAX = 4096        # far more than a player takes: catches a mistyped exponent


class RoundError(ValueError):
    """Says which word of a round is wrong."""


@dataclasses.dataclass(frozen=True)
class Round:
    name: str
    n: int
    known: tuple
    hidden: tuple = ()

    @property
    def constants(self):
        """Returns all M's in their order: the known ones first."""
        return self.known + self.hidden

    def constant_texts(self):
        """Returns the text that players may read for each M."""
        return [str(m) for m in self.known] + [
            "a hidden but fixed integer, whose prime factors include and only include " + list_in_words(primes_of(m))
            for m in self.hidden
        ]


def list_in_words(numbers):
    *front, last = [str(n) for n in numbers]
    return f"{', '.join(front)} and {last}" if front else last


def primes_of(number):
    """Returns the set of primes of a hidden modulus, whose primes are small by design."""
    primes, rest, p = [], number, 2
    while rest > 1 and p < 100_000:
        if rest % p == 0:
            primes.append(p)
            while rest % p == 0:
                rest //= p
        p += 1
    return primes + ([rest] if rest > 1 else [])


# The rounds as they were played. The qualification's hidden modulus was never published: ours has its primes.
ONLINE = Round("online", 256,
               (20220217214410, 104648257118348370704723119, 125000000000000140750000000000052207500000000006359661),
               (3**50 * 7**30 * 11**20,))
ONSITE = Round("onsite", 256,
               (20220311122858, 104648257118348370704723401, 125000000000000173750000000000080443500000000012405393),
               (2**75 * 3**50 * 7**25,))
QUALIFICATION = Round("qualification", 512,
                      (20220209192254, 104648257118348370704723099,
                       125000000000000064750000000000009507500000000000294357),
                      (2**60 * 3**40 * 7**30,))
ROUNDS = {r.name: r for r in (ONLINE, ONSITE, QUALIFICATION)}


def parse_number(text):
    """Parses a positive integer, written out or as a product of powers: 3^50*7^30."""
    product = 1
    for factor in text.split("*"):
        match = re.fullmatch(r"([0-9]{1,2000})(?:\^([0-9]{1,9}))?", factor)
        base, exponent = (int(match[1]), int(match[2] or 1)) if match else (0, 1)
        if base == 0:
            raise RoundError(f"'{text}' is not a positive integer")
        if base > 1 and (base.bit_length() - 1) * exponent > CONSTANT_BITS_MAX:
            raise RoundError(f"'{text}' has more than {CONSTANT_BITS_MAX} bits")
        product *= base**exponent
    if product.bit_length() > CONSTANT_BITS_MAX:
        raise RoundError(f"'{text}' has more than {CONSTANT_BITS_MAX} bits")
    return product


def parse_round(text, name="file"):
    values = {}
    for word in re.sub(r"#.*", "", text).split():
        match = WORD.fullmatch(word)
        if not match or match[1] not in ("n", "m", "hidden"):
            raise RoundError(f"'{word}' is no word of a round; n=, m= and hidden= are")
        if match[1] in values:
            raise RoundError(f"'{word}': {match[1]}= stands there twice")
        values[match[1]] = match[2]
    if not re.fullmatch(r"[1-9][0-9]{0,3}", values.get("n", "")) or int(values["n"]) > N_MAX:
        raise RoundError(f"n={values.get('n', '')}: a positive integer is needed, {N_MAX} at most")
    numbers = {key: tuple(parse_number(m) for m in values[key].split(",")) for key in ("m", "hidden") if key in values}
    if not numbers:
        raise RoundError("no m= and no hidden=: nothing to look for")
    return Round(name, int(values["n"]), numbers.get("m", ()), numbers.get("hidden", ()))


def load_round(name):
    """Loads a round by its name or from a file."""
    if name in ROUNDS:
        return ROUNDS[name]
    try:
        with open(name, encoding="utf-8") as file:
            return parse_round(file.read(), name)
    except UnicodeDecodeError as error:
        raise RoundError(f"{name}: no text in UTF-8") from error
    except OSError as error:
        raise RoundError(f"'{name}': neither one of {', '.join(ROUNDS)} "
                         f"nor a readable file ({error.strerror})") from error
