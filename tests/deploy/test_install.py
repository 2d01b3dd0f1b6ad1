"""install and uninstall on a HOST that is a directory: the files that they leave, and their repetition. If the power
fails at any step, Linux boots and the next try completes."""
import os
import re
import shutil
import stat
import struct
import subprocess
import sys

import pytest

from tests.deploy.fakehost import ROOT, USERLANDS, FakeHost
from tests.deploy.test_blackbox import kcore

from deploy import boot_once, commands, programs, ways
from deploy.facts import Facts
from deploy.ssh import RemoteError, script

CONFIG = ("feed=feed.example:10001,192.0.2.8:10001 submit=192.0.2.8:10002  # the contest\n"
          "user=swift passwd=secret n=256 m=823,108\nkey=0x000102030405060708090a0b0c0d0e0f\n")
LINUX_ID = "gnulinux-6.1.0-1-amd64"


class Deployment:
    def __init__(self, directory, **how):
        self.host = FakeHost(directory / "host", **how)
        self.config = directory / "game.conf"
        self.config.write_text(CONFIG)
        self.config.chmod(0o600)
        self.kernel = directory / "peregrine.elf"
        self.kernel.write_bytes(b"\x7fELF" + bytes(4092) + struct.pack("<I", 0xE85250D6) + b"kernel" * 1000)
        self.bzimage = directory / "peregrine.bz"
        self.flown_image = directory / "flown.bz"
        self.flown_image.write_bytes(bytes(0x202) + b"HdrS" + bytes(4096))

    def run(self, *words, stop_at=0, **environment):
        command = [sys.executable, ROOT / "tools/peregrine", words[0], "host", "--ssh", " ".join(self.host.ssh),
                   *words[1:]]
        if words[0] in ("check", "install"):
            command += ["--kernel", self.kernel, "--bzimage", self.bzimage]
        if words[0] == "fly":
            command += ["--bzimage", self.flown_image]
        if words[0] == "install":
            command += ["--config", self.config]
        return subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=240,
                              env={**os.environ, "PEREGRINE_TEST_STOP_AT": str(stop_at), **environment})

    def install(self, *words, **how):
        done = self.run("install", *words, **how)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def uninstall(self):
        done = self.run("uninstall")
        assert done.returncode == 0, done.stdout + done.stderr
        return done


def test_install_adds_one_entry_and_linux_stays_the_default(machine):
    assert machine.host.next_boot() == LINUX_ID
    machine.install()
    assert machine.host.next_boot() == LINUX_ID
    assert (machine.host.grub / "grub.cfg").read_text().count("--id peregrine") == 1
    assert "GRUB_DEFAULT=saved" in (machine.host.root / "etc/default/grub").read_text()
    assert machine.host.variables() == {"saved_entry": "0"}
    home = machine.host.root / "boot/peregrine"
    assert (home / "peregrine.elf").read_bytes() == machine.kernel.read_bytes()
    assert stat.S_IMODE((home / "settings").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / "settings").read_text() == (
        "# program player\n"
        "feed=192.0.2.7:10001,192.0.2.8:10001\nsubmit=192.0.2.8:10002\nuser=swift\npasswd=secret\nn=256\nm=823,108\n"
        "key=0x000102030405060708090a0b0c0d0e0f\n# handed over from Linux\ntsc.khz=2399998\n"
        "blackbox=0x90000,32768,0x1ffe0000,131072,0x2ffe0000,131072,0x3ffe0000,131072\n"
        "nic=52:54:00:12:34:56\nip=10.0.2.15/24\ngw=10.0.2.2\ngwmac=52:55:0a:00:02:02\nmtu=1500\n")


def test_the_armed_entry_boots_the_kernel_once(machine):
    machine.install()
    before = machine.host.tree()
    assert machine.host.run(["way", "grub"], ["look"]) == (machine.host.root / "boot/peregrine/settings").read_bytes()
    assert machine.host.tree() == before
    machine.host.run(["way", "grub"], ["load"])
    assert machine.host.next_boot() == "peregrine"


def test_no_secret_is_readable_by_others(machine):
    machine.install()
    readable = [p for p in machine.host.root.rglob("*") if p.is_file() and p.stat().st_mode & 0o044
                and "boot/peregrine" not in str(p)]
    assert not [p for p in readable if b"000102030405" in p.read_bytes() or b"secret" in p.read_bytes()]


def test_install_again_changes_nothing(machine):
    machine.install()
    with machine.host.unchanged():
        second = machine.install()
    assert "already so" in second.stdout


@pytest.mark.parametrize("default", ["0", "saved"])
def test_install_disarms_a_machine_that_is_armed(machine, default):
    machine.host.file("/etc/default/grub", f"GRUB_DEFAULT={default}\nGRUB_TIMEOUT=5\n")
    machine.host.update_grub()
    machine.install()
    machine.host.run(["way", "grub"], ["load"])
    assert machine.host.next_boot() == "peregrine"
    said = machine.install().stdout
    assert "the next boot of this machine starts it" in said and "- disarm grub-reboot" in said
    assert machine.host.next_boot() == LINUX_ID


def test_a_failing_step_reports_the_next_boot(machine):
    machine.install()
    machine.host.run(["way", "grub"], ["load"])
    machine.host.program("mv", "exit 1\n")
    done = machine.run("install")
    assert done.returncode == 3 and "one boot of the kernel is STILL ARMED" in done.stderr
    machine.host.program("mv", f'exec {shutil.which("mv")} "$@"\n')
    machine.install()
    machine.host.program("chmod", "exit 1\n")
    machine.config.write_text(CONFIG + "early=off\n")
    assert "the machine boots Linux as before" in machine.run("install").stderr


def test_an_uninstall_that_removes_nothing_is_noticed(machine):
    machine.install()
    machine.host.program("rm", f'case $* in *42_peregrine) ;; *) {shutil.which("rm")} "$@" ;; esac\n')
    done = machine.run("uninstall")
    assert done.returncode == 3 and "not all is removed" in done.stdout
    machine.host.program("rm", f'exec {shutil.which("rm")} "$@"\n')
    machine.uninstall()


def test_a_file_system_that_keeps_no_modes_is_noticed_at_the_file(machine):
    machine.host.program("stat", "echo 755\n")
    done = machine.run("install")
    assert done.returncode == 3 and "this file system keeps no modes" in done.stdout
    assert not (machine.host.root / "boot/peregrine/settings").exists()


@pytest.mark.parametrize("stop_at", [1, 4, 6])
def test_a_killed_install_leaves_the_key_to_root_alone_and_to_the_next_run(machine, tmp_path, stop_at):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with machine.host.unchanged():
        done = machine.run("install", stop_at=stop_at, TMPDIR=str(temporary))
        assert done.returncode == 3
        holders = [path for path in machine.host.root.rglob("settings*") if path.is_file()
                   and b"000102030405" in path.read_bytes()]
        assert holders and not list(temporary.iterdir())
        assert all(stat.S_IMODE(path.parent.stat().st_mode) == 0o700 for path in holders)
        machine.uninstall()


def test_new_settings_need_no_new_menu(machine):
    machine.install()
    once = machine.host.tree()
    machine.host.file("/fake/mkconfig-fails")
    machine.config.write_text(CONFIG + "early=off\n")
    machine.install()
    assert {path for path, content in machine.host.tree().items()
            if once.get(path) != content} == {"boot/peregrine/settings"}
    machine.host.file("/etc/default/grub", "GRUB_DEFAULT=saved\nGRUB_TIMEOUT=7\n")      # changed: proved again
    assert "grub-mkconfig failed" in machine.run("install").stdout


def test_uninstall_leaves_every_byte_as_it_was(machine):
    before = machine.host.tree()
    machine.install()
    machine.install()
    subprocess.run(["grub-editenv", machine.host.grub / "grubenv", "set", "next_entry="],
                   check=True)      # GRUB, after a run
    machine.uninstall()
    assert machine.host.tree() == before
    assert "nothing is installed" in machine.uninstall().stdout
    assert machine.host.tree() == before


@pytest.mark.parametrize("text", ["GRUB_TIMEOUT=5", "GRUB_TIMEOUT=5\n", "GRUB_DEFAULT=0", "  GRUB_DEFAULT=0\n",
                                  "GRUB_DEFAULT=saved\n",
                                  "GRUB_DEFAULT=1\nGRUB_DEFAULT=0\n", "GRUB_DEFAULT='gnulinux-6.1.0-1-amd64'\n", "",
                                  "# no environment block"])
def test_any_shape_of_the_settings_comes_back(machine, text):
    if "no environment" in text:
        (machine.host.grub / "grubenv").unlink()
    machine.host.file("/etc/default/grub", text)
    machine.host.update_grub()
    with machine.host.unchanged():
        machine.install()
        assert machine.host.next_boot() == LINUX_ID
        machine.uninstall()


def test_the_second_kernel_as_default_stays_the_default(machine):
    machine.host.file("/boot/vmlinuz-5.10.0-9-amd64", "old")
    machine.host.file("/etc/default/grub", "GRUB_DEFAULT=1\n")
    subprocess.run(["grub-editenv", machine.host.grub / "grubenv", "set", "saved_entry=0"],
                   check=True)    # stale, unused so far
    machine.host.update_grub()
    with machine.host.unchanged():
        assert machine.host.next_boot() == "gnulinux-5.10.0-9-amd64"
        machine.install("--return-to", "5.10.0-9-amd64")
        assert machine.host.next_boot() == "gnulinux-5.10.0-9-amd64"
        machine.uninstall()


@pytest.mark.parametrize("by_hand, default", [(False, "0"), (True, "0"), (True, "gnulinux-6.1.0-2-amd64")])
def test_a_kernel_added_after_install_stays_after_uninstall(machine, by_hand, default):
    machine.install()
    machine.host.file("/boot/vmlinuz-6.1.0-2-amd64", "new")
    if by_hand:                             # somebody takes the entry out, and installs again later
        (machine.host.root / "etc/grub.d/42_peregrine").unlink()
        if default != "0":
            machine.host.file("/etc/default/grub", f"GRUB_DEFAULT={default}\n")
        machine.host.update_grub()
        machine.install("--return-to", "6.1.0-2-amd64")
    else:
        subprocess.run(["sed", "-i", "s/timeout=5/timeout=6/", machine.host.grub / "grub.cfg"], check=True)
        assert "would change how Linux itself is booted" in machine.run("uninstall").stdout
    machine.host.update_grub()
    machine.uninstall()
    text = (machine.host.grub / "grub.cfg").read_text()
    assert "6.1.0-2" in text and "peregrine" not in text and f'set default="{default}"' in text
    assert machine.host.next_boot() == "gnulinux-6.1.0-2-amd64"


def test_a_saved_entry_that_others_chose_stays(machine):
    machine.host.file("/etc/default/grub", "GRUB_DEFAULT=saved\nGRUB_TIMEOUT=5\n")
    machine.host.update_grub()
    machine.install()
    subprocess.run(["grub-editenv", machine.host.grub / "grubenv", "set", f"saved_entry={LINUX_ID}"], check=True)
    machine.uninstall()
    assert machine.host.variables() == {"saved_entry": LINUX_ID}


@pytest.mark.parametrize("again", [False, True])
def test_settings_that_others_changed_since_are_kept(machine, again):
    machine.install()
    path = machine.host.root / "etc/default/grub"
    path.write_text(path.read_text().replace("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=9"))
    subprocess.run(["grub-editenv", machine.host.grub / "grubenv", "set", "recordfail=1"], check=True)
    if again:
        machine.install()
    machine.uninstall()
    text = path.read_text()
    assert "GRUB_TIMEOUT=9" in text and "GRUB_DEFAULT=0" in text and "saved" not in text
    assert machine.host.variables() == {"recordfail": "1"}
    assert not (machine.host.root / "boot/peregrine").exists()


def test_a_grub_cfg_older_than_its_sources_is_refused(machine):
    script = machine.host.root / "etc/grub.d/10_linux"
    machine.host.file("/etc/grub.d/10_linux", script.read_text().replace("ro\\n", "ro quiet\\n"),
                      0o755)     # update-grub was not run
    with machine.host.unchanged():
        done = machine.run("install")
        assert done.returncode == 3
        assert "would change how Linux itself is booted" in done.stdout and "ro quiet" in done.stdout
        assert not (machine.host.root / "etc/grub.d/42_peregrine").exists()
        assert machine.host.next_boot() == LINUX_ID
        machine.uninstall()
    machine.host.file("/boot/vmlinuz-6.1.0-0-amd64", "and there is an older kernel that the menu does not list")
    assert machine.run("install").returncode == 1
    assert machine.run("install", "--accept-grub-changes").returncode == 0


def test_a_failing_grub_mkconfig_leaves_the_menu(machine):
    with machine.host.unchanged():
        machine.host.file("/fake/mkconfig-fails")
        done = machine.run("install")
        assert done.returncode == 3 and "grub-mkconfig failed" in done.stdout
        assert machine.host.next_boot() == LINUX_ID
        (machine.host.root / "fake/mkconfig-fails").unlink()
        machine.uninstall()


def test_dry_runs_do_nothing(machine):
    with machine.host.unchanged():
        done = machine.run("install", "--dry-run")
        assert done.returncode == 0 and "42_peregrine" in done.stdout and "nothing was changed" in done.stdout
    machine.install()
    with machine.host.unchanged():
        assert machine.run("uninstall", "--dry-run").returncode == 0
        assert machine.run("fly", "--dry-run").returncode == 0


@pytest.mark.parametrize("userland", USERLANDS)
def test_the_tools_of_any_userland_do_the_same(tmp_path, userland):
    if not shutil.which(USERLANDS[userland][0]) or not shutil.which(USERLANDS[userland][1] or "sh"):
        pytest.skip(f"{userland} is not here: tools/setup.sh check")
    gnu, other = Deployment(tmp_path / "gnu"), Deployment(tmp_path / "other", userland=userland)
    trees, outputs = [], []
    assert "<<" not in script("probe", "way", "grub", "kexec", "record")        # bash 5.0 needs room in /tmp for that
    for machine in gnu, other:
        machine.config.write_text(CONFIG.replace("secret", "sécret\\nÁ\x81"), encoding="utf-8")
        for path, text in UEFI.items():
            machine.host.file(path, text)
        record = machine.host.root / "proc/kcore"
        record.write_bytes(kcore({0x1000: bytes(range(256)) * 48}))
        trees.append([machine.host.tree()])
        said = [machine.host.run(["probe"]).replace(bytes(machine.host.root), b"")]
        machine.install()
        trees[-1].append(machine.host.tree())
        for what in "load", "unload", "load":
            said.append(machine.host.run(["way", "grub"], [what]))
            trees[-1].append(machine.host.tree())
        said.append(machine.host.run(["way", "grub"], ["look"]))
        said.append(machine.host.run(["record"], ["4096", "4096"]))
        boot = boot_once.Boot(ways.WAYS["kexec"], "n=9\n", "", machine.flown_image.read_bytes())
        boot.way.load(machine.host, boot)
        assert (machine.host.root / "fake/kexec-settings").read_text() == "n=9\n"
        said.append(machine.host.run(["way", "kexec"], ["unload"]))
        machine.uninstall()
        trees[-1].append(machine.host.tree())
        outputs.append(said)
    assert outputs[0][1:] == outputs[1][1:] and len(outputs[0][-2]) > 8192
    # tr of uutils 0.0 reads text alone, and these facts stand among other bytes
    unread = ("boot-current", "grub-core-version") if userland == "uutils" else ()
    facts = [Facts(said[0].decode()) for said in outputs]
    assert facts[0].text("grub-core-version") == "2.06-13+deb12u1" and "debian" in facts[0].text("boot-current")
    for name in re.findall("(?m)^#fact (.+) [0-9]+$", outputs[0][0].decode()):
        if name not in ("boot-free-kib", "run-free-kib", "kexec", *unread):
            assert facts[0].text(name) == facts[1].text(name), name
            assert facts[0].holds(name) == facts[1].holds(name), name
    assert trees[0] == trees[1] and trees[1][0] == trees[1][-1]


UEFI = {
    "/sys/firmware/efi/efivars/BootCurrent-8be4df61-93ca-11d2-aa0d-00e098032b8c": b"\x06\0\0\0\x02\0",
    "/sys/firmware/efi/efivars/Boot0002-8be4df61-93ca-11d2-aa0d-00e098032b8c":
        b"\x06\0\0\0\x01\xff" + "\\EFI\\debian\\shimx64.efi".encode("utf-16-le"),
    "/boot/grub/x86_64-efi/normal.mod": b"\x7fELF\0\xffGNU GRUB  version %s\0" + b"2.06-13+deb12u1\0",
    "/boot/grub/x86_64-efi/multiboot2.mod": "",
}


def test_the_grub2_names_of_other_distributions(tmp_path):
    machine = Deployment(tmp_path, grub="grub2")
    with machine.host.unchanged():
        machine.install()
        assert machine.host.next_boot() == LINUX_ID
        machine.uninstall()


# ---- programs other than the player

ECHO = "port=7 key=0x000102030405060708090a0b0c0d0e0f\n"


def test_the_echo_is_installed_and_flown_by_its_own_parser(machine):
    machine.config.write_text(ECHO)
    refused = machine.run("install")
    assert refused.returncode == 1 and '"port": there is no such key in the program player' in refused.stderr
    machine.install("--program", "echo")
    settings = (machine.host.root / "boot/peregrine/settings").read_text()
    assert settings.startswith("# program echo\nport=7\nkey=") and machine.host.next_boot() == LINUX_ID
    for words in [], ["--by", "kexec"], ["--config", machine.config, "--program", "echo"]:
        done = machine.run("fly", "--dry-run", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    machine.config.write_text(ECHO + "feed=192.0.2.8:1\n")
    refused = machine.run("install", "--program", "echo")
    assert refused.returncode == 1 and '"feed": there is no such key in the program echo' in refused.stderr


def test_another_program_than_the_installed_one_is_not_booted_by_grub(machine):
    machine.install()
    with machine.host.unchanged():
        done = machine.run("fly", "--by", "grub", "--program", "echo")
        assert done.returncode == 1 and "the installed program is player, not echo" in done.stdout
        assert "Run peregrine install host --program echo" in done.stdout


def test_a_program_has_images_of_its_own(machine):
    words = [sys.executable, ROOT / "tools/peregrine", "install", "host", "--ssh", " ".join(machine.host.ssh),
             "--config", machine.config, "--program", "none"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and re.search("--program: .*'none'.*digest.*echo.*player.*trade", done.stderr)
    assert programs.image_of("echo", "peregrine.elf") == ROOT / "build/echo/peregrine.elf"
    assert programs.image_of("player", "peregrine.elf") == ROOT / "build/peregrine.elf"
    with pytest.raises(commands.Refused, match="gone.elf: No such file.*`make PROGRAM=echo`"):
        commands.kernel_for("multiboot2", machine.host.root / "gone.elf", None, "echo")


def test_a_program_of_ones_own_is_named_by_its_folder(machine, tmp_path):
    """HOST learns the name alone: a path in its settings would have HOST choose a file that the operator runs."""
    folder = tmp_path / "purr"
    parser = folder / "build/host/check-settings-purr"
    parser.parent.mkdir(parents=True)
    (folder / "program.c").touch()
    parser.write_text('#!/bin/sh\ngrep -q "^# program purr$" || { echo "no purr" >&2; exit 1; }\n')
    parser.chmod(0o755)
    for file, source in (("elf", machine.kernel), ("bzImage", machine.flown_image)):
        (folder / "build/purr").mkdir(exist_ok=True)
        shutil.copy(source, folder / f"build/purr/peregrine.{file}")
    machine.kernel = folder / "build/purr/peregrine.elf"
    assert "Next: peregrine fly host" in machine.install("--program", folder).stdout
    assert (machine.host.root / "boot/peregrine/settings").read_text().startswith("# program purr\n")
    assert str(folder) not in "".join(str(text) for text in machine.host.tree().values())
    for words in [], ["--program", folder], ["--config", machine.config, "--program", folder]:
        done = machine.run("fly", "--by", "grub", "--dry-run", *words)
        assert done.returncode == 0 and "by GRUB\n" in done.stdout, done.stdout + done.stderr
    done = machine.run("fly", "--by", "kexec", "--dry-run")
    assert done.returncode and "check-settings-purr: No such file" in done.stderr, done.stderr
    done = machine.run("install", "--program", tmp_path / "build")
    assert done.returncode == 2 and f"{tmp_path}/build: there is no program.c in it" in done.stderr, done.stderr


# ---- links

@pytest.fixture
def linked(machine):
    """GRUB's files are links to the EFI partition, as where one disk boots by BIOS and by UEFI."""
    for path in (machine.host.grub / "grubenv", machine.host.grub / "grub.cfg", machine.host.root / "etc/default/grub"):
        target = machine.host.root / "boot/efi/EFI/redhat" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        path.symlink_to(os.path.relpath(target, path.parent))
    return machine


def real_files(machine):
    return {path.name: path.read_bytes() for path in (machine.host.root / "boot/efi/EFI/redhat").iterdir()}


def test_links_are_followed_as_grub_follows_them(linked):
    machine, links = linked, [linked.host.grub / "grubenv", linked.host.grub / "grub.cfg"]
    subprocess.run(["grub-editenv", links[0], "set", "saved_entry=gnulinux-5.10.0-9-amd64"], check=True)    # stale
    before, were = machine.host.tree(), real_files(machine)
    machine.install()
    assert all(link.is_symlink() for link in links)
    assert b"\nsaved_entry=0\n" in real_files(machine)["grubenv"]
    assert b"--id peregrine" in real_files(machine)["grub.cfg"]
    machine.host.run(["way", "grub"], ["load"])
    assert b"next_entry=peregrine\n" in real_files(machine)["grubenv"] and links[0].is_symlink()
    machine.host.run(["way", "grub"], ["unload"])
    assert b"next_entry" not in real_files(machine)["grubenv"]
    machine.host.run(["way", "grub"], ["load"])
    machine.uninstall()
    assert all(link.is_symlink() for link in links)
    assert real_files(machine) == were and machine.host.tree() == before


@pytest.mark.parametrize("stop_at", [12, 22, 23])
def test_a_killed_run_leaves_nothing_beside_the_target_of_a_link(linked, stop_at):
    with linked.host.unchanged():
        assert linked.run("install", stop_at=stop_at).returncode == 3
        linked.uninstall()


def test_a_link_that_leads_nowhere_is_refused(linked):
    linked.install()
    target = linked.host.root / "boot/efi/EFI/redhat/grubenv"
    target.unlink()
    before = linked.host.grub.joinpath("grubenv").readlink()
    for words, code in ((["check"], 0), (["install"], 1), (["fly", "--by", "grub"], 1)):       # check: kexec is left
        done = linked.run(*words)
        assert done.returncode == code and "a link that leads nowhere" in done.stdout, done.stdout + done.stderr
    done = linked.run("uninstall")
    assert done.returncode == 3 and "a link that leads nowhere" in done.stdout
    assert linked.host.grub.joinpath("grubenv").readlink() == before and not target.exists()


# ---- power failures

def attempt(machine, command, stop_at=0):
    """Runs install or uninstall in this process. Returns true if the command completed."""
    try:
        if command == "install":
            commands.install(machine.host, machine.config, machine.kernel, machine.bzimage, stop_at=stop_at)
        else:
            commands.uninstall(machine.host, stop_at=stop_at)
        return True
    except RemoteError as error:
        assert error.status in (137, -9), error     # killed, and by nothing else
        return False


def cut_everywhere(tmp_path, command, prepare):
    """Yields (point, machine, its first tree) for every point of the command: the power fails at this point."""
    for at in range(1, 60):
        directory = tmp_path / f"cut-{command}-{at}"
        directory.mkdir()
        machine = Deployment(directory)
        original = machine.host.tree()
        prepare(machine)
        if attempt(machine, command, at):
            assert at > 10, "there should be more points"
            return
        yield at, machine, original
    raise AssertionError("no end of points")


def without_copies(tree):
    return {path: content for path, content in tree.items() if not path.startswith("boot/peregrine/before/")}


def test_power_lost_at_any_point_of_install_then_install(tmp_path):
    reference = Deployment(tmp_path)
    attempt(reference, "install")
    wanted = without_copies(reference.host.tree())
    for at, machine, original in cut_everywhere(tmp_path, "install", lambda m: None):
        assert machine.host.next_boot() == LINUX_ID, f"point {at}"
        assert attempt(machine, "install")
        assert machine.host.next_boot() == LINUX_ID
        assert without_copies(machine.host.tree()) == wanted, f"point {at}"
        assert attempt(machine, "uninstall")
        assert machine.host.tree() == original, f"point {at}"


def test_power_lost_at_any_point_of_install_then_uninstall(tmp_path):
    for at, machine, original in cut_everywhere(tmp_path, "install", lambda m: None):
        assert attempt(machine, "uninstall")
        assert machine.host.next_boot() == LINUX_ID
        assert machine.host.tree() == original, f"point {at}"


def test_power_lost_at_any_point_of_uninstall(tmp_path):
    for at, machine, original in cut_everywhere(tmp_path, "uninstall", lambda m: attempt(m, "install")):
        assert machine.host.next_boot() == LINUX_ID, f"point {at}"
        assert attempt(machine, "uninstall")
        assert machine.host.tree() == original, f"point {at}"
