"""fly, status, log, gg: on a HOST that is a directory, whose reboot starts peregrine-linux in place of the kernel. The
control channel is the real one, over loopback."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import types

import pytest

from tests.deploy.fakehost import ADDRESSES, INHIBITED, NEIGHBOUR, ROOT, ROUTES
from tests.deploy.test_install import Deployment
from tests.lib.waiting import wait_for

from deploy import boot_once, control, ways

from workshop.vm.ports import TCP, UDP, free_port

PLAYER = ROOT / "build/host/peregrine-linux"
KEY = "0x000102030405060708090a0b0c0d0e0f"


@pytest.fixture
def machine(tmp_path):
    """Makes a host that is installed and ready; in place of the kernel the player runs."""
    machine = Deployment(tmp_path)
    machine.port = free_port(UDP)
    closed = free_port(TCP)
    machine.config.write_text(f"feed=127.0.0.1:{closed} submit=127.0.0.1:{closed} user=u passwd=p n=9 m=3 wait=sleep "
                              f"key={KEY} control.port={machine.port} server.timeout=60\n")
    pid = machine.host.root / "fake/player-pid"
    machine.host.reboots_into(f'''
    if [ ! -e "$ROOT/fake/no-player" ]; then
        {PLAYER} $(grep -v '^#' "$settings") >/dev/null 2>"$ROOT/fake/player-log" &
        echo $! > {pid}
        wait $!
    fi''')
    machine.install()
    yield machine
    if pid.exists() and pid.read_text().strip():
        try:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


def start_player(machine):
    settings = (machine.host.root / "boot/peregrine/settings").read_text()
    words = [w for line in settings.splitlines() if not line.startswith("#") for w in line.split()]
    player = subprocess.Popen([PLAYER, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return player


def read_until(process, text):
    """Returns what a process prints up to the line that has this text."""
    said = ""
    while text not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


def test_status_log_and_gg_reach_the_kernel(machine):
    player = start_player(machine)
    try:
        wait_for(lambda: machine.run("status", "--config", machine.config).returncode == 0)
        text = machine.run("status", "--config", machine.config, "--all").stdout
        assert re.search(r"^control\.commands_status \d+$", text, re.MULTILINE)
        text = machine.run("status", "--config", machine.config).stdout
        assert re.search(r"^control .*commands_status \d+", text, re.MULTILINE)
        values = json.loads(machine.run("status", "--config", machine.config, "--json").stdout)
        assert values["control.commands_status"] > 1
        done = machine.run("slow", "--config", machine.config)
        assert done.returncode == 0 and done.stdout == "no slow way is kept yet, or the program keeps none\n"
        done = machine.run("capture", "--config", machine.config)
        assert done.returncode == 3 and "no frames are kept: capture= is not set" in done.stderr
        log = subprocess.Popen([sys.executable, ROOT / "tools/peregrine", "log", "fake", "--ssh",
                                " ".join(machine.host.ssh),
                                "--config", machine.config], stdout=subprocess.PIPE, text=True)
        assert log.stdout.readline().startswith("[")
        other = machine.config.with_name("other.conf")
        other.write_text(machine.config.read_text().replace(KEY, "another-key"))
        done = machine.run("status", "--config", other)
        assert done.returncode == 3 and "the key is another one" in done.stderr
        done = machine.run("gg", "--config", machine.config)
        assert done.returncode == 5, done.stdout            # no record: the player keeps none
        assert re.search(r"^control .*commands_gg 1\b", done.stdout, re.MULTILINE) and "Linux is back" in done.stdout
        assert player.wait(10) == 0
        assert "refused, retrying" in log.communicate(timeout=30)[0]
    finally:
        player.kill()
        player.wait()


def test_fly_arms_once_shows_the_log_and_reports_that_linux_is_back(machine):
    fly = subprocess.Popen([sys.executable, ROOT / "tools/peregrine", "fly", "fake", "--ssh",
                               " ".join(machine.host.ssh)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = read_until(fly, "retrying")      # a line of the running kernel's log
        assert "the kernel answers at 127.0.0.1" in said
        assert machine.host.variables()["next_entry"] == ""
        done = machine.run("gg", "--config", machine.config)
        assert done.returncode == 5, done.stdout
        said += fly.communicate(timeout=60)[0]
        assert fly.returncode == 5
        assert "the kernel is silent" in said and "Linux is back" in said and "there is no crash record" in said
    finally:
        fly.kill()
        fly.wait()


def test_a_roll_installs_and_flies_what_is_installed_once_more(machine):
    page = free_port(TCP)
    machine.config.write_text(machine.config.read_text() + f"http.port={page}\n")
    words = ("fly", "--rolling", "--config", machine.config, "--kernel", machine.kernel, "--wait", "60")
    for was_home in (True, False):
        done = machine.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("host: the kernel ends." in done.stdout) != was_home
        assert "host: installed; Linux stays the default" in done.stdout and "host: by GRUB" in done.stdout
        assert "host  done" in done.stdout and "the status page is up\n1 of 1 done\n" in done.stdout
    assert machine.run("status", "--config", machine.config).returncode == 0


def test_a_run_that_ends_at_once_is_noticed(machine, monkeypatch):
    machine.host.file("/fake/no-player")
    done = machine.run("fly", "--wait", "60")
    assert done.returncode == 5, done.stdout
    assert "Linux came up, and no status was seen" in done.stdout


def test_an_entry_that_grub_never_saw_is_disarmed_when_linux_is_back(machine):
    machine.host.file("/fake/power-cut")
    done = machine.run("fly", "--wait", "60")
    assert "no status was seen; the kernel is not armed any more" in done.stdout, done.stdout
    assert not machine.host.variables().get("next_entry")


def test_gg_to_a_machine_that_is_back_already_reads_the_record(machine):
    done = machine.run("gg", "--config", machine.config)
    assert done.returncode == 5 and "is in Linux already" in done.stdout


def test_silence_has_its_exit_code(machine):
    machine.host.file("/fake/away")
    assert machine.run("status", "--config", machine.config).returncode == 4
    assert machine.run("gg", "--config", machine.config).returncode == 4
    done = machine.run("log", "--config", machine.config)
    assert done.returncode == 4 and "no answer to" in done.stderr


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--kexec",)])
def test_fly_is_refused_if_nothing_is_installed(machine, words):
    machine.uninstall()
    with machine.host.unchanged():
        done = machine.run("fly", *words)
        assert done.returncode == 1 and "nothing is installed" in done.stderr


def test_a_reboot_that_does_not_happen_is_noticed_and_disarmed(machine):
    machine.host.program("systemctl", INHIBITED)
    done = machine.run("fly", "--wait", "3")
    assert done.returncode == 3
    assert "the reboot did not happen" in done.stderr
    assert 'the kernel is not armed any more. There it says: Operation inhibited by "apt" (PID 7)' in done.stderr
    assert "next_entry" not in machine.host.variables()


def test_a_linux_that_takes_long_to_go_down_stays_armed(machine):
    machine.host.program("systemctl", "[ $1 != is-system-running ] || echo stopping\n")
    done = machine.run("fly", "--wait", "3")
    assert done.returncode == 4 and "no status within 3 s" in done.stderr
    assert machine.host.variables()["next_entry"] == "peregrine"


def test_a_step_of_arming_that_fails_leaves_nothing_armed(machine):
    real = shutil.which("grub-editenv")
    machine.host.program("grub-editenv", f'{real} "$@"\ncase "$*" in *next_entry=peregrine*) exit 1 ;; esac\n')
    done = machine.run("fly", "--by", "grub")
    assert done.returncode == 3
    assert "grub-editenv did not arm the entry" in done.stderr and "not armed any more" in done.stderr
    assert machine.host.next_boot() != "peregrine"


@pytest.mark.parametrize("network, reason", [
    ((ROUTES, [{"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.0.2.99", "prefixlen": 24,
                                                 "scope": "global"}]}], NEIGHBOUR),
     "Linux's address is 10.0.2.99/24, and the installed settings say ip=10.0.2.15/24"),
    (([{**ROUTES[0], "gateway": "10.0.2.3"}], ADDRESSES, [{**NEIGHBOUR[0], "dst": "10.0.2.3"}]),
     "the gateway is 10.0.2.3, and the installed settings say gw=10.0.2.2"),
    ((ROUTES, ADDRESSES, [{**NEIGHBOUR[0], "lladdr": "52:55:0a:00:02:99"}]), "gwmac=52:55:0a:00:02:02"),
])
def test_a_network_that_changed_since_install_is_noticed_before_the_reboot(machine, network, reason):
    machine.host.network(*network)
    with machine.host.unchanged():
        done = machine.run("fly", "--by", "grub")
        assert done.returncode == 1 and reason in done.stdout and "nothing was changed" in done.stderr
    machine.install()
    assert machine.run("fly", "--dry-run").returncode == 0


@pytest.mark.parametrize("address", ["fd00::10", "known-to-ssh-alone.invalid"])
def test_an_address_that_only_ssh_reaches_is_refused_before_the_reboot(machine, address):
    with machine.host.unchanged():
        done = machine.run("fly", "--address", address)
        assert done.returncode == 1 and address in done.stderr and "by --address 10.0.2.15" in done.stderr


class Sequence:
    """A kernel, or Linux's ssh, that gives these answers one after the other. None is no answer."""

    def __init__(self, *answers):
        self.answers_left = list(answers)

    def next(self):
        return self.answers_left.pop(0) if self.answers_left else None


def fly_against(monkeypatch, client, linux=lambda: "another boot", silence_s=1.0):
    """Runs fly against a kernel's client and a Linux of the test's own. `linux()` is what ssh answers: a boot's id."""
    class Linux:
        name = "host"

        @staticmethod
        def answers(connect_seconds=5):
            return linux()

    monkeypatch.setattr(boot_once, "SILENCE_SECONDS", silence_s)
    monkeypatch.setattr(boot_once, "FOLLOW_SECONDS", 0.03)
    flight = boot_once.Boot(ways.WAYS["grub"], "key=longenough", "first")
    monkeypatch.setattr(boot_once, "prepare", lambda *_: flight)
    monkeypatch.setattr(boot_once, "client_of", lambda *_, **__: client)
    monkeypatch.setattr(boot_once.ways, "leave", lambda *_: None)
    monkeypatch.setattr(boot_once.commands, "record", lambda *_, **__: 5)
    options = argparse.Namespace(return_to="", dry_run=False, by=None, config=None, program=None, wait=30,
                                 no_follow=False, debug=None)
    return boot_once.guarded(boot_once.fly, Linux(), options)


def test_the_log_is_shown_again_after_a_silence(monkeypatch, capsys):
    logs, linux = Sequence((10, "first\n"), None, None, None, (20, "again\n")), Sequence(None, None, "another boot")

    class Client:
        where, attempts = "a kernel", 1
        status = staticmethod(lambda: "x 1\n")
        answers = staticmethod(lambda: bool(logs.answers_left))

        @staticmethod
        def log(position):
            if not (answer := logs.next()):
                raise control.NoAnswer("silent")
            return answer

    assert fly_against(monkeypatch, Client(), lambda: None if logs.answers_left else linux.next(), 0.05) == 5
    said = capsys.readouterr().out
    steps = [said.index(step)
             for step in ("first", "is silent", "the kernel answers again", "again\n", "Linux is back")]
    assert steps == sorted(steps)


def test_an_interruption_before_the_first_status_says_what_may_be_armed(monkeypatch, capsys):
    def status():
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        fly_against(monkeypatch, types.SimpleNamespace(where="a kernel", status=status))
    assert "host: one boot of the kernel may still be armed; peregrine uninstall disarms it" in capsys.readouterr().out


class LossyKernel:
    """A kernel whose first answers to a command are lost: a challenge came, and then nothing."""
    where = "a kernel"

    def __init__(self, lost):
        self.attempts, self.lost_statuses, self.lost_logs, self.logs = 1, lost, lost, ["first\n"]

    def status(self):
        self.lost_statuses -= 1
        if self.lost_statuses >= 0:
            raise control.NotAuthenticated("the key is another one (or the answer was lost)")
        return "x 1\n"

    def log(self, position):
        self.lost_logs -= 1
        if self.lost_logs >= 0:
            raise control.NotAuthenticated("the key is another one (or the answer was lost)")
        if not self.logs:
            raise control.NoAnswer("silent")
        return position + 6, self.logs.pop()

    @staticmethod
    def answers():
        return False


def test_fly_goes_on_when_an_answer_is_lost(monkeypatch, capsys):
    assert fly_against(monkeypatch, LossyKernel(3)) == 5
    said = capsys.readouterr().out
    assert re.search(r"^x +1$", said, re.MULTILINE) and "first\n" in said and "Linux is back" in said


def test_fly_ends_if_the_kernel_never_obeys(monkeypatch, capsys):
    assert fly_against(monkeypatch, LossyKernel(1000)) == 3
    assert "the key is another one" in capsys.readouterr().err


def test_a_kernel_of_linux_that_came_since_install_is_noticed_before_the_reboot(machine):
    machine.host.file("/boot/vmlinuz-6.1.0-2-amd64", "new, and the default of the next menu")
    machine.host.update_grub()
    with machine.host.unchanged():
        for words in ([], ["--dry-run"], ["--kexec"], ["--return-to", "6.1.0-1-amd64"]):
            done = machine.run("fly", *words)
            assert done.returncode == 1 and "come back to 6.1.0-2-amd64" in done.stdout, done.stdout
            assert "nothing was changed" in done.stderr
    done = machine.run("fly", "--dry-run", "--return-to", "6.1.0-2-amd64")
    assert done.returncode == 0 and "the next boot is the kernel's" in done.stdout


def test_a_kernel_that_the_menu_does_not_list_yet_hinders_no_boot(machine):
    machine.host.file("/boot/vmlinuz-6.1.0-2-amd64", "copied, and update-grub has not run")
    done = machine.run("fly", "--dry-run")
    assert done.returncode == 0 and "of 2 kernels the machine comes back to 6.1.0-1-amd64" in done.stdout


def test_slow_ways_are_a_table(monkeypatch, capsys):
    text = "x 1\nslow.columns at_s total_ns work\nslow.01 1.5 123456 tables+page\nslow.02 10.25 7 -\n"
    monkeypatch.setattr(boot_once, "client_from_config", lambda *_: types.SimpleNamespace(status=lambda: text))
    assert boot_once.slow(None, None) == 0
    assert capsys.readouterr().out.splitlines() == [" at_s  total_ns         work", "  1.5    123456  tables+page",
                                                    "10.25         7            -"]
    assert boot_once.slow_table(text + "slow.03 1\n") == []


def test_a_missing_key_is_reported(machine):
    done = machine.run("status")
    assert done.returncode == 1 and "--config" in done.stderr


def test_a_reader_of_the_log_learns_what_it_has_lost(monkeypatch, capsys):
    answers = iter([(12, "[0] one line\n"[:12]), (40, "[9] a\n"), (46, "[9] b\n")])
    monkeypatch.setattr(boot_once, "SILENCE_SECONDS", 0.1)
    monkeypatch.setattr(boot_once, "FOLLOW_SECONDS", 0)

    def log(_):
        try:
            return next(answers)
        except StopIteration:
            raise control.NoAnswer("gone") from None
    assert boot_once._follow(types.SimpleNamespace(log=log)) == 46
    said = capsys.readouterr()
    assert said.out == "[0] one line[9] a\n[9] b\n" and said.err == "peregrine log: 22 bytes of the log are lost here\n"
