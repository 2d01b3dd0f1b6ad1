"""tools/gg and its client: messages about wrong arguments, and a machine that does not answer."""
import pathlib
import re
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
    (("127.0.0.1", *KEY, "--port", "0"), 2, "--port: '0'"),
    (("127.0.0.1", *KEY, "--port", "x"), 2, "'x' is not a number"),
    (("127.0.0.1", *KEY, "--timeout", "inf"), 2, "--timeout: 'inf'"),
    (("127.0.0.1", *KEY, "--timeout", "nan"), 2, "--timeout: 'nan'"), (("", *KEY), 1, "''"),
    (("127.0.0.1", *KEY, "--attempts", "0"), 2, "--attempts: '0'"),
    (("127.0.0.1", *KEY, "--set", "x" * 193), 2, "'xxx"),
    (("127.0.0.1", *KEY, "--set", ""), 2, "''"),
    (("127.0.0.1", "--key-file", __file__), 2, f"--key-file {__file__}: a key"),
    (("127.0.0.1", *KEY, "--set", b"m+=\xff", "--timeout", "0.01", "--port", "1"), 1, "127.0.0.1, UDP port 1"),
    (("a..b", *KEY), 1, "'a..b'"),
    (("255.255.255.255", *KEY), 1, "255.255.255.255"),
])
def test_bad_words_are_named(words, code, quoted):
    done = gg(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert quoted in done.stderr and "Traceback" not in done.stderr


def test_a_key_of_any_bytes_is_the_same_bytes():
    assert control.key_from_text(b"caf\xe9caf\xe9".decode("utf-8", "surrogateescape")) == b"caf\xe9caf\xe9"
    assert control.key_from_text("0x6361666563616665") == b"cafecafe"


def test_the_manual_page_has_each_option_and_exit_code():
    page = (GG.parents[1] / "docs/gg.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"--[a-z-]+", gg("--help").stdout)) - {"--help"}
    assert len(options) >= 8 and all(option in page for option in options)
    assert all(f"\n{code}: " in page for code in range(6))
