"""The lines of the kernel that one reads: rooms.CORE, in C and assembler, without comments and blank lines.
The lines of tests/, all of them."""
from workshop.lints import files
from workshop.lints.comments import C_TOKEN
from workshop.lints.rooms import CORE, CORE_LEFT_OUT, CORE_LINES_MAX, TESTS_LINES_MAX

SLACK = 500         # lines below the limit, from which on it must come down
TESTS_SLACK = 2000  # as SLACK, for the tests
TESTS_KINDS = ("c", "asm", "py", "sh", "wire")
PAGES = ("README.md", "docs/architecture.md")


def code_lines(name):
    """Returns the number of a file's lines that hold code."""
    text = (files.ROOT / name).read_text()
    if files.kind(name) == "c":
        text = C_TOKEN.sub(lambda m: " " if m.lastgroup in ("block", "line") else m.group(), text)
    return sum(1 for line in text.split("\n") if line.strip() and not line.lstrip().startswith(";"))


def rows():
    """Returns [(room, its files, its lines of code)] in the order of reading."""
    found = []
    for room in CORE:
        names = [name for name in files.of_kind((room,), "c", "asm") if not name.startswith(CORE_LEFT_OUT)]
        found.append((room, len(names), sum(map(code_lines, names))))
    return found


def findings(lines):
    """Yields a message if the core has grown past its limit, if the limit has become too wide, or
    if a page says another one."""
    if lines > CORE_LINES_MAX:
        yield f"the kernel that one reads has {lines} lines of code, more than CORE_LINES_MAX = {CORE_LINES_MAX}"
    if lines < CORE_LINES_MAX - SLACK:
        yield f"the kernel that one reads has shrunk to {lines} lines of code: lower CORE_LINES_MAX"
    for page in PAGES:
        if f"{CORE_LINES_MAX:,} lines" not in (files.ROOT / page).read_text():
            yield f"{page} does not say {CORE_LINES_MAX:,} lines"


def tests_lines():
    """Returns the number of lines of tests/."""
    return sum((files.ROOT / name).read_bytes().count(b"\n") for name in files.of_kind(("tests",), *TESTS_KINDS))


def tests_findings(lines):
    """Yields a message if the tests have grown past their limit, or if the limit has become too wide."""
    if lines > TESTS_LINES_MAX:
        yield f"tests/ has {lines} lines, more than TESTS_LINES_MAX = {TESTS_LINES_MAX}: say something in fewer lines"
    if lines < TESTS_LINES_MAX - TESTS_SLACK:
        yield f"tests/ has shrunk to {lines} lines: lower TESTS_LINES_MAX"
