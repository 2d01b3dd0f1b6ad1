"""tools/gg and its client: messages about wrong arguments, and a machine that does not answer."""
import contextlib
import hashlib
import hmac
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import time

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


@contextlib.contextmanager
def machine(key, acts):
    """Runs a machine that takes datagrams in order. `acts` says for each of them, again from the start, how long it
    takes; None: it is lost. A number loses that share of all datagrams. A datagram that comes again shares the lot of
    the first, unless a share is lost. Yields the port."""
    over, seen = threading.Event(), set()
    draw = random.Random(5).random

    def serve():
        count = 0
        while not over.is_set():
            try:
                data, peer = sock.recvfrom(2048)
            except socket.timeout:
                continue
            if isinstance(acts, float):
                act = None if draw() < acts else 0
            else:
                act = None if data in seen else acts[count % len(acts)]
                count += data not in seen
            seen.add(data)
            if act is None:
                continue
            time.sleep(act)
            if data[5] == control.HELLO:
                head = control.HEADER.pack(control.MAGIC, 1, control.CHALLENGE, 56)
                answer = head + data[8:24] + bytes(8) + data[:24]
            elif hmac.new(key, data[:64], hashlib.sha256).digest() == data[64:96]:
                text = b"x 1\n"
                head = control.HEADER.pack(control.MAGIC, 1, control.REPLY, 88 + len(text))
                answer = head + control.REPLY_FIXED.pack(data[8:24], data[32:56], data[56], 0, 0, 1, len(text)) + text
                answer += hmac.new(key, answer, hashlib.sha256).digest()
            else:
                continue
            sock.sendto(answer, peer)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(0.1)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield str(sock.getsockname()[1])
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("acts, key, code, said", [
    ((0,), b"another key", 3, "the key is another one"),
    ((0,), b"12345678", 0, ""),
    ((0.4,), b"12345678", 0, ""),                                       # each answer comes after the time for it
    ((0, None), b"12345678", 3, "the key is another one (or the answer was lost)"),
    ((0, None, None), b"12345678", 1, "it is busy, or datagrams are lost. The key may be right"),
    ((None, 0, None), b"another key", 1, "answers late or not at all"),
    ((None,), b"12345678", 1, "no answer to 5 requests"),
    (0.8, b"12345678", 0, ""),                  # a flood fills the ring: four datagrams of five find no room
], ids=["other key", "right key", "slow", "commands lost", "busy", "busy, other key", "silent", "full ring"])
def test_a_busy_machine_is_told_from_a_wrong_key(acts, key, code, said):
    with machine(key, acts) as port:
        done = gg("127.0.0.1", "--key", "12345678", "--status", "--port", port, "--timeout", "0.3")
    assert done.returncode == code and said in done.stderr, done.stderr
    assert ("x 1" in done.stdout) == (code == 0)


def test_a_key_on_the_command_line_is_warned_of_and_a_file_may_be_settings(tmp_path):
    path = tmp_path / "settings"
    for text in ("12345678", "12345678\nmore\n", "# a game\nuser=u passwd=p   # mine\nkey=12345678\n"):
        path.write_text(text)
        with machine(b"12345678", (0,)) as port:
            done = gg("127.0.0.1", "--key-file", str(path), "--status", "--port", port)
            assert (done.returncode, done.stdout, done.stderr) == (0, "x 1\n", "")
            done = gg("127.0.0.1", *KEY, "--status", "--port", port)
            assert done.returncode == 0 and "--key shows the key to all users" in done.stderr
