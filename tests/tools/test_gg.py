"""tools/gg and its client: messages about wrong arguments, and a machine that does not answer."""
import contextlib
import hashlib
import hmac
import os
import pathlib
import pty
import random
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

from deploy import control
from tests.lib.full_disk import full_disk

GG = pathlib.Path(control.__file__).parents[1] / "gg"
KEY = ("--key", "12345678")


def gg(*words):
    return subprocess.run([sys.executable, GG, *words], capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize("words, code, quoted", [
    (("127.0.0.1",), 2, "--key"), (("127.0.0.1", "--key", "short"), 2, "8 to 64 bytes, this one has 5"),
    (("127.0.0.1", "--key", "0xqq"), 2, "not hexadecimal"), (("127.0.0.1", "--key-file", "/nowhere"), 2, "/nowhere"),
    (("127.0.0.1", "--key-file", "/dev/null"), 2, "/dev/null: there is no key="),
    (("127.0.0.1", *KEY, "--port", "0"), 2, "--port: '0'"),
    (("127.0.0.1", *KEY, "--port", "x"), 2, "'x' is not a number"),
    (("127.0.0.1", *KEY, "--timeout", "inf"), 2, "--timeout: 'inf'"),
    (("127.0.0.1", *KEY, "--timeout", "nan"), 2, "--timeout: 'nan'"), (("", *KEY), 1, "''"),
    (("127.0.0.1", *KEY, "--attempts", "0"), 2, "--attempts: '0'"),
    (("127.0.0.1", *KEY, "--set", "x" * 193), 2, "'xxx"), (("127.0.0.1", *KEY, "--set", ""), 2, "''"),
    (("127.0.0.1", "--key-file", __file__), 2, f"{__file__}: a word ("),
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
    assert all(f"\n{code}: " in page for code in range(8))


@contextlib.contextmanager
def machine(key, acts, texts=(b"x 1\n",), refusal=None, commands=None):
    """Runs a machine that takes datagrams in order. `acts` says for each of them, again from the start, how long it
    takes; None: it is lost. A number loses that share of all datagrams. A datagram that comes again shares the lot of
    the first, unless a share is lost. `texts`: its statistics, one after another. `refusal`: the words by which it
    refuses all settings; it leaves on GG then. `commands`: a list of what it has obeyed. Yields the port."""
    over, seen, commands = threading.Event(), set(), [] if commands is None else commands
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
            if act is None or refusal is not None and control.GG in commands:
                continue
            time.sleep(act)
            if data[5] == control.HELLO:
                head = control.HEADER.pack(control.MAGIC, 1, control.CHALLENGE, 56)
                answer = head + data[8:24] + bytes(8) + data[:24]
            elif hmac.new(key, data[:64] + data[96:], hashlib.sha256).digest() == data[64:96]:
                refused = refusal is not None and data[56] == control.SET
                text = refusal if refused else texts[min(len(commands), len(texts) - 1)]
                head = control.HEADER.pack(control.MAGIC, 1, control.REPLY, 88 + len(text))
                answer = head + control.REPLY_FIXED.pack(
                    data[8:24], data[32:56], data[56], control.REFUSED if refused else 0, 0, 1, len(text)) + text
                answer += hmac.new(key, answer, hashlib.sha256).digest()
                commands.append(data[56])
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
    assert (done.stdout == "x             1\n") == (code == 0)


def test_a_key_on_the_command_line_is_warned_of_and_a_file_may_be_settings(tmp_path):
    path = tmp_path / "settings"
    for text in ("12345678", "12345678\nmore\n", "# a game\nuser=u passwd=p   # mine\nkey=12345678\n"):
        path.write_text(text)
        with machine(b"12345678", (0,)) as port:
            done = gg("127.0.0.1", "--key-file", str(path), "--status", "--port", port)
            assert (done.returncode, done.stdout, done.stderr) == (0, "x             1\n", "")
            done = gg("127.0.0.1", *KEY, "--status", "--port", port)
            assert done.returncode == 0 and "--key shows the key to all users" in done.stderr


TIMES = ("answer.count %d\nanswer.mean_ns 1500\nanswer.p50_ns 1230\nanswer.p90_ns 2000\nanswer.p99_ns 20000\n"
         "answer.p999_ns 1\nanswer.p9999_ns 1\nanswer.max_ns 1234567\n")
SLOW = "slow.columns at_s total_ns\nslow.01 1.000000 5\n"
HEAD = "\nmicroseconds                         count     average         p50         p99         max\n"
ROW = "answer                                   3        1.50        1.23       20.00     1234.57\n"


@pytest.mark.parametrize("text, table", [
    ("build 1.0 a\n" + TIMES % 3 + "tcp.sent 10\ntcp.lost 0\ntcp.rx.bad 2\narp.asked 0\nudp.sent 10\n" + SLOW,
     "build         1.0 a\ntcp           sent 10, rx.bad 2\nudp           sent 10\n" + HEAD + ROW),
    (TIMES % 0 + "x.p50_ns 7\n", "x             p50_ns 7\n"), ("x 0\n", "\n"),
    ("".join(f"tcp.name_{n:02} 1\n" for n in range(9)),
     f"tcp           {', '.join(f'name_{n:02} 1' for n in range(8))},\n{'':14}name_08 1\n")],
    ids=("all kinds", "no histogram", "nothing", "two lines"))
def test_statistics_are_a_table_of_what_is_not_zero(text, table):
    with machine(b"12345678", (0,), [text.encode()]) as port:
        asking = ("127.0.0.1", *KEY, "--port", port, "--status")
        assert (gg(*asking).stdout, gg(*asking, "--all").stdout) == (table, text)


def test_a_stopped_trader_is_red_on_a_terminal_alone():
    text = "pool.trade_stopped 1\npool.trade_stuck 1\npool.orders_open 1\n"
    plain = "pool          trade_stopped 1, trade_stuck 1, orders_open 1"
    red = plain.replace("trade_stopped 1", "\x1b[1;31mtrade_stopped 1\x1b[0m").replace(
        "trade_stuck 1", "\x1b[1;31mtrade_stuck 1\x1b[0m")
    with machine(b"12345678", (0,), [text.encode()]) as port:
        asking = [sys.executable, GG, "127.0.0.1", *KEY, "--port", port, "--status"]
        for term, more, shown in (("xterm", {}, red), ("dumb", {}, plain), ("xterm", {"NO_COLOR": "1"}, plain)):
            ours, theirs = pty.openpty()
            subprocess.run(asking, stdout=theirs, stderr=subprocess.DEVNULL, timeout=20,
                           env={**os.environ, "NO_COLOR": "", "TERM": term, **more}, check=True)
            os.close(theirs)                # so that the next line ends if nothing was written
            assert os.read(ours, 4096).decode() == shown + "\r\n"
            os.close(ours)
        assert gg(*asking[2:]).stdout == plain + "\n"


OPEN = "pool.trade_stopped %d\npool.orders_open %d\n"


@pytest.mark.parametrize("word, texts, said", [
    ("stop", (OPEN % (1, 7), OPEN % (1, 2), OPEN % (1, 0)), "stopped, 0 orders open"),
    ("stop", (OPEN % (1, 1),), "stopped, 1 order open"), ("start", (OPEN % (0, 3),), "started, 3 orders open"),
    ("m+=823", ("x 1\n",), "m+=823 is set")])
def test_a_setting_is_confirmed_in_a_sentence(word, texts, said):
    with machine(b"12345678", (0,), [text.encode() for text in texts]) as port:
        done = gg("127.0.0.1", *KEY, "--port", port, "--set", word)
        assert (done.returncode, done.stdout) == (0, f"127.0.0.1, UDP port {port}: {said}\n")
        assert gg("127.0.0.1", *KEY, "--port", port, "--set", word, "--all").stdout == texts[-1]


def test_a_stop_is_kept_in_the_settings_once(tmp_path):
    path = tmp_path / "trade.conf"
    with machine(b"12345678", (0,), (b"pool.trade_stopped 1\npool.orders_open 0\n",)) as port:
        def stop(text, *more):
            path.write_text(text)
            return gg("127.0.0.1", "--key-file", str(path), "--port", port, "--set", *more)

        for text in ("key=12345678", "key=12345678\nstopped=on\n"):
            done = stop(text, "stop", "--keep")
            assert done.returncode == 0 and f"{path}: has stopped=on" in done.stdout, done.stderr
            assert path.read_text() == "key=12345678\nstopped=on\n"
        done = stop("key=12345678 stopped=off", "stop", "--keep")
        assert (done.returncode, "has stopped=off" in done.stderr) == (7, True) and "stopped, 0" in done.stdout
        assert stop("key=12345678", "start", "--keep").returncode == 2      # nothing is sent
        assert stop("12345678\n", "stop", "--keep").returncode == 2         # a key alone: no settings


def test_a_stop_says_what_is_kept_when_the_file_or_the_machine_fails(tmp_path):
    path, size = tmp_path / "trade.conf", len("key=12345678")
    path.write_text("key=12345678")
    with machine(b"12345678", (0,), (b"pool.trade_stopped 1\npool.orders_open 0\n",)) as port:
        words = [sys.executable, GG, "127.0.0.1", "--key-file", path, "--port", port, "--set", "stop", "--keep"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=20,
                              **full_disk(size + 4))                # within the line
    assert (done.returncode, path.read_text()) == (7, "key=12345678") and "--keep: " in done.stderr, done.stderr
    assert "stopped, 0 orders open" in done.stdout and "has stopped=on" not in done.stdout
    with machine(b"another key", (0,)) as port:
        done = gg("127.0.0.1", "--key-file", str(path), "--port", port, "--set", "stop", "--keep", "--timeout", "0.1")
    assert done.returncode == 3 and "the key is another one" in done.stderr and ": stopped" not in done.stdout
    assert f"{path}: has stopped=on" in done.stdout and path.read_text() == "key=12345678\nstopped=on\n"


def end_of(process):
    """Returns the exit status and both outputs; a standard output that was closed says nothing."""
    with process:
        said = [pipe.read() if not pipe.closed else "" for pipe in (process.stdout, process.stderr)]
    return process.returncode, *said


def begin(port, *words, reads):
    process = subprocess.Popen([sys.executable, GG, "127.0.0.1", "--port", port, "--timeout", "1", "--attempts", "1",
                                *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not reads:
        process.stdout.close()
    return process


@pytest.mark.parametrize("acts, reads, code", [((0, 0, None), True, 1), ((0,), False, 0)], ids=["lost", "no reader"])
def test_a_stop_that_was_obeyed_is_said_and_kept_whatever_comes_then(tmp_path, acts, reads, code):
    path = tmp_path / "trade.conf"
    path.write_text("key=12345678\n")
    commands = []
    with machine(b"12345678", acts, (OPEN.encode() % (1, 7), OPEN.encode() % (1, 0)), commands=commands) as port:
        status, said, _ = end_of(begin(port, "--key-file", path, "--set", "stop", "--keep", reads=reads))
    assert (status, "stopped, 7 orders open" in said, commands[:1]) == (code, reads, [control.SET])
    assert path.read_text() == "key=12345678\n\nstopped=on\n"


@pytest.mark.parametrize("acts, reads, code", [((0, 0, None), True, 1), ((0,), False, 6)], ids=["lost", "no reader"])
def test_orders_that_stay_open_are_named_whatever_comes_then(acts, reads, code):
    with machine(b"12345678", acts, refusal=b"order 5 stays open: buy 100 ACME at 1.0000") as port:
        status, _, complaint = end_of(begin(port, *KEY, reads=reads))
    assert status == code and "order 5 stays open" in complaint, complaint


TOOLS = pytest.mark.parametrize("words", [[GG, "--key-file"], [GG.with_name("peregrine"), "status", "--config"]])


@TOOLS
def test_a_file_without_a_key_is_refused_and_not_shown(words, tmp_path):
    path = tmp_path / "settings"
    for text, said in (("feed=1.2.3.4:5\n", "there is no key="), ("passwd=two hunter2\n", "the word after passwd="),
                       ("hunter2=hunter2 hunter2\n", "not shown"), ("key=hunter2\n", "8 to 64 bytes")):
        path.write_text(text)
        done = subprocess.run([sys.executable, *words, path, "127.0.0.1"], capture_output=True, text=True, timeout=20)
        assert done.returncode in (1, 2) and said in done.stderr and "hunter2" not in done.stderr, done.stderr


@TOOLS
def test_a_key_file_serves_every_tool_and_a_reader_may_have_enough(words, tmp_path):
    path = tmp_path / "key"
    path.touch(0o600)
    with machine(b"12345678", (0,)) as port:
        for text in ("12345678\n", f"key=12345678\ncontrol.port={port}\n"):
            path.write_text(text)
            command = [sys.executable, *words, path, "127.0.0.1", "--port", port,
                       *(["--status"] if words[0] == GG else ["--address", "127.0.0.1"])]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            process.stdout.close()
            assert process.stderr.read() == "" and process.wait(20) == 0
            process.stderr.close()


@pytest.mark.parametrize("tool", [
    "gg", "peregrine", "run.py", "new-program", "wire_probe.py", "contest/contest", "exchange",
    "workshop/report.py", "workshop/figures.py", "workshop/coverage.py"])
def test_no_tool_complains_of_a_reader_that_has_enough(tool):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, GG.parent / tool] if tool not in ("contest/contest", "exchange") else [GG.parent / tool]
    done = subprocess.run([*command, "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words, code", [((KEY[0],), 2), (("--help",), 1), ((*KEY, "--port", "1", "--status"), 1)])
def test_a_full_disk_is_said_in_a_line(words, code):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([sys.executable, GG, "127.0.0.1", *words, "--timeout", "0.01"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == code and "Traceback" not in done.stderr
    assert ("standard output: No space left on device\n" in done.stderr) == ("--help" in words)


def test_a_command_that_was_obeyed_goes_on_when_the_disk_is_full(tmp_path):
    path, commands = tmp_path / "trade.conf", []
    path.write_text("key=12345678")
    with open("/dev/full", "w", encoding="ascii") as full, machine(b"12345678", (0,), commands=commands) as port:
        done = subprocess.run([sys.executable, GG, "127.0.0.1", "--key-file", path, "--port", port, "--set", "stop",
                               "--keep"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "standard output: No space left on device\n")
    assert commands[:1] == [control.SET] and "stopped=on" in path.read_text()
