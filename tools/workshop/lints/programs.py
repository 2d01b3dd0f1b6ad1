"""Foreign linters: the command of each, and its findings as file:line. .clang-format, .flake8 and .editorconfig hold
what editors share with them."""
import hashlib
import json
import os
import pathlib
import re
import subprocess

from workshop.lints import files

CPPCHECK = ["cppcheck", "-q", "-j2", "--enable=warning,performance,portability", "-I.", "--std=c11", "--inline-suppr",
            "--template={file}:{line}: {id}: {message}", "--suppress=internalAstError", "--suppress=missingInclude",
            "--suppress=arrayIndexThenCheck", "--suppress=returnDanglingLifetime",
            # Traps on purpose; ranges of which the first kept_count are set; one index for two arrays side by side.
            "--suppress=*:kernel/rescue/selftest*", "--suppress=uninitvar:net/tcp/ranges.c",
            "--suppress=pointerOutOfBounds:app/matcher/*"]

# Ours, or a document's; codespell takes them for misspelt.
SPELLING_OURS = "ect,nd,ist,hel,conect,fo,ot,te,caf,abd"

# Programs whose findings differ from version to version, and the version that judges.
JUDGES = {"clang-format": "14", "cppcheck": "2.10"}

FINDING = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d+):")


CONFIGURATIONS = (".clang-format", ".flake8", "tools/deploy/remote/.shellcheckrc")


class Clean:
    """Remembers in build/lint/ the files in which a linter found nothing. As long as they and the linter's rules are as
    they were, nobody reads them again."""

    def __init__(self, name, rules):
        self.path = files.ROOT / f"build/lint/{name}.json"
        rules = [*rules, *((files.ROOT / name).read_text() for name in CONFIGURATIONS)]
        self.rules = hashlib.blake2b("\n".join(rules).encode(), digest_size=16).hexdigest()
        try:
            kept = json.loads(self.path.read_text())
        except (OSError, ValueError):
            kept = {}
        self.digests = kept.get("files", {}) if kept.get("rules") == self.rules else {}

    def digest(self, path):
        return hashlib.blake2b((files.ROOT / path).read_bytes(), digest_size=16).hexdigest()

    def holds(self, path):
        return self.digests.get(path) == self.digest(path)

    def add(self, path):
        self.digests[path] = self.digest(path)

    def keep(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"rules": self.rules, "files": self.digests}))
        new.replace(self.path)


def run_on_changed(name, command, paths):
    """Runs a linter that reads each file by itself over the files that it did not find clean before."""
    clean = Clean(name, command)
    paths = [path for path in paths if not clean.holds(path)]
    found = list(run(name, command, paths))
    yield from found
    failed = any(line.startswith(("tools/lint:", "tools/setup.sh:1:")) for line in found)
    for path in paths:
        if not failed and not any(f"{path}:" in line for line in found):
            clean.add(path)
    clean.keep()


def run(name, command, paths):
    """Yields the lines of a program's output that name a file and a line."""
    if not paths:
        return
    try:
        done = subprocess.run([*command, *paths], cwd=files.ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        yield f"tools/setup.sh:1: {name}: {command[0]} is not installed: make setup"
        return
    found = 0
    for line in (done.stdout + done.stderr).splitlines():
        if FINDING.match(line) and ": note: " not in line:
            found += 1
            yield f"{name}: {line}" if name not in line else line
    if done.returncode and not found:
        yield f"tools/lint:1: {name}: {command[0]} failed: {(done.stderr or done.stdout).strip()[-200:]}"


def version_differs(program):
    """Returns why the program's version here cannot judge, or None."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None             # the lint itself names the missing program
    version, judge = re.search(r"\d+(\.\d+)*", done.stdout), JUDGES[program]
    if version and not f"{version[0]}.".startswith(f"{judge}."):
        return f"skipped, since {program} {judge} judges and this is version {version[0]}"
    return None


def format_c(paths):
    if reason := version_differs("clang-format"):
        yield reason
        return
    yield from run_on_changed("format", ["clang-format", "--dry-run", "-Werror"], files.of_kind(paths, "c"))


def format_c_fix(paths):
    if reason := version_differs("clang-format"):
        print(f"format: {reason}")
    elif sources := files.of_kind(paths, "c"):
        subprocess.run(["clang-format", "-i", *sources], cwd=files.ROOT, check=True)


def python(paths):
    yield from run_on_changed("python", ["/usr/bin/python3", "-m", "flake8"], files.of_kind(paths, "py"))


def shell(paths):
    command = ["shellcheck", "--severity=warning", "--format=gcc", "--external-sources", "--source-path=SCRIPTDIR"]
    yield from run_on_changed("shell", command, files.of_kind(paths, "sh"))


def cppcheck(paths):
    """Yields what cppcheck finds in .c files. It keeps its findings for files that have not changed."""
    if reason := version_differs("cppcheck"):
        yield reason
        return
    kept = files.ROOT / "build/cppcheck"
    kept.mkdir(parents=True, exist_ok=True)
    sources = [name for name in files.of_kind(paths, "c") if name.endswith(".c")]
    yield from run("cppcheck", [*CPPCHECK, f"--cppcheck-build-dir={kept}"], sources)


def spelling(paths):
    names = [name for name in files.tracked(*paths) if files.kind(name) or pathlib.PurePath(name).suffix in ("", ".1")]
    names = [name for name in names if "/corpus/" not in name]
    yield from run_on_changed("spelling", ["codespell", f"--ignore-words-list={SPELLING_OURS}"], names)
