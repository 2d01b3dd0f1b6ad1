"""Prints the plan of a store: rounds, schedule, users. Adds users and moves the end while nobody serves it.

    contest plan cup.db                          the plan
    contest plan cup.db --users more.txt         adds users, and gives new passwords to those it has
    contest plan cup.db --ends 3h                moves the end

A contest that is served has to be ended first; the next `contest serve` goes on with the new plan.
"""
import contextlib
import dataclasses
import json

from servers.contest import replica, store
from servers.contest.arguments import add_store, command_parser, complain, of_plan, users_of
from servers.contest.plan import PlanError, Users, parse_span, span_text


def describe(plan):
    """Returns the lines that show the plan to a host."""
    lines = [f"name      {plan.name}"]
    lines += [f"schedule  {line}" for line in plan.schedule()]
    for number, (_, played) in enumerate(plan.rounds, 1):
        lines.append(f"round {number}   N = {played.n}, {len(played.known)} moduli, {len(played.hidden)} hidden")
    low, high = plan.burst
    lines.append(f"digits    {low}-{high} a burst, {plan.interval_s[0]:g}-{plan.interval_s[1]:g} s apart, "
                 f"{plan.rate:g} answers a second planted, seed {plan.seed}")
    lines.append(f"kept      {span_text(plan.keep_days * 86400)}" if plan.keep_days else "kept      everything")
    users = "anybody" if plan.users is None else f"{len(plan.users.hashes)}: {', '.join(sorted(plan.users.hashes))}"
    return lines + [f"users     {users}"]


def change(plan, options):
    """Returns the plan with what the options change."""
    if options.users:
        if plan.users is None:
            raise PlanError("anybody may play in this contest; it has no users")
        added = Users.of(options.users, plan.users.salt)
        plan = dataclasses.replace(plan, users=Users(plan.users.salt, {**plan.users.hashes, **added.hashes}))
    if options.ends is not None:
        plan = dataclasses.replace(plan, ends_s=options.ends).checked()
    return plan


def make_parser():
    parser = command_parser("plan", __doc__)
    add_store(parser, "the contest")
    parser.add_argument("--users", type=users_of, metavar="FILE", help="lines user:password")
    parser.add_argument("--ends", type=of_plan(parse_span), metavar="SPAN", help="after the beginning; 0: never")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    with contextlib.closing(store.connect(options.store)) as connection:
        return show(connection, options)


def show(connection, options):
    """Prints the plan, with the changes of the options. Returns the exit status."""
    plan = replica.plan_of(connection)
    try:
        if options.users or options.ends is not None:
            with store.lock(options.store):
                plan = change(plan, options)
                connection.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(plan.to_json()),))
    except (PlanError, store.StoreError) as error:
        complain("plan", error)
        return 1
    print("\n".join(describe(plan)))
    return 0
