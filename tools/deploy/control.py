"""The client's side of the control channel (docs/control.md): ask a machine for its statistics, or order it to leave.

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
STATUS, GG, LOG, SET, CAPTURE = 1, 2, 3, 4, 5
REFUSED = 2                     # a result: the text says why
HEADER = struct.Struct("!4sBBH")                # magic, version, type, bytes of the datagram
HELLO_BYTES, CHALLENGE_BYTES, COMMAND_BYTES = 64, 56, 96
REPLY_FIXED = struct.Struct("!16s24sBBHHH")     # nonce, challenge, command, result, part, parts, bytes of text
MAC_BYTES = 32
WORD_BYTES_MAX = 192
CANCEL_S = 3                            # for an exchange to confirm what a trader cancels
COMMANDS_MAX, COMMANDS_SECONDS = 64, 10          # the machine obeys no more commands in that time


class ControlError(Exception):
    """`exit_code` is what tools/gg ends with."""
    exit_code = 1


class NoAnswer(ControlError):
    """Nobody answers at that address and port."""


class Busy(NoAnswer):
    """Some requests were answered, and no command: the machine is busy, or datagrams are lost."""


class NotAuthenticated(ControlError):
    """Each request was answered by a challenge, and no command was obeyed."""
    exit_code = 3


class Refused(ControlError):
    """The machine does not do that: the program does not change that setting, or no frames are kept."""
    exit_code = 5

    def __init__(self, where, reason):
        super().__init__(f"{where}: {reason}")
        self.reason = reason


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


def siphash(key, data):
    """Returns the SipHash-2-4 (J.-P. Aumasson and D. J. Bernstein, 2012) of whole words of 8 bytes, as 8 bytes."""
    mask = 2**64 - 1
    k0, k1 = struct.unpack("<2Q", key)
    v0, v1, v2, v3 = (word ^ int.from_bytes(text, "big") for word, text in
                      ((k0, b"somepseu"), (k1, b"dorandom"), (k0, b"lygenera"), (k1, b"tedbytes")))

    def rounds(count):
        nonlocal v0, v1, v2, v3

        def rotate(value, bits):
            return (value << bits | value >> (64 - bits)) & mask
        for _ in range(count):
            v0, v2 = (v0 + v1) & mask, (v2 + v3) & mask
            v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
            v0 = rotate(v0, 32)
            v2, v0 = (v2 + v1) & mask, (v0 + v3) & mask
            v1, v3 = rotate(v1, 17) ^ v2, rotate(v3, 21) ^ v0
            v2 = rotate(v2, 32)
    for (word,) in struct.iter_unpack("<Q", data + bytes(7) + bytes([len(data) % 256])):
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xff
    rounds(4)
    return (v0 ^ v1 ^ v2 ^ v3).to_bytes(8, "big")


def hello(nonce, key):
    """Returns a HELLO whose tag says that the client has the key: a flood of others does not keep it out."""
    tag = siphash(hmac.new(key, b"hello", hashlib.sha256).digest()[:16], nonce)
    return HEADER.pack(MAGIC, VERSION, HELLO, HELLO_BYTES) + nonce + tag + bytes(32)


def challenge_in(data, nonces):
    """Returns (nonce, challenge with its time) if a datagram is the answer to a hello with one of these nonces."""
    if data[:8] == HEADER.pack(MAGIC, VERSION, CHALLENGE, CHALLENGE_BYTES) and len(data) == CHALLENGE_BYTES \
            and data[8:24] in nonces:
        return data[8:24], data[24:56]
    return None, None


def joined(parts):
    return b"".join(data for _, data in sorted(parts.items()))


def text_of(data):
    return printable(data.decode("ascii", "replace"))


def count_parts(received):
    """Returns how many parts of answers have come, {nonce: {number: part}}."""
    return sum(map(len, received.values()))


class Client:
    def __init__(self, host, key, port=PORT, timeout_s=1.0, attempts=5):
        self.key, self.timeout_s, self.attempts = key, timeout_s, attempts
        self.where = f"{host}, UDP port {port}"
        self.left_open = ""                     # the orders that stayed open when a trader was ordered to leave
        if not host:
            raise NoAnswer("'': no host")                   # to sockets it would be any address
        try:
            self.address = (socket.gethostbyname(host), port)
        except (OSError, UnicodeError) as error:
            raise NoAnswer(f"'{host}': {getattr(error, 'strerror', None) or error}") from error

    def status(self):
        return text_of(self._command(STATUS))

    def gg(self):
        """Commands the machine to leave; returns its last statistics.

        A trader first cancels its orders: for CANCEL_S at most the exchange is waited for. `left_open` names those that
        are still open then. Lost parts are left out: nobody is there to be asked again."""
        self._cancel()
        return text_of(self._command(GG))

    def _cancel(self):
        """Has a trader cancel its orders. Keeps a line for each that is still open, after CANCEL_S at the latest."""
        end = time.monotonic() + CANCEL_S
        while True:
            try:
                self.set("leave")
                self.left_open = ""
                return
            except Refused as refusal:
                lines = [line for line in refusal.reason.splitlines() if line.startswith("order ")]
                self.left_open = "\n".join(lines)
                if not lines or time.monotonic() > end:
                    return
            time.sleep(CANCEL_S / 30)

    def set(self, word):
        """Changes a setting of the running program; returns the statistics. `m+=NUMBER` adds a modulus."""
        return text_of(self._command(SET, word=word.encode("utf-8", "surrogateescape")))

    def log(self, position=0):
        """Returns (next position, the log's lines from `position` on). The ring forgets: a gap shows in the numbers."""
        head, _, text = text_of(self._command(LOG, position)).partition("\n")
        if not head.startswith("log ") or number(head[4:]) is None:
            raise ControlError(f"{self.where}: the log came without its position")
        return number(head[4:]), text

    def capture(self):
        """Yields the frames that the machine keeps, up to now, as the parts of a pcapng file."""
        position, end, asked = 0, None, 0
        while end is None or position <= end:
            if asked >= COMMANDS_MAX // 2:
                time.sleep(COMMANDS_SECONDS / COMMANDS_MAX)
            head, _, part = self._command(CAPTURE, position).partition(b"\n")
            words = text_of(head).split()
            numbers = [number(word) for word in words[1:]]
            if words[:1] != ["capture"] or len(numbers) != 2 or None in numbers or numbers[0] <= position:
                raise ControlError(f"{self.where}: the capture came without its position")
            position, end, asked = numbers[0], numbers[1] if end is None else end, asked + 1
            yield part

    def answers(self):
        """Returns true if somebody there speaks the protocol; needs no key."""
        try:
            with self._socket() as sock:
                nonce = os.urandom(16)
                asking = hello(nonce, self.key)
                return any(challenge_in(data, (nonce,))[0] for data in self._datagrams(sock, lambda: asking))
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
                    raise StillThere(f"{self.where}: was ordered to leave and still answers after {timeout_s:g} s")
        finally:
            self.timeout_s = patient

    # ---- one exchange ----

    def _command(self, command, argument=0, word=b""):
        """Asks up to `attempts` times; an answer to an earlier request counts as well, however late it comes.

        A machine takes datagrams in order, so it has seen a command when it answers a later request. If it has, each
        request got its challenge, and no command an answer, then the key is wrong. Else the machine is busy."""
        before, asked, received = {}, {}, {}       # by nonce: commands sent before; the challenge; parts of the answer
        seen = self.attempts == 1               # with one attempt nobody knows
        head = HEADER.pack(MAGIC, VERSION, COMMAND, COMMAND_BYTES + len(word))
        parts = asking = None                   # `asking` is sent again until a further part of an answer comes
        with self._socket() as sock:
            for _ in range(self.attempts):
                nonce = os.urandom(16)
                before[nonce] = len(asked)
                asking, parts = hello(nonce, self.key), count_parts(received)
                for data in self._datagrams(sock, lambda: None if count_parts(received) > parts else asking):
                    nonce, challenge = challenge_in(data, before.keys() - asked.keys())
                    if nonce:
                        asked[nonce], seen = challenge[8:], seen or before[nonce] > 0
                        asking = head + nonce + challenge + bytes([command]) + argument.to_bytes(7, "big")
                        asking += self._mac(asking + word) + word
                        self._send(sock, asking)
                    elif (answer := self._answer_with(data, command, asked, received)) is not None:
                        return answer
                if received and command == GG:
                    return joined(max(received.values(), key=len))
        if not asked:
            raise NoAnswer(f"{self.where}: no answer to {self.attempts} requests")
        if len(asked) == self.attempts and seen and not received:
            raise NotAuthenticated(
                f"{self.where}: answers, but does not obey: the key is another one (or the answer was lost)")
        raise Busy(f"{self.where}: answers late or not at all ({len(asked)} of {self.attempts} requests, no command): "
                   f"it is busy, or datagrams are lost. The key may be right; ask more often, and wait longer")

    def _answer_with(self, data, command, asked, received):
        """Keeps a datagram that is a part of the answer to one of the commands asked. Returns the answer if that is
        whole, else None."""
        fixed = HEADER.size + REPLY_FIXED.size
        if len(data) < fixed + MAC_BYTES or data[:8] != HEADER.pack(MAGIC, VERSION, REPLY, len(data)) \
                or not hmac.compare_digest(self._mac(data[:-MAC_BYTES]), data[-MAC_BYTES:]):
            return None
        nonce, challenge, its_command, result, part, count, text_bytes = REPLY_FIXED.unpack_from(data, 8)
        if asked.get(nonce) != challenge or its_command != command:
            return None
        if result == REFUSED:
            raise Refused(self.where, text_of(data[fixed:fixed + text_bytes]))
        if result != 0:
            raise ControlError(f"{self.where}: does not know command {command}")
        received.setdefault(nonce, {})[part] = data[fixed:fixed + text_bytes]
        return joined(received[nonce]) if len(received[nonce]) == count else None

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
        except OSError:         # an ICMP error for the datagram before: counts as no answer
            pass

    def _datagrams(self, sock, asking=lambda: None):
        """Sends asking(), and again each tenth of timeout_s in which nothing comes: a flood of others may fill the
        machine's ring. Yields the datagrams that arrive, until none has for timeout_s, and for a bounded time in
        all."""
        now = time.monotonic()
        deadline, silent = now + 10 * self.timeout_s, now + self.timeout_s
        if first := asking():
            self._send(sock, first)
        while (now := time.monotonic()) < min(deadline, silent):
            sock.settimeout(max(min(self.timeout_s / 10, silent - now), 0.0001))
            try:
                data = sock.recv(2048)
            except ConnectionRefusedError:
                time.sleep(min(self.timeout_s, 0.2))    # nobody there now; perhaps soon
                return
            except socket.timeout:
                if again := asking():
                    self._send(sock, again)
                continue
            except OSError:
                return
            silent = time.monotonic() + self.timeout_s
            yield data
