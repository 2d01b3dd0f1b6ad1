"""SoupBinTCP and MoldUDP64 without sockets: logins, heartbeats, packets, lines that lose, answers to requests."""
import random
import struct
from types import SimpleNamespace

import pytest

from servers.exchange import moldudp64, server, soupbintcp

SESSION = "SESSION001"


class Stream:
    def __init__(self):
        self.answers, self.taken = [b"one", b"two"], []

    def take(self, message):
        self.taken.append(message)


class Client:
    """The other end of a connection: all that was sent, as (type, payload)."""

    def __init__(self, stream=None):
        self.stream, self.received, self.closed = stream or Stream(), b"", False
        self.connection = soupbintcp.ServerConnection("test", SESSION, self.log_in, self.receive, self.close, 0.0)

    def receive(self, data):
        self.received += data

    def close(self):
        self.closed = True

    def log_in(self, user, password):
        if password != "secret":
            raise soupbintcp.Refused(soupbintcp.NOT_AUTHORIZED, "no")
        return self.stream

    def packets(self):
        packets, data = [], self.received
        self.received = b""
        while data:
            size = struct.unpack(">H", data[:2])[0]
            packets.append((data[2:3].decode(), data[3:2 + size]))
            data = data[2 + size:]
        return packets

    def send(self, kind, payload=b"", now_s=0.0):
        self.connection.feed(struct.pack(">H", 1 + len(payload)) + kind.encode() + payload, now_s)
        return self.packets()

    def login(self, password="secret", session="", sequence="1", now_s=0.0):
        return self.send("L", b"trader" + password.encode().ljust(10) + session.encode().rjust(10) +
                         sequence.encode().rjust(20), now_s)


@pytest.fixture
def client():
    return Client()


def accepted(sequence):
    return "A", SESSION.encode() + str(sequence).encode().rjust(20)


@pytest.mark.parametrize("sequence, first, answers", [("1", 1, [b"one", b"two"]), ("2", 2, [b"two"]), ("3", 3, []),
                                                      ("0", 3, [])])
def test_a_login_gets_the_stream_from_the_number_that_it_says(client, sequence, first, answers):
    assert client.login(sequence=sequence) == [accepted(first), *(("S", answer) for answer in answers)]
    client.stream.answers.append(b"three")
    client.connection.send_answers(0.0)
    assert client.packets() == [("S", b"three")]


def test_a_login_in_pieces_is_a_login(client):
    data = struct.pack(">H", 47) + b"L" + b"trader" + b"secret    " + b" " * 10 + b"1".rjust(20)
    for byte in data:
        assert client.packets() == []
        client.connection.feed(bytes([byte]), 0.0)
    assert client.packets()[0] == accepted(1)
    assert Client().login(session=SESSION)[0] == accepted(1)        # the own session may be said


@pytest.mark.parametrize("words, reason", [
    ({"password": "wrong"}, b"A"), ({"session": "SESSION002"}, b"S"), ({"sequence": "4"}, b"S"),
    ({"sequence": "-1"}, b"S"), ({"sequence": ""}, b"S"), ({"sequence": "x"}, b"S")])
def test_a_login_is_rejected_with_its_reason(client, words, reason):
    assert client.login(**words) == [("J", reason)]
    assert client.closed


@pytest.mark.parametrize("data", [b"\0\0", b"\xff\xffU", b"\0\1Z", b"\0\1U", b"\0\5Lshor"])
def test_a_client_that_speaks_something_else_is_let_go(client, data):
    client.connection.feed(data, 0.0)
    assert client.closed and client.packets() == []


def test_requests_reach_the_stream_after_the_login(client):
    client.login()
    client.send("U", b"order")
    client.send("+", b"a remark")
    assert client.stream.taken == [b"order"] and not client.closed
    client.login()                                                  # a second one
    assert client.closed


def test_a_heartbeat_goes_out_after_a_second_without_a_packet(client):
    client.connection.poll(0.9)
    client.login(now_s=1.0)
    client.connection.poll(1.9)
    assert client.packets() == []
    client.connection.poll(2.0)
    assert client.packets() == [("H", b"")]
    client.connection.poll(2.5)
    assert client.packets() == []


def test_a_client_is_let_go_after_15_s_of_silence(client):
    client.login(now_s=1.0)
    client.send("R", now_s=10.0)
    client.connection.poll(24.9)
    assert not client.closed
    client.connection.poll(25.0)
    assert client.closed


def test_the_end_of_the_session_is_said(client):
    client.login()
    client.connection.end_session()
    assert client.packets() == [("Z", b"")] and client.closed


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_end_a_connection_or_wait_for_more(seed):
    draw = random.Random(seed)
    for _ in range(500):
        client = Client()
        if draw.random() < 0.5:
            client.login()
        for _ in range(draw.randint(1, 20)):
            data = bytes(draw.randrange(256) for _ in range(draw.randint(0, 60)))
            if draw.random() < 0.7:
                data = struct.pack(">H", 1 + len(data)) + draw.choice(b"LUROZ+").to_bytes(1, "big") + data
            client.connection.feed(data, 0.0)
            client.connection.poll(0.0)
        assert client.closed == (not client.connection.is_open), f"seed {seed}"
        assert len(client.connection.buffer) <= soupbintcp.CLIENT_PACKET_MAX + 2 or client.closed


# ---- MoldUDP64 ----

def messages_of(packet):
    """Returns (session, first number, count, messages) by the specification's tables."""
    session, first, count = struct.unpack(">10sQH", packet[:20])
    messages, at = [], 20
    while at < len(packet):
        size = struct.unpack(">H", packet[at:at + 2])[0]
        messages.append(packet[at + 2:at + 2 + size])
        at += 2 + size
    assert at == len(packet)
    return session, first, count, messages


def make_feed(count, size=100, kept=1000):
    feed = moldudp64.Feed(SESSION, kept)
    for number in range(1, count + 1):
        feed.publish(str(number).encode().ljust(size))
    return feed


def test_packets_are_full_and_in_order():
    feed = make_feed(40)
    packets = list(feed.new_packets())
    assert [messages_of(packet)[1:3] for packet in packets] == [(1, 13), (14, 13), (27, 13), (40, 1)]
    assert max(map(len, packets)) <= 1400
    assert b"".join(b"".join(messages_of(packet)[3]) for packet in packets) == b"".join(
        str(number).encode().ljust(100) for number in range(1, 41))
    assert list(feed.new_packets()) == []


def test_heartbeat_and_end_say_the_next_number():
    feed = make_feed(3)
    assert messages_of(feed.heartbeat()) == (SESSION.encode(), 4, 0, [])
    assert messages_of(feed.end_of_session()) == (SESSION.encode(), 4, 0xffff, [])


def request(first, count, session=SESSION):
    return struct.pack(">10sQH", session.encode(), first, count)


@pytest.mark.parametrize("first, count, answered", [(1, 1, 1), (5, 3, 3), (1, 100, 13), (40, 5, 1)])
def test_a_request_gets_one_packet(first, count, answered):
    packet, _ = make_feed(40).answer(request(first, count))
    _, number, found, messages = messages_of(packet)
    assert (number, found, len(messages), int(messages[0])) == (first, answered, answered, first)


def test_an_address_that_may_be_forged_gets_little_more_than_it_sent():
    asked = request(1, 100)
    packet, _ = make_feed(40, size=36).answer(asked, server.UNPROVED_FACTOR * len(asked))
    assert len(packet) <= 3 * len(asked) and messages_of(packet)[2] == 1
    packet, _ = make_feed(40).answer(asked, server.UNPROVED_FACTOR * len(asked))
    assert messages_of(packet)[2] == 1                  # a longer one goes out alone: who asks gets on
    one = server.Server.is_proved
    client = SimpleNamespace(ip="10.0.0.2", connection=SimpleNamespace(stream=None))
    assert one(SimpleNamespace(clients=[]), "127.0.0.9") and not one(SimpleNamespace(clients=[client]), "10.0.0.2")
    client.connection.stream = object()
    assert one(SimpleNamespace(clients=[client]), "10.0.0.2") and not one(SimpleNamespace(clients=[client]), "10.0.0.3")


@pytest.mark.parametrize("data, complaint", [
    (request(41, 1), "where 1 to 40 are kept"), (request(0, 1), "1 messages from 0"), (request(1, 0), "0 messages"),
    (request(1, 1, "SESSION002"), "the session 'SESSION002'"), (b"short", "5 bytes instead of 20")])
def test_a_request_that_cannot_be_answered_says_why(data, complaint):
    packet, reason = make_feed(40).answer(data)
    assert packet is None and complaint in reason


def test_only_the_newest_messages_are_kept():
    feed = make_feed(1500)
    assert feed.answer(request(500, 1))[0] is None
    assert messages_of(feed.answer(request(501, 1))[0])[3] == [b"501".ljust(100)]
    assert sum(messages_of(packet)[2] for packet in feed.new_packets()) == 1500     # but none is lost that was not sent


def played(**chances):
    sent = []
    line = moldudp64.Line(sent.append, "7", **chances)
    for number in range(1000):
        line.put(number)
    line.flush()
    return sent, line.counts


def test_a_line_loses_its_share():
    assert played()[0] == list(range(1000))
    sent, counts = played(loss=0.1)
    assert counts == {"sent": 1000 - counts["lost"], "lost": counts["lost"], "repeated": 0, "reordered": 0}
    assert 60 < counts["lost"] < 140 and sent == sorted(sent)


def test_a_line_repeats_and_reorders():
    sent, counts = played(repeat=0.1, reorder=0.1)
    assert sorted(set(sent)) == list(range(1000)) and len(sent) == 1000 + counts["repeated"]
    assert counts["reordered"] > 50 and sent != sorted(sent)
    assert max(abs(at - number) for at, number in enumerate(dict.fromkeys(sent))) == 1
    assert played(loss=0.3, repeat=0.1, reorder=0.1) == played(loss=0.3, repeat=0.1, reorder=0.1)
