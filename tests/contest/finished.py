"""The store of a contest that is over: points of six digits, names of 32 characters, a stop of twenty minutes.

    python3 -m tests.contest.finished STORE
"""
import json
import pathlib
import random
import sys

from servers.contest import replica, rounds, store
from servers.contest.plan import Plan

SECOND, BEGAN_NS = 10**9, 1_790_000_000 * 10**9
NAMES = ("peregrine-spin", "W" * 32, "peregrine-sleep", "kestrel", "quadratic", "a-name-of-thirty-two-characters.")
POINTS = (412_345, 398_001, 99_999, 12_340, 20, -123_456)
MEDIAN_US = (12, 70, 180, 900, 25_000, 1_400_000)
PLAYED_S = (*range(0, 600, 2), *range(1800, 2400, 2))


def make(path):
    plan = Plan(name="Spring Cup", rounds=((0.0, rounds.QUALIFICATION), (1800.0, rounds.ONLINE)), ends_s=2400,
                starts_ns=BEGAN_NS)
    store.create(path, plan)
    connection, draw = store.connect(path), random.Random(1)
    state, seq = replica.Replica(connection), 0

    def take(table, **fields):
        nonlocal seq
        seq += 1
        state.take(table, {**dict.fromkeys(store.COLUMNS[table]), **fields})

    def event(ns, kind, **fields):
        take("event", ns=ns, kind=kind, fields=json.dumps(fields))

    event(BEGAN_NS, "run", ports={"pages": 1, "input": 2, "output": 3}, clock_origin_ns=0)
    event(BEGAN_NS, "begin")
    for played, second in enumerate(PLAYED_S, 1):
        ns, digits = BEGAN_NS + second * SECOND, str(draw.randrange(10**50, 10**60))
        if second == 1800:
            event(ns, "round", number=1)
        take("burst", idx=seq, ns=ns, position=100 * second, digits=digits * 3, due_ns=ns, spread_ns=345_000, players=6,
             stamp_error_ns=900, busy_ns=1_900_000, preempted=0)
        take("answer", ns=ns, start=0, end=60, constants=json.dumps([second // 2 % 4]), digits=digits)
        for name, median_us in zip(NAMES, MEDIAN_US):
            late_ns = round(median_us * 1000 * draw.lognormvariate(0, 0.3))
            early = name == NAMES[1] and second % 10 == 0
            take("submission", ns=ns + late_ns, ip="127.0.0.1", user=name, digits=digits, verdict="")
            if early:
                state.contest.recent[0].submissions[0:0] = [(ns - 23_456_000, name, "127.0.0.1", ns)]
        for name, score in zip(NAMES, POINTS):
            user = state.contest.user(name)
            user.bonus += round(score * played / len(PLAYED_S)) - user.score
            user.wrong, user.points[8] = 123_456 if score < 0 else second, 12_345 if score > 100_000 else second
            user.bonus += round(score * played / len(PLAYED_S)) - user.score
    event(ns + SECOND, "over")
    event(ns + 2 * SECOND, "stop")
    with connection:
        connection.execute("INSERT INTO snapshot VALUES (?, ?, ?)", (seq, state.ns, store.pack(state.state())))
    connection.close()


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
