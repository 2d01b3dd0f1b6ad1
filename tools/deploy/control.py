"""The client's side of the control channel (docs/control.md): ask a machine for its statistics, or tell it to leave.

    client = Client("10.0.2.15", key_from_text("correct horse"))
    print(client.status())          # `name value` lines
    print(client.gg())              # the same; the machine leaves
    client.wait_gone()
"""
import hashlib
import hmac
import os
import socket
import struct
import time

from .text import number, printable

PORT = 0x4747                   # 18247, "GG"
MAGIC, VERSION = b"PGRN", 1
HELLO, CHALLENGE, COMMAND, REPLY = 1, 2, 3, 4
STATUS, GG, LOG, SET = 1, 2, 3, 4
REFUSED = 2                     # a result: the text says why
HEADER = struct.Struct("!4sBBH")                # magic, version, type, bytes of the datagram
HELLO_BYTES, CHALLENGE_BYTES, COMMAND_BYTES = 64, 56, 96
REPLY_FIXED = struct.Struct("!16s24sBBHHH")     # nonce, challenge, command, result, part, parts, bytes of text
MAC_BYTES = 32
WORD_BYTES_MAX = 192


class ControlError(Exception):
    """`exit_code` is what tools/gg ends with."""
    exit_code = 1


class NoAnswer(ControlError):
    """Nobody answers at that address and port."""


class NotAuthenticated(ControlError):
    """A challenge came, but the command was not obeyed."""
    exit_code = 3


class Refused(ControlError):
    """The running program does not change that setting."""
    exit_code = 5


class StillThere(ControlError):
    """The machine accepted the command to leave and still answers."""
    exit_code = 4


def key_from_text(text):
    """Returns the key's bytes, by the rule of the setting `key=`: text as it stands, or 0x and hexadecimal digits."""
    try:
        # A command line's bytes that are no UTF-8 are taken as they stand (PEP 383).
        key = bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode("utf-8", "surrogateescape")
    except ValueError:
        raise ValueError("the key begins with 0x but is not hexadecimal") from None
    if text.startswith("0x") and len(text) != 2 + 2 * len(key):
        raise ValueError("the key begins with 0x but is not hexadecimal")      # fromhex allows spaces
    if not 8 <= len(key) <= 64:
        raise ValueError(f"a key has 8 to 64 bytes, this one has {len(key)}")
    return key


def parse(text):
    """Returns the statistics as a dictionary; whole numbers as such."""
    values = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        values[name] = number(value, value)
    return values


class Client:
    def __init__(self, host, key, port=PORT, timeout_s=1.0, attempts=5):
        self.key, self.timeout_s, self.attempts = key, timeout_s, attempts
        self.where = f"{host}, UDP port {port}"
        if not host:
            raise NoAnswer("'': no host")                   # to sockets it would be any address
        try:
            self.address = (socket.gethostbyname(host), port)
        except (OSError, UnicodeError) as error:
            raise NoAnswer(f"'{host}': {getattr(error, 'strerror', None) or error}") from error

    def status(self):
        return self._command(STATUS)

    def gg(self):
        """Commands the machine to leave; returns its last statistics.

        Lost parts are left out: nobody is there to be asked again."""
        return self._command(GG)

    def set(self, word):
        """Changes a setting of the running program; returns the statistics. `m+=NUMBER` adds a modulus."""
        return self._command(SET, word=word.encode("utf-8", "surrogateescape"))

    def log(self, position=0):
        """Returns (next position, the log's lines from `position` on). The ring forgets: a gap shows in the numbers."""
        head, _, text = self._command(LOG, position).partition("\n")
        if not head.startswith("log ") or number(head[4:]) is None:
            raise ControlError(f"{self.where}: the log came without its position")
        return number(head[4:]), text

    def answers(self):
        """Returns true if somebody there speaks the protocol; needs no key."""
        try:
            with self._socket() as sock:
                return self._challenge(sock, os.urandom(16)) is not None
        except NoAnswer:
            return False

    def wait_gone(self, timeout_s=10.0, quiet=3):
        """Returns when `quiet` hellos in a row were not answered."""
        deadline = time.monotonic() + timeout_s
        patient, self.timeout_s = self.timeout_s, min(self.timeout_s, 0.3)
        try:
            silent = 0
            while silent < quiet:
                silent = 0 if self.answers() else silent + 1
                if silent == 0:
                    time.sleep(0.1)
                if time.monotonic() > deadline and silent == 0:
                    raise StillThere(f"{self.where}: was told to leave and still answers after {timeout_s:g} s")
        finally:
            self.timeout_s = patient

    # ---- one exchange ----

    def _command(self, command, argument=0, word=b""):
        challenged = False
        for _ in range(self.attempts):
            with self._socket() as sock:
                nonce = os.urandom(16)
                challenge = self._challenge(sock, nonce)
                if challenge is None:
                    continue
                challenged = True
                body = HEADER.pack(MAGIC, VERSION, COMMAND, COMMAND_BYTES + len(word)) + nonce + challenge \
                    + bytes([command]) + argument.to_bytes(7, "big")
                self._send(sock, body + self._mac(body + word) + word)
                parts, count = self._reply(sock, nonce, challenge[8:], command)
            if parts and (len(parts) == count or command == GG):
                return "".join(text for _, text in sorted(parts.items()))
        if challenged:
            raise NotAuthenticated(f"{self.where}: answers, but does not obey: the key is another one (or the answer "
                                   f"was lost)")
        raise NoAnswer(f"{self.where}: no answer to {self.attempts} requests")

    def _challenge(self, sock, nonce):
        """Returns the challenge and its time, as they go into the command; None: no answer."""
        self._send(sock, HEADER.pack(MAGIC, VERSION, HELLO, HELLO_BYTES) + nonce + bytes(40))
        for data in self._datagrams(sock):
            if data[:8] == HEADER.pack(MAGIC, VERSION, CHALLENGE, CHALLENGE_BYTES) and len(data) == CHALLENGE_BYTES \
                    and data[8:24] == nonce:
                return data[24:56]
        return None

    def _reply(self, sock, nonce, challenge, command):
        """Returns ({part: text}, the number of parts) of all that came before the time was up."""
        parts, count = {}, 1
        for data in self._datagrams(sock):
            fixed = HEADER.size + REPLY_FIXED.size
            if len(data) < fixed + MAC_BYTES or data[:8] != HEADER.pack(MAGIC, VERSION, REPLY, len(data)) \
                    or not hmac.compare_digest(self._mac(data[:-MAC_BYTES]), data[-MAC_BYTES:]):
                continue
            fields = REPLY_FIXED.unpack_from(data, 8)
            its_nonce, its_challenge, its_command, result, part, count_now, text_bytes = fields
            if (its_nonce, its_challenge, its_command) != (nonce, challenge, command):
                continue
            text = printable(data[fixed:fixed + text_bytes].decode("ascii", "replace"))
            if result == REFUSED:
                raise Refused(f"{self.where}: {text}")
            if result != 0:
                raise ControlError(f"{self.where}: does not know command {command}")
            count = count_now
            parts[part] = text
            if len(parts) == count:
                break
        return parts, count

    def _mac(self, data):
        return hmac.new(self.key, data, hashlib.sha256).digest()

    def _socket(self):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.connect(self.address)
        except OSError as error:        # no route to it, or a broadcast address
            sock.close()
            raise NoAnswer(f"{self.where}: {error.strerror}") from error
        return sock

    @staticmethod
    def _send(sock, data):
        try:
            sock.send(data)
        except OSError:         # an ICMP error that came for the datagram before; counts as no answer
            pass

    def _datagrams(self, sock):
        """Yields the datagrams that arrive, until none has for timeout_s, and for a bounded time in all."""
        deadline = time.monotonic() + 10 * self.timeout_s
        while time.monotonic() < deadline:
            sock.settimeout(self.timeout_s)
            try:
                yield sock.recv(2048)
            except ConnectionRefusedError:
                time.sleep(min(self.timeout_s, 0.2))    # nobody there now; perhaps soon
                return
            except OSError:
                return
