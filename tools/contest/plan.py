"""The plan of a contest: name, rounds, schedule, phases of more points, users, and all that the digits follow from.

Times are seconds from the beginning, which is `starts_ns` or, without it, the first burst.
"""
import dataclasses
import datetime
import hashlib
import hmac
import re
import secrets

from contest.rounds import ONLINE, Round


USER = re.compile(r"[A-Za-z0-9_.-]{1,32}")
SPAN_S_MAX = 36_500 * 86400
NS_MAX = 6 * 10**18                     # in the year 2160: a span later still is a number of SQLite's


class PlanError(ValueError):
    """Says which word of a plan is wrong."""


@dataclasses.dataclass(frozen=True)
class Users:
    """Who may submit. Holds hashes of the passwords, each with the same salt."""
    salt: str
    hashes: dict                    # name -> SHA-256, hexadecimal

    @classmethod
    def of(cls, passwords, salt=None):
        salt = salt or secrets.token_hex(8)
        return cls(salt, {name: hash_of(salt, name, password) for name, password in passwords.items()})

    def admits(self, name, password):
        return name in self.hashes and hmac.compare_digest(self.hashes[name], hash_of(self.salt, name, password or ""))


def hash_of(salt, name, password):
    return hashlib.sha256(f"{salt} {name} {password}".encode()).hexdigest()


@dataclasses.dataclass
class Plan:
    name: str = "Contest"
    rounds: tuple = ((0.0, ONLINE),)        # (seconds, Round), in order, the first at 0
    starts_ns: int = 0                      # 0: with the first burst
    ends_s: float = 0                       # 0: never
    phases: tuple = ()                      # (from s, to s, factor)
    users: Users = None                     # None: anybody
    seed: str = "1"
    rate: float = 1.0
    burst: tuple = (50, 300)
    interval_s: tuple = (0.2, 0.5)
    keep_days: float = 0                    # 0: everything

    def factor_at(self, seconds):
        return max((factor for start, end, factor in self.phases if start <= seconds < end), default=1)

    def round_at(self, seconds):
        """Returns the number of the round that is played then."""
        return max(i for i, (start, _) in enumerate(self.rounds) if i == 0 or start <= seconds)

    def seed_of(self, number):
        return self.seed if number == 0 else f"{self.seed} round {number}"

    def to_json(self):
        fields = dataclasses.asdict(self)
        fields["rounds"] = [[at_s, r.name, r.n, [str(m) for m in r.told], [str(m) for m in r.hidden]]
                            for at_s, r in self.rounds]
        return fields

    @classmethod
    def from_json(cls, fields):
        rounds = tuple((at_s, Round(name, n, tuple(map(int, told)), tuple(map(int, hidden))))
                       for at_s, name, n, told, hidden in fields["rounds"])
        users = fields["users"] and Users(**fields["users"])
        pairs = {key: tuple(fields[key]) for key in ("burst", "interval_s")}
        return cls(**{**fields, **pairs, "rounds": rounds, "users": users,
                      "phases": tuple(tuple(phase) for phase in fields["phases"])})


def parse_time(text):
    """Returns a local date and time as nanoseconds since the epoch."""
    try:
        at_ns = round(datetime.datetime.fromisoformat(text).timestamp()) * 10**9
        if not 0 <= at_ns < NS_MAX:
            raise ValueError
        return at_ns
    except (ValueError, OverflowError) as error:
        raise PlanError(f"'{text}' is no time like 2026-11-23T20:00") from error


def parse_span(text):
    """Returns seconds: 90, 90s, 15m, 2h, 3d."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", text)
    if not match:
        raise PlanError(f"'{text}' is no time span like 90, 15m, 2h or 3d")
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    if seconds > SPAN_S_MAX:
        raise PlanError(f"'{text}' is longer than {SPAN_S_MAX // 86400} days")
    return seconds


def parse_phase(text):
    """Parses FROM-TO=FACTOR, with spans from the beginning: 30m-40m=2."""
    match = re.fullmatch(r"([^-=]+)-([^-=]+)=([2-9])", text)
    if not match:
        raise PlanError(f"'{text}' is no phase like 30m-40m=2")
    start, end = parse_span(match[1]), parse_span(match[2])
    if end <= start:
        raise PlanError(f"'{text}': the phase ends before it begins")
    return start, end, int(match[3])
