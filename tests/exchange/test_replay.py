"""`exchange replay`: one day in files of all kinds, the model of fills, and files and words that make no sense."""
import gzip
import json
import os
import re
import struct
import subprocess
import time

import pytest

from command_line import ROOT
from servers.exchange import itch, moldudp64, soupbintcp
from tests.exchange.running import WAIT_S, WORDS
from tests.lib import packets

pytestmark = pytest.mark.slow
NOON, MS, LOCATE, STOCK = 12 * 3600 * 10**9, 10**6, 7, b"AAAA    "
GROUP, PORT = "239.1.1.1", 26400
BUYS = "strategy=join risk.position=100"        # one order at the best bid
TAKES = "strategy=take take.buy=100.10 risk.position=500"


def message_of(text):
    """Returns (ms, message) of `MS TYPE REFERENCE ...`: A side shares price, E shares, X shares, D, U new shares price,
    H state, P price."""
    ms, kind, *rest = text.split()
    ns, numbers = NOON + int(ms) * MS, [int(word) if word.isdigit() else word for word in rest]

    def price(word):
        return round(float(word) * 10**4)

    if kind == "A":
        reference, side, shares, at = numbers
        return ns, itch.add_order(LOCATE, ns, reference, side.encode(), shares, STOCK, price(at), b"")
    if kind == "U":
        return ns, itch.order_replace(LOCATE, ns, *numbers[:3], price(rest[3]))
    if kind == "H":
        return ns, itch.trading_action(LOCATE, ns, STOCK, rest[0].encode(), b"")
    if kind == "P":
        return ns, struct.pack(">cHHHIQcI8sIQ", b"P", LOCATE, 0, ns >> 32, ns & itch.LOW, 0, b"B", 100, STOCK,
                               price(rest[0]), 1)
    if kind == "E":
        return ns, itch.order_executed(LOCATE, ns, *numbers, match=ns)
    return ns, {"X": itch.order_cancel, "D": itch.order_delete}[kind](LOCATE, ns, *numbers)


def day_of(*texts):
    """Returns a day in which the orders' session is ready after two seconds."""
    return [(NOON, itch.stock_directory(LOCATE, NOON, STOCK)), (NOON, itch.system_event(NOON, b"Q")),
            *map(message_of, ("0 H T", "0 P 100.05", "0 A 1 B 300 100.00", "0 A 2 S 200 100.10", *texts))]


def file_of(day):
    return b"".join(struct.pack(">H", len(message)) + message for _, message in day)


def frames_of(day):
    """Yields (ns, frame): each message on both lines, of which B loses every third, and a heartbeat each second."""
    feed, frames = moldudp64.Feed("20261128AM", 1000), []
    for at, (ns, message) in enumerate([*day, *((NOON + s * 10**9, None) for s in range(1, 6))]):
        if message:
            feed.publish(message)
        for packet in [*feed.new_packets()] or [None]:
            for port in (PORT, PORT + 1)[:1 if at % 3 == 0 else 2]:
                frames.append((ns, port, packet))
    for ns, port, packet in sorted(frames, key=lambda frame: frame[0]):
        packet = packet or feed.heartbeat()[:10] + struct.pack(">QH", 1 + sum(n <= ns for n, _ in day), 0)
        ip = packets.udp("10.1.1.9", GROUP, 5000, port, packet)
        yield ns, bytes(12) + b"\x81\x00\x00\x05\x08\x00" + ip      # in a VLAN


def pcap_of(day, order=">", magic=0xa1b23c4d, per_s=10**9, frames=()):
    head = struct.pack(f"{order}IHHIIII", magic, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack(f"{order}IIII", ns // 10**9, ns % 10**9 * per_s // 10**9, len(frame), len(frame))
                           + frame for ns, frame in frames or frames_of(day))


def sessions_of(hosts, order):
    """Returns a capture of orders' sessions at these hosts, one after the other, whose packets come in this order."""
    soup = soupbintcp.packet
    rows = [(1, b""), (0, b""), (1, soup(b"L", bytes(46))), (0, soup(b"A", b"S1".ljust(10) + b"1".rjust(20))),
            (1, soup(b"U", b"Q")), (0, soup(b"S", b"Q" + bytes(11) + b"\1")), (0, soup(b"H"))]
    feed = packets.udp("10.0.2.2", GROUP, 9, PORT, b"TODAY".ljust(10) + struct.pack(">QH", 1, 0))
    frames = [feed]
    for host in hosts:
        found, sent = [], [9, 9]
        out, back = ("10.0.2.15", f"10.0.2.{host}", 4000, 26404), (f"10.0.2.{host}", "10.0.2.15", 26404, 4000)
        for ours, data in rows:
            flags = 24 if data else 2 if ours else 18
            found.append(packets.tcp(*(out if ours else back), sent[ours], 1, flags, data))
            sent[ours] += len(data) or 1
        frames += [*(found[at] for at in order), packets.tcp(*back, sent[0], 1, 4)]
    return pcap_of((), frames=[(NOON + at * 100 * MS, bytes(12) + b"\x08\x00" + ip)
                               for at, ip in enumerate([*frames, feed, feed, feed])])


def pcapng_of(day):
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    section = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 1, 0, 0) + struct.pack("<HHB3xHHqHH", 9, 1, 9, 14, 8, NOON // 10**9, 0, 0))
    return section + interface + b"".join(
        block(6, struct.pack("<IIIII", 0, ns - NOON >> 32, ns - NOON & 0xffffffff, len(frame), len(frame)) + frame)
        for ns, frame in frames_of(day))


def run(folder, content, *words, name="day"):
    """Replays a file of bytes. Returns the exit status, what was printed, and the document if there is one."""
    (folder / name).write_bytes(content)
    done = subprocess.run([*WORDS, "replay", folder / name, *words, "--out", folder / "out"], capture_output=True,
                          text=True, timeout=WAIT_S, env=os.environ)
    document = json.loads((folder / "out.json").read_text()) if done.returncode == 0 else None
    return done.returncode, done.stdout + done.stderr, document


def play(folder, day, words, *more):
    status, said, document = run(folder, file_of(day), "symbols=AAAA", *words.split(), "--latency", "1ms", *more)
    assert status == 0, said
    return document


# The order to buy waits since one second after 300 shares at 100.00. A response takes 1 ms.
@pytest.mark.parametrize("words, day, fills", [
    (BUYS, ["3000 E 1 200", "3010 X 1 50", "3020 A 3 B 500 100.00", "3030 E 1 50", "3040 E 3 60", "3050 E 3 300"],
     ["3041 60 100.00", "3051 40 100.00"]),
    (BUYS, ["3000 A 3 B 50 100.00", "3010 D 1", "3020 E 3 50"], ["3021 50 100.00"]),
    (BUYS, ["3000 U 1 3 300 100.00", "3010 E 3 300"], ["3011 100 100.00"]),
    (BUYS, ["3000 A 3 B 30 99.90", "3010 E 3 30"], ["3011 30 100.00"]),
    (BUYS, ["3000 A 3 S 70 100.00", "3010 D 3"], ["3001 70 100.00"]),
    (BUYS, ["3000 H H", "3010 A 3 S 70 100.00"], []),
    (BUYS, ["3000 A 3 B 50 100.00", "3010 E 1 300"], []),
    (TAKES, ["3000 A 3 S 50 100.10", "4000 D 3"],
     ["1007 100 100.10", "1009 100 100.10", "3102 50 100.10"]),     # ten orders a second
    (TAKES + " shares=50", ["500 D 2", "3000 A 3 S 50 100.02"], ["3002 50 100.02"]),
], ids=["queue", "deleted-ahead", "replaced-behind", "worse-price", "quote-comes", "halted", "never-first",
        "taken-once", "better-price"])
def test_model_fills(tmp_path, words, day, fills):
    document = play(tmp_path, day_of(*day), words)
    found = [event for event in document["events"] if event["event"] == "fill"]
    assert [f"{(event['time'] - NOON) // MS} {event['shares']} {event['price'] / 1e4:.2f}" for event in found] == fills
    assert document["summary"]["shares"] == sum(event["shares"] for event in found)


QUEUE = day_of("3000 A 3 B 500 100.00", "3020 E 1 300", "3040 E 3 60", "4500 A 4 S 9 100.00")
CAPTURE = ("feed.a=239.1.1.1:26400", "feed.b=239.1.1.1:26401")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_day_may_come_through_a_pipe(tmp_path, pack):
    words = ["/dev/stdin", "symbols=AAAA", *BUYS.split(), "--latency", "1ms", "--out", tmp_path / "out"]
    done = subprocess.run([*WORDS, "replay", *words], input=pack(file_of(QUEUE)), capture_output=True, timeout=WAIT_S)
    assert done.returncode == 0 and b"1 orders, 0 replacements, 2 fills of 69 shares" in done.stdout, done.stderr


@pytest.mark.parametrize("content, words", [
    (gzip.compress(file_of(QUEUE) + bytes(2)), ()), (pcap_of(QUEUE), CAPTURE),
    (gzip.compress(pcapng_of(QUEUE)), CAPTURE), (pcap_of(QUEUE, "<", 0xa1b2c3d4, 10**6), CAPTURE),
    (file_of(QUEUE), ("--speed", "20"))],
    ids=["itch.gz", "pcap-ns", "pcapng.gz", "pcap-us", "slow"])
def test_a_day_is_the_same_in_files_of_all_kinds(tmp_path, content, words):
    wanted = play(tmp_path, QUEUE, BUYS)
    begun = time.monotonic()
    status, said, found = run(tmp_path, content, "symbols=AAAA", *BUYS.split(), "--latency", "1ms", *words)
    assert status == 0 and "1 orders, 0 replacements, 2 fills of 69 shares" in said, said
    assert "--speed" not in words or time.monotonic() - begun > 4.5 / 20
    for document in (wanted, found):            # a capture ends with a heartbeat: the order is cancelled later
        document["events"] = [{**event, "ns": 0} for event in document["events"] if event["time"] < NOON + 4501 * MS]
    assert found["events"] == wanted["events"] and found["summary"]["profit"] == wanted["summary"]["profit"]
    page = (tmp_path / "out.html").read_text()
    assert page.count("<svg") == 1 + bool(found["tick_to_order_ns"]["bins"]) and "12:00:03.041" in page
    assert "<td>AAAA</td><td></td><td>69</td><td>2</td>" in page


@pytest.mark.parametrize("hosts, order, said", [
    ("2", (0, 1, 2, 3, 4, 6, 5), "all 1 messages"), ("2", (0, 1, 2, 3, 1, 4, 5, 6), "all 1 messages"),
    ("2", (0, 1, 2, 3, 4, 6), "is missing in it"), ("23", range(7), "all 2 messages")],
    ids=["overtaken", "repeated", "lost", "second-host"])
def test_recorded_sessions(tmp_path, hosts, order, said):
    status, text, _ = run(tmp_path, sessions_of(hosts, order), "symbols=AAAA", "orders=10.0.2.2:26404",
                          "orders.b=10.0.2.3:26404", *CAPTURE, "--fills", "recorded")
    assert said in text and status == ("missing" in said), text


def test_hours_without_a_message_take_little_time(tmp_path):
    later = 10 * 3600 * 1000
    document = play(tmp_path, [*QUEUE[:-1], message_of(f"{later} A 4 S 9 100.00")], BUYS)
    assert [event["time"] for event in document["events"] if event["event"] == "fill"][-1] == NOON + (later + 1) * MS
    assert document["statistics"]["trade.turns"] < 10**6


def test_a_file_may_have_a_name_that_is_no_text(tmp_path):
    status, said, _ = run(tmp_path, file_of(QUEUE), "symbols=AAAA", *BUYS.split(), name=os.fsdecode(b"\xff<b>"))
    assert status == 0 and "<b>" not in (tmp_path / "out.html").read_text(), said


@pytest.mark.parametrize("content, words, status, said", [
    (b"", (), 1, "day: it is empty"),
    (b"no market data", (), 1, "day: it is no file of ITCH messages after their lengths, no pcap and no pcapng"),
    (file_of(QUEUE)[:-1], (), 1, "day: it ends in the middle"),
    (gzip.compress(file_of(QUEUE))[:-20], (), 1, "day: unexpected end of file"),
    (pcap_of(QUEUE)[:30], CAPTURE, 1, "day: it ends in the middle"),
    (pcap_of(QUEUE), ("feed.a=239.1.1.2:26400",), 1,
     "no datagram of it goes to feed.a= or feed.b=; there are some to 239.1.1.1:26400 239.1.1.1:26401"),
    (pcap_of(QUEUE), (*CAPTURE, "--fills", "recorded"), 1, "it does not have the beginning of a connection to orders="),
    (file_of(QUEUE), ("prt=1",), 2, '"prt": there is no such key in the program trade'),
    (file_of(QUEUE), ("--latency", "3"), 2, "'3' is no time from 0s to 1s with its unit, as in 50us"),
    (file_of(QUEUE), ("--speed", "fast"), 2, "'fast' is not a number"),
    (file_of(QUEUE), ("--file", "nothing.conf"), 2, "nothing.conf: No such file or directory"),
], ids=["empty", "no-recording", "cut-itch", "cut-gzip", "cut-pcap", "other-group", "nothing-recorded", "key",
        "latency", "speed", "no-settings"])
def test_each_mistake_has_a_line_of_its_own(tmp_path, content, words, status, said):
    (tmp_path / "out.json").write_text("yesterday's")
    found, text, _ = run(tmp_path, content, "symbols=AAAA", *words)
    assert found == status and said in text and "Traceback" not in text, text
    assert (tmp_path / "out.json").read_text() == "yesterday's" and {"out.html", "out.json.part"}.isdisjoint(
        path.name for path in tmp_path.iterdir())


def test_a_program_that_ends_before_the_recording_is_said(tmp_path):
    status, said, _ = run(tmp_path, file_of(QUEUE), "symbols=AAAA", *BUYS.split(), "deadline=3")
    assert status == 1 and "day: was not played to its end, but to 12:00:03: deadline" in said, said


def test_a_full_disk_is_said_and_takes_no_earlier_result_away(tmp_path):
    (tmp_path / "out.json").write_text("yesterday's")
    (tmp_path / "out.json.part").symlink_to("/dev/full")
    status, said, _ = run(tmp_path, file_of(QUEUE), "symbols=AAAA", *BUYS.split())
    assert status == 1 and f"{tmp_path}/out.json: No space left" in said, said
    assert (tmp_path / "out.json").read_text() == "yesterday's"


def test_the_page_builds_the_strategy_that_is_there():
    page = (ROOT / "app/trade/README.md").read_text()
    code = "".join((ROOT / path).read_text() for path in ("app/trade/skew.c", "tests/unit/trade_strategy_test.c"))
    blocks = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 7 and not [block for block in blocks if block not in code]
