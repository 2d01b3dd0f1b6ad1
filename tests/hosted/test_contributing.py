"""CONTRIBUTING.md's walk-through, as written: a program of one's own from the template, tested, and run on Linux and in
QEMU. The folder's path has a space and a quote."""
import os
import re
import shutil
import subprocess

from tests.lib.paths import BUILD, ROOT
from workshop.vm import machine

OBJECTS = ("kernel", "host", "test")    # the parts of build/ that the walk-through builds, too
BUILD_AND_PLAY_S = 400

# Talks to the program once it listens, in the namespace where the block has left it running: over several connections
# at once.
CLIENT = """
import socket, sys, time
end = time.monotonic() + 60
while True:
    answers, connections = [], []
    try:
        for _ in range(int(sys.argv[2])):       # one after the other: QEMU's forwarded port has a backlog of 1
            connections.append(socket.create_connection(("127.0.0.1", 7007), timeout=60))
            connections[-1].sendall(b"hello")
            answers.append(connections[-1].recv(99))
        if all(answers):     # an answer without bytes: the port is forwarded, and the machine still boots
            break
    except OSError:
        if time.monotonic() > end:
            sys.exit("nobody listens")
    time.sleep(0.05)
print(sys.argv[1], len(answers), "times", *{answer.decode() for answer in answers})
"""
# Ends the program as a reader would. Then gives it more connections than the player has, which the kernel's stack
# follows, and runs it as a kernel. At last asks for more than there can be.
REST = """
/usr/bin/python3 -c "$CLIENT" linux: 5
tools/gg 127.0.0.1 --key-file build/shout.conf
wait $!
sed -i 's/CONNECTION_COUNT = 8,/CONNECTION_COUNT = 100,/' app/shout/program.c
make -s PROGRAM=shout run SETTINGS="port=7007 http.port=7008 $(cat build/shout.conf)" & run=$!
/usr/bin/python3 -c "$CLIENT" kernel: 100
tools/gg 127.0.0.1 --key-file build/shout.conf
wait $run
sed -i 's/CONNECTION_COUNT = 100,/CONNECTION_COUNT = 2000,/' app/shout/program.c
if make -s PROGRAM=shout run SETTINGS="port=7007"; then exit 1; fi
"""


def walk_through():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.search(r"runs the next block as it stands\. -->\n```sh\n(.*?)```", text, re.DOTALL)[1]


def copy_tree(tree):
    """Copies the tracked files, and the objects that are there: only the new program is left to compile."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    for name in OBJECTS:
        if (BUILD / name).is_dir():
            shutil.copytree(BUILD / name, tree / "build" / name)


def test_the_walk_through_makes_a_program(tmp_path):
    tree = tmp_path / "it's my clone"
    copy_tree(tree)
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "PYTHONPATH", "SLOW")}
    block = walk_through().replace("make PROGRAM", "make -s -j2 PROGRAM")
    # A step that fails leaves no program running.
    ending = "trap 'for job in $(jobs -p); do kill $job || :; done' EXIT"
    words = [*machine.unshare_words(), "sh", "-ec", f"{ending}\nip link set lo up\n{block}\n{REST}"]
    done = subprocess.run(words, cwd=tree, env={**clean, "CLIENT": CLIENT}, capture_output=True, text=True,
                          timeout=BUILD_AND_PLAY_S)
    said = (done.stdout + done.stderr)[-5000:]
    assert done.returncode == 0, said
    assert "1 passed, 0 failed" in done.stdout and "linux: 5 times hello" in done.stdout, said
    assert re.search(r"^shout +.*bytes 25\b", done.stdout, re.MULTILINE), said     # statistics by the program's name
    assert not re.search(r"^echo", done.stdout, re.MULTILINE), said
    assert "kernel: 100 times hello" in done.stdout, said
    assert "run: shout has left (gg); the machine has reset" in done.stdout, said
    assert "the program shout asks for a connection_count of 2000: 1016 is the most" in done.stderr, said
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)     # as a clone has it: the lints ask for its files
    longest = "a" * 20      # as a name: no line of the template has become too long
    subprocess.run(["tools/new-program", longest], cwd=tree, env=clean, check=True, timeout=60)
    for lint in ("format", "words", "lines"):
        for name in ("shout", longest):
            found = subprocess.run(["tools/lint", lint, f"app/{name}", f"tests/unit/{name}_test.c"], cwd=tree,
                                   env=clean, capture_output=True, text=True, timeout=60)
            assert found.returncode == 0, found.stdout


def test_a_name_that_cannot_be_a_program_is_refused():
    for name, reason in (("echo", "there is app/echo already"), ("settings", "there is tests/unit/settings_test.c"),
                         ("Echo", "small letter"), ("my-kv", "small letter"), ("other", "the build has")):
        done = subprocess.run([ROOT / "tools/new-program", name], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and reason in done.stderr, done.stderr
