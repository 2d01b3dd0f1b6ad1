"""Counts the mutants of net/tcp that its tests notice: `make mutants COUNT=200 SEED=25`.

A mutant is the product with one small change: another operator, another constant, a statement left out. It is killed
if a unit program of TCP or a timeline fails, or runs for too long. If neither does, games of tests/sim and the rules of
tests/netlib are played, too. Mutants that do not compile, or from which the
compiler makes the same code, do not count. Each worker changes a copy of the tree. The survivors stand in
build/mutants.json, to be read: some change nothing that can be seen."""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import random
import re
import resource
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
FOLDER = "net/tcp"
UNIT = ("tcp_*", "next_hop", "pause", "net_malformed")      # names of unit programs
# No sanitizers: a mutant is built and played in seconds.
MAKE = ("make", "-s", "-j2", "BUILD=build", "SANITIZE=", "TEST_DEBUG=-g0", "WARN=")
COMPILE = ("gcc", "-std=gnu11", "-O2", "-I.", "-w", "-c", "-o")
LIBRARY = "build/host/libperegrine-net.so"
RULES = (sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "--reruns=0", "tests/netlib")
GAMES = ("build/test/sim-own", "--peer", "own", "--seed", "1795308856910413", "--steps", "100000")
# The limits of one program. The longest takes 1 s on an idle machine.
CPU_S_MAX = 20
TIME_S_MAX = 120

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
         "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "++": "--", "--": "++",
         "true": "false", "false": "true", "!": ""}
# Operators of two operands stand between spaces; the last group is a whole statement of one line.
SITES = re.compile(r"""
    (?P<operator> (?<=\s) (?: [<>]=? | [=!]= | && | \|\| | [-+&|] | << | >> | [-+]= ) (?=\s) | \+\+ | --
                  | !(?=[\w(]) | \b(?:true|false)\b )
  | (?P<constant> (?<![\w.]) (?:0x[0-9a-f]+|\d+) (?![\w.]) )""", re.VERBOSE)
STATEMENT = re.compile(r"^\s+(?!return\b|break|continue|goto|case|default|else|static|const|struct|enum|u?int\w*\b|bool"
                       r"|size_t|for\b|while\b|if\b|do\b|switch|\w*_check\()[\w*(][^;{}]*;$")

FUNCTION = re.compile(r"^(?P<head>[a-z][^\n;={}]*(?:\n[^\n;={}]+)*)(?:\n\{\n(?P<long>.*?)^\}$| (?P<short>\{ .*\})$)",
                      re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: the text from `begin` to `end` of a file becomes `new`."""
    path: str
    begin: int
    end: int
    kind: str
    new: str

    def of(self, text):
        return text[:self.begin] + self.new + text[self.end:]


def blanked(text):
    """Returns the text of the same length with spaces for comments, literals, assertions and lines of the
    preprocessor, and for all that is in no function. A function `..._check` is an assertion as a whole."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.DOTALL)
    text = re.sub(r"^#(?:.*\\\n)*.*", blank, text, flags=re.MULTILINE)
    text = re.sub(r"\b(?:ASSERT|static_assert)\(.*?\);", blank, text, flags=re.DOTALL)
    out, at = [], 0
    for body in FUNCTION.finditer(text):
        group = "long" if body["long"] is not None else "short"
        if "(" not in body["head"] or re.search(r"_check\(", body["head"]):
            continue
        out += [re.sub(r"[^\n]", " ", text[at:body.start(group)]), body[group]]
        at = body.end(group)
    return "".join(out) + re.sub(r"[^\n]", " ", text[at:])


def mutants_of(path, text):
    """Yields all mutants of a file."""
    code = blanked(text)
    for site in SITES.finditer(code):
        new = SWAPS[site.group()] if site["operator"] else f"({site.group()} + 1)"
        yield Mutant(path, *site.span(), site.lastgroup, new)
    at, before = 0, ""
    for line in code.splitlines(keepends=True):
        if STATEMENT.match(line.rstrip()) and line.count("(") == line.count(")") and re.search(r"[;{})]$|else$|:$|^$",
                                                                                               before):
            yield Mutant(path, at, at + len(line) - 1, "statement", ";")
        at, before = at + len(line), line.rstrip() or before


class Tree:
    """A copy of the sources, built, in which one file at a time is changed."""

    def __init__(self, folder):
        self.folder, self.plain = folder, {}
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        shutil.rmtree(folder, ignore_errors=True)
        for name in filter(lambda name: (ROOT / name).is_file(), listed.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        self.unit = sorted(f"build/test/{path.relative_to(folder).with_suffix('')}" for name in UNIT
                           for path in folder.glob(f"tests/unit/{name}_test.c"))
        self.timeline = "build/test/tests/wire/timeline"
        self.timelines = sorted(str(path.relative_to(folder)) for path in folder.glob("tests/wire/*/*.wire"))
        self.make()
        self.commands = {"unit": [[program] for program in self.unit], "wire": [[self.timeline, *self.timelines]],
                         "others": [GAMES, RULES]}
        for vehicle in self.commands:
            assert not self.fails(vehicle), f"{vehicle} fails without any change"

    def make(self):
        subprocess.run([*MAKE, *self.unit, self.timeline, GAMES[0], LIBRARY], cwd=self.folder, check=True)

    def object_of(self, path):
        """Returns the bytes of a file's object; None if the file does not compile."""
        done = subprocess.run([*COMPILE, "build/mutant.o", path], cwd=self.folder, capture_output=True)
        return (self.folder / "build/mutant.o").read_bytes() if done.returncode == 0 else None

    def fails(self, vehicle):
        """Returns the first program or timeline that fails; None if all pass."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
        for command in self.commands[vehicle]:
            try:
                done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      env={**os.environ, "PYTHONPATH": ".:tools"}, text=True, errors="replace",
                                      timeout=TIME_S_MAX, preexec_fn=limit)
            except subprocess.TimeoutExpired:
                return command[0]
            if done.returncode != 0:
                failed = re.search(r"^== exit (?!0 ).* (.*)", done.stdout, re.MULTILINE)
                return failed[1] if failed else command[0]
        return None

    def judge(self, mutant):
        """Returns what fails by vehicle; None if the mutant does not count."""
        path = self.folder / mutant.path
        text = path.read_text()
        if mutant.path not in self.plain:
            self.plain[mutant.path] = self.object_of(mutant.path)
        path.write_text(mutant.of(text))
        try:
            if self.object_of(mutant.path) in (None, self.plain[mutant.path]):
                return None
            self.make()
            fails = {vehicle: self.fails(vehicle) for vehicle in ("unit", "wire")}
            return {**fails, "others": None if any(fails.values()) else self.fails("others")}
        finally:
            path.write_text(text)


def line_of(mutant, text):
    """Returns where a mutant is, and its line before and after."""
    number, begin = text.count("\n", 0, mutant.begin) + 1, text.rfind("\n", 0, mutant.begin) + 1
    end = text.find("\n", mutant.end)
    return {"at": f"{mutant.path}:{number}", "was": text[begin:end].strip(),
            "is": (text[begin:mutant.begin] + mutant.new + text[mutant.end:end]).strip()}


def run(count, seed, trees):
    """Judges the first `count` mutants that count, in an order that follows from the seed. Yields each with what fails
    by vehicle, and its line."""
    texts = {path: (ROOT / path).read_text() for path in sorted(str(p.relative_to(ROOT)) for p in
                                                                 (ROOT / FOLDER).glob("*.c"))}
    mutants = [mutant for path, text in texts.items() for mutant in mutants_of(path, text)]
    random.Random(seed).shuffle(mutants)
    free = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def judge(mutant):
        tree = free.get()
        try:
            return tree.judge(mutant)
        finally:
            free.put(tree)

    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        pending, rest = collections.deque(), iter(mutants)
        while count > 0:
            while len(pending) < 2 * len(trees) and (mutant := next(rest, None)):
                pending.append((mutant, pool.submit(judge, mutant)))
            if not pending:
                return
            mutant, future = pending.popleft()
            if fails := future.result():
                count -= 1
                yield mutant, fails, line_of(mutant, texts[mutant.path])
        for _, future in pending:
            future.cancel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="of mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=25, help="of their choice (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="copies of the tree (%(default)s)")
    options = parser.parse_args()
    trees = [Tree(BUILD / f"mutants/{number}") for number in range(options.jobs)]
    rows = collections.defaultdict(collections.Counter)
    results = []
    for mutant, fails, line in run(options.count, options.seed, trees):
        killed = {vehicle: bool(failed) for vehicle, failed in fails.items()}
        for row in (mutant.kind, "all"):
            rows[row].update({"mutants": 1, "killed": any(killed.values()), **killed})
        results.append({**line, "kind": mutant.kind, **fails})
        print(f"{len(results):4} {'killed' if any(killed.values()) else 'ALIVE '} {line['at']}: {line['was']}  ->  "
              f"{line['is']}", flush=True)
    (BUILD / "mutants.json").write_text(json.dumps(results, indent=1))
    print(f"\n{'change':10} {'mutants':>8} {'killed':>8} {'by unit':>8} {'by wire':>8} {'others':>8}")
    for row in ("operator", "constant", "statement", "all"):
        n = rows[row]
        print(f"{row:10} {n['mutants']:8} {n['killed']:8} {n['unit']:8} {n['wire']:8} {n['others']:8}")


if __name__ == "__main__":
    sys.exit(main())
