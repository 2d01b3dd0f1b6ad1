#!/usr/bin/python3
"""Puts the calls that a program may use into docs/interface.md, between its two marks. Each prototype stands there with
its comment in the header, and with a line of a program that calls it.

A header's calls are those above its line `---- for the platform` or `---- for the service`, if it has one."""
import functools
import pathlib
import re

from workshop.make import settings_page

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/interface.md"
HEADERS = {
    "The program": ("app/program.h",),
    "The service": tuple(f"app/service/{name}.h" for name in (
        "service", "settings", "stats", "rehearsal", "slow", "work", "control")),
    "The network": ("net/transport.h", "net/transport_path.h", *(f"net/http/{name}.h" for name in (
        "request", "body", "response"))),
    "The base": tuple(f"base/{name}.h" for name in (
        "assert", "bytes", "counters", "cycles", "format", "histogram", "hmac", "hot_section", "log", "settings",
        "sha256", "siphash", "text", "time", "utc")),
}
ALL = tuple(header for headers in HEADERS.values() for header in headers)
# An example comes from the first of these files that has a short one.
EXAMPLES = ("docs/tutorial/*/program.c", "app/echo/*.c", "app/[!s]*/*.[ch]", "docs/tutorial/*/*_test.c", "app/s*/*.c",
            "net/*/*.c", "base/*.c", "host/*.c", "tests/unit/*.c")
COLUMNS = 120
END = re.compile(r"^/\* ---- for the (platform|service)\b", re.MULTILINE)
PIECE = re.compile(r"""
    /\*@.*?\*/                                                      # for tests/prove
    | (?P<comment>/\*.*?\*/)
    | \#define\ (?P<macro>\w+\([^)]*\)) (?:[^\n]*\\\n)* [^\n]*
    | (?P<call>[a-z_][^;{}#=]*?\w\([^;{}]*\)) (?: \s*; (?P<behind>\ /\*.*?\*/)? | \s*\{ (?:[^\n]*\} | .*?\n\}) )
    | [a-z_][^;{(]* \{ (?: [^\n]*\}; | .*?\n\}[^;\n]*; ) | [^\n]+   # a struct, an enum; anything else
    """, re.VERBOSE | re.DOTALL)


def prose(comment):
    """Returns the text of a header's comment as Markdown: without stars, its code in fences."""
    lines = comment.removesuffix("*/").split("\n")
    text = "\n".join(re.sub(r"^[/ ]\*+( |$)", "", line).rstrip() for line in lines)
    return re.sub(r"(^ {4}.*\n?)+", lambda code: "```\n" + re.sub("^ {4}", "", code[0], flags=re.MULTILINE).rstrip()
                  + "\n```\n", text.strip(), flags=re.MULTILINE)


def name_of(call):
    return re.search(r"(\w+)\(", re.sub(r"__attribute__\(\(\w+\(.*?\)\)\)", "", call))[1]


def read(text):
    """Returns (a header's comment, the rest of it up to the end of the interface, [[comment, [call, ...]], ...])."""
    head, rest = re.match(r"(/\*.*?\*/)\n#pragma once\n(.*)", text, re.DOTALL).groups()
    rest = re.sub(r"^#include.*\n", "", END.split(rest)[0], flags=re.MULTILINE).strip("\n")
    groups, at = [["", []]], 0
    for piece in PIECE.finditer(rest):
        if piece["comment"] or "\n\n" in rest[at:piece.start()]:
            groups.append([piece["comment"] or "", []])
        if (call := piece["call"] or piece["macro"]) and not re.match(r"extern |typedef |\w+_COUNTERS\(", call):
            end = ";" + (piece["behind"] or "") if piece["call"] else ""
            groups[-1][1].append(call.removeprefix("static inline ") + end)
        at = piece.end()
    return head, rest, [group for group in groups if group[1]]


@functools.cache
def sources():
    """Returns [(path, its lines without comments), ...]."""
    return [(path.relative_to(ROOT).as_posix(), re.sub(r"[ \t]*/\*.*", "", path.read_text()).split("\n"))
            for pattern in EXAMPLES for path in sorted(ROOT.glob(pattern))]


def example_of(name, ends=";{)"):
    """Returns (a line that calls it, its file); None: nobody does. A part of a statement, which ends in a comma, is the
    second choice."""
    call = re.compile(rf"(?:^\s.*|=.*)(?<![\w.>]){name}[()]")
    for path, lines in sources():
        for number, line in enumerate(lines):
            if name in line and call.search(line):
                texts = (" ".join(map(str.strip, lines[number:number + count])) for count in range(1, 6))
                text = next((text for text in texts if text.count("(") == text.count(")")), "")
                if text and text[-1] in ends and len(text) <= COLUMNS - 4:
                    return text, path
    return example_of(name, ",") if ends != "," else None


def examples(calls):
    """Returns the lines of one example, or of two if there are several calls."""
    shown = dict.fromkeys(filter(None, map(example_of, map(name_of, calls))))
    return "".join(f"    {line}{'  ' if len(line) + len(path) + 9 <= COLUMNS else chr(10) + '    '}// {path}\n"
                   for line, path in list(shown)[:2])


def section(header):
    head, rest, groups = read((ROOT / header).read_text())
    code = "\n".join(f"{comment}\n" + "\n".join(calls) + "\n" + examples(calls) for comment, calls in groups)
    return f"### [{header}](../{header})\n\n{prose(head)}\n\n```c\n{(code or rest).strip()}\n```\n\n"


def table():
    return "\n" + "".join(f"## {title}\n\n" + "".join(map(section, headers)) for title, headers in HEADERS.items())


if __name__ == "__main__":
    PAGE.write_text(settings_page.composed(PAGE.read_text(), table(), "interface"))
