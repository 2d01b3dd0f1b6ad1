"""tools/run.py: its variables, its verdict at a game's end, and its refusal of a KVM that is too slow."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from workshop.vm import guest_log, machine, qemu, serve
import run
from workshop.vm.game import outcome


@pytest.mark.parametrize("variables, quoted", [
    ({"NET": "wifi"}, "NET='wifi'"), ({"DURATION": "0"}, "DURATION='0'"), ({"DURATION": "x"}, "DURATION='x'"),
    ({"DURATION": "3²"}, "DURATION='3²'"), ({"CPUS": "²"}, "CPUS='²'"),
    ({"CPUS": "-1"}, "CPUS='-1'"), ({"MEMORY": "8T"}, "MEMORY='8T'"), ({"MEMORY": "1M"}, "MEMORY='1M'"),
    ({"NIC": "e1000"}, "NIC='e1000'"), ({"BOOT": "floppy"}, "BOOT='floppy'"), ({"STACK": "bsd"}, "STACK='bsd'"),
    ({"FIRMWARE": "uefi", "MEMORY": "64M"}, "MEMORY='64M'"),
    ({"FIRMWARE": "uefi", "BOOT": "kernel"}, "FIRMWARE='uefi'"), ({"BOOT": "microvm", "NIC": "modern"}, "NIC='modern'"),
    ({"NIC": "mmio"}, "NIC='mmio'"), ({"STATISTICS": "1"}, "STATISTICS='1'"), ({"ROUND": "finale"}, "ROUND='finale'"),
])
def test_bad_values_are_quoted(variables, quoted):
    with pytest.raises(run.BadValue, match=quoted):
        run.read_variables(variables)


@pytest.mark.parametrize("text", ["n=1025 m=3", "n=9 m=1,2,3,4,5,6,7,8,9", "n=9 hidden=2^512"])
def test_a_round_that_the_kernel_cannot_play_is_refused(tmp_path, text):
    path = tmp_path / "round"
    path.write_text(text)
    with pytest.raises(run.BadValue, match="the kernel plays n up to 1024"):
        run.read_variables({"ROUND": str(path)})


def test_the_program_names_a_bad_value_and_fails():
    program = pathlib.Path(run.__file__)
    done = subprocess.run([sys.executable, program], env={"NIC": "e1000"}, capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and "NIC='e1000'" in done.stderr


def test_help_lists_the_variables_and_an_unknown_word_is_refused():
    program = pathlib.Path(run.__file__)
    done = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and all(name in done.stdout for name in run.VARIABLES)
    assert subprocess.run([sys.executable, program, "--foo"], capture_output=True, timeout=20).returncode == 2


def test_further_settings_reach_the_kernel():
    values = run.read_variables({"SETTINGS": "cpus=2 watchdog=5"})
    text = machine.settings_text(machine.Setup(), values["ROUND"], ["feed=x"], "me", "key", values["SETTINGS"].split())
    assert text.endswith(" cpus=2 watchdog=5")


def test_a_system_without_namespaces_for_users_is_reported(tmp_path):
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    done = subprocess.run([sys.executable, run.__file__], capture_output=True, text=True, timeout=20,
                          env={**os.environ, "NET": "tap", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 1
    assert done.stderr == ("run: NET=tap needs root, or a system that lets its users make namespaces "
                           "(unshare failed: Operation not permitted)\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(tmp_path, number):
    process = subprocess.Popen([sys.executable, run.__file__], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True,
                               env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        said = ""
        while "board: http" not in said:
            line = process.stdout.readline()
            assert line, said + process.stderr.read()
            said += line
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 1 and f"run: ended by {number.name}" in errors
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        process.wait()


def test_the_log_is_shown_by_whole_lines_and_once(capsys):
    class Host:
        log = "one\ntwo\nthr"

    log = run.Log(Host)
    log.show()
    assert capsys.readouterr().out == "  | one\n  | two\n"
    Host.log = "one\ntwo\nthree\nfour\n[1.0] stats: x 1\nfive\n"
    log.show(2)
    log.show(2)
    assert capsys.readouterr().out == "  | four\n  | five\n"


def test_statistics_of_the_log_are_shown_as_a_table_or_whole():
    text = guest_log.statistics_in("[1.0] up\n[2.0] stats: x.a 1\r\n[2.0] stats: x.b 0\n")
    assert guest_log.shown_statistics(text, everything=False) == "x             a 1"
    assert guest_log.shown_statistics(text, everything=True) == "x.a 1\nx.b 0"


def test_defaults_follow_from_each_other():
    assert run.read_variables({})["BOOT"] == "kernel"
    assert run.read_variables({"FIRMWARE": "uefi"})["BOOT"] == "iso"
    assert run.read_variables({"BOOT": "microvm"})["NIC"] == "mmio"


LINES = [
    {"kind": "feed-open", "id": 1, "ip": "x", "position": 0}, {"kind": "burst", "position": 0, "digits": "9876123450"},
    {"kind": "answer", "start": 0, "end": 4, "digits": "9876"},
    {"kind": "answer", "start": 4, "end": 9, "digits": "12345"},
    {"kind": "submission", "user": "peregrine", "digits": "9876", "verdict": "+8"},
    {"kind": "summary", "user": "peregrine"},
]


def test_a_missed_a_wrong_and_a_repeated_answer_are_failures():
    more = [{"kind": "submission", "user": "peregrine", "digits": d, "verdict": v}
            for d, v in (("9876", "dup"), ("77", "wrong: no multiple of any M"))]
    result = outcome(LINES + more, "peregrine")
    assert (result["missed"], result["repeated"], len(result["wrong"])) == (["12345"], ["9876"], 1)
    found = run.failures(result, over=True, statistics="x", reset=True)
    assert len(found) == 2 and "12345" in found[0] and "77" in found[1]


def test_an_early_answer_that_the_end_of_the_game_left_undecided_is_not_wrong():
    lines = LINES + [{"kind": "burst", "position": 10, "digits": "1", "ns": 60 * 10**9}]
    for submitted_s, wrong in ((54, 1), (56, 0)):
        line = {"kind": "resolved", "user": "peregrine", "digits": "1", "ns": submitted_s * 10**9,
                "verdict": "wrong: not in the input"}
        assert len(outcome([*lines, line], "peregrine")["wrong"]) == wrong


def test_each_missing_condition_of_a_game_is_one_failure():
    good = LINES + [{"kind": "submission", "user": "peregrine", "digits": "12345", "verdict": "early"}]
    result = outcome(good, "peregrine")
    assert run.failures(result, True, "x", True) == []
    for over, statistics, reset in ((False, "x", True), (True, None, True), (True, "x", False)):
        assert len(run.failures(result, over, statistics, reset)) == 1
    assert run.failures(outcome(LINES[:2], "peregrine"), True, "x", True) == [
        "no answer was offered: play longer (DURATION=)"]


def test_a_kernel_that_refuses_its_settings_is_one_failure():
    log = ("[    0.000000] peregrine 1.0.0, program player, build 1\n[    0.000000] settings, command line: simd=: no\n"
           "[    0.000000] back to Linux: the settings cannot be used\n[    0.000000] reset: acpi\n")
    found = run.failures(outcome([], "peregrine"), over=False, statistics=None, reset=True, log=log)
    assert found == ["the machine has left: the settings cannot be used: settings, command line: simd=: no",
                     "the game did not come to its end"]


def test_a_panic_is_the_reason_wherever_it_stands():
    log = "[ 1.0] network: up\n[ 1.1] panic: here\n[ 1.1] registers\n[ 1.2] back to Linux: panic\n"
    assert guest_log.end_of(log) == ("panic", "panic: here")
    assert guest_log.end_of("[ 1.0] network: up\n") == (None, None)


@pytest.mark.parametrize("variables, quoted", [
    ({"SETTINGS": "cpus=2 n=0"}, "SETTINGS: n=: .make run. sets"),
    ({"SETTINGS": "ip=10.0.0.1/8", "NET": "tap"}, "SETTINGS: ip=: .make run. sets"),
    ({"PROGRAM": "echo", "DURATION": "3"}, "DURATION='3': PROGRAM=echo plays no game"),
    ({"PROGRAM": "nosuch"}, "PROGRAM='nosuch': it must be one of .*echo"),
    ({"ROUND": "/nowhere/final.round"}, "ROUND='/nowhere/final.round': it must be .* a file that exists"),
])
def test_words_that_a_run_cannot_use_are_refused_before_the_build(variables, quoted):
    with pytest.raises(run.BadValue, match=quoted):
        run.read_variables(variables)


def test_a_boot_that_takes_too_long_is_none():
    seconds, finding = machine.boot("tcg", 0.05, qemu.IMAGE)
    assert seconds is None and finding == "a boot under tcg did not end within 0.05 s"


@pytest.mark.parametrize("tcg, kvm, works", [(0.1, 0.9, True), (0.1, 4.2, False), (0.5, 8.0, False),
                                             (None, 0.2, False)])
def test_kvm_that_is_far_slower_than_tcg_is_refused(monkeypatch, tmp_path, tcg, kvm, works):
    """A KVM that interprets every instruction took 4.2 s, where TCG took 0.1."""
    opened = os.open(tmp_path, os.O_RDONLY)

    def boot(accelerator, limit, _):
        taken = {"tcg": tcg, "kvm": kvm}[accelerator]
        return taken if taken is not None and taken <= limit else None, accelerator

    monkeypatch.setattr(machine, "boot", boot)
    monkeypatch.setattr(machine.os, "open", lambda *_: os.dup(opened))
    monkeypatch.setattr(machine.qemu, "BUILD", tmp_path)
    found = (works, "tcg" if tcg is None else "kvm")
    for this_boot, said in (("one", 1), ("one", tcg is None), ("two", 1)):      # a failure of TCG is not remembered
        lines = []
        monkeypatch.setattr(machine, "this_boot", lambda name=this_boot: name)
        assert machine.probe_kvm(say=lines.append) == found and len(lines) == said
    (tmp_path / "kvm.json").write_text("[")
    assert machine.probe_kvm() == found


def test_all_cpus_of_the_machine_are_the_kernels():
    assert machine.cpus_text(1) == "1 CPU" and machine.cpus_text(2) == "2 CPUs"
    for count, given, wanted in ((2, [], ["cpus=2"]), (2, ["cpus=1"], ["cpus=1"]), (1, [], [])):
        words = serve.Program("digest", machine.Setup(cpus=count), given).words
        assert [word for word in words if word.startswith("cpus=")] == wanted
