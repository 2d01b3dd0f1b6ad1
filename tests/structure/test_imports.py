"""The imports of Python: tests import tools, tools import no tests; the rooms of tools import as
tools/workshop/lints/rooms.py says, and packages within a room downwards only."""
import ast

import pytest

from workshop.lints import files, rooms

# From the bottom up: a package of a room imports those before it there.
PACKAGES = ("servers.web", "servers.contest", "servers.players", "servers.exchange",
            "workshop.lints", "workshop.vm", "workshop.probe")
TOP = ("command_line", "latencies")     # modules of tools/ for all rooms


def imports(name):
    """Returns the modules that a file imports, as dotted names, and the strings by which it changes sys.path."""
    found = []
    for node in ast.walk(ast.parse((files.ROOT / name).read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if node.module else []
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
            found.append("sys.path")
    return found


PYTHON = files.of_kind(("tools", "tests"), "py")
TOOLS = [name for name in PYTHON if name.startswith("tools/")]


def test_nothing_changes_the_path_of_imports():
    assert [name for name in PYTHON if "sys.path" in imports(name)] == []


def test_tools_import_no_tests():
    assert [name for name in TOOLS if any(module.split(".")[0] == "tests" for module in imports(name))] == []


def of_tools(name):
    """Returns the modules of tools/ that a file imports, as lists: room, package."""
    own = (*rooms.TOOLS_MAY_IMPORT, *TOP)
    return [module.split(".")[:2] for module in imports(name) if module.split(".")[0] in own]


@pytest.mark.parametrize("room", rooms.TOOLS_MAY_IMPORT)
def test_rooms_of_tools_import_as_the_table_says(room):
    allowed = {room, *rooms.TOOLS_MAY_IMPORT[room], *TOP}
    for name in TOOLS:
        if name.startswith(f"tools/{room}/"):
            assert {module[0] for module in of_tools(name)} <= allowed, name


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_downwards(package):
    above = PACKAGES[PACKAGES.index(package) + 1:]
    for name in TOOLS:
        if name.startswith(f"tools/{package.replace('.', '/')}/"):
            assert not {".".join(module) for module in of_tools(name)} & set(above), name


def test_every_tool_stands_in_a_room_or_is_a_command():
    folders = {"/".join(name.split("/")[1:-1]) for name in files.of_kind(("tools",), "py", "sh")}
    known = {package.replace(".", "/") for package in PACKAGES}
    assert folders - known == {"", "contest", "servers", "workshop", "workshop/make", "deploy", "deploy/remote"}
