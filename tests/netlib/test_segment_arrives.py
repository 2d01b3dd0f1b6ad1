"""RFC 9293 §3.10.7, "SEGMENT ARRIVES", written a second time: random segments in every state, and the outcomes allowed.

`allowed_outcomes` is written from the RFC (and RFC 5961), not from the stack. Numbers are relative: the peer's SYN has
sequence number 0, and the stack's SYN too. SEED=n replays."""
import collections
import ctypes
import errno
import os
import random

import pytest

from tests.lib.packets import ACK, FIN, PSH, RST, SYN, URG, tcp
from tests.netlib.pnet import Net
from tests.netlib.test_netlib import tcp_fields

PEER, PORT, PEER_PORT = 0xC0000201, 80, 40000
PEER_ISN, WINDOW = 0xFFFFFF00, 65535            # the peer's numbers wrap within the window
STATES = {"ESTABLISHED": 1, "SYN-SENT": 2, "SYN-RECEIVED": 3, "FIN-WAIT-1": 4, "FIN-WAIT-2": 5, "TIME-WAIT": 6,
          "CLOSED": 7, "CLOSE-WAIT": 8, "LAST-ACK": 9, "CLOSING": 11}
FLAGS = [0, FIN, SYN, RST, ACK, FIN | ACK, SYN | ACK, RST | ACK, SYN | FIN, PSH | ACK, URG | ACK, SYN | RST,
         SYN | FIN | ACK, 63]
Segment = collections.namedtuple("Segment", "flags seq ack bytes")
SEED = int(os.environ.get("SEED", "20261122"))


def packet(segment, isn):
    flags, seq, ack, count = segment
    return tcp("192.0.2.1", "192.168.0.1", PEER_PORT, PORT, PEER_ISN + seq, isn + ack, flags, b"x" * count, WINDOW)


class Connection:
    """A connection of a stack of its own, brought to a state. `nxt` is the stack's SND.NXT, `rcv` its RCV.NXT."""

    def __init__(self, state, active):
        self.net = Net("address=192.168.0.1 timestamps=off sack=off wscale=0 rcvbuf=65535 secret=s")
        self.isn, self.nxt, self.rcv, self.socket, self.listener = 0, 1, 1, None, None
        if active or state == "SYN-SENT":
            self.socket = self.net.socket()
            assert self.net.bind(self.socket, 0, ctypes.c_uint16(PORT)) == 0
            assert self.net.dial(self.socket, PEER, PEER_PORT) == -errno.EINPROGRESS
        else:
            self.listener = self.net.serve(PORT)
            self.net.give(packet(Segment(SYN, 0, 0, 0), 0))
        self.isn = tcp_fields(next(self.net.packets()))["seq"]
        if state in ("SYN-SENT", "SYN-RECEIVED"):
            self.rcv = 0 if state == "SYN-SENT" else 1
            return
        self.give(Segment(SYN | ACK, 0, 1, 0) if active else Segment(ACK, 1, 1, 0))
        if not active:
            self.socket = self.net.accept(self.listener, None, None)
        peer_closes_first = state in ("CLOSE-WAIT", "LAST-ACK")
        if peer_closes_first:
            self.give(Segment(FIN | ACK, 1, 1, 0))
            self.rcv = 2
        if state not in ("ESTABLISHED", "CLOSE-WAIT"):
            assert self.net.shutdown(self.socket, 1) == 0
            self.nxt = 2
            list(self.net.packets())
        if state == "FIN-WAIT-2":
            self.give(Segment(ACK, 1, 2, 0))
        elif state in ("CLOSING", "TIME-WAIT"):
            self.give(Segment(FIN | ACK, 1, 1 if state == "CLOSING" else 2, 0))
            self.rcv = 2
        list(self.net.packets())
        assert self.state() == state

    def give(self, segment):
        """Gives a segment to the stack. Returns the reply: None, or its flags with the numbers that matter."""
        assert self.net.give(packet(segment, self.isn)) == 0
        replies = [tcp_fields(reply) for reply in self.net.packets()]
        if not replies:
            return None
        assert len(replies) == 1, replies
        seq, ack = (replies[0]["seq"] - self.isn) & 0xFFFFFFFF, (replies[0]["ack"] - PEER_ISN) & 0xFFFFFFFF
        return {ACK: ("ACK", seq, ack), SYN | ACK: ("SYN,ACK", 0, ack), RST: ("RST", seq, 0)}[replies[0]["flags"]]

    def state(self):
        if self.socket is None:
            accepted = self.net.accept(self.listener, None, None)
            if accepted == -errno.EAGAIN:
                return "SYN-RECEIVED"   # CLOSED counts too: a listener does not show the difference
            self.socket = accepted
        number = self.net.info(self.socket).tcpi_state
        return next(name for name in STATES if STATES[name] == number)


def syn_sent(s):
    stays = {(None, "SYN-SENT")}
    if s.flags & ACK and s.ack != 1:
        return stays if s.flags & RST else {(("RST", s.ack & 0xFFFFFFFF, 0), "SYN-SENT")}
    if s.flags & RST:
        return {(None, "CLOSED")} if s.flags & ACK else stays
    if not s.flags & SYN:
        return stays
    if not s.flags & ACK:
        return {(("SYN,ACK", 0, (s.seq + 1) & 0xFFFFFFFF), "SYN-RECEIVED")}
    fin = s.flags & FIN
    return {(("ACK", 1, (s.seq + 1 + s.bytes + fin) & 0xFFFFFFFF), "CLOSE-WAIT" if fin else "ESTABLISHED")}


def allowed_outcomes(state, s, nxt, rcv):
    """Returns the outcomes that RFC 9293 allows: pairs of a reply and the state afterwards."""
    if state == "SYN-SENT":
        return syn_sent(s)
    una = 1 if state in ("ESTABLISHED", "CLOSE-WAIT", "FIN-WAIT-1", "LAST-ACK", "CLOSING", "SYN-RECEIVED") else 2
    edge = rcv + WINDOW - (rcv - 1)
    space = s.bytes + bool(s.flags & SYN) + bool(s.flags & FIN)
    ack = ("ACK", nxt, rcv)
    ack_only, silence = {(ack, state)}, {(None, state)}

    if state == "SYN-RECEIVED":
        if s.flags & (SYN | ACK | RST) == SYN and s.seq == 0:
            return {(("SYN,ACK", 0, 1), state)}
        if s.flags & (ACK | RST) == ACK and s.ack != nxt:       # §3.5.2, group 2
            return {(("RST", s.ack & 0xFFFFFFFF, 0), state)}
    if s.flags & RST:                                           # RFC 5961 §3.2; TIME-WAIT: RFC 1337 would keep it
        if s.seq == rcv:
            return silence if state == "SYN-RECEIVED" else {(None, "CLOSED")}
        return ack_only if rcv < s.seq < edge else silence
    if s.flags & SYN:                                           # RFC 5961 §4.2; RFC 6191
        if state == "TIME-WAIT" and not s.flags & (ACK | FIN) and s.seq > rcv:
            return {(("SYN,ACK", 0, s.seq + 1), "CLOSED"), (ack, state)}
        return ack_only
    acceptable = rcv <= s.seq < edge or (space > 0 and rcv <= s.seq + space - 1 < edge)
    if not s.flags & ACK:                                       # dropped in any place once open, as Linux and FreeBSD
        return ack_only if state == "SYN-RECEIVED" and not acceptable else silence
    at_edge = s.seq == edge and space == 0                      # the segment's ACK is taken, as in Linux
    if not (acceptable or at_edge):
        return ack_only
    allowed = ack_only if at_edge and not acceptable else set()
    if state == "TIME-WAIT":
        return allowed | ack_only | silence
    if s.ack > nxt or s.ack < una - WINDOW:                     # RFC 5961 §5.2
        return allowed | ack_only

    after = state
    if state == "SYN-RECEIVED":
        after = "ESTABLISHED"
    elif s.ack == nxt and nxt == 2:                             # the stack's FIN
        after = {"FIN-WAIT-1": "FIN-WAIT-2", "CLOSING": "TIME-WAIT", "LAST-ACK": "CLOSED"}.get(state, state)
    if after not in ("ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2"):
        replies = {(None, after)} | ({(ack, after)} if space and after != "CLOSED" else set())
        return allowed | replies                                # text after a FIN is ignored
    if space == 0:
        return allowed | {(None, after)}
    next_rcv = max(rcv, min(s.seq + s.bytes, edge)) if s.seq <= rcv else rcv
    if s.flags & FIN and s.seq <= rcv and s.seq + s.bytes < edge:
        next_rcv = s.seq + s.bytes + 1
        after = {"ESTABLISHED": "CLOSE-WAIT", "FIN-WAIT-1": "CLOSING", "FIN-WAIT-2": "TIME-WAIT"}[after]
    return allowed | {(("ACK", nxt, next_rcv), after)}


@pytest.mark.parametrize("state", [state for state in STATES if state != "CLOSED"])
def test_any_segment_in(state):
    rng = random.Random(f"{SEED} {state}")
    for _ in range(250):
        connection = Connection(state, rng.random() < 0.5 and state != "SYN-RECEIVED")
        nxt, rcv = connection.nxt, connection.rcv
        edge = rcv + WINDOW - (rcv - 1 if rcv else 0)
        segment = Segment(
            rng.choice([*FLAGS, rng.randrange(64)]),
            rcv + rng.choice([-2**31 + 5, -70000, -2, -1, 0, 0, 0, 0, 1, 100, 30000]) if rng.random() < 0.7
            else edge + rng.choice([-2, -1, 0, 1, 100, 2**30]),
            nxt + rng.choice([-2**31 + 5, -65540, -65537, -65536, -65535, -2, -1, 0, 0, 0, 0, 1, 2, 1000, 2**30]),
            rng.choice([0, 0, 0, 1, 3, 1000]))
        expected = allowed_outcomes(state, segment, nxt, rcv)
        came = connection.give(segment), connection.state()
        where = f"SEED={SEED} {state}, SND.NXT {nxt}, RCV.NXT {rcv}"
        assert came in expected, f"{where}: {segment} gave {came}, not {expected}"
        connection.net.close()
