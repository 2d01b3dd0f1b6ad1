"""Makes the store of a contest: its name, rounds, schedule and users. `contest serve STORE` plays it.

    contest init cup.db --name "Spring Cup" --round qualification --round online@1h --starts 2026-11-23T20:00 \\
        --ends 2h --phase 110m-120m=2 --users users.txt

Spans count from the beginning: 90, 15m, 2h, 3d. Without --starts a contest begins when it is first served.
"""

import os

from command_line import words_of
from servers.contest import rounds, store
from servers.contest.arguments import (PROGRAM, SERVED, STREAM_WORDS, add_store, add_stream, command_parser, complain,
                                       of_plan)
from servers.contest.plan import Plan, PlanError, Users, parse_phase, parse_span, parse_time
from servers.contest.show import describe


def round_at(text):
    """Parses ROUND or ROUND@SPAN."""
    name, _, span = text.partition("@")
    return parse_span(span) if span else 0.0, rounds.load_round(name)


def make_plan(options):
    fields = {key: value for key in STREAM_WORDS if (value := getattr(options, key)) is not None}
    if "users" in fields:
        fields["users"] = Users.of(fields["users"])
    played = tuple(sorted(options.round or [(0.0, rounds.ONLINE)], key=lambda entry: entry[0]))
    if played[0][0] != 0:
        raise PlanError("no round begins with the contest: one --round without @")
    if len({at_s for at_s, _ in played}) < len(played):
        raise PlanError("two rounds begin at the same time")
    return Plan(name=options.name, rounds=played, starts_ns=options.starts, ends_s=options.ends,
                phases=tuple(options.phase), keep_days=options.keep / 86400, **fields).checked()


def give_to_folder(path):
    """Gives a store that root makes to the owner of its folder: the user of the service that plays it."""
    if os.geteuid() == 0:
        owner = os.stat(os.path.dirname(os.path.abspath(path)))
        os.chown(path, owner.st_uid, owner.st_gid)


def make_parser():
    parser = command_parser("init", __doc__)
    add = parser.add_argument
    add_store(parser, "the file to make")
    add("--name", default="Contest", help="what the board is headed with")
    add(
        "--round",
        type=of_plan(round_at),
        action="append",
        metavar="ROUND[@SPAN]",
        help="online, onsite, qualification or a file of words n=256 m=823,108 hidden=3^50*7^30; @: when it begins; "
             "several may follow each other (default online)")
    add("--starts", type=of_plan(parse_time), default=0, metavar="TIME", help="local time, like 2026-11-23T20:00")
    add("--ends", type=of_plan(parse_span), default=0.0, metavar="SPAN", help="after the beginning (default: never)")
    add("--phase", type=of_plan(parse_phase), action="append", default=[], metavar="FROM-TO=FACTOR",
        help="the points of answers sent then count so many times")
    add("--keep", type=of_plan(parse_span), default=0.0, metavar="SPAN",
        help="the board's process deletes rows that are older; snapshots stay (default: everything is kept)")
    add_stream(add)
    return parser


def main(words):
    options = make_parser().parse_args(words)
    try:
        plan = make_plan(options)
        if options.store == SERVED:
            os.makedirs(os.path.dirname(SERVED), mode=0o700, exist_ok=True)
        store.create(options.store, plan)
        give_to_folder(options.store)
    except PlanError as error:
        complain("init", error)
        return 1
    except (store.StoreError, OSError) as error:
        way_out = "; be root, or name a STORE" if options.store == SERVED and os.geteuid() else ""
        complain("init", words_of(error) + way_out)
        return 1
    print("\n".join(describe(plan)))
    print(f"{options.store}: made; `{PROGRAM} serve {options.store}` plays it")
    return 0
