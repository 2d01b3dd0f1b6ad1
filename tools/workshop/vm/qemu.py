"""One QEMU, for tests: start it, read its serial line, speak QMP, wait a bounded time, end it.

    with qemu.Machine(qemu.kernel("feed=10.0.2.2:10001 ..."), memory="128M") as machine:
        machine.wait_for(r"back to Linux: (.*)")
        machine.wait_reset()

The guest's reset ends QEMU (-action reboot=shutdown) and is seen as the QMP event SHUTDOWN, reason guest-reset.
Nothing here needs privileges; QMP and the serial line are socket pairs, so no port and no path is taken.
"""
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
IMAGE = BUILD / "peregrine.elf"
DEBUG = BUILD / "peregrine.debug"         # the image with names and lines

OVMF = next((p for p in ("/usr/share/ovmf/OVMF.fd", "/usr/share/qemu/OVMF.fd") if os.path.exists(p)), None)

PR_SET_PDEATHSIG = 1
# Time for an event that takes a second or two, on a machine that is slow, busy, or stands still for seconds.
PATIENCE_S = 60
NMI_TRIES = 10


class Timeout(AssertionError):
    """Something did not happen in time. The message ends with what the guest said last."""


def kernel(command_line="", module=None, image=IMAGE):
    """Returns options for a direct start by PVH."""
    options = ["-kernel", str(image)]
    if command_line:
        options += ["-append", command_line]
    if module:
        options += ["-initrd", str(module)]
    return options


def iso(path, firmware="bios"):
    """Returns options for a start from an ISO, `firmware` bios or uefi."""
    options = ["-cdrom", str(path)]
    if firmware == "uefi":
        assert OVMF, "no OVMF firmware here: package ovmf"
        options += ["-bios", OVMF]
    return options


def make_iso(path, command_line="", module=None, image=None):
    """Wraps the built image, or another one; the ISO boots on BIOS and UEFI."""
    words = [ROOT / "tools/workshop/make/iso.sh", image or IMAGE, path, command_line, *([module] if module else [])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


def symbols():
    """Returns the address of each name in the built image."""
    lines = subprocess.run(["nm", str(DEBUG)], capture_output=True, text=True, check=True).stdout.split("\n")
    return {fields[2]: int(fields[0], 16) for line in lines if len(fields := line.split()) == 3}


def end_process(process):
    """Asks it to end, and makes it. Safe to call twice."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE_S)


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def live_apart():
    """Keeps a Ctrl-C at the terminal from the process: its parent ends it, in order."""
    os.setpgrp()
    die_with_parent()


class Machine:
    def __init__(self, options, *, machine="pc", memory="256M", cpus=1, cpu="max", accelerator="tcg", network=False,
                 program=("qemu-system-x86_64",)):
        """Starts QEMU with `options` as they stand. Without `network` the machine has no NIC unless they add one."""
        qmp_ours, qmp_theirs = socket.socketpair()
        serial_ours, serial_theirs = socket.socketpair()
        self.command = [
            *map(str, program), "-nodefaults", "-no-user-config", "-display", "none",
            "-M", f"{machine},accel={accelerator}", "-m", str(memory), "-smp", str(cpus), "-cpu", cpu,
            "-action", "reboot=shutdown,panic=none",
            "-chardev", f"socket,id=qmp,fd={qmp_theirs.fileno()}", "-mon", "qmp,mode=control",
            "-chardev", f"socket,id=serial,fd={serial_theirs.fileno()}", "-serial", "chardev:serial",
        ]
        if not machine.startswith("microvm") and "-vga" not in options:
            self.command += ["-vga", "std"]
        self.command += list(map(str, options))
        self._serial, self._qmp = serial_ours, qmp_ours
        self._changed = threading.Condition()
        self._text = ""
        self._events, self._replies = [], []
        self._ended = False
        self.process = subprocess.Popen(
            self.command, pass_fds=[qmp_theirs.fileno(), serial_theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=live_apart)
        qmp_theirs.close()
        serial_theirs.close()
        self._threads = [threading.Thread(target=t, daemon=True) for t in (self._read_serial, self._read_qmp)]
        for thread in self._threads:
            thread.start()
        self.qmp("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what the guest says

    @property
    def log(self):
        """Returns all that the serial line has carried."""
        with self._changed:
            return self._text

    def wait_for(self, pattern, seconds=PATIENCE_S, start=0):
        """Waits for the regular expression's first match in the log from character `start` on; returns it."""
        found = self._wait(lambda: re.search(pattern, self._text[start:], re.MULTILINE), seconds)
        if not found:
            raise Timeout(f"no {pattern!r} within {seconds} s{self._describe()}")
        return found

    def inject_nmi(self):
        """Injects an NMI, again and again until the guest's log shows a trap.

        An NMI that meets a tick of the watchdog's timer is taken for the tick."""
        for _ in range(NMI_TRIES):
            self.qmp("inject-nmi")
            if self._wait(lambda: "trap: NMI" in self._text, 1):
                return
        raise Timeout(f"{NMI_TRIES} NMIs had no effect{self._describe()}")

    def wait_reset(self, seconds=PATIENCE_S):
        """Waits until the guest resets the machine. QEMU ends with it."""
        event = self.wait_event("SHUTDOWN", seconds)
        if event["data"].get("reason") != "guest-reset":
            raise AssertionError(f"ended by {event['data']}, not by a reset{self._describe()}")
        return event

    def send(self, text):
        """Types on the serial line."""
        self._serial.sendall(text.encode())

    # ---- QMP

    def qmp(self, command, seconds=PATIENCE_S, **arguments):
        with self._changed:
            self._replies.clear()
        self._qmp.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        if not self._wait(lambda: self._replies, seconds):
            raise Timeout(f"no reply to QMP {command}{self._describe()}")
        reply = self._replies.pop(0)
        if "error" in reply:
            raise AssertionError(f"QMP {command}: {reply['error']}")
        return reply["return"]

    def wait_event(self, name, seconds=PATIENCE_S):
        """Waits for the first event of that name since the start; returns it."""
        find = lambda: next((e for e in self._events if e["event"] == name), None)
        event = self._wait(find, seconds)
        if not event:
            raise Timeout(f"no QMP event {name} within {seconds} s{self._describe()}")
        return event

    def screendump(self, path):
        """Writes the screen as a PPM picture."""
        self.qmp("screendump", filename=str(path))
        return path

    # ---- the end

    def close(self):
        """Ends QEMU if it still runs. Safe to call twice."""
        end_process(self.process)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self._serial.close()
        self._qmp.close()
        self.process.stderr.close()

    # ---- inside

    def _wait(self, ready, seconds):
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (found := ready()):
                if self._ended or not self._changed.wait(max(0, deadline - time.monotonic())):
                    return ready()
            return found

    def _read_serial(self):
        while data := self._receive(self._serial):
            with self._changed:
                self._text += data.decode("latin-1").replace("\r", "")
                self._changed.notify_all()

    def _read_qmp(self):
        rest = b""
        while data := self._receive(self._qmp):
            *lines, rest = (rest + data).split(b"\n")
            with self._changed:
                for line in filter(None, map(bytes.strip, lines)):
                    message = json.loads(line)
                    if "event" in message:
                        self._events.append(message)
                    elif "QMP" not in message:      # the greeting
                        self._replies.append(message)
                self._changed.notify_all()
        self._threads[0].join(PATIENCE_S)       # the last words on the serial line come first
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @staticmethod
    def _receive(endpoint):
        try:
            return endpoint.recv(65536)
        except OSError:
            return b""

    def _describe(self):
        if self._ended:
            self.process.wait(PATIENCE_S)
        status = self.process.poll()
        errors = self.process.stderr.read() if status is not None else ""
        state = "still runs" if status is None else f"ended with {status}"
        return (f"\nQEMU {state}: {' '.join(self.command)}\n{errors}--- the guest's last words ---\n"
                + "\n".join(self._text.splitlines()[-40:]))
