"""survey --fly: on a HOST that is a directory, whose reboot starts survey-linux in place of the kernel. Its statistics
lie in the host's memory afterwards, as a crash record."""
import argparse
import json
import subprocess
import sys

import pytest

from deploy import commands, control, survey_inside
from tests.deploy.fakehost import ROOT
from tests.deploy.test_install import Deployment
from tests.hosted.test_survey import udp_echo
from workshop.vm.ports import UDP, free_port

PROGRAM = ROOT / "build/host/survey-linux"


@pytest.fixture
def machine(tmp_path):
    machine = Deployment(tmp_path)
    machine.config.write_text(f"control.port={free_port(UDP)}\n")
    machine.host.reboots_into(f'''
    cd "$ROOT/fake"
    {PROGRAM} --all $(grep -v '^#' "$settings") >statistics 2>log
    [ -e no-record ] || PYTHONPATH={ROOT}:{ROOT}/tools {sys.executable} {ROOT}/tests/deploy/leave_record.py \\
        statistics log "$ROOT/proc/kcore" 2>errors''')
    return machine


def fly(machine, *words):
    return subprocess.run([sys.executable, ROOT / "tools/peregrine", "survey", "fake", "--fly", "--ssh",
                           " ".join(machine.host.ssh), "--kernel", machine.kernel, "--bzimage", machine.bzimage,
                           "--config", machine.config, "--wait", "60", "--seconds", "1", *map(str, words)],
                          capture_output=True, text=True, timeout=240)


def test_survey_is_installed_booted_and_printed_as_a_table(machine):
    with udp_echo() as port:
        done = fly(machine, "--echo", f"127.0.0.1:{port}")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "Linux is back" in done.stdout and machine.host.variables()["next_entry"] == ""
    rows = lines[[line.split()[:2] for line in lines].index(["ns", "p50"]):]
    for name in ("reading", "gap", "matcher_scalar", "echo", "ring_to_ring"):
        line, = (line for line in rows if line.split(" ")[0] == name)
        p50, p99, longest, samples = map(int, line.split()[1:5])
        assert 0 < p50 <= p99 <= longest and samples > 0
    assert [line for line in rows if line.startswith("matcher_scalar ") and line.endswith(" ns a digit")]
    assert [line for line in rows if line.split() == "exit not measured: a program on Linux cannot".split()]
    assert "peregrine uninstall fake" in lines[-1]
    settings = (machine.host.root / "boot/peregrine/settings").read_text()
    assert f"survey.seconds=1\necho=127.0.0.1:{port}\n" in settings
    assert "key=0x" in settings and "wait=sleep" in settings


def test_survey_flies_by_kexec_where_grub_is_no_way(machine):
    machine.host.file("/fake/fs", "btrfs\n")
    with machine.host.unchanged():
        done = fly(machine, "--bzimage", machine.flown_image)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "by kexec" in done.stdout and "matcher_scalar" in done.stdout and "uninstall" not in done.stdout
        assert "survey.seconds=1\n" in (machine.host.root / "fake/kexec-settings").read_text()


def test_json_is_all_that_goes_to_standard_output(machine):
    done = fly(machine, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result, = json.loads(done.stdout)
    rows = {row["name"]: row for row in result["rows"]}
    assert (result["host"], result["cause"]) == ("fake", "finished") and "Linux is back" in done.stderr
    assert rows["echo"] == {"name": "echo", "not_measured": "echo= is not given"}
    scalar = rows["matcher_scalar"]
    assert scalar["ns_per_digit"] == scalar["p50_ns"] / 100 > 0 and scalar["count"] > 0


def test_survey_that_does_not_end_by_itself_shows_its_record(machine):
    machine.config.write_text(machine.config.read_text() + "deadline=0.3\n")
    done = fly(machine, "--seconds", "20")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "why it came back: deadline" in done.stdout and "survey did not end by itself" in done.stdout
    assert "no sample came of it" in done.stdout


def test_record_of_an_earlier_survey_is_no_result(machine):
    assert fly(machine).returncode == 0
    machine.host.file("/fake/no-record")
    done = fly(machine)
    assert done.returncode == 5 and "there is no crash record" in done.stdout


@pytest.mark.parametrize("words, status, said", [
    (["--kernel", "/nowhere/peregrine.elf"], 1, "build it with `make PROGRAM=survey`"),
    (["--echo", "name:7"], 2, "'name:7' is no IP:PORT"), (["--to", "192.0.2.1:1"], 2, "not allowed with"),
    (["--seconds", "0.5"], 1, "survey.seconds")])
def test_wrong_words_are_refused_before_anything_is_changed(machine, words, status, said):
    with machine.host.unchanged():
        done = fly(machine, *words)
        assert done.returncode == status and said in done.stderr, done.stdout + done.stderr


def test_whatever_stops_fly_stops_the_survey(machine):
    machine.host.nic(driver="ena")
    with machine.host.unchanged():
        done = fly(machine)
        assert done.returncode == 1 and "eth0 is driven by ena" in done.stdout


def test_a_machine_that_fails_keeps_no_other_from_its_survey(monkeypatch, capsys):
    waits = []

    def survey_host(host, options, found):
        waits.append(options.wait)
        if host == "silent":
            raise control.NoAnswer("silent: no status")
        if host == "refused":
            raise commands.Refused("nothing was changed")
        found.append({"host": host})
        return 0

    monkeypatch.setattr(survey_inside, "survey_host", survey_host)
    options = argparse.Namespace(json=True, wait=300, seconds=120)
    assert survey_inside.survey(["silent", "refused", "good"], options) == 4
    said = capsys.readouterr()
    assert json.loads(said.out) == [{"host": "good"}] and "silent: no status" in said.err
    assert waits == [420, 420, 420]


def test_rows_without_a_sample_give_the_reason():
    statistics = {"program": "survey", "survey.echo_sent": 7, "survey.echo_answered": 0}
    for name, fact, count in (("exit", "CPUID", 5), ("echo", "UDP datagram", 0), ("wake_ipi", "HLT", 0),
                              ("gap", "not measured: x", 0),
                              ("matcher_avx2", "search of 100 digits, with AVX2", 2)):
        statistics[f"survey.{name}"] = fact
        for key in ("mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"):
            statistics[f"survey.{name}.{key}"] = 250
        statistics[f"survey.{name}.count"] = count
    rows = {row["name"]: row for row in survey_inside.rows_of(statistics)}
    assert rows["echo"]["not_measured"] == "none of 7 datagrams came back" and rows["gap"]["not_measured"] == "x"
    assert rows["wake_ipi"]["not_measured"] == "no sample came of it"
    assert rows["exit"]["p50_ns"] == 250 and "ns_per_digit" not in rows["exit"]
    assert rows["matcher_avx2"]["ns_per_digit"] == 2.5
