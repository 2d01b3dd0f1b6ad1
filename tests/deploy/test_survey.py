"""survey: its measurements, its table, its ranks, and its report of machines that fail. It changes nothing."""
import json
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

from deploy import survey
from tests.deploy.fakehost import ROOT, FakeHost


@pytest.fixture
def server():
    """Accepts connections until the test ends; yields IP:PORT."""
    with socket.create_server(("127.0.0.1", 0), backlog=300) as listener:
        over = threading.Event()

        def accept():
            while not over.is_set():
                try:
                    listener.accept()[0].close()
                except OSError:
                    return
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.fixture
def host(tmp_path):
    return make_host(tmp_path / "host")


def make_host(directory, python=True):
    host = FakeHost(directory)
    if python:
        (host.bin / "python3").symlink_to(pathlib.Path(sys.executable).resolve())
    host.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: lm constant_tsc avx2 avx512f sha_ni "
                               "vaes\n\nprocessor\t: 1\nmodel name\t: Test CPU\n")
    host.file("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n")
    host.file("/proc/loadavg", "0.10 0.10 0.10 1/100 1\n")
    for cpu in (0, 1):
        host.file(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "0-1\n")
    return host


def peregrine(*words, ssh=None):
    environment = {"PEREGRINE_SSH": ssh} if ssh else {}
    return subprocess.run([sys.executable, ROOT / "tools/peregrine", "survey", *words], capture_output=True, text=True,
                          timeout=120, env={"PATH": "/usr/bin:/bin", **environment})


def test_one_machine_is_measured_whole_and_left_as_it_was(host, server):
    with host.unchanged():
        done = peregrine("fake", "--to", server, "--seconds", "0.2", "--json", ssh=" ".join(host.ssh))
        assert done.returncode == 0, done.stderr
        row, = json.loads(done.stdout)
    connect = row["connect_us"]
    assert connect["count"] == survey.CONNECTS and 0 < connect["p10"] <= connect["p50"] <= connect["p99"]
    assert row["jitter"]["seconds"] == 0.2 and 0 < row["jitter"]["reading_ns"] < 10_000
    assert row["jitter"]["longest_us"] == sorted(row["jitter"]["longest_us"], reverse=True)
    assert (row["cpus"], row["cores"], row["siblings"]) == (2, 1, ["0-1"])
    assert row["vectors"] == ["AVX2", "AVX-512", "SHA", "VAES"]
    assert (row["tsc_khz"], row["clocksource"], row["hypervisor"]) == (2399998, "kvm-clock", "kvm")
    assert row["nic"]["driver"] == "virtio_net" and "CSUM" in row["nic"]["features"]
    assert row["stops"] == [] and row["rank"] == 1 and row["missing"] is None


def test_the_table_names_the_obstacles(host, server):
    host.nic(driver="ena")
    done = peregrine("fake", "--to", server, "--seconds", "0.1", ssh=" ".join(host.ssh))
    assert done.returncode == 0, done.stderr
    head, line = [words for words in done.stdout.splitlines() if words[:4] in ("rank", "1   ")]
    assert head.split()[:5] == ["rank", "host", "p10", "p50", "p99"] and line.endswith("no")
    assert "2 of 1 core " in line and "AVX2 AVX-512 SHA VAES" in line
    assert "stop: eth0 is driven by ena" in done.stdout and "cores [0-1]" in done.stdout


def test_an_address_that_refuses_is_reported_and_the_rest_is_measured(host):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        to = f"127.0.0.1:{closed.getsockname()[1]}"
        done = peregrine("fake", "--to", to, "--seconds", "0.1", ssh=" ".join(host.ssh))
    assert done.returncode == 0 and "3 connections failed: Connection refused" in done.stdout
    assert "longest gaps" in done.stdout


def test_a_machine_without_python_and_one_without_an_answer(tmp_path, server):
    plain = make_host(tmp_path / "plain", python=False)
    good = make_host(tmp_path / "good")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ncase \" $* \" in\n*' good '*) exec {' '.join(good.ssh)} \"$@\" ;;\n"
                   f"*' plain '*) exec {' '.join(plain.ssh)} \"$@\" ;;\n"
                   "*) echo 'ssh: no route' >&2; exit 255 ;;\nesac\n")
    ssh.chmod(0o755)
    done = peregrine("gone", "plain", "good", "--to", server, "--seconds", "0.1", "--json", ssh=str(ssh))
    assert done.returncode == 3, done.stderr
    rows = json.loads(done.stdout)
    assert [row["host"] for row in rows] == ["good", "plain", "gone"]
    assert "no python3" in rows[1]["missing"] and rows[1]["cpus"] == 2 and "no route" in rows[2]["failed"]
    done = peregrine("gone", "plain", "--to", server, "--seconds", "0.1", ssh=str(ssh))
    assert "warning: there is no python3" in done.stdout and "gone: ssh: no route" in done.stdout


def test_machines_rank_by_the_connect_time_then_by_its_p99_then_by_the_gaps():
    def row(name, p50, p99, gap, stops=()):
        return {"host": name, "connect_us": {"p50": p50, "p99": p99}, "jitter": {"longest_us": [gap]}, "stops": stops}
    rows = [row("far", 200, 210, 1), row("near", 100, 300, 50), row("nearer-tail", 100, 200, 90),
            row("calm", 100, 200, 10), row("stopped", 50, 60, 1, stops=["no virtio"]), row("silent", None, None, 1),
            {"host": "gone", "failed": "x"}]
    assert [r["host"] for r in sorted(rows, key=survey.order_of)] == [
        "calm", "nearer-tail", "near", "far", "silent", "stopped", "gone"]


@pytest.mark.parametrize("words, said", [
    (["h"], "--to"), (["h", "--to", "name:1"], "'name:1'"), (["--to", "1.2.3.4:5"], "HOST"),
    (["h", "--to", "1.2.3.4:0"], "'0'"), (["h", "--to", "1.2.3.4:5", "--seconds", "0"], "'0'")])
def test_wrong_usage_is_quoted(words, said):
    done = peregrine(*words)
    assert done.returncode == 2 and said in done.stderr
