"""The course of a contest in bounded memory: what the board draws over time, and what the server measured of itself."""
import collections
import itertools

SAMPLES_MAX = 720
HOUR_STEP_S = 5                 # the last hour: 720 samples
PLAYERS_MAX = 100               # players of a sample, the best ones
LATEST = 100                    # latencies of a player that a sample's quantiles are made of
BURSTS_MAX = 240                # bursts whose measurements are kept
PER_CONSTANT_MAX = 200          # latencies of a player and a modulus
DIGITS_MAX = 1200               # digits kept of the stream's end
SHARES = (10, 50, 90, 99)


class Series:
    """Samples at fixed steps. A full series doubles its step, or forgets its oldest sample."""

    def __init__(self, step_s, doubles):
        self.step_s, self.doubles = step_s, doubles
        self.times, self.players = [], []       # seconds; player -> [score, the latency's quantiles in us]
        self.due_s = 0.0

    def sample(self, seconds, make):
        if seconds < self.due_s:
            return
        self.times.append(round(seconds, 1))
        self.players.append(make())
        self.due_s = (seconds // self.step_s + 1) * self.step_s
        if len(self.times) > SAMPLES_MAX:
            if self.doubles:
                self.step_s *= 2
                del self.times[1::2], self.players[1::2]
            else:
                del self.times[0], self.players[0]

    def state(self):
        return [self.step_s, self.times, self.players, self.due_s]

    def restore(self, state):
        self.step_s, self.times, self.players, self.due_s = state

    def as_lines(self, names):
        """Returns times, and for each name its samples, None where it had none."""
        return {"times": self.times, "players": {name: [sample.get(name) for sample in self.players] for name in names}}


class History:
    def __init__(self):
        self.begun_ns = 0
        self.whole, self.hour = Series(1, doubles=True), Series(HOUR_STEP_S, doubles=False)
        self.bursts = collections.deque(maxlen=BURSTS_MAX)      # dicts of measurements
        self.digits = ""
        self.per_constant = {}                  # (player, constant) -> latencies in us
        self.rate = collections.deque(maxlen=60)                # (second, submissions in it)

    def begin(self, ns):
        self.begun_ns = self.begun_ns or ns

    def round(self):
        """Forgets what belongs to the moduli of the round before."""
        self.per_constant.clear()

    def burst(self, fields):
        self.digits = (self.digits + fields["digits"])[-DIGITS_MAX:]
        self.bursts.append({
            "s": round((fields["ns"] - self.begun_ns) / 1e9, 2), "players": fields["players"],
            "lag_us": (fields["ns"] - fields["due_ns"]) / 1000, "spread_us": fields["spread_ns"] / 1000,
            "stamp_error_us": None if fields["stamp_error_ns"] is None else fields["stamp_error_ns"] / 1000,
            "busy_us": fields["busy_ns"] / 1000,
            "preempted": fields["preempted"]})

    def merged(self, fields):
        """Adds to the latest burst: scored submissions with a later one's stamp, and the bound of the error."""
        if self.bursts:
            self.bursts[-1].update(merged=fields["scored"], merged_us=fields["scored_late_ns"] / 1000)

    def submission(self, fields, line, contest):
        second = fields["ns"] // 10**9
        if self.rate and self.rate[-1][0] == second:
            self.rate[-1][1] += 1
        else:
            self.rate.append([second, 1])
        answer = contest.answers.get(fields["digits"]) if line[0] == "+" else None
        sent_ns = answer and answer.sent_ns(fields["ns"])
        if sent_ns is None:
            return
        latency_us = (fields["ns"] - sent_ns) / 1000
        for constant in answer.constants:
            self.per_constant.setdefault((fields["user"], constant), collections.deque(maxlen=PER_CONSTANT_MAX)).append(
                latency_us)

    def sample(self, ns, contest):
        if self.begun_ns:
            seconds = (ns - self.begun_ns) / 1e9
            for series in (self.whole, self.hour):
                series.sample(seconds, lambda: self._players(contest))

    @staticmethod
    def _players(contest):
        players = {}
        for _, user in contest.ranking()[:PLAYERS_MAX]:
            latest = sorted(itertools.islice(reversed(user.latencies_us), LATEST))
            indices = [max(0, -(-len(latest) * share // 100) - 1) for share in SHARES] if latest else []
            quantiles = [round(latest[index]) for index in indices]
            players[user.name] = [user.score, *quantiles]
        return players

    def state(self):
        return {"begun_ns": self.begun_ns, "whole": self.whole.state(), "hour": self.hour.state(),
                "bursts": list(self.bursts), "digits": self.digits,
                "per_constant": [[*key, list(values)] for key, values in self.per_constant.items()]}

    def restore(self, state):
        self.begun_ns, self.digits = state["begun_ns"], state["digits"]
        self.whole.restore(state["whole"])
        self.hour.restore(state["hour"])
        self.bursts.extend(state["bursts"])
        for player, constant, values in state["per_constant"]:
            self.per_constant[player, constant] = collections.deque(values, maxlen=PER_CONSTANT_MAX)
