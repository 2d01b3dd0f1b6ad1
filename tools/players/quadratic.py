#!/usr/bin/python3
"""A sample player in plain Python: it keeps the remainder of every suffix, multiplies by 10, adds the digit, reduces.

    tools/players/quadratic.py HOST [--port-base 10000] [--user U] [--n 256] [--m 823,108]

Without --n and --m it reads them from the board. Quadratic in N, and easy to read: a start for a player of one's own.
"""
import argparse
import http.client
import re
import socket
import sys
import time


def read_board(host, port):
    """Returns N and the moduli that the board tells."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", "/board.txt")
    text = connection.getresponse().read().decode()
    return int(re.search(r"^N\s*= (\d+)$", text, re.M)[1]), [int(m) for m in re.findall(r"^M\d+ = (\d+)$", text, re.M)]


class Matcher:
    def __init__(self, n, constants):
        self.n, self.constants = n, constants
        self.text = ""                  # the last N digits
        self.rests = [[] for _ in constants]    # the remainders of all suffixes by each modulus, the longest first

    def push(self, digit):
        """Returns the answers that end in this digit."""
        self.text = (self.text + digit)[-self.n:]
        d, begins = int(digit), digit != "0"
        found = []
        for k, m in enumerate(self.constants):
            rests = [(10 * rest + d) % m if rest is not None else None for rest in self.rests[k]]
            rests.append(d % m if begins else None)         # an answer does not begin with 0
            self.rests[k] = rests = rests[-self.n:]
            found += [self.text[i - len(rests):] for i, rest in enumerate(rests) if rest == 0]
        return list(dict.fromkeys(found))


def play(options, n, constants):
    matcher = Matcher(n, constants)
    with socket.create_connection((options.host, options.port_base + 1), timeout=60) as feed, \
            socket.create_connection((options.host, options.port_base + 2), timeout=60) as output:
        output.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        feed.sendall(b"GET / HTTP/1.1\r\nHost: contest\r\n\r\n")
        response = http.client.HTTPResponse(feed)
        response.begin()
        while data := response.read1(65536):
            for digit in data.decode("ascii"):
                for answer in matcher.push(digit):
                    output.sendall(f"POST /submit?user={options.user}&passwd={options.passwd} HTTP/1.1\r\n"
                                   f"Host: contest\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())
            output.setblocking(False)
            try:
                while output.recv(65536):       # the verdicts, which this player does not read
                    pass
            except BlockingIOError:
                pass
            output.settimeout(60)


def moduli(text):
    if not re.fullmatch("0*[1-9][0-9]*(,0*[1-9][0-9]*)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of moduli like 823,108")
    return [int(m) for m in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("host", metavar="HOST")
    parser.add_argument("--port-base", type=int, default=10000)
    parser.add_argument("--user", default="quadratic")
    parser.add_argument("--passwd", default="quadratic")
    parser.add_argument("--n", type=int)
    parser.add_argument("--m", type=moduli)
    options = parser.parse_args()
    while True:
        try:
            n, constants = options.n, options.m
            if not (n and constants):
                n, constants = read_board(options.host, options.port_base)
            play(options, n, constants)
        except (OSError, http.client.HTTPException) as error:
            print(f"quadratic: {str(error) or type(error).__name__}; again in a second", file=sys.stderr, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
