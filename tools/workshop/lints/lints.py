"""The table of lints. Each takes paths (none: all that the rule is about) and yields lines of findings."""
from workshop.lints import asserts, commits, core, files, lines, programs, unused, words

KINDS = ("c", "asm", "py", "sh", "mk", "md", "man", "wire")
PRODUCT = ("image", "base", "kernel", "drivers", "net", "app", "host", "boot")


def by_file(name, check, paths, kinds):
    """Yields what `check` finds, in files in which it did not find nothing before."""
    clean = programs.Clean(name, [(files.ROOT / rules).read_text() for rules in files.tracked("tools/workshop/lints")])
    for file in files.of_kind(paths, *kinds):
        if clean.holds(file):
            continue
        found = list(check(file))
        if not found:
            clean.add(file)
        for line, message in found:
            yield f"{file}:{line}: {name}: {message}"
    clean.keep()


def lint_words(paths):
    """Checks the words of comments and pages: openings, length of sentences."""
    yield from by_file("words", words.findings, paths, KINDS)


def lint_lines(paths):
    """Checks for lines of more than 120 columns, tabs, spaces at the end."""
    yield from by_file("lines", lines.findings, paths, KINDS)


def lint_asserts(paths):
    """Checks for assertions that stand after the division or the access that they guard."""
    yield from by_file("asserts", asserts.findings, paths or PRODUCT, ("c",))


def lint_core(paths):
    """Counts the kernel that one reads, by rooms, and the tests; holds both to a limit (rooms.CORE)."""
    if paths:
        return
    rows = core.rows()
    yield from (f"{room:16}{lines:6} lines of code in {count:3} files" for room, count, lines in rows)
    total = sum(lines for _, _, lines in rows)
    yield f"{'the kernel':16}{total:6}"
    tests = core.tests_lines()
    yield f"{'tests':16}{tests:6} lines in all"
    found = (*core.findings(total), *core.tests_findings(tests))
    yield from (f"tools/workshop/lints/rooms.py:1: core: {message}" for message in found)


def lint_commits(paths):
    """Checks the subjects of the newest commits: `area: imperative ...`, at most 60 characters."""
    if not paths:
        yield from (f"{commit}:1: commits: {message}" for commit, message in commits.findings())


def lint_format(paths):
    """Checks C by .clang-format; --fix formats it."""
    yield from programs.format_c(paths)


def lint_python(paths):
    """Runs flake8 over Python (.flake8)."""
    yield from programs.python(paths)


def lint_shell(paths):
    """Runs shellcheck over shell scripts."""
    yield from programs.shell(paths)


def lint_cppcheck(paths):
    """Runs cppcheck over the product's C."""
    yield from programs.cppcheck(paths or PRODUCT)


def lint_spelling(paths):
    """Runs codespell over text and sources."""
    yield from programs.spelling(paths)


def lint_unused(paths):
    """Checks for functions of the product that nothing calls."""
    below = tuple(f"{path}/" for path in paths)
    for file, line, function in unused.findings(PRODUCT):
        if not paths or file in paths or file.startswith(below):
            yield f"{file}:{line}: unused: nothing calls {function}"


LINTS = {"format": lint_format, "words": lint_words, "lines": lint_lines, "python": lint_python, "shell": lint_shell,
         "cppcheck": lint_cppcheck, "spelling": lint_spelling, "asserts": lint_asserts, "unused": lint_unused,
         "commits": lint_commits, "core": lint_core}
FIXES = {"format": programs.format_c_fix}
