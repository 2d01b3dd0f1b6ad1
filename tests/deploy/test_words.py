"""tools/peregrine: what is wrong with the words it was given is said with the word, before anything is done."""
import re
import subprocess
import sys

import pytest

from fakehost import ROOT

from peregrine_lib import settings

GOOD = b"feed=h:1 submit=h:2 user=u passwd=p n=9 m=3 key=12345678 "


@pytest.mark.parametrize("words, settings, quoted", [
    (("check", "host", "--ssh", "ssh 'x"), b"", "ssh 'x"), (("check", "host", "--ssh", ""), b"", "--ssh"),
    (("install", "host", "--config", "FILE"), b"feed=\xff", "no text in UTF-8"),
    (("status", "host", "--config", "FILE", "--port", "99999"), b"key=12345678", "'99999'"),
    (("status", "host", "--config", "FILE", "--address", "127.0.0.1"), b"key=12345678 control.port=x", "control.port=x"),
    (("status", "host", "--config", "FILE", "--address", "a..b"), b"key=12345678", "'a..b'"),
    (("record", "host", "--regions", "4096"), b"", "ADDRESS,BYTES"), (("record", "host", "--regions", "a"), b"", "'a'"),
    (("check", ""), b"", "''"), (("check", "--", "-oProxyCommand=id"), b"", "'-oProxyCommand=id' is no host"),
    (("fly", "host", "--wait", "nan"), b"", "'nan'"), (("fly", "host", "--wait", "-1"), b"", "'-1'"),
    (("gg", "host", "--dry-run"), b"", "--config"),
    (("install", "host", "--config", "FILE"), GOOD + b"colour=red", "colour=: there is no such key"),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"m=3", b"m=3,x4"), "m=: '3,x4'"),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"n=9", b"n=-9"), "n=: '-9'"),
    (("install", "host", "--config", "FILE"), GOOD.replace(b"12345678", b"short"), "key=: a key has 8 to 64 bytes"),
    (("check", "127.0.0.1", "--ssh", "ssh -p 1"), b"", "127.0.0.1: ssh: connect to host"),
])
def test_bad_words_are_named(tmp_path, words, settings, quoted):
    path = tmp_path / "settings"
    path.write_bytes(settings)
    words = [str(path) if word == "FILE" else word for word in words]
    done = subprocess.run([sys.executable, ROOT / "tools/peregrine", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0
    assert quoted in done.stderr and "Traceback" not in done.stderr


def test_the_keys_are_the_kernels():
    table = (ROOT / "app/settings_keys.c").read_text().partition("settings_keys[] = {")[2]
    assert settings.KEYS == tuple(re.findall(r'^    \{ "([a-z.]+)", set_', table, re.MULTILINE))
