"""Hostile clients of a contest: they read slowly, flood, send garbage, open a thousand connections.

    python3 -m tests.contest.attackers --input PORT --output PORT --seconds 8
"""
import argparse
import contextlib
import os
import random
import socket
import threading
import time

FLOOD = b"".join(b"POST /submit?user=flood&passwd=p HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n%010d" % i
                 for i in range(1234567890, 1234567890 + 500))


def connect(port, source, receive_bytes=0):
    sock = socket.socket()
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.settimeout(1)
    sock.bind((source, 0))
    sock.connect(("127.0.0.1", port))
    return sock


def again(seconds, act):
    """Calls `act` again and again for `seconds`. A connection that fails does not end the loop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            act(end)
        except OSError:
            time.sleep(0.01)


def read_slowly(ports, end):
    held = [connect(ports.input, "127.0.0.6", 2048) for _ in range(20)]
    while time.monotonic() < end:
        time.sleep(0.2)
        held[0].recv(1)


def flood(ports, end):
    with connect(ports.output, "127.0.0.7") as sock:
        while time.monotonic() < end:
            sock.sendall(FLOOD)
            time.sleep(0.005)


def send_garbage(ports, end):
    with connect(random.choice((ports.input, ports.output)), "127.0.0.8") as sock:
        sock.sendall(random.randbytes(random.randrange(1, 5000)))
        time.sleep(0.01)


def open_many(ports, end):
    held = []
    for _ in range(1000):
        held.append(connect(random.choice((ports.input, ports.output)), "127.0.0.9"))
        time.sleep(0.001)
    time.sleep(0.5)
    for sock in held:
        sock.close()


GET = b"GET / HTTP/1.0\r\nConnection:keep-alive\r\n\r\n"
SUBMISSION = b"POST /submit?user=flood&passwd=p HTTP/1.1\r\nHost: x\r\nContent-Length: 250\r\n\r\n" + b"7" * 250
FIELDS = b"GET /?" + b"&%4" * 2600 + GET[5:]
SIEGES = {          # connections, bytes of each, bytes at once
    "get-10": (10, GET * 95_000, 1 << 16), "get-250": (250, GET * 300, 1 << 16), "get-100": (100, GET * 2500, 1 << 16),
    "unread": (249, SUBMISSION * 10_000, 1 << 16), "drip": (250, SUBMISSION * 100, 1),
    "fields": (100, FIELDS * 100, 1 << 16),
}


def besiege(ports, connections, text, at_once):
    """Sends from one address over many connections until the end, and reads no response."""
    held = {connect(ports.output, "127.0.0.7"): 0 for _ in range(connections)}
    for sock in held:
        sock.setblocking(False)
    end = time.monotonic() + ports.seconds
    while time.monotonic() < end:
        for sock, sent in held.items():
            with contextlib.suppress(OSError):
                held[sock] += sock.send(text[sent:sent + at_once])
        time.sleep(0.002)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", type=int, required=True)
    parser.add_argument("--output", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--siege", choices=SIEGES, help="one address floods the submissions' port")
    ports = parser.parse_args()
    os.setpriority(os.PRIO_PROCESS, 0, max(10, os.getpriority(os.PRIO_PROCESS, 0)))
    if ports.siege:
        besiege(ports, *SIEGES[ports.siege])
        return
    threads = [threading.Thread(target=again, args=(ports.seconds, lambda end, act=act: act(ports, end)), daemon=True)
               for act in (read_slowly, flood, flood, send_garbage, open_many)]
    for thread in threads:
        thread.start()
    time.sleep(ports.seconds)


if __name__ == "__main__":
    main()
