"""Counts assertions by folder: for each function longer than six lines there is one, on the average of the folder.

ASSERT(...) counts, and each call of a whole-state check, `..._check(...)`. static_assert does not. The parser knows C
as .clang-format leaves it: a function's body stands between a `{` and a `}` in the first column."""
import functools
import re

from workshop.lints import files
from workshop.lints.comments import C_ATTRIBUTE, C_TOKEN

LINES_SHORT_MAX = 6

ASSERTION = re.compile(r"\bASSERT\(|\b[a-z]\w*_check\(")


def blank_comments(source):
    """Returns the source with comments and strings blanked, line by line as before."""
    return C_TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def functions(source):
    """Yields (line, name, lines of the body) for each function."""
    lines = blank_comments(source).split("\n")
    for begin, line in enumerate(lines):
        if line != "{":
            continue
        end = next(i for i in range(begin, len(lines)) if lines[i].startswith("}"))
        head = begin
        while head > 0 and lines[head - 1].strip() and not lines[head - 1].startswith(("}", "#", "{")) \
                and not lines[head - 1].endswith(";"):
            head -= 1
        name = re.search(r"([A-Za-z_]\w*)\s*\(", C_ATTRIBUTE.sub("", " ".join(lines[head:begin])))
        yield head + 1, name[1] if name else "?", lines[begin + 1:end]


@functools.lru_cache(maxsize=None)
def count_in(name):
    """Returns the same of one file. Remembered, as the tables of several folders hold the file."""
    long, assertions, without = 0, 0, []
    for line, function, body in functions((files.ROOT / name).read_text()):
        in_body = sum(len(ASSERTION.findall(text)) for text in body)
        assertions += in_body
        if len(body) > LINES_SHORT_MAX:
            long += 1
            if not in_body:
                without.append(f"{name}:{line}: {function}")
    return long, assertions, without


def count(names):
    """Returns (functions longer than six lines, assertions, functions without one as file:line: name)."""
    counts = [count_in(name) for name in names]
    without = [function for counted in counts for function in counted[2]]
    return sum(counted[0] for counted in counts), sum(counted[1] for counted in counts), without


def folders(names):
    """Returns the folders of the files and the folders above them, in order."""
    found = set()
    for name in names:
        parts = name.split("/")[:-1]
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return sorted(found)


def table(names):
    """Returns the table of the folders as lines of text."""
    lines = [f"{'folder':22} {'functions':>9} {'assertions':>10} {'a function':>10}"]
    for folder in folders(names):
        long, assertions, _ = count(name for name in names if name.startswith(folder + "/"))
        lines.append(f"{folder:22} {long:9} {assertions:10} {assertions / max(long, 1):10.2f}")
    return lines
