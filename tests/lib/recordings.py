"""A recorded contest for tests, made from a seed, in the format of `contest record --as-player`."""
import json

from servers.contest.stream import Stream


def make_recording(path, contest_round, bursts, **stream):
    """Writes the file; returns its digits."""
    source, ns, text = Stream(contest_round, "recording", **stream), 1_700_000_000 * 10**9, ""
    with open(path, "w", encoding="ascii") as file:
        def write(**fields):
            file.write(json.dumps(fields) + "\n")
        write(kind="contest", n=contest_round.n, constants=[str(m) for m in contest_round.constants],
              known=len(contest_round.known))
        for _ in range(bursts):
            burst = source.next_burst()
            ns += round(burst.pause_s * 1e9)
            write(kind="burst", index=burst.index, position=burst.position, digits=burst.digits, ns=ns)
            text += burst.digits
    return text
