"""`make contest`: a contest with a board, and three sample players: the quadratic one, Peregrine blocking and spinning.

It is kept in build/contest.db (STORE=FILE): the next `make contest` goes on where this one ended.
"""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from command_line import until_enough
from servers.contest import replica, store
from servers.contest.die_with_parent import die_with_parent

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("BUILD", "build")
PORT_BASE = 10000


def start(*words, **more):
    return subprocess.Popen([str(word) for word in words], preexec_fn=die_with_parent, **more)


def are_free(ports):
    """Returns true if a server could take all these ports."""
    with contextlib.ExitStack() as held:
        try:
            for port in ports:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True


def serve(path):
    """Starts the service; returns its process and its ports."""
    base = PORT_BASE
    if not are_free(range(base, base + 3)):
        print(f"contest: a port of {base} to {base + 2} is in use; free ones are taken", flush=True)
        base = 0
    words = [ROOT / "tools/contest/contest", "serve", path, "--bind", "127.0.0.1", "--port-base", base]
    if not path.exists():
        words += ["--name", "Peregrine"]
    process = start(*words, stdout=subprocess.PIPE, text=True)
    ports = {kind: int(port) for kind, port in re.findall(r"(\w+)=[\d.]+:(\d+)", process.stdout.readline())}
    if not ports:           # the program has said why
        sys.exit(process.wait() or 1)
    return process, ports


def players(ports, played):
    """Starts the sample players, each with all moduli, those hidden too."""
    constants = ",".join(map(str, played.constants))
    yield start(ROOT / "tools/servers/players/quadratic.py", "127.0.0.1", "--port-base", ports["pages"],
                "--n", played.n, "--m", constants, stderr=subprocess.DEVNULL)
    for user, wait in (("peregrine-spin", "spin"), ("peregrine-sleep", "sleep")):
        yield start(BUILD / "host/peregrine-linux", f"feed=127.0.0.1:{ports['input']}",
                    f"submit=127.0.0.1:{ports['output']}", f"user={user}", f"passwd={user}",
                    f"n={played.n}", f"m={constants}", f"wait={wait}", stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL)


def main():
    path = pathlib.Path(os.environ.get("STORE", BUILD / "contest.db"))
    try:
        if "STORE" not in os.environ:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.stat()
    except OSError as error:
        sys.exit(f"contest: STORE={path}: {error.strerror}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    server, ports = serve(path)
    running = [server]
    try:
        connection = store.connect(path)
        played = replica.at_present(connection).contest.round
        connection.close()
        running += players(ports, played)
        print(f"contest: the board is at http://127.0.0.1:{ports['pages']}/ ; digits at port {ports['input']}, submissions at "
              f"{ports['output']}. Ctrl-C ends it.", flush=True)
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
    print(f"contest: kept in {path}; `tools/contest/contest replay {path}` prints its board")


if __name__ == "__main__":
    sys.exit(until_enough(main))
