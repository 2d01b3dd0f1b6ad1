"""The second program, app/echo/, over Linux sockets: build/host/echo-linux."""
import http.client
import os
import re
import socket
import subprocess

from command_line import VERSION
from tests.lib.paths import BUILD, ROOT
from workshop.vm import ports

PROGRAM = BUILD / "host/echo-linux"
KEY, PATIENCE_S = "a-key-for-tests", 30


def echo_over_tcp(address, data):
    """Sends the data, shuts down, and returns the whole reply."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def echo_over_udp(address, data):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        for _ in range(PATIENCE_S):         # UDP may lose a datagram
            client.sendto(data, address)
            try:
                return client.recv(2048)
            except TimeoutError:
                pass
    return None


def page(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/")
    text = connection.getresponse().read().decode()
    connection.close()
    return dict(line.split(" ", 1) for line in text.splitlines())


def check(echo, status, gg_port, *words):
    """Checks the echoes and the page, and ends the program by GG, with these words. The ports are of 127.0.0.1. Returns
    what GG has printed."""
    data = os.urandom(40000)
    assert echo_over_tcp(("127.0.0.1", echo), data) == data
    assert echo_over_udp(("127.0.0.1", echo), data[:1000]) == data[:1000]
    found = page(status)
    assert (found["version"], found["program"]) == (VERSION, "echo")
    assert found["echo.accepted"] == "1" and found["echo.bytes"] == "40000"
    assert int(found["echo.datagrams"]) >= 1 and not any(name.startswith("player.") for name in found)
    done = subprocess.run([ROOT / "tools/gg", "127.0.0.1", "--port", str(gg_port), "--key", KEY, "--timeout", "20",
                           *words],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_echo_answers_on_both_protocols_shows_its_page_and_ends_by_gg():
    echo, status, gg_port = ports.free_port(), ports.free_port(), ports.free_port(ports.UDP)
    words = [f"port={echo}", f"http.port={status}", f"key={KEY}", f"control.port={gg_port}", "wait=sleep",
             "deadline=60"]
    with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr.readline().endswith(f"] peregrine {VERSION}, program echo, on Linux\n")
        for line in program.stderr:
            if "echo: running" in line:
                break
        tables = [check(echo, status, gg_port)]
        statistics, log = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0 and "leaving: gg" in log
    # Two programs make the same table, whatever the numbers. Some modules count on after GG's answer.
    tables = [re.sub(r"\d+", "N", re.sub(r"\b(sockets|control|rehearsal) .*\n( .*\n)*", "", table))
              for table in (*tables, statistics)]
    assert tables[0] == tables[1]
    assert re.search(r"^echo +accepted N, bytes N, datagrams N$", tables[0], re.MULTILINE), tables[0]
    assert len(statistics.splitlines()) < 40 and " 0" not in statistics


def test_program_goes_on_when_nobody_reads_its_log():
    words = ["--all", f"port={ports.free_port()}", f"http.port={ports.free_port()}", "wait=sleep", "deadline=1"]
    with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        for line in program.stderr:
            if "echo: running" in line:
                break
        program.stderr.close()
        statistics = program.stdout.read()
    assert program.returncode == 0 and "program.uptime_ns" in statistics and "echo.bytes 0\n" in statistics


def test_version_is_printed():
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"echo-linux {VERSION}\n", "")


def test_words_of_other_programs_are_unknown():
    done = subprocess.run([PROGRAM, "feed=1.2.3.4:5"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2 and '"feed": there is no such key' in done.stderr


def test_ports_are_printed_and_none_is_bound():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [f"port={port}", "http.port=80", f"key={KEY}", "control.port=9"]
        done = subprocess.run([PROGRAM, "--ports", *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == sorted([f"tcp {port}", f"udp {port}", "tcp 80", "udp 9"])


def test_a_port_that_is_wanted_twice_is_refused():
    done = subprocess.run([PROGRAM, "--ports", "port=80", "http.port=80"], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 2 and done.stdout == "" and "port=: this port cannot be had" in done.stderr
