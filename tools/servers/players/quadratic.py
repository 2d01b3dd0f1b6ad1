#!/usr/bin/python3
"""A sample player in plain Python: it keeps the remainder of every suffix, multiplies by 10, adds the digit, reduces.

    tools/servers/players/quadratic.py HOST [--port-base 10000] [--user U] [--n 256] [--m 823,108]

Without --n and --m it reads them from the board, again when a round begins. It ends, with the reason, when the server
takes no submissions of its user. Quadratic in N, and easy to read: a start for a player of one's own.
"""
import argparse
import collections
import http.client
import re
import socket
import sys
import threading
import time
import urllib.parse

PAUSE_S = 2.0           # the pause before a round is 5 s, between bursts less
BOARD_LAG_S = 20.0      # the board may show a round after its first digits
WRONG_MAX = 5           # wrong answers in a row: the round's moduli have changed
AGAIN_S = 1.0           # from a refusal for now to the next try
LATE_S = 5.0            # then an answer has no points any more
BYTES_MAX = 1 << 20     # as a board; a server may send anything


def plain(text):
    """Returns what a server said, for a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))[:300]


def read_board(host, port):
    """Returns N and the moduli that the board shows."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", "/board.txt")
    text = connection.getresponse().read(BYTES_MAX).decode("utf-8", "replace")
    n = re.search(r"^N\s*= ([1-9][0-9]{0,3})$", text, re.M)
    if not n:
        raise http.client.HTTPException("the board shows no N")
    return int(n[1]), [int(m) for m in re.findall(r"^M[0-9]+ = ([1-9][0-9]{0,1300})$", text, re.M)]


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


class Submissions(threading.Thread):
    """Sends answers and reads the responses: why the server takes none, and how many in a row were wrong."""

    def __init__(self, sock, query):
        super().__init__(daemon=True)
        self.sock, self.query, self.file = sock, query, sock.makefile("rb")
        self.sent = collections.deque()         # (answer, when it was found), without a response
        self.again = collections.deque()        # (answer, when it was found, when it is due)
        self.refusal, self.wrong_count = "", 0
        self.start()

    def run(self):
        try:
            while line := self.file.readline(BYTES_MAX):
                status, body_bytes = int(line.split()[1]), 0
                while (line := self.file.readline(BYTES_MAX)).strip():
                    name, _, value = line.partition(b":")
                    body_bytes = int(value) if name.lower() == b"content-length" else body_bytes
                verdict = self.file.read(min(body_bytes, BYTES_MAX)).decode("utf-8", "replace").strip()
                self.wrong_count = self.wrong_count + 1 if verdict.startswith("wrong") else 0
                answer, found_at = self.sent.popleft()
                if status in (429, 503):        # another player of this address mistook the password
                    self.again.append((answer, found_at, time.monotonic() + AGAIN_S))
                elif status != 200:
                    self.refusal = f"{status} {verdict}"
                    return
        except (OSError, ValueError, IndexError):       # the connection ends: the sender notices, too
            pass

    def send(self, answer, found_at):
        self.sent.append((answer, found_at))
        self.sock.sendall(f"POST /submit?{self.query} HTTP/1.1\r\nHost: contest\r\n"
                          f"Content-Length: {len(answer)}\r\n\r\n{answer}".encode())

    def send_again(self, now):
        """Sends what was refused a second ago, if it may still have points."""
        while self.again and self.again[0][2] <= now:
            answer, found_at, _ = self.again.popleft()
            if now - found_at < LATE_S:
                self.send(answer, found_at)


def play(options):
    given = options.n and options.m
    matcher = Matcher(*((options.n, options.m) if given else read_board(options.host, options.port_base)))
    query = urllib.parse.urlencode({"user": options.user, "passwd": options.passwd})
    with socket.create_connection((options.host, options.port_base + 1), timeout=60) as feed, \
            socket.create_connection((options.host, options.port_base + 2), timeout=60) as output:
        output.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        feed.sendall(b"GET / HTTP/1.1\r\nHost: contest\r\n\r\n")
        response = http.client.HTTPResponse(feed)
        response.begin()
        submissions, heard_at = Submissions(output, query), time.monotonic()
        look_at = look_until = 0.0          # when to read the board again, and until when each second
        while data := response.read1(65536):
            silent_s, heard_at = time.monotonic() - heard_at, time.monotonic()
            if submissions.refusal:
                sys.exit(f"quadratic: the server takes no submissions of {options.user}: {plain(submissions.refusal)}")
            if submissions.wrong_count >= WRONG_MAX and given:
                sys.exit(f"quadratic: {WRONG_MAX} answers in a row are wrong: --n and --m are not those of this round")
            if not given and (silent_s > PAUSE_S or submissions.wrong_count):
                look_until, submissions.wrong_count = heard_at + BOARD_LAG_S, 0
            if look_at <= heard_at < look_until:
                before, matcher = matcher, of_this_round(options, matcher)
                look_at, look_until = heard_at + 1, look_until if matcher is before else 0.0
            submissions.send_again(heard_at)
            for digit in re.sub("[^0-9]", "", data.decode("ascii", "replace")):
                for answer in matcher.push(digit):
                    submissions.send(answer, heard_at)


def of_this_round(options, matcher):
    """Reads the board again; returns the matcher, or one for a new round."""
    n, constants = read_board(options.host, options.port_base)
    if (n, constants) == (matcher.n, matcher.constants):
        return matcher
    print(f"quadratic: a round begins: N = {n}, M = {', '.join(map(str, constants))}", file=sys.stderr, flush=True)
    return Matcher(n, constants)


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
            play(options)
        except (OSError, ValueError, http.client.HTTPException) as error:
            print(f"quadratic: {plain(error) or type(error).__name__}; again in a second", file=sys.stderr, flush=True)
        time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
