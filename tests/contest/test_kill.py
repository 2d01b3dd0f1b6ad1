"""`contest serve` under floods of submissions: kills, a locked store, memory."""
import json
import sqlite3
import time

import pytest

from servers.contest import replica, store
from tests.contest.running import tool
from tests.contest.service import Service, beside
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.slow

WINDOW = 40             # digits: two equal runs of this length are no chance
GROWTH_KIB_MAX = 30_000


def flood(service, log, *words):
    process = beside("flood", service, "--log", log, *words)
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process, log):
    assert process.wait(60) == 0
    return json.loads(log.read_text())


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def stored(path):
    return {digits for digits, in store.connect(path).execute("SELECT digits FROM submission")}


def windows(text):
    return {text[i:i + WINDOW] for i in range(len(text) - WINDOW + 1)}


@pytest.mark.parametrize("rate", [100, 1000, 10_000])
def test_a_kill_loses_no_answered_submission_and_repeats_no_digits(tmp_path, rate):
    path, seen, counts = tmp_path / "store", set(), []
    assert tool("init", path, "--interval", "0.02-0.05", "--burst", "50-100").returncode == 0
    for run in range(3):
        log = tmp_path / f"log{run}"
        with Service(path) as service:
            process = flood(service, log, "--rate", rate)
            time.sleep(2)
            service.kill()
        result = ended(process, log)
        lost = {digits for digits, _ in result["answered"]} - stored(path)
        assert not lost, (len(lost), len(result["answered"]))
        new = windows(result["digits"])
        assert len(new) > 1000 and not new & seen, "digits were sent again"
        seen |= new
        counts.append(len(result["answered"]))
    assert replica.at_present(store.connect(path, whole=True)).differing == 0
    print(f"answered before the kills: {counts}")


def test_after_a_kill_while_the_store_is_locked_no_digits_come_twice(tmp_path):
    """The digits go on while the rows wait: nothing of them is in the store after the kill."""
    path, seen = tmp_path / "store", set()
    assert tool("init", path, "--interval", "0.02-0.05", "--burst", "50-100").returncode == 0
    for run in range(2):
        log = tmp_path / f"log{run}"
        with Service(path) as service:
            process = flood(service, log)
            time.sleep(0.5)
            locked = sqlite3.connect(path, isolation_level=None)
            locked.execute("BEGIN IMMEDIATE")
            time.sleep(2)
            service.kill()
            locked.close()
        result = ended(process, log)
        assert {digits for digits, _ in result["answered"]} <= stored(path)
        new = windows(result["digits"])
        assert len(new) > 1000 and not new & seen, "digits were sent again"
        seen |= new


@pytest.mark.parametrize("locked", [False, True])
def test_long_submissions_take_no_memory(tmp_path, locked):
    """One sender of 16 KB each time, as fast as it goes; the store takes N + 1 digits of each."""
    path, log = tmp_path / "store", tmp_path / "log"
    with Service(path) as service:
        process = flood(service, log, "--bytes", 16384, "--clients", 2, "--window", 50)
        time.sleep(1)
        before_kib = resident_kib(service.process.pid)
        locker = sqlite3.connect(path, isolation_level=None)
        if locked:
            locker.execute("BEGIN IMMEDIATE")
        time.sleep(5)
        grown_kib = resident_kib(service.process.pid) - before_kib
        locker.close()
        if locked:
            count = len(stored(path))
            wait_for(lambda: len(stored(path)) > count + 100)       # the judge goes on
    result = ended(process, log)
    assert {digits for digits, _ in result["answered"]} <= {text[:10] for text in stored(path)}
    assert max(map(len, stored(path))) == 257
    assert grown_kib < GROWTH_KIB_MAX, grown_kib


def test_a_service_starts_again_at_its_ports_in_the_moment_of_a_kill(tmp_path):
    """The board's process, which holds a port, ends with the server."""
    path = tmp_path / "store"
    service = Service(path)
    for _ in range(4):
        service.kill()
        service = Service(path, port_base=service.ports["pages"])
    service.__exit__()
