"""Says what moduli are made of, and what that means for a player.

    contest explain-m online                     the moduli of a round, or of a round's file
    contest explain-m 20220217214410 3^50*7^30   numbers, with N of --n

Prints four facts for each modulus:

    - its digits and factors (by SymPy)
    - its part of 2 and 5, and how many last digits decide that part
    - how many substrings are multiples by chance
    - how many digits before its end an answer can be submitted, with a given risk
"""
import math
import multiprocessing

from servers.contest import rounds
from servers.contest.arguments import bounded, command_parser, complain

BURST_DIGITS_A_SECOND = 350 / 0.7           # 50 to 300 digits each 0.2 to 0.5 s


def factors(number, seconds):
    """Returns {factor: exponent} and whether all are prime; what takes longer stays composite."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        small, rest = _small_factors(number)
        if rest == 1:
            return small, True
        try:
            found = pool.apply_async(_factorint, (rest,)).get(seconds)
        except multiprocessing.TimeoutError:
            return {**small, rest: 1}, False
    return {**small, **found}, True


def _small_factors(number, below=100_000):
    found = {}
    for p in range(2, below):
        while number % p == 0:
            found[p] = found.get(p, 0) + 1
            number //= p
    return found, number


def _factorint(number):
    import sympy                            # takes half a second to load
    return {int(p): int(e) for p, e in sympy.factorint(number).items()}


def two_five(m):
    """Returns the exponents of 2 and of 5."""
    exponents = []
    for p in (2, 5):
        exponent = 0
        while m % p == 0:
            m, exponent = m // p, exponent + 1
        exponents.append(exponent)
    return exponents


def chance_hits(m, n):
    """Returns how many multiples end, on average, at a digit of a random stream: one of M substrings is one."""
    return max(n - len(str(m)) + 1, 0) * 0.9 / m


def horizon(m, n, risk):
    """Returns how many digits before its end an answer can be submitted, with this risk of a false one per burst end.

    A completion of k digits makes a random start a multiple with a chance of 10^k / m, and there are 0.9 N starts."""
    return max(0, math.floor(math.log10(m) + math.log10(risk) - math.log10(0.9 * n)))


def product_text(powers):
    return " * ".join(f"{p}^{e}" if e > 1 else str(p) for p, e in sorted(powers.items())) or "1"


def explain(name, m, n, risk, seconds):
    powers, whole = factors(m, seconds)
    a, b = two_five(m)
    hits = chance_hits(m, n)
    per_day = hits * BURST_DIGITS_A_SECOND * 86400
    yield f"{name} = {m}"
    yield f"  size        {len(str(m))} digits, {m.bit_length()} bits"
    prime = whole and powers == {m: 1}
    yield "  factors     " + ("prime" if prime else product_text(powers)) + (
        "" if whole else f"   (not all are prime: no more was found in {seconds:g} s)")
    if a or b:
        yield (f"  2^{a} * 5^{b}   decided by the last {max(a, b)} digits; "
               f"the rest, {m // (2**a * 5**b)}, by prefix values")
    else:
        yield "  2 and 5     neither: 10 has an inverse, prefix values decide all"
    if len(str(m)) > n:
        yield f"  multiples   none: it has more digits than N = {n}"
    else:
        pace = f"{per_day:.3g} a day" if per_day < 86400 else f"{per_day / 86400:.3g} a second"
        yield f"  by chance   {hits:.3g} multiples a digit, {pace} at the contest's pace"
    k = horizon(m, n, risk)
    yield f"  early       {k} digits before its end, with a risk of {risk:g} a burst" if k else \
        f"  early       never: a completion of one digit is not sure to {risk:g}"


def make_parser():
    parser = command_parser("explain-m", __doc__)
    add = parser.add_argument
    add("what", nargs="+", metavar="ROUND|M", help="a round's name or file, or numbers like 823 or 3^50*7^30")
    add("--n", type=bounded(int, 1, rounds.N_MAX), default=0, help="longest answer (default: the round's, or 256)")
    add("--risk", type=bounded(float, 1e-300, 0.5), default=1e-6, help="of a false early answer (default 1e-6)")
    add("--seconds", type=bounded(float, 0.1, 1e6), default=60, help="for the factors of one modulus (default 60)")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    try:
        if options.what[0][:1].isdigit():
            chosen = [(f"M{i}", rounds.parse_number(text)) for i, text in enumerate(options.what, 1)]
            n = options.n or 256
        else:
            if len(options.what) > 1:
                raise rounds.RoundError("one round, or numbers")
            played = rounds.load_round(options.what[0])
            chosen, n = [(f"M{i}", m) for i, m in enumerate(played.constants, 1)], options.n or played.n
    except rounds.RoundError as error:
        complain("explain-m", error)
        return 2
    try:
        for name, m in chosen:
            for line in explain(name, m, n, options.risk, options.seconds):
                print(line, flush=True)
    except ImportError as error:
        complain("explain-m", f"{error}; apt-get install python3-sympy")
        return 1
    return 0
