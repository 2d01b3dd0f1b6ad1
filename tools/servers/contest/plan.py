"""The plan of a contest: name, rounds, schedule, phases of more points, users, and all that the digits follow from.

Times are seconds from the beginning, which is `starts_ns` or, without it, the first burst.
"""
import dataclasses
import datetime
import hashlib
import hmac
import re
import secrets

from servers.contest.rounds import ONLINE, Round


USER = re.compile(r"[A-Za-z0-9_.-]{1,32}")
SPAN_S_MAX = 36_500 * 86400
NS_MAX = 6 * 10**18                     # in the year 2160: a later moment is no number of SQLite's


class PlanError(ValueError):
    """Says which word of a plan is wrong."""


@dataclasses.dataclass(frozen=True)
class Users:
    """The users that may submit. Holds hashes of the passwords, each with the same salt."""
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

    def checked(self):
        """Returns the plan; refuses rounds and phases that would never come."""
        for at_s, played in self.rounds:
            if self.ends_s and at_s >= self.ends_s:
                raise PlanError(f"round {played.name}@{span_text(at_s)} begins after the end, {span_text(self.ends_s)}")
        for start, end, factor in self.phases:
            if self.ends_s and start >= self.ends_s:
                raise PlanError(f"phase {span_text(start)}-{span_text(end)}={factor} begins after the end, "
                                f"{span_text(self.ends_s)}")
        return self

    def schedule(self):
        """Returns a line for each date of the plan."""
        begins = datetime.datetime.fromtimestamp(self.starts_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S") \
            if self.starts_ns else "with the first service"
        lines = [f"begins {begins}, local time of the server" if self.starts_ns else f"begins {begins}"]
        lines += [f"round {number}, {played.name.rsplit('/', 1)[-1]}: from {span_text(at_s)} on"
                  for number, (at_s, played) in enumerate(self.rounds, 1)]
        lines += [f"points × {factor}: from {span_text(start)} to {span_text(end)}"
                  for start, end, factor in self.phases]
        return lines + [f"ends after {span_text(self.ends_s)}" if self.ends_s else "has no end"]

    def factor_at(self, seconds):
        return max((factor for start, end, factor in self.phases if start <= seconds < end), default=1)

    def round_at(self, seconds):
        """Returns the number of the round that is played then."""
        return max(i for i, (start, _) in enumerate(self.rounds) if i == 0 or start <= seconds)

    def seed_of(self, number):
        return self.seed if number == 0 else f"{self.seed} round {number}"

    def to_json(self):
        fields = dataclasses.asdict(self)
        fields["rounds"] = [[at_s, r.name, r.n, [str(m) for m in r.known], [str(m) for m in r.hidden]]
                            for at_s, r in self.rounds]
        return fields

    @classmethod
    def from_json(cls, fields):
        rounds = tuple((at_s, Round(name, n, tuple(map(int, known)), tuple(map(int, hidden))))
                       for at_s, name, n, known, hidden in fields["rounds"])
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


def span_text(seconds):
    """Writes seconds as parse_span reads them: 0, 90, 15m, 2h, 3d."""
    for unit, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % unit == 0:
            return f"{seconds // unit:.0f}{letter}"
    return f"{seconds:g}s"


def parse_phase(text):
    """Parses FROM-TO=FACTOR, with spans from the beginning: 30m-40m=2."""
    match = re.fullmatch(r"([^-=]+)-([^-=]+)=([2-9])", text)
    if not match:
        raise PlanError(f"'{text}' is no phase like 30m-40m=2")
    start, end = parse_span(match[1]), parse_span(match[2])
    if end <= start:
        raise PlanError(f"'{text}': the phase ends before it begins")
    return start, end, int(match[3])
