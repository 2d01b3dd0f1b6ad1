"""Writes a stored contest for other programs.

    contest export cup.db --to FOLDER          burst.csv, answer.csv, submission.csv, ... into FOLDER
    contest export cup.db --table submission   one table to stdout
    contest export cup.db --digits             the stream, as text
    contest export cup.db --record             JSON lines as of `contest serve --record`, for --digits of `serve`
"""
import contextlib
import csv
import json
import pathlib
import sqlite3
import sys

from servers.contest import replica, store
from servers.contest.arguments import add_store, command_parser, complain


def write_table(connection, table, file):
    writer = csv.writer(file)
    writer.writerow(["seq", *store.COLUMNS[table]])
    writer.writerows(connection.execute(f"SELECT seq, {', '.join(store.COLUMNS[table])} FROM {table} ORDER BY seq"))


def write_record(connection, file):
    """Writes the kinds of contest/record.py that a store has whole: contest, burst, answer, submission, resolved."""
    plan = replica.plan_of(connection)
    first = plan.rounds[0][1]
    lines = [(0, {"kind": "contest", "n": first.n, "constants": [str(m) for m in first.constants],
                  "known": len(first.known), "seed": plan.seed, "rate": plan.rate, "burst": plan.burst,
                  "interval_s": plan.interval_s})]
    for table in ("burst", "answer", "submission", "resolved"):
        columns = ["index" if column == "idx" else column for column in store.COLUMNS[table]]
        for seq, *values in connection.execute(f"SELECT seq, {', '.join(store.COLUMNS[table])} FROM {table}"):
            fields = dict(zip(columns, values))
            if table == "answer":
                fields["constants"], fields["first"] = json.loads(fields["constants"]), bool(fields["first"])
            lines.append((seq, {"kind": table, **fields}))
    for _, line in sorted(lines, key=lambda entry: entry[0]):
        file.write(json.dumps(line) + "\n")


def export(connection, options):
    if options.to:
        options.to.mkdir(parents=True, exist_ok=True)
        for table in store.PLAYED:
            with open(options.to / f"{table}.csv", "w", encoding="utf-8", newline="") as file:
                write_table(connection, table, file)
    elif options.table:
        write_table(connection, options.table, sys.stdout)
    elif options.digits:
        for (digits,) in connection.execute("SELECT digits FROM burst ORDER BY seq"):
            sys.stdout.write(digits)
        sys.stdout.write("\n")
    else:
        write_record(connection, sys.stdout)


def make_parser():
    parser = command_parser("export", __doc__)
    add_store(parser, "the contest")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--to", type=pathlib.Path, metavar="FOLDER")
    way.add_argument("--table", choices=store.PLAYED)
    way.add_argument("--digits", action="store_true")
    way.add_argument("--record", action="store_true")
    return parser


def main(words):
    options = make_parser().parse_args(words)
    try:
        with contextlib.closing(store.connect(options.store)) as connection:
            export(connection, options)
    except (store.StoreError, sqlite3.Error) as error:
        complain("export", error)
        return 1
    except BrokenPipeError:         # the reader has enough: command_line.py
        raise
    except OSError as error:
        complain("export", f"{error.filename or options.to or 'standard output'}: {error.strerror}")
        return 1
    return 0
