"""fly --by kexec: on a HOST that is a directory, and has no GRUB. kexec is a stand-in that keeps the loaded image, and
peregrine-linux plays in place of the kernel."""
import json
import struct
import subprocess
import sys

import pytest

from tests.deploy.fakehost import INHIBITED, ROOT
from tests.deploy.test_blackbox import kcore, make, region
from tests.deploy.test_boot_once import KEY, PLAYER, read_until, wait_for
from tests.deploy.test_install import Deployment

from deploy import boot_once, commands, state, ways
from workshop.vm.ports import TCP, UDP, free_port


@pytest.fixture
def machine(tmp_path):
    return without_grub(Deployment(tmp_path))


def without_grub(machine):
    """Takes GRUB away and makes the player fly."""
    for path in machine.host.grub.iterdir():
        if path.is_file():
            path.unlink()
    for tool in machine.host.bin.glob("grub-*"):
        tool.unlink()
    closed = free_port(TCP)
    machine.port = free_port(UDP)
    machine.config.write_text(f"feed=127.0.0.1:{closed} submit=127.0.0.1:{closed} user=u passwd=p n=9 m=3 wait=sleep "
                              f"key={KEY} control.port={machine.port} server.timeout=60\n")
    machine.host.reboots_into(f'''{PLAYER} $(grep -v '^#' "$settings") >/dev/null 2>"$ROOT/fake/player-log"''')
    return machine


def fly(machine, *words, **how):
    return machine.run("fly", "--config", machine.config, "--wait", "20", *words, **how)


def calls(machine):
    path = machine.host.root / "fake/kexec-calls"
    return path.read_text().splitlines() if path.exists() else []


def flown_settings(machine):
    return (machine.host.root / "fake/kexec-settings").read_text()


def loaded(machine):
    return (machine.host.root / "sys/kernel/kexec_loaded").read_text().strip() == "1"


def test_a_flight_without_grub_from_check_to_the_record(machine, state_directory):
    with machine.host.unchanged():
        assert "here by kexec" in machine.run("check").stdout
        assert machine.run("install").returncode == 1
        words = ["fly", "host", "--ssh", " ".join(machine.host.ssh), "--config", machine.config, "--bzimage",
                 machine.flown_image]
        flight = subprocess.Popen([sys.executable, ROOT / "tools/peregrine", *map(str, words)], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        try:
            said = read_until(flight, "retrying")       # a line of the running kernel's log
            assert "by kexec, not by GRUB: there is no GRUB here" in said and "the kernel answers at 127.0.0.1" in said
            assert machine.run("status", "--config", machine.config).returncode == 0
            done = machine.run("gg", "--config", machine.config)
            assert done.returncode == 5 and "Linux is back" in done.stdout      # no record: the player keeps none
            said += flight.communicate(timeout=60)[0]
            assert flight.returncode == 5 and "Linux is back" in said
        finally:
            flight.kill()
            flight.wait()
        text = flown_settings(machine)
        assert "nic=52:54:00:12:34:56\nip=10.0.2.15/24\ngw=10.0.2.2\ngwmac=52:55:0a:00:02:02\nmtu=1500\n" in text
        assert "\ntsc.khz=2399998\n" in text
    done = machine.run("uninstall")
    assert done.returncode == 0 and "nothing is installed" in done.stdout
    assert json.loads((state_directory / "host.json").read_text())["regions"][0] == [0x90000, 0x8000]


def test_the_key_is_readable_by_root_alone_and_stands_in_no_argument(machine):
    assert fly(machine, "--no-follow").returncode == 0
    modes = (machine.host.root / "fake/kexec-modes").read_text().split("\n")
    assert [line[:10] for line in modes if line] == ["drwx------", "-rw-------", "-rw-------", "-rw-------"]
    image, = {word for call in calls(machine) for word in call.split() if word.endswith("/image")}
    assert calls(machine) == [f"-s -l {image} --initrd={image[:-5]}settings"]
    machine.run("gg", "--config", machine.config)
    assert not (machine.host.root / "run/peregrine").exists()


def test_kexec_load_is_tried_if_the_kernel_says_no_to_kexec_file_load(machine):
    machine.host.file("/fake/no-file", "kexec_file_load failed: Function not implemented\n")
    assert fly(machine, "--no-follow").returncode == 0
    assert [call.split()[0] for call in calls(machine)] == ["-s", "-l"] and "--type=bzImage" in calls(machine)[1]
    machine.run("gg", "--config", machine.config)


def test_both_reasons_are_given_if_the_kernel_is_loaded_by_neither(machine):
    machine.host.file("/fake/no-file", "kexec_file_load failed: Required key not available\n")
    machine.host.file("/fake/no-segments", "kexec_load failed: Operation not permitted\n")
    done = fly(machine)
    assert done.returncode == 3
    assert "by kexec_file_load: kexec_file_load failed: Required key not available" in done.stderr
    assert "by kexec_load: kexec_load failed: Operation not permitted" in done.stderr
    assert "stays in Linux" in done.stderr and not (machine.host.root / "run/peregrine").exists()


@pytest.mark.parametrize("damage", ["cat", "mkdir"])
def test_a_run_that_takes_no_more_is_noticed(machine, damage):
    real = (machine.host.bin / damage).resolve()
    machine.host.program(damage, {"cat": f'{real} "$@"; [ $# != 0 ] || echo more\n', "mkdir": "exit 1\n"}[damage])
    machine.flown_image.write_bytes(bytes(0x202) + b"HdrS" + bytes(200000))
    done = fly(machine)
    assert done.returncode == 3 and "/run" in done.stderr and "stays in Linux" in done.stderr
    assert not calls(machine) and not (machine.host.root / "run/peregrine").exists()


def test_a_run_where_nothing_may_be_executed_is_no_obstacle(machine):
    machine.host.file("/proc/mounts", "/dev/vda / btrfs rw 0 0\ntmpfs /run tmpfs rw,nosuid,nodev,noexec 0 0\n")
    assert fly(machine, "--no-follow").returncode == 0
    machine.run("gg", "--config", machine.config)


def test_a_connection_lost_between_load_and_jump_leaves_the_machine_in_linux(machine, monkeypatch):
    monkeypatch.setattr(ways, "UNLOAD_SECONDS", 2)
    monkeypatch.setattr(ways.Kexec, "uncertain", "it unloads the kernel by itself")
    machine.host.file("/fake/lost-when-loaded")
    flight = boot_once.Boot(ways.WAYS["kexec"], "key=longenough", "first", machine.flown_image.read_bytes())
    with pytest.raises(commands.RemoteError, match="it unloads the kernel by itself"):
        ways.leave(flight.way, machine.host, flight)
    assert loaded(machine)
    wait_for(lambda: not (machine.host.root / "run/peregrine").exists())
    assert calls(machine)[-1] == "-u" and not loaded(machine)
    assert (machine.host.root / "proc/sys/kernel/random/boot_id").read_text() == "first\n"


def test_the_message_after_a_lost_connection_says_where_the_machine_is(machine):
    machine.host.file("/fake/lost-when-loaded")
    done = fly(machine)
    assert done.returncode == 3
    assert "the machine stays there, and unloads the kernel by itself 120 s after the load" in done.stderr


def test_a_load_that_was_forgotten_does_not_end_a_later_one(machine, monkeypatch):
    monkeypatch.setattr(ways, "UNLOAD_SECONDS", 2)
    flight = boot_once.Boot(ways.WAYS["kexec"], "key=longenough", "first", machine.flown_image.read_bytes())
    flight.way.load(machine.host, flight)
    assert ways.unload(flight.way, machine.host) == flight.way.unloaded and not loaded(machine)
    monkeypatch.setattr(ways, "UNLOAD_SECONDS", 600)
    flight.way.load(machine.host, flight)
    first = subprocess.run(["sleep", "3"])
    assert first.returncode == 0 and loaded(machine)


def test_a_kernel_that_another_has_loaded_is_left_alone(machine):
    flight = boot_once.Boot(ways.WAYS["kexec"], "key=longenough", "first", machine.flown_image.read_bytes())
    machine.host.file("/sys/kernel/kexec_loaded", "1\n")
    with pytest.raises(commands.RemoteError, match="another kernel is loaded for kexec already"):
        ways.leave(flight.way, machine.host, flight)
    assert loaded(machine) and not calls(machine)


def test_a_jump_that_does_not_happen_is_noticed_and_unloaded(machine):
    machine.host.program("systemctl", INHIBITED)
    done = machine.run("fly", "--config", machine.config, "--wait", "3")
    assert done.returncode == 3 and "the reboot did not happen" in done.stderr and "inhibited by" in done.stderr
    assert "not loaded any more, and the machine stays in Linux" in done.stderr and not loaded(machine)


def test_without_systemd_the_file_systems_are_made_read_only_first(machine):
    (machine.host.root / "run/systemd/system").rmdir()
    trigger = machine.host.file("/proc/sysrq-trigger")
    (machine.host.bin / "systemctl").unlink()
    assert fly(machine, "--no-follow").returncode == 0
    assert trigger.read_text() == "u\n" and calls(machine)[-1] == "-e"
    machine.run("gg", "--config", machine.config)


def test_silence_names_a_host_that_ends_its_machines_at_a_reset(machine):
    machine.host.program("systemctl", '[ "$1" != kexec ] || echo away > "$ROOT/fake/away"\n')
    done = machine.run("fly", "--config", machine.config, "--wait", "3")
    assert done.returncode == 4
    assert "on_reboot=destroy" in done.stderr and "nothing is armed, and Linux boots" in done.stderr
    (machine.host.root / "fake/away").unlink()
    machine.host.program("systemctl", '[ "$1" != kexec ] || echo away > "$ROOT/fake/away"\n')


@pytest.mark.parametrize("size, said", [(2000, "is cut off: 2000 bytes of 2560"),
                                        (100, "no Linux boot protocol header")])
def test_an_image_that_is_cut_off_is_refused_before_anything_is_sent(machine, size, said):
    machine.flown_image.write_bytes((bytes(0x202) + b"HdrS" + bytes(4096))[:size])
    done = fly(machine)
    assert done.returncode == 1 and said in done.stderr and not calls(machine)


def test_a_cut_off_elf_is_refused_by_install(tmp_path):
    machine = Deployment(tmp_path)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    for offset in (0x1000, 0x2000):
        head += struct.pack("<IIQQQQQQ", 1, 5, offset, 0, 0, 0x800, 0x800, 4096)
    data = (head.ljust(256, b"\0") + struct.pack("<I", 0xE85250D6)).ljust(0x2800, b"\0")
    for size, code in ((0x2800, 0), (0x27ff, 1)):
        machine.kernel.write_bytes(data[:size])
        assert machine.run("install", "--dry-run").returncode == code
    assert "is cut off: 10239 bytes of 10240" in machine.run("install").stderr


def test_bad_settings_are_refused_before_anything_is_sent(machine):
    machine.config.write_text(machine.config.read_text() + "colour=red\n")
    done = fly(machine)
    assert done.returncode == 1 and '"colour": there is no such key' in done.stderr and not calls(machine)
    assert machine.run("fly").returncode == 1


def test_two_hosts_in_flight_from_one_operator_keep_their_records_apart(tmp_path, state_directory):
    state.remember("root@a", [(0x1000, 4096)])
    state.remember("pilot@[fe80::1%eth0]", [(0x2000, 8192)])
    state.remember("../b", [(0x3000, 4096)])
    assert state.regions_of("a") == [(0x1000, 4096)] and state.regions_of("root@[fe80::1%eth0]") == [(0x2000, 8192)]
    assert state.regions_of("../b") == [(0x3000, 4096)] and state.regions_of("c") == []
    assert len(list(state_directory.iterdir())) == 3
    state.file_of("a").write_text('{"regions": [[1, "x"]]}')
    assert state.regions_of("a") == []


def test_a_state_that_cannot_be_kept_is_a_warning_with_the_regions(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    state.remember("a", [(0x1000, 4096)])
    assert "peregrine record --regions 0x1000,4096" in capsys.readouterr().err


def test_the_record_is_read_where_the_last_flight_from_here_put_it(machine):
    low = bytearray(0x9f000 - 0x1000)
    low[0x8f000:0x8f000 + 32768] = region(make(5, sections=[(1, b"gg")]))
    machine.host.file("/proc/kcore", kcore({0x1000: bytes(low)}))
    done = machine.run("record")
    assert done.returncode == 3 and "no boot from here is remembered" in done.stderr and "--regions" in done.stderr
    state.remember("host", [(0x90000, 0x8000)])
    done = machine.run("record")
    assert done.returncode == 0 and "why it came back: gg" in done.stdout


# ---- GRUB is there, too

@pytest.fixture
def with_grub(tmp_path):
    machine = Deployment(tmp_path)
    machine.host.reboots_into("sleep 1")
    return machine


@pytest.mark.parametrize("words, code, said", [
    (["fly"], 0, "by GRUB\n"), (["fly", "--kexec"], 0, "by kexec\n"), (["fly", "--by", "kexec"], 0, "by kexec\n"),
    (["fly", "--by", "grub"], 0, "by GRUB\n"),
    (["fly", "--config", "CONFIG"], 0, "by GRUB\n"),
])
def test_grub_is_the_way_where_it_is_open_and_none_is_asked_for(with_grub, words, code, said):
    with_grub.install()
    done = with_grub.run(*[str(with_grub.config) if word == "CONFIG" else word for word in words], "--dry-run")
    assert done.returncode == code and said in done.stdout, done.stdout + done.stderr
    assert not calls(with_grub)


def test_settings_that_are_not_installed_go_by_kexec(with_grub):
    done = with_grub.run("fly", "--config", with_grub.config, "--dry-run")
    assert done.returncode == 0 and "by kexec, not by GRUB: nothing is installed\n" in done.stdout
    with_grub.install()
    with_grub.config.write_text(with_grub.config.read_text() + "early=off\n")
    done = with_grub.run("fly", "--config", with_grub.config, "--dry-run")
    assert f"not by GRUB: the installed settings are not those of {with_grub.config}" in done.stdout
    assert with_grub.run("fly", "--config", with_grub.config, "--by", "grub").returncode == 1


def test_kexec_takes_the_installed_settings_if_no_others_are_given(with_grub):
    with_grub.install()
    with_grub.host.network([{"dst": "default", "gateway": "10.0.2.3", "dev": "eth0"}],
                           [{"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.0.2.99", "prefixlen": 24,
                                                              "scope": "global"}]}], [])
    done = with_grub.run("fly", "--kexec", "--wait", "10")      # nobody plays: Linux comes back
    assert "Linux came up, and no status was seen" in done.stdout
    text = flown_settings(with_grub)
    assert "user=swift" in text and text.count("ip=") == 1 and "ip=10.0.2.99/24\ngw=10.0.2.3\n" in text


def test_a_kernel_that_another_has_loaded_does_not_take_the_place_of_grub(with_grub):
    with_grub.install()
    with_grub.host.reboots_into('cp "$settings" "$ROOT/fake/flown"')
    with_grub.host.file("/sys/kernel/kexec_loaded", "1\n")
    done = with_grub.run("fly", "--wait", "10")
    assert "by GRUB\n" in done.stdout and (with_grub.host.root / "fake/flown").exists()


def test_a_boot_that_is_armed_by_grub_does_not_follow_a_flight(with_grub):
    with_grub.install()
    with_grub.host.run(["way", "grub"], ["load"])
    done = with_grub.run("fly", "--kexec")
    assert done.returncode == 1 and "it would follow this one" in done.stdout and not calls(with_grub)
