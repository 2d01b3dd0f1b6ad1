"""Assertions that come too late: a divisor is asserted not to be 0 after the division, an index after the access.

The parser knows C as .clang-format leaves it: a function's body stands between a `{` and a `}` in the first column."""
import re

from workshop.lints import files
from workshop.lints.comments import C_ATTRIBUTE, C_TOKEN

# A comparison in an assertion: with 0 it guards a divisor, with a bound an index.
NOT_ZERO = ("> 0", "!= 0")
GUARD = re.compile(r"(?<![\w.>])([\w.>-]*\w) (> 0|!= 0|< [\w.>-]+|<= [A-Z]\w+)")


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


def findings(name):
    """Yields (the line of the function, message) for each assertion after the use that it guards."""
    for first, function, body in functions((files.ROOT / name).read_text()):
        for at, text in enumerate(body):
            for value, bound in GUARD.findall(text) if "ASSERT(" in text else ():
                word = rf"(?<![\w.>]){re.escape(value)}"
                use = rf"[/%]=? {word}\b(?!->|[.\[(])" if bound in NOT_ZERO else rf"(?<![\w.>&-])[\w.>-]+\[{word}\]"
                used = next((i for i in range(at) if re.search(use, body[i])), at)
                # A value that is set or compared since then is another one, or is guarded.
                other = re.compile(rf"{word} ?([-+*/%&|]?=(?!=)|==|<|\+\+|--)|(\+\+|--){word}\b")
                if not any(map(other.search, body[used:at])) and used < at:
                    yield first, f"{function} asserts {value} {bound} after its use"
