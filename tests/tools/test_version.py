"""One version, the file VERSION: every tool says it."""
import re
import subprocess

import pytest

from command_line import VERSION
from servers.contest.__main__ import COMMANDS
from workshop.lints import files

TOOLS = [path for path in files.of_kind(("tools",), "py") if path.rpartition("/")[0] in ("tools", "tools/workshop")
         and path != "tools/command_line.py" and "ArgumentParser(" in (files.ROOT / path).read_text()]
CONTEST = [("tools/contest/contest", *command) for command in ((), *((name,) for name in COMMANDS))]


@pytest.mark.parametrize("words", [(tool,) for tool in TOOLS] + CONTEST, ids=" ".join)
def test_every_tool_says_the_version(words):
    done = subprocess.run([files.ROOT / words[0], *words[1:], "--version"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(rf"[\w /.-]+ {re.escape(VERSION)}\n", done.stdout)


def test_all_tools_with_a_command_line_are_among_them():
    assert {"tools/gg", "tools/lint", "tools/new-program", "tools/peregrine", "tools/run.py"} <= set(TOOLS)


def test_the_lists_of_changes_begin_with_this_version():
    package = (files.ROOT / "debian/changelog").read_text()
    assert package.startswith(f"peregrine ({VERSION}) ")
    page = (files.ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (.*)$", page, re.MULTILINE)[1] == VERSION
