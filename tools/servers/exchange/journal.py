"""The journal of a session: the requests of clients, and how far the day had come when anything went out.

A line of text each. It is written before what follows from it is sent, so that a killed exchange, which makes its
state again from the journal, contradicts nothing that a client has seen:

    begin JSON                      session, begin_ns, and the options that the state follows from
    steps COUNT                     the number of steps of the day that are done
    take COUNT NS USER HEX          the request of a client after these steps
    end COUNT NS                    the end of the session
"""
import fcntl
import json
import os

# The options that the state follows from.
STATE_WORDS = ("seed", "symbols", "rate", "orders_max", "preopen", "halt", "replay", "account", "kept")


class JournalError(Exception):
    pass


class Journal:
    """`path` empty: nothing is kept. Two exchanges would each write a session of their own: the second is refused."""

    def __init__(self, path):
        self.path, self.file = path, open(path, "ab", buffering=0) if path else None
        self.steps = 0
        try:
            if self.file:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{path}: is another exchange's already; end that one first") from None

    def _write(self, line):
        data = line.encode() + b"\n" if self.file else b""
        try:
            while data:
                data = data[self.file.write(data):]     # a full disk may take a part
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def begin(self, session, begin_ns, options):
        state = {word: getattr(options, word) for word in STATE_WORDS}
        self._write("begin " + json.dumps({"session": session, "begin_ns": begin_ns, "options": state}))

    def note_steps(self, steps):
        if steps != self.steps:
            self.steps = steps
            self._write(f"steps {steps}")

    def note_request(self, steps, ns, user, message):
        self.steps = steps
        self._write(f"take {steps} {ns} {user} {message.hex()}")

    def note_end(self, steps, ns):
        self._write(f"end {steps} {ns}")

    def close(self):
        if self.file:
            self.file.close()


def read_begin(path):
    """Returns (session, begin_ns, options' values) of a journal; None if there is none yet. Raises JournalError."""
    try:
        with open(path, "rb") as file:
            line = file.readline()
    except FileNotFoundError:
        return None
    if not line:
        return None
    try:
        word, _, text = line.decode().partition(" ")
        fields = json.loads(text)
        if word != "begin":
            raise ValueError
        return fields["session"], fields["begin_ns"], {word: fields["options"][word] for word in STATE_WORDS}
    except (ValueError, KeyError, TypeError):
        raise JournalError(f"{path}: no journal of an exchange: its first line is no 'begin'") from None


def replay(path, exchange):
    """Does again all that the journal holds. Cuts off a last line that is not whole. Raises JournalError."""
    whole = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            if number > 1 and not _do(line.decode("latin-1").split(), exchange):
                raise JournalError(f"{path}:{number}: '{line.decode('latin-1').strip()[:60]}' is no line of a journal")
            exchange.feed.sent = exchange.feed.next         # all of it may have been sent
    os.truncate(path, whole)


def _do(words, exchange):
    """Does one line. Returns false if it is none."""
    try:
        kind, steps, rest = words[0], int(words[1]), words[2:]
        if kind not in ("steps", "take", "end"):
            return False
        while exchange.day.steps < steps:
            exchange.day.step()
        if kind == "take":
            ns, user, message = rest
            exchange.take(exchange.accounts[user.casefold()], bytes.fromhex(message), int(ns))
        elif kind == "end":
            exchange.end(int(rest[0]))
    except (ValueError, IndexError, KeyError):
        return False
    return True
