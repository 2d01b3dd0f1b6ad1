"""CONTRIBUTING.md's walk-through, as written: a program of one's own from the template, played on Linux."""
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
OBJECTS = ("kernel", "host")            # the parts of build/ that the walk-through builds, too
BUILD_AND_PLAY_S = 300

# Talks to the program once it listens. The last command of the block left the program running.
CLIENT = """
import socket, sys, time
end = time.monotonic() + 60
while True:
    try:
        connection = socket.create_connection(("127.0.0.1", 7007), timeout=60)
        break
    except ConnectionRefusedError:
        if time.monotonic() > end:
            sys.exit("nobody listens")
        time.sleep(0.05)
connection.sendall(b"hello")
connection.shutdown(socket.SHUT_WR)
print("answer:", connection.recv(99).decode())
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
    tree = tmp_path / "it's my clone"           # a path with a space and a quote builds and runs
    copy_tree(tree)
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "PYTHONPATH")}
    block = walk_through().replace("make PROGRAM", "make -s -j2 PROGRAM")
    script = f"ip link set lo up\n{block}\n/usr/bin/python3 -c '{CLIENT}'\nkill $!\nwait $! || true\n"
    network = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]      # all ports are free there
    done = subprocess.run([*network, "sh", "-ec", script], cwd=tree, env=clean, capture_output=True, text=True,
                          timeout=BUILD_AND_PLAY_S)
    said = (done.stdout + done.stderr)[-3000:]
    assert done.returncode == 0 and "answer: HELLO" in done.stdout, said
    assert "shout.bytes 5" in done.stdout and "echo." not in done.stdout, said      # its statistics, by its own name
