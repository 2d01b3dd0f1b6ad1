"""The board's /metrics, in the text format of Prometheus (0.0.4).

Like the board it shows nothing that would help a player. Names of players are labels, so any name is fine.
"""
from servers.contest import board_state

POINTS = (8, 4, 2, 1, 0)
RESULTS = ("late", "wrong", "dup", "early")
QUANTILES = {"p10": "0.1", "p50": "0.5", "p90": "0.9", "p99": "0.99"}


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def family(name, kind, text, samples):
    """Returns a family's lines. `samples`: (labels, value) each."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        words = ",".join(f'{label}="{escaped(str(word))}"' for label, word in labels.items())
        lines.append(f"{name}{{{words}}} {value}" if words else f"{name} {value}")
    return "".join(f"{line}\n" for line in lines)


def metrics_text(follower):
    """Returns the page. The caller holds the follower's lock."""
    replica = follower.replica
    users = [user for _, user in replica.contest.ranking()]
    measured = board_state.measures(replica, follower.now_ns())
    points = [({"user": user.name, "result": f"+{p}"}, user.points[p]) for user in users for p in POINTS]
    others = [({"user": user.name, "result": word}, getattr(user, word)) for user in users for word in RESULTS]
    latency = [({"user": user.name, "quantile": q}, user.latency()[key] / 1e6)
               for user in users for key, q in QUANTILES.items()]
    return "".join((
        family("contest_running", "gauge", "1 while the server plays this contest.", [({}, int(replica.running))]),
        family("contest_over", "gauge", "1 after the contest's end.", [({}, int(replica.over))]),
        family("contest_warning", "gauge", "1 while the board shows a warning.", [({}, int(bool(follower.warning)))]),
        family("contest_bursts_total", "counter", "Bursts of digits that were sent.", [({}, replica.bursts)]),
        family("contest_digits_total", "counter", "Digits that were sent.", [({}, replica.position)]),
        family("contest_offered_total", "counter", "Distinct answers in the digits so far.",
               [({}, replica.contest.offered)]),
        family("contest_connections", "gauge", "Open connections of players.", [({}, measured["connections"])]),
        family("contest_score", "gauge", "A player's score.", [({"user": user.name}, user.score) for user in users]),
        family("contest_found_total", "counter", "Answers that a player has found.",
               [({"user": user.name}, user.correct) for user in users]),
        family("contest_results_total", "counter", "Submissions by player and result.", points + others),
        family("contest_latency_seconds", "summary",
               "A player's quantiles over recent correct submissions: from the last digit to the submission.", latency),
    ))
