"""Who gets what for which submission. Knows no sockets and no clock: every call carries its time in nanoseconds.

An answer is its digits: the same digits sent again are the same answer, and open it for another 5 s. Who had it
before has a duplicate then. A multiple that has not been sent yet waits for up to 5 s: if its digits come it counts
from its arrival (and stands first, as it came first), else it was wrong.

The verdicts, which are also the first word of the server's response:
    +8 +4 +2 +1     correct, for the first, 2nd-3rd, 4th-6th, 7th-10th player
    +0              correct, for later ones
    early           a multiple that was not sent so far; what becomes of it shows on the board
    dup             the same user submitted the same digits before (and they were not wrong)
    late            more than 5 s after its digits were last sent
    wrong           the rest of the line says why: empty, not digits, leading zero, zero, longer than N, no multiple
"""
import collections
import dataclasses
import statistics

WINDOW_NS = 5_000_000_000
POINTS = (8, 4, 4, 2, 2, 2, 1, 1, 1, 1)
LATENCIES_MAX = 2000
RECENT_MAX = 100            # answers on the board


@dataclasses.dataclass
class Answer:
    digits: str
    constants: tuple
    first_ns: int           # when its last digit was first sent
    last_ns: int
    occurrences: int = 0
    submissions: list = dataclasses.field(default_factory=list)     # (ns, user, ip), correct ones in order


@dataclasses.dataclass
class User:
    name: str
    points: collections.Counter = dataclasses.field(default_factory=collections.Counter)   # by 8, 4, 2, 1, 0
    late: int = 0
    wrong: int = 0
    dup: int = 0
    submits: int = 0
    early: int = 0          # correct ones that came before their digits were sent
    latencies_us: collections.deque = dataclasses.field(default_factory=lambda: collections.deque(maxlen=LATENCIES_MAX))
    ips: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    ping_us: dict = dataclasses.field(default_factory=dict)
    history: list = dataclasses.field(default_factory=list)         # (ns, score) after each submission

    @property
    def correct(self):
        return sum(self.points.values())

    @property
    def score(self):
        return sum(points * count for points, count in self.points.items()) - self.submits


@dataclasses.dataclass(frozen=True)
class Submission:
    ns: int
    ip: str
    user: str
    digits: str


def quantile(ordered, share):
    """The smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else 0


def latency_summary(latencies_us):
    ordered = sorted(latencies_us)
    return {
        "count": len(ordered),
        "p10": quantile(ordered, 10), "p50": quantile(ordered, 50),
        "p90": quantile(ordered, 90), "p99": quantile(ordered, 99),
        "mean": statistics.fmean(ordered) if ordered else 0,
        "std": statistics.pstdev(ordered) if ordered else 0,
    }


class Contest:
    """`tell(kind, fields)` is called with everything that happens, for the record."""

    def __init__(self, contest_round, tell=lambda kind, **fields: None):
        self.round = contest_round
        self.tell = tell
        self.users = {}
        self.answers = {}           # digits -> Answer, all of the contest
        self.recent = collections.deque(maxlen=RECENT_MAX)
        self.early = {}             # digits -> [Submission], in order of arrival
        self.early_order = collections.deque()      # (ns, digits): when to give up on them

    def user(self, name):
        return self.users.setdefault(name, User(name))

    def send(self, occurrences, ns):
        """The last digits of these answers have just been sent."""
        for occurrence in occurrences:
            answer = self.answers.get(occurrence.digits)
            first = answer is None
            if first:
                answer = Answer(occurrence.digits, occurrence.constants, ns, ns)
                self.answers[occurrence.digits] = answer
                self.recent.appendleft(answer)
            answer.last_ns = ns
            answer.occurrences += 1
            self.tell("answer", ns=ns, start=occurrence.start, end=occurrence.end, constants=occurrence.constants,
                      digits=occurrence.digits, first=first)
            for submission in self.early.pop(occurrence.digits, ()):
                if submission.ns < ns - WINDOW_NS:
                    self._refute(submission, "not in the input")
                else:
                    self._resolve(submission, self._give(submission, answer))

    def submit(self, submission):
        """Judges a submission; returns the line of the response."""
        user = self.user(submission.user)
        user.submits += 1
        user.ips[submission.ip] += 1
        line = self._judge(submission)
        user.history.append((submission.ns, user.score))
        self.tell("submission", ns=submission.ns, ip=submission.ip, user=submission.user, digits=submission.digits,
                  verdict=line)
        return line

    def expire(self, now_ns):
        """Early submissions whose digits did not come in 5 s were wrong."""
        while self.early_order and self.early_order[0][0] < now_ns - WINDOW_NS:
            _, digits = self.early_order.popleft()
            waiting = self.early.get(digits, [])
            while waiting and waiting[0].ns < now_ns - WINDOW_NS:
                self._refute(waiting.pop(0), "not in the input")
            if not waiting:
                self.early.pop(digits, None)

    def reason_invalid(self, digits):
        """Why digits can never be an answer, or None."""
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
        """What became of every answer, from one user's point of view."""
        user = self.users.get(user_name) or User(user_name)
        return {
            "user": user_name, "offered": len(self.answers), "found": user.correct, "early": user.early,
            "missed": len(self.answers) - user.correct, "late": user.late, "wrong": user.wrong, "dup": user.dup,
            "submits": user.submits, "score": user.score, "latency_us": latency_summary(user.latencies_us),
        }

    def ranking(self):
        """(rank, user) by score; equal scores share a rank."""
        ordered = sorted(self.users.values(), key=lambda u: (-u.score, u.name))
        return [(1 + sum(v.score > u.score for v in ordered), u) for u in ordered]

    def _judge(self, submission):
        answer = self.answers.get(submission.digits)
        if answer is not None:
            return self._judge_sent(submission, answer)
        user = self.user(submission.user)
        if reason := self.reason_invalid(submission.digits):
            user.wrong += 1
            return f"wrong: {reason}"
        waiting = self.early.setdefault(submission.digits, [])
        if any(other.user == submission.user for other in waiting):
            user.dup += 1
            return "dup"
        waiting.append(submission)
        self.early_order.append((submission.ns, submission.digits))
        return "early"

    def _judge_sent(self, submission, answer):
        user = self.user(submission.user)
        if any(name == submission.user for _, name, _ in answer.submissions):
            user.dup += 1
            return "dup"
        if submission.ns > answer.last_ns + WINDOW_NS:
            user.late += 1
            return "late"
        return self._give(submission, answer)

    def _give(self, submission, answer):
        user = self.user(submission.user)
        place = len(answer.submissions)
        points = POINTS[place] if place < len(POINTS) else 0
        answer.submissions.append((submission.ns, submission.user, submission.ip))
        user.points[points] += 1
        if submission.ns < answer.first_ns:
            user.early += 1
        else:
            user.latencies_us.append((submission.ns - answer.first_ns) / 1000)
        return f"+{points}"

    def _refute(self, submission, reason):
        self.user(submission.user).wrong += 1
        self._resolve(submission, f"wrong: {reason}")

    def _resolve(self, submission, verdict):
        user = self.user(submission.user)
        user.history.append((submission.ns, user.score))
        self.tell("resolved", ns=submission.ns, user=submission.user, digits=submission.digits, verdict=verdict)
