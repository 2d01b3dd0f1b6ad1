"""The values for the board's page: the state that is sent with every change, and series over time.

No object of theirs is keyed by players: to JavaScript some names are properties of every object, and `42` comes first.

Nothing here helps a player: an answer is shown when somebody has submitted it, or when its 5 s are over.
"""
import importlib.util
import statistics

from servers.contest import board_text
from servers.contest.scoring import WINDOW_NS
from latencies import histogram, quantile

RECENT = 24                 # answers on the page
OFFSETS = 10                # submissions of an answer
CHARTED = 8                 # players with a line of their own colour
LINES = 30                  # lines of the points over time
DIGITS = 480
HAS_PICTURES = importlib.util.find_spec("matplotlib") is not None       # a link to a picture would be dead without


def is_public(answer, now_ns):
    return bool(answer.submissions) or answer.last_ns < now_ns - WINDOW_NS


def label(index):
    return f"M{index + 1}"


def user_row(rank, user):
    latency = user.latency()
    return {"rank": rank, "name": user.name, "score": user.score, "points": [user.points[p] for p in (8, 4, 2, 1, 0)],
            "bonus": user.bonus, "late": user.late, "wrong": user.wrong, "dup": user.dup, "submit": user.submits,
            "early": user.early, "us": [round(latency[key]) for key in ("p10", "p50", "p90", "p99")],
            "ip": board_text.frequent_ip(user)}


def answer_row(answer):
    return {"digits": answer.digits if len(answer.digits) <= 40 else f"{answer.digits[:18]}…{answer.digits[-18:]}",
            "length": len(answer.digits), "ns": str(answer.first_ns), "constants": [label(i) for i in answer.constants],
            "factor": answer.factor, "count": answer.count,
            "offsets": [[user, round((ns - sent_ns) / 1000)] for ns, user, _, sent_ns in answer.submissions[:OFFSETS]]}


def measures(replica, now_ns):
    """Returns the server's measurements of itself over its last bursts."""
    bursts = list(replica.history.bursts)
    undisturbed = [b for b in bursts if not b["preempted"]]

    def both(name, of):
        values = sorted(b[name] for b in of)
        return [round(quantile(values, 50), 1), round(values[-1], 1)] if values else [None, None]

    second, merged_us = now_ns // 10**9, [0.0, *(b.get("merged_us", 0) for b in bursts)]
    return {"spread_us": both("spread_us", bursts), "spread_undisturbed_us": both("spread_us", undisturbed),
            "preempted": len(bursts) - len(undisturbed), "bursts": len(bursts),
            "stamp_error_us": both("stamp_error_us", [b for b in bursts if b["stamp_error_us"] is not None]),
            "merged": sum(b.get("merged", 0) for b in bursts), "merged_us": round(max(merged_us), 1),
            "lag_us": both("lag_us", bursts), "busy_us": both("busy_us", bursts),
            "readers": bursts[-1]["players"] if bursts else 0, "connections": len(replica.connections),
            "rate": round(sum(n for at, n in replica.history.rate if second - 10 <= at < second) / 10, 1),
            "spreads": [round(b["spread_us"], 1) for b in bursts[-120:]]}


def marks(replica, now_ns):
    """Returns the parts of the shown digits that belong to an answer: [from, to, constant], from the first one on."""
    contest, text = replica.contest, replica.history.digits
    shown_from, found = max(len(text) - DIGITS, 0), []
    for answer in contest.recent:
        at = text.rfind(answer.digits) if is_public(answer, now_ns) else -1
        end = at + len(answer.digits)
        if at >= 0 and end > shown_from:
            found.append([max(at - shown_from, 0), end - shown_from, label(answer.constants[0])])
    return sorted(found)


def medians(replica, names):
    """Returns each player and the median latencies for each modulus, in us; None where there is none."""
    table = replica.history.per_constant
    return [[name, [statistics.median(values) if (values := table.get((name, i))) else None
                    for i in range(len(replica.contest.round.constants))]] for name in names]


def state_of(follower):
    replica, now_ns = follower.replica, follower.now_ns()
    contest, plan = replica.contest, replica.plan
    ranking = contest.ranking()
    charted = [user.name for _, user in ranking[:CHARTED]]
    seconds = (now_ns - replica.begun_ns) / 1e9 if replica.begun_ns else None
    public = (answer for answer in contest.recent if is_public(answer, now_ns))
    return {
        "name": plan.name, "now_ns": str(now_ns), "seconds": seconds, "starts_ns": str(plan.starts_ns),
        "ends_s": plan.ends_s, "factor": plan.factor_at(seconds) if seconds is not None else 1,
        "phases": plan.phases, "running": replica.running, "over": replica.over, "warning": follower.warning,
        "ports": replica.ports, "pictures": HAS_PICTURES,
        "round": {"name": contest.round.name.rsplit("/", 1)[-1], "n": contest.round.n,
                  "constants": contest.round.constant_texts(), "number": replica.round_number + 1,
                  "of": len(plan.rounds)},
        "offered": contest.offered, "digits_sent": replica.position, "bursts": replica.bursts,
        "users": [user_row(rank, user) for rank, user in ranking],
        "recent": [answer_row(answer) for _, answer in zip(range(RECENT), public)],
        "histograms": [[user.name, histogram(user.latencies_us)] for _, user in ranking[:CHARTED]],
        "medians": medians(replica, charted),
        "digits": replica.history.digits[-DIGITS:], "marks": marks(replica, now_ns),
        "measures": measures(replica, now_ns),
    }


def series_of(replica, query):
    """Returns points over time: the best players, and one player's latency. `span` is hour or all."""
    series = replica.history.hour if query.get("span") == "hour" else replica.history.whole
    try:
        after = float(query.get("after", "-1"))
    except ValueError:
        after = -1.0
    first = next((i for i, s in enumerate(series.times) if s > after), len(series.times))
    ranking = replica.contest.ranking()
    names = [user.name for _, user in ranking[:LINES]]
    player = query.get("player") if query.get("player") in replica.contest.users else names[0] if names else ""
    samples = series.players[first:]
    return {"step": series.step_s, "times": series.times[first:], "player": player,
            "scores": [[name, [sample[name][0] if name in sample else None for sample in samples]] for name in names],
            "latency": [sample[player][1:] if player in sample else [] for sample in samples]}


def board_json(follower):
    replica, now_ns = follower.replica, follower.now_ns()
    full = board_text.board_json(replica.contest, now_ns)
    shown = [is_public(answer, now_ns) for answer in replica.contest.recent]
    full["recent"] = [entry for entry, public in zip(full["recent"], shown) if public]
    return {**full, "name": replica.plan.name, "over": replica.over, "begun": bool(replica.begun_ns),
            "running": replica.running, "warning": follower.warning, "measures": measures(replica, now_ns)}
