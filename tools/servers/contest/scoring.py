"""The points of each submission. Knows no sockets and no clock: every call carries its time in nanoseconds.

An answer is its digits: the same digits sent again are the same answer, and open it for another 5 s. Who had it
before has a duplicate then. A multiple that has not been sent yet waits for up to 5 s. If its digits come it counts
from its arrival (and stands first, as it came first), else it was wrong.

The verdicts, which are also the first word of the server's response:
    +8 +4 +2 +1     correct, for the first, 2nd-3rd, 4th-6th, 7th-10th player; twice as much in a phase of factor 2
    +0              correct, for later ones
    early           a multiple that was not sent so far; what becomes of it shows on the board
    dup             the same user submitted the same digits before (and they were not wrong)
    late            more than 5 s after its digits were last sent (the latency counts from this sending, too)
    wrong           the rest of the line says why: empty, not digits, leading zero, zero, longer than N, no multiple

The state follows from the calls alone, in their order: contest/replica.py makes the same calls from a store and gets
the same board. Memory is bounded by the constants below: an answer beyond ANSWERS_MAX newer ones is forgotten. Its
digits are a new answer if they are sent again, and a submission of them is early, then wrong.
"""
import collections
import dataclasses
import math

from latencies import quantile

WINDOW_NS = 5_000_000_000
POINTS = (8, 4, 4, 2, 2, 2, 1, 1, 1, 1)
LATENCIES_MAX = 2000
RECENT_MAX = 100            # answers on the board, with their submissions
ANSWERS_MAX = 10_000        # answers that are remembered; at one a second, those of three hours
EARLY_MAX = 200             # early submissions of a user that wait; some ten are usual
IPS_MAX = 8                 # addresses that are counted for a user


@dataclasses.dataclass
class Answer:
    digits: str
    constants: tuple
    first_ns: int           # when its last digit was first sent
    last_ns: int
    factor: int = 1         # multiplies the points
    occurrences: int = 0
    takers: int = 0         # a bit for each user who had it, by the user's number
    count: int = 0          # the number of these users
    submissions: list = dataclasses.field(default_factory=list)     # (ns, user, ip, ns sent), correct ones in order
    shown: bool = True      # one of `recent`, which alone keep their submissions
    before_ns: int = None   # the sending before the last one

    def sent_ns(self, ns):
        """Returns the latest sending that a submission of this time may answer; None if it came before all."""
        return next((sent for sent in (self.last_ns, self.before_ns, self.first_ns) if sent is not None and sent <= ns),
                    None)


@dataclasses.dataclass
class User:
    name: str
    number: int = 0
    points: collections.Counter = dataclasses.field(default_factory=collections.Counter)   # by 8, 4, 2, 1, 0
    bonus: int = 0          # points that factors added
    late: int = 0
    wrong: int = 0
    dup: int = 0
    submits: int = 0
    early: int = 0          # correct ones that came before their digits were sent
    waiting: int = 0        # early ones of which nothing is decided yet
    latencies_us: collections.deque = dataclasses.field(default_factory=lambda: collections.deque(maxlen=LATENCIES_MAX))
    latency_count: int = 0  # all that there were
    ips: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    ping_us: dict = dataclasses.field(default_factory=dict)
    _summary: tuple = (-1, None)

    @property
    def correct(self):
        return sum(self.points.values())

    @property
    def score(self):
        return sum(points * count for points, count in self.points.items()) + self.bonus - self.submits

    def latency(self):
        """Returns the summary of the recent latencies; it is made again only when there are new ones."""
        if self._summary[0] != self.latency_count:
            self._summary = self.latency_count, latency_summary(self.latencies_us)
        return self._summary[1]

    def came_from(self, ip):
        if ip not in self.ips and len(self.ips) >= IPS_MAX:
            rarest = min(self.ips, key=self.ips.get)
            del self.ips[rarest]
            self.ping_us.pop(rarest, None)
        self.ips[ip] += 1


@dataclasses.dataclass(frozen=True)
class Submission:
    ns: int
    ip: str
    user: str
    digits: str


def latency_summary(latencies_us):
    ordered = sorted(latencies_us)
    mean = math.fsum(ordered) / len(ordered) if ordered else 0
    return {
        "count": len(ordered),
        "p10": quantile(ordered, 10), "p50": quantile(ordered, 50),
        "p90": quantile(ordered, 90), "p99": quantile(ordered, 99),
        "mean": mean,
        "std": math.sqrt(math.fsum((us - mean) ** 2 for us in ordered) / len(ordered)) if ordered else 0,
    }


class Contest:
    """`log(kind, fields)` is called with every event, for the record; `factor_at(ns)` multiplies points."""

    def __init__(self, contest_round, log=lambda kind, **fields: None, factor_at=lambda ns: 1):
        self.round = contest_round
        self.log = log
        self.factor_at = factor_at
        self.users = {}
        self.answers = {}           # digits -> Answer, the one that was sent longest ago first
        self.offered = 0            # answers, forgotten ones too
        self.recent = collections.deque()
        self.early = {}             # digits -> [Submission], in order of arrival
        self.early_order = collections.deque()      # (ns, digits): when to give up on them

    def user(self, name):
        if name not in self.users:
            self.users[name] = User(name, len(self.users))
        return self.users[name]

    def begin_round(self, contest_round, ns):
        """Changes the moduli. Early submissions for the old ones can come no more, and all answers are new."""
        self.expire(ns + WINDOW_NS + 1)
        self.round = contest_round
        self.answers.clear()

    def send(self, occurrences, ns):
        """Records that the last digits of these answers have just been sent."""
        self.expire(ns)
        for occurrence in occurrences:
            answer = self.answers.pop(occurrence.digits, None)
            first = answer is None
            if first:
                answer = Answer(occurrence.digits, tuple(occurrence.constants), ns, ns, self.factor_at(ns))
                self.offered += 1
                self._show(answer)
            self.answers[occurrence.digits] = answer
            if ns != answer.last_ns:
                answer.before_ns, answer.last_ns = answer.last_ns, ns
            answer.occurrences += 1
            self.log("answer", ns=ns, start=occurrence.start, end=occurrence.end, constants=occurrence.constants,
                      digits=occurrence.digits, first=first)
            for submission in self.early.pop(occurrence.digits, ()):
                self.user(submission.user).waiting -= 1
                if submission.ns < ns - WINDOW_NS:
                    self._refute(submission, "not in the input")
                else:
                    self._resolve(submission, self._give(submission, answer))
            self._forget(ns)

    def submit(self, submission):
        """Judges a submission; returns the line of the response."""
        self.expire(submission.ns)
        user = self.user(submission.user)
        user.submits += 1
        user.came_from(submission.ip)
        line = self._judge(submission)
        self.log("submission", ns=submission.ns, ip=submission.ip, user=submission.user, digits=submission.digits,
                  verdict=line)
        return line

    def expire(self, now_ns):
        """Marks as wrong the early submissions whose digits did not come in 5 s."""
        while self.early_order and self.early_order[0][0] < now_ns - WINDOW_NS:
            _, digits = self.early_order.popleft()
            waiting = self.early.get(digits, [])
            while waiting and waiting[0].ns < now_ns - WINDOW_NS:
                self.user(waiting[0].user).waiting -= 1
                self._refute(waiting.pop(0), "not in the input")
            if not waiting:
                self.early.pop(digits, None)

    def reason_invalid(self, digits):
        """Returns why digits can never be an answer, or None."""
        if not digits:
            return "empty"
        if not (digits.isascii() and digits.isdigit()):
            return "not digits"
        if digits.strip("0") == "":
            return "zero"
        if digits[0] == "0":
            return "leading zero"
        if len(digits) > self.round.n:
            return "longer than N"
        value = int(digits)
        if all(value % m for m in self.round.constants):
            return "no multiple of any M"
        return None

    def summary(self, user_name):
        """Counts the fates of all answers, from one user's point of view."""
        user = self.users.get(user_name) or User(user_name)
        return {
            "user": user_name, "offered": self.offered, "found": user.correct, "early": user.early,
            "missed": self.offered - user.correct, "late": user.late, "wrong": user.wrong, "dup": user.dup,
            "submits": user.submits, "score": user.score, "latency_us": user.latency(),
        }

    def ranking(self):
        """Returns (rank, user) by score; equal scores share a rank."""
        ranked, rank, score_before = [], 0, None
        for place, (score, user) in enumerate(sorted(((u.score, u) for u in self.users.values()),
                                                     key=lambda pair: (-pair[0], pair[1].name)), 1):
            if score != score_before:
                rank, score_before = place, score
            ranked.append((rank, user))
        return ranked

    # ---- what a restart needs ----

    def state(self):
        """Returns all but the round, as JSON can hold it."""
        return {
            "offered": self.offered,
            "users": [{**{key: getattr(user, key) for key in ("name", "bonus", "late", "wrong", "dup", "submits",
                                                              "early", "latency_count")},
                       "points": [[p, n] for p, n in user.points.items()], "latencies_us": list(user.latencies_us),
                       "ips": dict(user.ips), "ping_us": user.ping_us} for user in self.users.values()],
            "answers": [_answer_state(answer) for answer in self.answers.values()],
            "recent": [answer.digits if self.answers.get(answer.digits) is answer else _answer_state(answer)
                       for answer in self.recent],
            "early": [dataclasses.astuple(s) for waiting in self.early.values() for s in waiting],
        }

    def restore(self, state):
        assert not self.users and not self.answers
        self.offered = state["offered"]
        for number, fields in enumerate(state["users"]):
            user = self.users[fields["name"]] = User(**{**fields, "number": number, "ips": {}, "points": {}})
            user.points = collections.Counter(dict(fields["points"]))
            user.ips = collections.Counter(fields["ips"])
            user.latencies_us = collections.deque(fields["latencies_us"], maxlen=LATENCIES_MAX)
        for fields in state["answers"]:
            answer = _answer_of(fields)
            self.answers[answer.digits] = answer
        self.recent.extend(self.answers[entry] if isinstance(entry, str) else _answer_of(entry)
                           for entry in state["recent"])
        for fields in sorted(state["early"], key=lambda fields: fields[0]):
            submission = Submission(*fields)
            self.early.setdefault(submission.digits, []).append(submission)
            self.early_order.append((submission.ns, submission.digits))
            self.users[submission.user].waiting += 1

    # ---- one submission ----

    def _judge(self, submission):
        answer = self.answers.get(submission.digits)
        if answer is not None:
            return self._judge_sent(submission, answer)
        user = self.user(submission.user)
        if reason := self.reason_invalid(submission.digits):
            user.wrong += 1
            return f"wrong: {reason}"
        waiting = self.early.get(submission.digits, [])
        if any(other.user == submission.user for other in waiting):
            user.dup += 1
            return "dup"
        if user.waiting >= EARLY_MAX:
            user.wrong += 1
            return "wrong: too many early answers wait"
        user.waiting += 1
        self.early.setdefault(submission.digits, waiting).append(submission)
        self.early_order.append((submission.ns, submission.digits))
        return "early"

    def _judge_sent(self, submission, answer):
        user = self.user(submission.user)
        if answer.takers >> user.number & 1:
            user.dup += 1
            return "dup"
        if submission.ns > answer.last_ns + WINDOW_NS:
            user.late += 1
            return "late"
        return self._give(submission, answer)

    def _give(self, submission, answer):
        user = self.user(submission.user)
        points = POINTS[answer.count] if answer.count < len(POINTS) else 0
        answer.count += 1
        answer.takers |= 1 << user.number
        sent_ns = answer.sent_ns(submission.ns)
        if answer.shown:
            answer.submissions.append((submission.ns, submission.user, submission.ip, sent_ns or answer.first_ns))
        user.points[points] += 1
        user.bonus += points * (answer.factor - 1)
        if sent_ns is None:
            user.early += 1
        else:
            user.latencies_us.append((submission.ns - sent_ns) / 1000)
            user.latency_count += 1
        return f"+{points * answer.factor}"

    def _refute(self, submission, reason):
        self.user(submission.user).wrong += 1
        self._resolve(submission, f"wrong: {reason}")

    def _resolve(self, submission, verdict):
        self.log("resolved", ns=submission.ns, user=submission.user, digits=submission.digits, verdict=verdict)

    # ---- memory ----

    def _show(self, answer):
        self.recent.appendleft(answer)
        if len(self.recent) > RECENT_MAX:
            old = self.recent.pop()
            old.submissions, old.shown = [], False

    def _forget(self, now_ns):
        """Forgets the oldest answers beyond ANSWERS_MAX, but none that can still be submitted."""
        while len(self.answers) > ANSWERS_MAX:
            digits, answer = next(iter(self.answers.items()))
            if answer.last_ns >= now_ns - WINDOW_NS:
                return
            del self.answers[digits]


def _answer_state(answer):
    return [answer.digits, list(answer.constants), answer.first_ns, answer.last_ns, answer.factor, answer.occurrences,
            f"{answer.takers:x}", answer.count, answer.submissions, answer.shown, answer.before_ns]


def _answer_of(fields):
    answer = Answer(*fields)
    answer.constants, answer.takers = tuple(answer.constants), int(answer.takers, 16)
    answer.submissions = [(*entry, answer.first_ns)[:4] for entry in answer.submissions]    # older programs keep three
    return answer
