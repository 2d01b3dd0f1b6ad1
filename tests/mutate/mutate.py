"""Counts the mutants that the tests of a room notice: `make mutants IN="net/ip app/trade" COUNT=100 SEED=25`.

A mutant is the product with one small change: another operator, another constant, a statement left out. It is killed
if a program that links the changed file fails, or runs for too long: a unit program, the timelines, games of tests/sim,
the matcher's check. The quickest plays first, the first that fails is the last. Mutants that do not compile, or from
which the compiler makes the same code, do not count. Everything happens in a copy of the tree, without sanitizers.
build/mutants.json lists the survivors, to be read: some change nothing that can be seen."""
import argparse
import dataclasses
import datetime
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time

from tests.lib.paths import BUILD, ROOT

# A file belongs to the room with the longest name that its path begins with.
ROOMS = ("base", "kernel", "drivers", "net", "net/ip", "net/tcp", "net/http", "net/lwip", "app/service", "app/player",
         "app/matcher", "app/digest", "app/nasdaq", "app/trade", "app/time")
# Mutated as the sources are: no source of their own has their code.
HEADERS = ("app/trade/levels.h", "app/trade/risk.h")
# Optimised, as two objects are compared; a mutant is compiled, linked and played in seconds.
MAKE = ("make", "--no-print-directory", "-j2", "BUILD=build", "SANITIZE=-O2", "TEST_DEBUG=-g0", "WARN=")
# Programs other than the unit programs, and their runs; each is one whose failure `make test` reports.
CHECK = "build/host/tests/matcher/matcher_check"
OTHERS = {"build/test/tests/wire/timeline": [" ".join(sorted(str(p.relative_to(ROOT))
                                                             for p in ROOT.glob("tests/wire/*/*.wire")))],
          "build/test/transport/contract_test-own": [""],
          "build/test/sim-own": ["--peer own --seed 1795308856910413 --steps 100000"],
          CHECK: ["small 20220217 50000", "tails 20220217 30000", "sweep 20220217 90000 scalar",
                  "sweep 20220217 90000"],
          f"{CHECK}_emulated": ["sweep 20220217 90000 avx512"]}
# A program may take this multiple of what it takes without a change, and this much more.
CPU_TIMES, CPU_MORE_S, WALL_S = 3, 2, 600

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

FUNCTION = re.compile(r"^(?P<head>\w[^\n;={}]*(?:\n[^\n;={}]+)*)"
                      r"(?:\n\{\n(?P<long>.*?)^\}$| (?P<short>\{ [^\n]*\})$)", re.MULTILINE | re.DOTALL)


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
    out, at, bodies = [], 0, list(FUNCTION.finditer(text))
    assert sum(body["long"] is not None for body in bodies) == len(re.findall(r"^\{$", text, re.MULTILINE))
    for body in bodies:
        group = "long" if body["long"] is not None else "short"
        if "(" not in body["head"] or re.search(r"_check(_state)?\(", body["head"]):
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
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        shutil.rmtree(folder, ignore_errors=True)
        for name in filter(lambda name: (ROOT / name).is_file(), listed.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        programs = [f"build/test/{p.relative_to(ROOT).with_suffix('')}" for p in ROOT.glob("tests/unit/*_test.c")]
        programs += OTHERS
        done = subprocess.run([*MAKE, *programs], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        self.commands = {made[1]: line.split() for line in done.stdout.splitlines()
                         if (made := re.search(r"^(?:\S*gcc .*?-o|ar \w+) (build/\S+) ", line))}
        self.sources = {name: (folder / name).with_suffix(".d").read_text().split() for name in self.commands
                        if name.endswith(".o") and (folder / name).with_suffix(".d").exists()}
        self.link = {name: self.link_command(name) for name in programs}
        self.holds, self.cpu_s = {}, {}
        for name in programs:
            trace = subprocess.run([*self.link[name], "-Wl,-t"], cwd=folder, check=True, capture_output=True, text=True)
            self.holds[name] = set(re.findall(r"build/[\w/.-]+\.o", trace.stdout))

    def link_command(self, name):
        """Returns the command that links a program from archives that hold only the names of their objects."""
        command = list(self.commands[name])
        for at, word in enumerate(command):
            if word.endswith(".a"):
                command[at] = word[:-2] + "_thin.a"
                if not (self.folder / command[at]).exists():
                    subprocess.run(["ar", "qcsT", command[at], *self.commands[word][3:]], cwd=self.folder, check=True)
        return command

    def passes(self, name, cpu_s):
        limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        try:
            return all(subprocess.run([name, *words.split()], cwd=self.folder, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, timeout=WALL_S, preexec_fn=limit).returncode == 0
                       for words in OTHERS.get(name, [""]))
        except subprocess.TimeoutExpired:
            return False

    def passes_once(self, name, cpu_s, tries=2):
        """Plays a program until it passes. A busy machine fails tests of real time; a mutant fails them again."""
        return any(self.passes(name, cpu_s) for _ in range(tries))

    def seconds(self, name):
        """Returns the processor time of a program without any change. It plays when a room first needs it."""
        if name not in self.cpu_s:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            assert self.passes_once(name, 600, 5), f"{name} fails without any change, five times"
            self.cpu_s[name] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return self.cpu_s[name]

    def programs_of(self, path):
        """Returns the programs that hold a source, and the objects with it: the quickest first. A test may include a
        source of the product."""
        objects = {name for name, sources in self.sources.items() if path in sources}
        return sorted(((name, held) for name in self.holds if (held := objects & self.holds[name])),
                      key=lambda pair: self.seconds(pair[0]))

    def judge(self, mutant):
        """Returns the program that fails, "" if all pass; None if the mutant does not count."""
        programs = self.programs_of(mutant.path)
        source, objects = self.folder / mutant.path, {self.folder / name for _, held in programs for name in held}
        plain = {path: path.read_bytes() for path in (source, *objects)}
        source.write_text(mutant.of(source.read_text()))
        try:
            for path in objects:
                command = self.commands[str(path.relative_to(self.folder))]
                if subprocess.run(command, cwd=self.folder, capture_output=True).returncode != 0:
                    return None
            if all(path.read_bytes() == plain[path] for path in objects if "host" not in path.parts):
                return None                             # objects of build/host hold lines for gdb
            for name, _ in programs:
                linked = subprocess.run(self.link[name], cwd=self.folder, capture_output=True).returncode == 0
                if not linked or not self.passes_once(name, int(CPU_MORE_S + CPU_TIMES * self.cpu_s[name])):
                    return name
            return ""
        finally:
            for path, content in plain.items():
                path.write_bytes(content)


def line_of(mutant, text):
    """Returns where a mutant is, and its line before and after."""
    number, begin = text.count("\n", 0, mutant.begin) + 1, text.rfind("\n", 0, mutant.begin) + 1
    end = text.find("\n", mutant.end)
    return {"at": f"{mutant.path}:{number}", "was": text[begin:end].strip(),
            "is": (text[begin:mutant.begin] + mutant.new + text[mutant.end:end]).strip()}


def sources_of(room):
    """Returns the texts of a room's sources by their paths."""
    paths = [str(path.relative_to(ROOT)) for path in sorted((ROOT / room).rglob("*.c"))]
    paths += [path for path in HEADERS if path.startswith(f"{room}/")]
    inner = [f"{other}/" for other in ROOMS if other.startswith(f"{room}/")]
    return {path: (ROOT / path).read_text() for path in paths if not path.startswith(tuple(inner))}


def play(tree, room, count, seed):
    """Judges the first `count` mutants of a room that count, in an order that follows from the seed. Returns how many
    there were, and the lines of the survivors."""
    texts = sources_of(room)
    unplayed = [path for path in texts if not tree.programs_of(path)]
    if unplayed:
        print(f"{room}: no program holds {' '.join(unplayed)}")
    mutants = [mutant for path, text in texts.items() if path not in unplayed for mutant in mutants_of(path, text)]
    random.Random(seed).shuffle(mutants)
    tried, alive, begin = 0, [], time.monotonic()
    for mutant in mutants:
        if tried == count:
            break
        failed = tree.judge(mutant)
        if failed is None:
            continue
        tried += 1
        line = line_of(mutant, texts[mutant.path])
        alive += [] if failed else [line]
        print(f"{room} {tried}/{count}, {len(alive)} alive, {time.monotonic() - begin:.0f} s: "
              f"{failed.rpartition('/')[2] or 'ALIVE'} {line['at']}: {line['was']}  ->  {line['is']}", flush=True)
    return tried, alive


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="of mutants a room (%(default)s)")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 10**6, help="(a fresh one)")
    parser.add_argument("rooms", nargs="*", default=[room for room in ROOMS if room != "net/lwip"])
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    os.environ.pop("SEED", None)                        # random tests would take it, and play other digits each draw
    tree = Tree(BUILD / "mutants")
    rows, survivors = [], []
    for room in options.rooms:
        tried, alive = play(tree, room, options.count, options.seed)
        rows.append(f"| `{room}` | {tried} | {tried - len(alive)} | {100 * (tried - len(alive)) // max(tried, 1)} % | "
                    f"{datetime.date.today()} | {options.seed} |")
        survivors += alive
        (BUILD / "mutants.json").write_text(json.dumps(survivors, indent=1))
    print("\n| room | tried | killed | share | date | seed |\n|---|--:|--:|--:|---|--:|", *rows, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
