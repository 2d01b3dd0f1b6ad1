"""Text that a host said, for a terminal."""
import re


def printable(text):
    """Shows control characters by their escapes, as \\x1b: text of a host goes to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else " " if c == "\t" else
                   c.encode("unicode_escape", "backslashreplace").decode("ascii") for c in text)


def number(text, default=None):
    """Returns the decimal number that a text is, of at most 20 digits; else the default."""
    return int(text) if isinstance(text, str) and re.fullmatch("[0-9]{1,20}", text) else default
