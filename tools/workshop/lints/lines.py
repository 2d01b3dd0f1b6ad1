"""The shape of lines: their length, what stands at their end, tabs. One rule for every kind of text (.editorconfig)."""
from workshop.lints import files

COLUMNS_MAX = 120


def is_unbreakable(kind, line):
    """Returns true if a long line has no place to be broken at: a row of a table, an address on the web."""
    return kind == "md" and line.lstrip().startswith("|") or "://" in line


def findings(name):
    """Yields (line, message) for each fault of a file's lines."""
    kind = files.kind(name)
    if not kind:
        return
    text = (files.ROOT / name).read_text()
    for number, line in enumerate(text.split("\n"), 1):
        columns = len(line.expandtabs(4))
        if columns > COLUMNS_MAX and not is_unbreakable(kind, line):
            yield number, f"{columns} columns, more than {COLUMNS_MAX}"
        if line != line.rstrip():
            yield number, "space at the end of the line"
        if "\t" in line and kind != "mk":
            yield number, "a tab"
    if text and not text.endswith("\n") or text.endswith("\n\n"):
        yield text.count("\n") + 1, "the file does not end with one line feed"
