"""tools/peregrine with several HOSTs, which are directories: side by side, one line a HOST, each failure counted."""
import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import types

import pytest

from deploy import balancer
from deploy.ssh import RemoteError
from tests.deploy.fakehost import INHIBITED, ROOT
from tests.deploy.test_install import Deployment
from tests.lib.waiting import wait_for

KEY = "0x000102030405060708090a0b0c0d0e0f"          # in the settings of test_install


class Fleet:
    """HOSTs a, b and c. The ssh of a fleet goes to that of the HOST. With a file DIRECTORY/HOST/hangs it hangs."""

    def __init__(self, directory):
        self.machines = {name: Deployment(self.folder(directory, name)) for name in "abc"}
        self.directory, self.first = directory, self.machines["a"]
        self.ssh = directory / "ssh"
        self.ssh.write_text('''#!/bin/sh
for word; do case $word in a|b|c) name=$word ;; esac; done
cd "${0%/*}/$name" || exit
[ ! -e hangs ] || [ "$2" = -G ] || { echo $$ > hangs; sleep 1000; }
exec host/bin/ssh "$PWD/host" "$@"
''')
        self.ssh.chmod(0o755)

    @staticmethod
    def folder(directory, name):
        (directory / name).mkdir()
        return directory / name

    def words(self, command, *words):
        images = ("--kernel", self.first.kernel, "--bzimage", self.first.bzimage) if command in ("check", "install") \
            else ("--bzimage", self.first.flown_image) if command == "fly" else ()
        return [str(word) for word in (sys.executable, ROOT / "tools/peregrine", command, *words, "--ssh", self.ssh,
                                       *images)]

    def run(self, *words):
        return subprocess.run(self.words(*words), capture_output=True, text=True, timeout=240)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def rows_of(text):
    """Returns {HOST: (state, last word)} of the table."""
    found = re.findall(r"(?m)^(\S+) +(running|waiting|done|failed|not begun) *(?:\d+ s)? *(.*)$", text)
    return {name: (state, last) for name, state, last in found}


def test_one_that_fails_stops_no_other_and_is_counted(fleet):
    fleet.machines["b"].host.nic(driver="ena")
    done = fleet.run("check", "a", "b", "c")
    assert done.returncode == 1 and done.stderr == "", done.stdout + done.stderr
    assert [state for state, _ in rows_of(done.stdout).values()] == ["done", "failed", "done"]
    assert done.stdout.endswith("\n2 of 3 done\n") and "\nb: " in done.stdout
    for name in "abc":
        alone = re.sub(r"\d+ MiB free", "", fleet.run("check", name).stdout)       # others use it, too
        assert "".join(re.findall(f"(?m)^{name}: (.*\n)", re.sub(r"\d+ MiB free", "", done.stdout))) == alone


def test_each_command_of_a_trip_takes_several_and_shows_no_secret(fleet):
    said = ""
    for words, code in ((("install", "--config", fleet.first.config), 0), (("fly", "--dry-run"), 0), (("record",), 3),
                        (("gg", "--config", fleet.first.config, "--dry-run"), 0), (("uninstall",), 0)):
        done = fleet.run(words[0], "a", "b", "c", *words[1:])
        assert done.returncode == code, done.stdout + done.stderr
        said += done.stdout + done.stderr
    assert said.count("installed; Linux stays the default") == 6        # once as the last word
    assert KEY not in said and "secret" not in said
    done = fleet.run("status", "a", "b", "--json", "--config", fleet.first.config)
    assert done.returncode == 2 and json.loads(done.stdout) == {"a": None, "b": None}
    assert "b: peregrine: " in done.stderr


@pytest.mark.parametrize("names, number", (("abc", signal.SIGINT), ("a", signal.SIGTERM), ("a", signal.SIGHUP)))
def test_an_interruption_ends_all_and_begins_none(fleet, names, number):
    for name in names[:2]:
        (fleet.directory / name / "hangs").touch()
    process = subprocess.Popen(fleet.words("check", *names), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    pids = [fleet.directory / name / "hangs" for name in names[:2]]
    wait_for(lambda: all(path.read_text().strip() for path in pids))
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and {state for state, _ in list(rows_of(said).values())[:2]} <= {"failed"}
    assert errors.count("interrupted; what runs on the machine goes on") >= len(pids) and "Traceback" not in errors
    for path in pids if len(names) > 1 else ():         # alone it is the terminal that interrupts both
        status = pathlib.Path("/proc", path.read_text().strip(), "cmdline")
        assert not status.exists() or not status.read_bytes()           # a zombie has no words


def test_a_roll_ends_with_the_first_failure(fleet):
    fleet.first.config.write_text(fleet.first.config.read_text() + "http.port=80\n")
    fleet.machines["b"].host.program("systemctl", INHIBITED)
    fleet.machines["a"].host.reboots_into("true")
    done = fleet.run("fly", "b", "a", "--rolling", "--config", fleet.first.config, "--wait", "3")
    assert done.returncode == 2, done.stdout
    assert "the reboot did not happen" in done.stderr
    assert [state for state, _ in rows_of(done.stdout).values()] == ["failed", "not begun"]


def test_a_table_is_renewed_in_place_on_a_terminal_and_no_more_than_sixteen_run(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text('''#!/bin/sh
cd "${0%/*}" && touch run.$$ && ls -d run.* | wc -l >> counts && sleep 0.3 && rm run.$$
printf '\\033[31mno\\n' >&2; exit 255
''')
    ssh.chmod(0o755)
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, ROOT / "tools/peregrine", "uninstall", "--ssh", ssh,
                                *(f"host{i}" for i in range(30))], stdout=theirs, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "24"})
    os.close(theirs)
    said = ""
    try:
        while part := os.read(ours, 65536):
            said += part.decode()
    except OSError:                     # Linux: the other side has been closed
        pass
    assert process.wait(30) == 30
    assert max(map(int, (tmp_path / "counts").read_text().split())) <= 16
    assert "\x1b[31m" not in said and "\x1b[22A" in said and "and 9 more" in said
    last = rows_of(said.rpartition("\x1b[22A")[2].replace("\x1b[K", "").replace("\r", ""))
    assert len(last) == 30 and last["host7"] == ("failed", "peregrine: host7: ssh: \\x1b[31mn"), last


class FakeBalancer:
    """HAProxy's socket: the server `a` of one backend, which keeps `requests` until it is drained. Notes the orders."""

    def __init__(self, path, requests="0", answer=""):
        self.orders, self.requests, self.answer, self.other = [], requests, answer, ""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            with self.listener.accept()[0] as client:
                command = client.recv(1000).decode().strip()
                if command == "show stat":
                    row = "" if self.requests is None else f"m,a,2,192.0.2.1:80,{self.requests},0,UP\n"
                    client.sendall(f"# pxname,svname,type,addr,scur,qcur,status\n{row}{self.other}".encode())
                else:
                    self.orders.append(command)
                    client.sendall(self.answer.encode())


@pytest.mark.parametrize("name, requests, answer, page, fails, states", [
    ("a", "0", "", True, False, ["drain", "ready"]), ("root@b", "0", "", True, False, ["drain", "ready"]),
    ("a", "0", "", True, True, ["drain", "ready"]), ("a", "0", "", False, True, ["drain"]),
    ("a", "1", "", True, True, ["drain", "ready"]), ("a", "0", "Permission denied", False, True, ["drain"])])
def test_a_server_is_taken_in_again_unless_its_page_is_gone(tmp_path, name, requests, answer, page, fails, states):
    host = types.SimpleNamespace(name=name, address=lambda: "192.0.2.1")
    fake = FakeBalancer(tmp_path / "socket", requests, answer)
    haproxy = balancer.Balancer(tmp_path / "socket", host, 0.3)
    with pytest.raises((RemoteError, KeyboardInterrupt)) if fails else contextlib.nullcontext():
        with haproxy.drained(lambda: page):
            if fails:
                raise KeyboardInterrupt
    assert [order.split()[-1] for order in fake.orders if order.startswith("set server m/a state")] == states
    assert answer or ("enable agent m/a" in fake.orders) == (states[-1] == "ready")
    fake.requests = None        # a reload has taken the server away
    with pytest.raises(RemoteError, match="under way|Permission"), haproxy.drained(lambda: page):
        pass
    with pytest.raises(RemoteError, match="no server of this name"):
        host.address = lambda: "192.0.2.2"
        host.name = "c"
        balancer.Balancer(tmp_path / "socket", host, 1)


def test_the_last_server_that_is_up_is_not_drained(tmp_path):
    fake = FakeBalancer(tmp_path / "socket")
    haproxy = balancer.Balancer(tmp_path / "socket", types.SimpleNamespace(name="a", address=lambda: "192.0.2.1"), 0.3)
    for status in ("DOWN", "DOWN 1/2", "DRAIN", "MAINT"):
        fake.other = f"m,b,2,192.0.2.2:80,0,0,{status}\nother,b,2,192.0.2.2:80,0,0,UP\n"
        with pytest.raises(RemoteError, match="no other server is up"), haproxy.drained(lambda: True):
            pass
        assert not fake.orders
    fake.other = "m,b,2,192.0.2.2:80,0,0,UP 1/3\n"
    with haproxy.drained(lambda: True):
        assert fake.orders[-1] == "set server m/a state drain"


@pytest.mark.parametrize("words, message", [
    (("check", "a", "root@a"), "'a' is given twice"), (("status", "a", "b", "--address", "192.0.2.1"), "for one HOST"),
    (("record", "a", "b", "--raw", "x"), "--raw is for one HOST"),
    (("fly", "a", "--haproxy", "/run/x"), "--haproxy goes with --rolling"),
    (("fly", "a", "--rolling"), "--rolling needs --config FILE")])
def test_words_that_do_not_go_together_are_refused(words, message):
    done = subprocess.run([sys.executable, ROOT / "tools/peregrine", *words], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""
