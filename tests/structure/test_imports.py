"""The imports of Python: tests import tools, tools import no tests, and tools' packages import downwards only."""
import ast

import pytest

from lints import files

# From the bottom up. A package imports those before it; modules at the top of tools/ import any.
PACKAGES = ("web", "contest", "lints", "players", "deploy", "vm", "exchange", "probe")


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


def package_of(name):
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else ""


PYTHON = files.of_kind(("tools", "tests"), "py")
TOOLS = [name for name in PYTHON if name.startswith("tools/")]


def test_nothing_changes_the_path_of_imports():
    assert [name for name in PYTHON if "sys.path" in imports(name)] == []


def test_tools_import_no_tests():
    assert [name for name in TOOLS if any(module.split(".")[0] == "tests" for module in imports(name))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_downwards(package):
    below = PACKAGES[:PACKAGES.index(package) + 1]
    for name in TOOLS:
        if package_of(name) == package:
            upwards = [m for m in imports(name) if m.split(".")[0] in PACKAGES and m.split(".")[0] not in below]
            assert not upwards, f"{name} imports {upwards}"


def test_all_packages_are_in_the_order():
    assert {package_of(name) for name in TOOLS} - {"", "make"} <= set(PACKAGES)
