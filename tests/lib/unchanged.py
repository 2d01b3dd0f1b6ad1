"""Leaves out tests that passed before with the same inputs: `make test` plays the tests that a change can break.

A test's inputs are the files that INPUTS names for its folder. Their digest at the time of the last pass is kept in
build/passed.json. A folder that is not named has no known inputs: its tests always run."""
import functools
import hashlib
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PASSED = BUILD / "passed.json"

COMMON = ("tests/conftest.py", "tests/lib/*.py", "pyproject.toml")


def unit_inputs(item):
    return (BUILD / item.callspec.params["name"], "tests/unit/test_unit.py")


def wire_inputs(item):
    script = getattr(item, "callspec", None) and item.callspec.params.get("name")
    scripts = f"tests/wire/{script}" if script else "tests/wire/**/*"
    return (BUILD / "test/tests/wire/timeline", scripts, "tests/wire/*.py")


SOURCES_C = tuple(f"{folder}/**/*.[ch]" for folder in ("image", "base", "kernel", "drivers", "net", "app", "host"))
SOURCES_PYTHON = ("tests/**/*.py", "tools/**/*.py", ".flake8")

# By lint: which files it reads. The others read so little that they always run.
LINTS = {
    "format": (*SOURCES_C, "tests/**/*.[ch]", ".clang-format"),
    "cppcheck": SOURCES_C,
    "python": (*SOURCES_PYTHON, "tools/*"),
    "shell": ("tools/**/*.sh", "tests/**/*.sh", "tools/*", ".ci/run", "tools/deploy/remote/.shellcheckrc"),
}


OBJECTS = f"{BUILD.relative_to(ROOT)}/kernel"
# By function: tests of the layout that read many files.
LAYOUT = {
    "test_kernel_has_no_circle_of_calls": (f"{OBJECTS}/kernel/**/*.o",),
    "test_the_kernel_uses_vectors_only_in_chosen_variants": (f"{OBJECTS}/**/*.o",),
    "test_nothing_changes_the_path_of_imports": SOURCES_PYTHON,
    "test_tools_import_no_tests": SOURCES_PYTHON,
    "test_packages_import_downwards": SOURCES_PYTHON,
}


def structure_inputs(item):
    name = getattr(item, "callspec", None) and item.callspec.params.get("name")
    if name in LINTS:
        return ("tools/workshop/lints/*.py", *LINTS[name])
    return ("tests/structure/*.py", *LAYOUT[item.originalname]) if item.originalname in LAYOUT else None


# Modules of tests/tools that read the image.
READ_THE_IMAGE = ("test_image.py", "test_run.py")


def tools_inputs(item):
    image = (BUILD / "peregrine.elf", BUILD / "peregrine.debug") if item.path.name in READ_THE_IMAGE else ()
    return ("VERSION", "CHANGELOG.md", "Makefile", "debian/*", "tools/**/*", "tests/tools/*", *image)


WEB = ("VERSION", "tools/command_line.py", "tools/latencies.py", "tools/servers/web/**/*")

# By folder of tests/: the files, as patterns, or a function of the test.
INPUTS = {
    "structure": structure_inputs,
    "unit": unit_inputs,
    "wire": wire_inputs,
    "web": (*WEB, "tests/web/*"),
    "contest": (*WEB, "tools/servers/contest/**/*", "tests/contest/*"),
    "exchange": (*WEB, "tools/servers/contest/**/*", "tools/servers/exchange/**/*", "tools/workshop/vm/*.py",
                 "tests/exchange/*", BUILD / "third-party/judges/.fetched",
                 BUILD / "third-party/judges-java/.fetched"),
    "sim": (BUILD / "test/sim-own", "tests/sim/*.py"),
    "matcher": (BUILD / "host/tests/matcher/matcher_check", "tests/matcher/*.py"),
    "tools": tools_inputs,
    "prove": (*SOURCES_C, "tests/prove/**/*"),
}


@functools.lru_cache(maxsize=None)
def digest_of_file(path):
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else "none"


@functools.lru_cache(maxsize=None)
def files_of(pattern):
    if isinstance(pattern, pathlib.Path):
        return [pattern]
    return sorted(path for path in ROOT.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)


def name_of(nodeid):
    """Returns the name of a test without the group that --dist loadgroup appends."""
    return nodeid.split("@")[0]


def digest(item):
    """Returns the digest of a test's inputs; None if they are not known."""
    parts = item.nodeid.split("/")
    inputs = INPUTS.get(parts[1]) if parts[0] == "tests" and len(parts) > 2 else None
    inputs = inputs(item) if callable(inputs) else inputs
    if inputs is None:
        return None
    total = hashlib.blake2b(sys.version.encode(), digest_size=16)
    for pattern in (*COMMON, *inputs):
        for path in files_of(pattern):
            total.update(f"{path} {digest_of_file(path)}\n".encode())
    return total.hexdigest()


def split(items, passed):
    """Returns (the tests to be played, those that passed with the same inputs). Notes each known digest at its test."""
    played, left_out = [], []
    for item in items:
        inputs = digest(item)
        if inputs and passed.get(name_of(item.nodeid)) == inputs:
            left_out.append(item)
            continue
        played.append(item)
        if inputs:
            item.user_properties.append(("inputs", inputs))
    return played, left_out


def read_passed():
    try:
        return json.loads(PASSED.read_text())
    except (OSError, ValueError):
        return {}


def write_passed(passed):
    PASSED.parent.mkdir(parents=True, exist_ok=True)
    new = PASSED.with_name(f"passed.{os.getpid()}")
    new.write_text(json.dumps(passed, indent=0, sort_keys=True))
    new.replace(PASSED)
