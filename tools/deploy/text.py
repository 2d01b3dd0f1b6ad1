"""Text that a host said, for a terminal."""
import re

from command_line import printable      # noqa: F401: for the modules of this folder


def number(text, default=None):
    """Returns the decimal number that a text is, of at most 20 digits; else the default."""
    return int(text) if isinstance(text, str) and re.fullmatch("[0-9]{1,20}", text) else default
