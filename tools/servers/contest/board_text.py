"""board.txt, its JSON twin, and the page of the rules."""
import datetime
import html
import json

from servers.contest.scoring import POINTS

# Column heads and the column where each ends, as the original aligned them. A value too long moves the rest.
HEADS = (("+8", 14), ("+4", 21), ("+2", 29), ("+1", 36), (">5s", 41), ("wrong", 48), ("dup", 55), ("submit", 63),
         ("10%*", 69), ("50%*", 75), ("90%*", 82), ("99%*", 90), ("mean*", 97), ("std*", 103),
         ("frequent IP(ping)", 121), ("score", 129), ("rank", 134))
WIDTH = 134
ELIDE_OVER, ELIDE_KEEP = 144, 72


def seconds_text(ns):
    micros = ns // 1000
    return f"{micros // 1_000_000}.{micros % 1_000_000:06}"


def local_time(ns):
    return datetime.datetime.fromtimestamp(ns // 1000 / 1e6).strftime("%Y-%m-%d %H:%M:%S.%f")


def elide(digits):
    return digits if len(digits) <= ELIDE_OVER else f"{digits[:ELIDE_KEEP]} ..... {digits[-ELIDE_KEEP:]}"


def aligned_row(name, values):
    row = name
    for value, (_, end) in zip(values, HEADS):
        gap = max(end - len(row) - len(value), 1)
        row += " " * gap + value
    return row


def frequent_ip(user):
    if not user.ips:
        return "-"
    ip = user.ips.most_common(1)[0][0]
    return f"{ip}({user.ping_us[ip]})" if ip in user.ping_us else ip


def user_row(rank, user):
    latency = user.latency()
    return [*(str(user.points[p]) for p in (8, 4, 2, 1)), str(user.late), str(user.wrong), str(user.dup),
            str(user.submits), *(f"{latency[key]:.0f}" for key in ("p10", "p50", "p90", "p99", "mean", "std")),
            frequent_ip(user), str(user.score), str(rank)]


def board_text(contest, now_ns, warning=""):
    lines = [f"N  = {contest.round.n}"]
    lines += [f"M{i} = {text}" for i, text in enumerate(contest.round.constant_texts(), 1)]
    lines += [f"warning: {warning}"] if warning else []
    updated = local_time(now_ns) if now_ns else "never"
    lines += ["", "     Leader Board     ".center(WIDTH, "-"), f"(last update {updated})",
              aligned_row("", [head for head, _ in HEADS])]
    lines += [aligned_row(user.name, user_row(rank, user)) for rank, user in contest.ranking()]
    lines += ["*: latency distribution in us of recent 2000 correct submissions except front run", "",
              "     Recent Solved     ".center(WIDTH, "-")]
    for answer in contest.recent:
        if answer.submissions:
            lines += [elide(answer.digits), f"{seconds_text(answer.first_ns)} send"]
            lines += [f"{seconds_text(ns)} {user}@{ip}" for ns, user, ip, _ in answer.submissions]
            lines.append("")
    return "\n".join(lines) + "\n"


def board_json(contest, now_ns, **more):
    """Returns the board in full as values for JSON: unsolved answers too, and no hidden modulus."""
    return {
        "n": contest.round.n, "constants": contest.round.constant_texts(), "updated_ns": now_ns,
        "offered": contest.offered, **more,
        "users": [{
            "name": user.name, "rank": rank, "score": user.score, "bonus": user.bonus,
            **{f"+{p}": user.points[p] for p in (8, 4, 2, 1, 0)},
            "late": user.late, "wrong": user.wrong, "dup": user.dup, "submit": user.submits,
            "early": user.early, "found": user.correct, "missed": contest.offered - user.correct,
            "latency_us": user.latency(), "ip": frequent_ip(user),
        } for rank, user in contest.ranking()],
        "recent": [{"digits": answer.digits, "sent": seconds_text(answer.first_ns),
                    "submissions": [{"at": seconds_text(ns), "user": user, "ip": ip}
                                    for ns, user, ip, _ in answer.submissions]} for answer in contest.recent],
    }


def json_text(contest, now_ns, **more):
    return json.dumps(board_json(contest, now_ns, **more))


def rules_page(contest, ports, plan=None):
    """Returns the page for players. `plan`: its name and schedule stand there, too."""
    rows = "".join(f"<li>M{i} = {html.escape(text)}</li>" for i, text in enumerate(contest.round.constant_texts(), 1))
    points = ", ".join(f"{place}.: {p}" for place, p in enumerate(POINTS, 1))
    digits, submissions = ports.get("input", 10001), ports.get("output", 10002)     # none before the first service
    name = html.escape(plan.name if plan else "Contest")
    schedule = "".join(f"<li>{html.escape(line)}</li>" for line in plan.schedule()) if plan else ""
    return f"""<!DOCTYPE html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{name}: rules</title>
<style>:root {{ color-scheme: light dark }} body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem;
margin: 0 auto; padding: 1rem; overflow-wrap: anywhere }} h1, h2 {{ line-height: 1.2 }}</style>
<h1>{name}: find the multiples</h1>
<p>Port {digits} sends decimal digits for ever. Report every substring of at most N = {contest.round.n} digits that does
not begin with 0 and is a multiple of any of</p><ul>{rows}</ul>
<p>by <code>POST /submit?user=U&amp;passwd=P</code> to port {submissions}, the digits being the body. Name and password
are percent-encoded: a space is <code>%20</code>. Connections may be kept and requests pipelined; a submission counts
when its last byte arrives.</p>
<p>For each distinct answer, submissions count from 5 s before to 5 s after its last digit was sent. Points by place:
{points}; later ones 0. Every submission costs 1 point, whatever its result.</p>
<p>The response is one line: <code>+8</code> ... <code>+0</code>, <code>early</code> (not sent so far; the board shows
what becomes of it), <code>dup</code>, <code>late</code>, or <code>wrong: why</code>. Status 401 says that name or
password is unknown, 429 that too many wrong passwords came from your address.</p>
{f"<h2>Schedule</h2><ul>{schedule}</ul>" if schedule else ""}
<p>The digits pause for 5 s before a round begins. It may have another N and other moduli: read the board again after
the pause.</p>
<p><a href="./">the board</a> · <a href="board.txt">board.txt</a> · <a href="board.json">board.json</a></p>
</html>
"""
