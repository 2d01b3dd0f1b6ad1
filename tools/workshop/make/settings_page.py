#!/usr/bin/python3
"""Puts the table of the settings' keys into docs/settings.md, between its two marks; or a program's own keys into the
page of its room.

    settings_page.py PROGRAM PAGE [own]     PROGRAM --settings prints the table"""
import pathlib
import subprocess
import sys


def composed(page, table, name="settings"):
    """Returns the page with the table in place of the one it holds."""
    begin, end = f"<!-- {name}: made by `make docs` -->\n", f"<!-- {name}: end -->\n"
    head, _, rest = page.partition(begin)
    assert end in rest, "the page lacks its marks"
    return head + begin + table + end + rest.partition(end)[2]


def table_of(program):
    return subprocess.run([program, "--settings"], capture_output=True, text=True, check=True, timeout=20).stdout


def own_keys(table):
    """Returns the table without the keys that every program has: the first of them is net.timeout."""
    own, _, rest = table.partition("| `net.timeout` |")
    assert rest, "the table lacks net.timeout"
    return own


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[2])
    found = table_of(sys.argv[1])
    path.write_text(composed(path.read_text(), own_keys(found) if sys.argv[3:] == ["own"] else found))
