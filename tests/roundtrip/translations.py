"""Drops TCG's translations, so that the second boot of one QEMU is as fast as the first.

TCG keeps its translations over a reset. Every store to a page with translations then goes through the list of all of
them, until the last is gone. The next boot clears and fills just these pages. A boot of Debian leaves 300 MB of
translations, so the next boot took two to five times as long. Under OVMF an initrd was copied at some 100 bytes a
second (QEMU 7.2).

QEMU's gdb server drops all translations when the machine stops by itself, as after a single step (gdbstub.c,
gdb_vm_state_change: tb_flush at RUN_STATE_DEBUG, up to QEMU 10.1). A breakpoint drops none since QEMU 6.1."""
import re
import socket

SECONDS = 30


def flushes(machine):
    """Counts how many times all translations were dropped."""
    text = machine.qmp("x-query-jit")["human-readable-text"]
    return int(re.search(r"TB flush count +(\d+)", text)[1])


def drop(gdb):
    """Drops all translations of the machine whose gdb server listens at the path `gdb`, by a single step. Raises
    OSError."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(SECONDS)
        sock.connect(str(gdb))              # the machine stops until the connection ends
        try:
            _say(sock, b"s", b"T05")        # the signal SIGTRAP; T02 has come for the stop
        finally:
            _say(sock, b"D", b"OK")


def _say(sock, command, answer):
    sock.sendall(b"+$%s#%02x" % (command, sum(command) & 255))
    received = b""
    while b"$" + answer not in received:
        more = sock.recv(4096)
        if not more:
            raise ConnectionError("gdb server: closed")
        received += more
    sock.sendall(b"+")
