"""Reads the pages of somebody else's contest. Its server may be hostile: sizes, times and numbers have bounds here."""
import contextlib
import http.client
import re
import socket
import threading

from command_line import printable, words_of
from servers.contest.rounds import CONSTANT_BITS_MAX, N_MAX

BOARD_BYTES_MAX = 1 << 20       # ten times the longest board of our own
CONSTANTS_MAX = 64
PRIME_MAX = 10**9
DIGITS_MAX = 1300               # in a modulus: more than CONSTANT_BITS_MAX takes
HIDDEN = re.compile(r"^(M[0-9]{1,9}) = a hidden .*prime factors include and only include ([0-9, and]+)$", re.MULTILINE)


class ForeignError(Exception):
    """Says in one printable line what the server lacks, or what it sent that no contest sends."""


def line_of(said):
    """Returns the beginning of a text, or of what an error says, in one line for a terminal."""
    text = words_of(said)[:300] or type(said).__name__
    return printable(text).replace("\n", r"\n")


class Page:
    """The response to a GET: 200, with a body that has not been read."""

    def __init__(self, host, port, path, timeout_s):
        self.name, self.timeout_s = f"{host}:{port}{path}", timeout_s
        self.connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        self.sock = None            # outlives the connection's own reference
        with self._reading(timeout_s):
            self.connection.connect()
            self.sock = self.connection.sock
            self.connection.request("GET", path)
            self.response = self.connection.getresponse()
        if self.response.status != 200:
            self.close()
            raise ForeignError(f"{self.name}: HTTP {self.response.status} {line_of(self.response.reason)}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def _reading(self, limit_s):
        """Ends all reads after `limit_s`, however the bytes drip. Raises ForeignError."""
        def end():
            with contextlib.suppress(OSError, AttributeError):      # over, or not connected
                self.sock.shutdown(socket.SHUT_RDWR)
        timer = threading.Timer(limit_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.close()
            raise ForeignError(f"{self.name}: {line_of(error)}") from error
        finally:
            timer.cancel()

    def pieces(self):
        """Yields the body as it comes, for as long as it comes, at most 64 KiB at once."""
        with self._reading(threading.TIMEOUT_MAX):
            while data := self.response.read1(65536):
                yield data

    def whole(self, bytes_max):
        with self._reading(self.timeout_s):
            data = self.response.read(bytes_max + 1)
        if len(data) > bytes_max:
            raise ForeignError(f"{self.name}: has more than {bytes_max} bytes")
        return data

    def close(self):
        self.connection.close()
        if self.sock:
            self.sock.close()


def read_board(host, port, timeout_s):
    """Returns the text of /board.txt."""
    with Page(host, port, "/board.txt", timeout_s) as page:
        return page.whole(BOARD_BYTES_MAX).decode("utf-8", "replace")


def rules_of(text):
    """Returns N, the moduli that a board shows, and [(name, primes)] of the hidden ones."""
    n = re.search(r"^N\s*= ([0-9]+)$", text, re.MULTILINE)
    if not n:
        raise ForeignError("the board shows no N")
    known = [_number(m, DIGITS_MAX, 2**CONSTANT_BITS_MAX, "a modulus")
             for m in re.findall(r"^M[0-9]+ = ([0-9]+)$", text, re.MULTILINE)]
    hidden = [(name, [_number(p, 9, PRIME_MAX, "a prime") for p in re.findall("[0-9]+", primes)])
              for name, primes in HIDDEN.findall(text)]
    if len(known) > CONSTANTS_MAX or any(len(primes) > CONSTANTS_MAX for _, primes in hidden):
        raise ForeignError(f"the board shows more than {CONSTANTS_MAX} moduli or primes")
    for _, primes in hidden:
        if wrong := next((p for p in primes if not is_prime(p)), None):
            raise ForeignError(f"the board shows {wrong}, which is no prime")
    return _number(n[1], 4, N_MAX, "N"), known, hidden


def is_prime(number):
    return number > 1 and all(number % q for q in range(2, int(number**0.5) + 1))


def _number(text, digits_max, high, what):
    if len(text) > digits_max or not 1 <= int(text) <= high:
        raise ForeignError(f"the board shows {what} of {len(text)} digits, '{text[:20]}', which none has")
    return int(text)
