"""tools/gg and its client: messages about wrong arguments, and a machine that does not answer."""
import pathlib
import subprocess
import sys

import pytest

from deploy import control

GG = pathlib.Path(control.__file__).parents[1] / "gg"
KEY = ("--key", "12345678")


def gg(*words):
    return subprocess.run([sys.executable, GG, *words], capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("words, code, quoted", [
    (("127.0.0.1",), 2, "--key"), (("127.0.0.1", "--key", "short"), 2, "8 to 64 bytes, this one has 5"),
    (("127.0.0.1", "--key", "0xqq"), 2, "not hexadecimal"), (("127.0.0.1", "--key-file", "/nowhere"), 2, "/nowhere"),
    (("127.0.0.1", "--key-file", "/dev/null"), 2, "/dev/null: no key"),
    (("127.0.0.1", *KEY, "--port", "0"), 2, "--port"), (("127.0.0.1", *KEY, "--timeout", "inf"), 2, "--timeout"),
    (("127.0.0.1", *KEY, "--timeout", "nan"), 2, "--timeout"), (("", *KEY), 1, "''"), (("a..b", *KEY), 1, "'a..b'"),
    (("255.255.255.255", *KEY), 1, "255.255.255.255"),
])
def test_bad_words_are_named(words, code, quoted):
    done = gg(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert quoted in done.stderr and "Traceback" not in done.stderr


def test_a_key_of_any_bytes_is_the_same_bytes():
    assert control.key_from_text(b"caf\xe9caf\xe9".decode("utf-8", "surrogateescape")) == b"caf\xe9caf\xe9"
    assert control.key_from_text("0x6361666563616665") == b"cafecafe"
