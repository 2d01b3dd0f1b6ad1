"""tools/peregrine: a message about wrong arguments quotes the argument, and comes before any action."""
import os
import re
import stat
import subprocess
import sys

import pytest

from deploy import settings
from tests.deploy.fakehost import ROOT
from tests.lib.full_disk import full_disk

GOOD = b"feed=h:1 submit=h:2 user=u passwd=p n=9 m=3 key=12345678 "


@pytest.mark.parametrize("words, content, quoted", [
    (("check", "host", "--ssh", "ssh 'x"), b"", "ssh 'x"), (("check", "host", "--ssh", ""), b"", "--ssh"),
    (("install", "host", "--config", "FILE"), b"feed=\xff", "no text in UTF-8"),
    (("status", "host", "--config", "FILE", "--port", "99999"), b"key=12345678", "'99999'"),
    (("status", "host", "--config", "FILE", "--address", "127.0.0.1"), b"key=12345678 control.port=x",
     "control.port=x"),
    (("status", "host", "--config", "FILE", "--address", "a..b"), b"key=12345678", "'a..b'"),
    (("record", "host", "--regions", "4096"), b"", "ADDRESS,BYTES"), (("record", "host", "--regions", "a"), b"", "'a'"),
    (("record", "host", "--regions=-1,4096"), b"", "'-1,4096'"),
    (("check", ""), b"", "''"), (("check", "--", "-oProxyCommand=id"), b"", "'-oProxyCommand=id' is no host"),
    (("fly", "host", "--wait", "nan"), b"", "'nan'"), (("fly", "host", "--wait", "-1"), b"", "'-1'"),
    (("gg", "host", "--dry-run"), b"", "--config"),
    (("install", "host", "--config", "FILE"), GOOD + b"colour=red", '"colour": there is no such key'),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"m=3", b"m=3,x4"), 'm=: "x4"'),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"n=9", b"n=-9"), 'n=: "-9"'),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"12345678", b"short"),
     "key= (5 bytes, not shown): expected 8 to 64 bytes"),
    (("install", "host", "--config", "FILE"), GOOD + b"server.timeout=abc", 'server.timeout=: "abc": expected a time'),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"h:1", b"h:99999"), "expected IP:PORT"),
    (("install", "host", "--config", "FILE"), GOOD + b"ip=10.0.0.1",
     'ip=: "10.0.0.1": expected dhcp or ADDRESS/LENGTH'),
    (("install", "host", "--config", "FILE"), GOOD + b"watchdog=99999", 'watchdog=: "99999"'),
    (("check", "nobody@127.0.0.1", "--ssh", "ssh -p 1"), b"", "127.0.0.1: ssh: connect to host"),
])
def test_bad_words_are_named(tmp_path, words, content, quoted):
    path = tmp_path / "settings"
    path.write_bytes(content)
    done = peregrine(*(path if word == "FILE" else word for word in words))
    assert done.returncode and (done.returncode == 3) == ("connect to host" in quoted)
    assert quoted in done.stderr and "Traceback" not in done.stderr


def peregrine(*words, **how):
    return subprocess.run([sys.executable, ROOT / "tools/peregrine", *map(str, words)], capture_output=True, text=True,
                          timeout=20, **how)


def test_the_synopsis_of_the_manual_page_has_the_options_of_every_command():
    """--ssh and the short form of `--by kexec` stand once, among the options."""
    page = (ROOT / "docs/peregrine.1").read_text()
    synopsis = page[page.index(".Sh SYNOPSIS"):page.index(".Sh DESCRIPTION")]
    shown = {}
    for command, options in re.findall(r"\.Nm\n\.Cm ([\w-]+)\n((?:\.(?!Nm).*\n)*)", synopsis):
        shown.setdefault(command, {"ssh", "kexec"}).update(re.findall(r"Fl -([a-z-]+)", options))
    assert len(shown) == 14
    for command, options in shown.items():
        usage = peregrine(command, "--help").stdout.split("\n\n")[0]
        assert set(re.findall(r"--([a-z][a-z-]*)", usage)) | {"ssh", "kexec"} == options, command


def test_the_example_is_taken_once_it_has_a_key(tmp_path):
    path = tmp_path / "game.conf"
    path.write_text((ROOT / "docs/example.conf").read_text())
    with pytest.raises(settings.SettingsError, match="there is no key=.* tools/peregrine key"):
        settings.check(settings.load(path), str(path))
    assert peregrine("key", path).returncode == 0
    words = settings.load(path)
    settings.check(words, str(path))
    assert len(words["key"]) == 66 and stat.S_IMODE(path.stat().st_mode) == 0o600
    done = peregrine("key", path)
    assert done.returncode == 1 and "there is a key= already" in done.stderr


def test_a_key_makes_the_file_if_there_is_none_and_keeps_its_last_line(tmp_path):
    path = tmp_path / "game.conf"
    assert peregrine("key", path).returncode == 0 and settings.load(path).keys() == {"key"}
    path.write_text("user=me")
    assert peregrine("key", path).returncode == 0 and settings.load(path).keys() == {"user", "key"}


def test_a_key_goes_to_no_device_and_leaves_its_mode(tmp_path):
    """As root it would make /dev/null useless to everybody else."""
    path = tmp_path / "device"
    os.mkfifo(path, 0o644)
    with open(path, "r+b", buffering=0):
        done = peregrine("key", path)
    assert done.returncode == 1 and f"{path}: is no file" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_words_are_split_as_the_kernel_splits_them():
    text = "user=a\u00a0b\tpasswd=\u2028\x85\x1c\v\fn=1\r\n# m=1 \f gw=1.2.3.4 \u2028ip=dhcp\n#\nlog=x#y #z"
    assert settings.parse(text, "text") == {"user": "a\u00a0b", "passwd": "\u2028\x85\x1c", "n": "1", "log": "x#y"}
    with pytest.raises(settings.SettingsError, match="text: holds a NUL"):
        settings.parse("user=a\0 m=3", "text")


def test_a_configuration_that_others_can_read_is_warned_of(tmp_path, capsys):
    path = tmp_path / "game.conf"
    path.write_text("key=12345678")
    for mode, warned in ((0o644, True), (0o640, True), (0o600, False)):
        path.chmod(mode)
        settings.load(path)
        assert (f"chmod 600 {path}" in capsys.readouterr().err) == warned


@pytest.mark.parametrize("said, advice", [
    ("Host key verification failed.", "Connect once by hand and compare the fingerprint: SSH pilot@host"),
    ("pilot@host: Permission denied (publickey,password).", "log in by a key"),
    ("A banner\n- disarm grub-reboot\nclient_loop: send disconnect: Broken pipe", "in the middle; the command can be"),
])
def test_an_error_of_ssh_comes_with_advice(tmp_path, said, advice):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\ncat >/dev/null\necho '{said}' >&2\nexit 255\n")
    ssh.chmod(0o755)
    done = peregrine("check", "pilot@host", "--ssh", ssh)
    assert done.returncode == 3 and advice.replace("SSH", str(ssh)) in done.stderr


def test_a_key_that_finds_no_room_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "new.conf"
    for text in (None, "port=7\n"):
        if text:
            path.write_text(text)
        done = peregrine("key", path, **full_disk(12))
        assert done.returncode == 2 and done.stderr == f"peregrine: {path}: File too large\n"
        assert path.read_text() == text if text else not path.exists()


def test_no_example_has_a_secret_on_a_command_line():
    """`ps` would show it to all users; settings go into a file."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*"), *ROOT.glob("app/*/README.md")]:
        if page.suffix in (".md", ".1"):
            text = page.read_text().replace("\\\n", "").replace("\\-", "-")
            lines = re.findall(r"^.*(?:-linux|tools/\S+|peregrine|gg) .*$", text, re.MULTILINE)
            shown = [line for line in lines if re.search(r" (passwd|key)=[^ `|.]+| --key [^\[ I]", line)
                     and not re.search(r"echo '.*>", line)]
            assert not shown, (page, shown)
