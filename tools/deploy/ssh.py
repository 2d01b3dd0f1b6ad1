"""Runs the scripts of remote/ on HOST through the system's own ssh, as root.

A script needs nothing on HOST but POSIX sh, and no file there. A one-line loader reads it from standard input, and the
rest of standard input is its data. So secrets never stand in an argument that `ps` would show.

Script and settings are lines, with \\1 in place of each end of a line: `read` takes one line and no byte more (POSIX.1,
"read"). `head -c` of BusyBox reads on in blocks, and swallows what follows. The image comes last, up to the end.

The loader prints `begin` and a word of this run: what came before is a greeting of the user's shell. A script has done
its work if it ended with status 0. The loader then prints `done` and that word, as the last line. A host that says
nothing has done nothing."""
import dataclasses
import pathlib
import secrets
import shlex
import subprocess
import threading

from .text import printable

SCRIPTS = pathlib.Path(__file__).resolve().parent / "remote"

OUTPUT_BYTES_MAX = 4 << 20                  # a script's standard output; the facts are some 50 KiB
ERRORS_BYTES_MAX = 256 << 10                # a script's standard error, ssh's banner included; install says 2 KiB
LINE_BYTES_MAX = 2000                       # the part of a line of it that is shown

EXIT_NO_SUDO, EXIT_SUDO_ASKS, EXIT_SSH = 77, 78, 255

# No newline and no `!`, so that csh and fish as login shells take it as well.
LOADER = ('IFS= read -r S && S=$(printf %s "$S" | tr "\\001" "\\012") || exit 1; D=$1; shift; echo "begin $D"; '
          f'if test "$(id -u)" = 0; then R=; else command -v sudo >/dev/null || exit {EXIT_NO_SUDO}; '
          f'sudo -n true 2>/dev/null </dev/null || exit {EXIT_SUDO_ASKS}; R="sudo -n"; fi; '
          '$R sh -c "$S" peregrine "$@" && echo "done $D"')


class RemoteError(Exception):
    """HOST could not be reached, or a step on it failed. The message is for the user; `status` is the script's."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def as_line(data):
    """Returns the bytes of a text as one line."""
    return data.replace(b"\n", b"\1") + b"\n"


PLACING = ("common", "grub", "probe")                 # scripts that use place.sh


def script(*names):
    """Returns the text of scripts that run as one."""
    names = [name for wanted in names for name in (("place", wanted) if wanted in PLACING else (wanted,))]
    return "".join((SCRIPTS / f"{name}.sh").read_text() for name in names)


@dataclasses.dataclass
class Host:
    name: str                               # [user@]HOST, or a name of the user's ssh configuration
    ssh: tuple = ("ssh",)                   # the command, with the user's own options

    def command(self, *words, connect_seconds=15):
        return [*self.ssh, "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect_seconds}",
                "-o", "ServerAliveInterval=15", self.name, *words]

    def run(self, names, arguments=(), data=b"", *, timeout=300, show=None, output_bytes_max=OUTPUT_BYTES_MAX):
        """Runs remote scripts as one, as root; returns its standard output. `show` gets each line of its standard
        error, the steps, as they come, without control characters. Raises RemoteError, also if HOST says more than it
        may, or not that the script is done."""
        done = secrets.token_hex(8)
        line = shlex.join(["sh", "-c", LOADER, "peregrine", done, *arguments])
        process = subprocess.Popen(self.command(line), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        watch = _Watch(process, as_line(script(*names).encode()) + data, timeout, show, output_bytes_max)
        output, errors = watch.finish()
        if watch.too_much:
            raise RemoteError(f"{self.name}: {watch.too_much}, and was cut off", process.returncode)
        status = process.returncode
        output, end, rest = output.rpartition(f"begin {done}\n".encode())[2].rpartition(f"done {done}\n".encode())
        if status == 0 and end and not rest:
            return output
        if status == 0:
            raise RemoteError(f"{self.name}: the shell there ended without a word that the script is done: what was "
                              f"changed is not known. The command can be repeated", status)
        raise RemoteError(self._explain(status, errors, watch.timed_out, timeout), status)

    def _explain(self, status, errors, timed_out, timeout):
        last = errors.strip().split("\n")[-1:] if errors.strip() else ["it said nothing"]
        if timed_out:
            return f"{self.name}: no answer within {timeout:g} s"
        if status == EXIT_NO_SUDO:
            return (f"{self.name}: the user is not root and there is no sudo. "
                    "Log in as root, or install sudo and allow the user to use it")
        if status == EXIT_SUDO_ASKS:
            return (f"{self.name}: sudo asks for a password (or refuses this user). "
                    "Allow it without one (NOPASSWD in /etc/sudoers.d), or log in as root")
        if status == EXIT_SSH and "Host key verification failed" in errors:
            return (f"{self.name}: ssh does not know the key of that host, or knows another one. "
                    f"Connect once by hand and compare the fingerprint: {shlex.join(self.ssh)} {self.name}")
        if status == EXIT_SSH and "Permission denied" in errors:
            return (f"{self.name}: ssh: {last[0].removeprefix('ssh: ')} No password is asked for here: "
                    "log in by a key (ssh-copy-id, ssh-agent, or --ssh \"ssh -i KEY\")")
        if status == EXIT_SSH and "\n- " in f"\n{errors}":         # a banner may stand before the steps
            return f"{self.name}: the connection or the shell there ended in the middle; the command can be repeated"
        if status == EXIT_SSH:
            return f"{self.name}: ssh: {last[0].removeprefix('ssh: ')}"
        return f"{self.name}: {last[0]}"

    def answers(self, connect_seconds=5):
        """Returns the id of HOST's present boot of Linux, or None if ssh does not answer."""
        text = _ask(self.command("sh -c 'echo; cat ${ROOT-}/proc/sys/kernel/random/boot_id'",
                                 connect_seconds=connect_seconds), connect_seconds + 25)
        return (text or "").strip().rpartition("\n")[2] or None       # after a greeting

    def address(self):
        """Returns the host that ssh connects to: the name for which an alias of the user's ssh configuration
        stands."""
        for line in (_ask([*self.ssh, "-G", self.name], 30) or "").splitlines():
            if line.startswith("hostname "):
                return line.split(None, 1)[1]
        return self.name.rpartition("@")[2]


def _ask(command, timeout):
    """Returns what a command says, or None if it fails, takes longer, or says too much."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = _Watch(process, b"", timeout)
    output, _ = watch.finish()
    return output.decode(errors="replace") if process.returncode == 0 and not watch.too_much else None


class _Watch:
    """Feeds a process and reads both its outputs within a time limit and limits in bytes."""

    def __init__(self, process, data, timeout, show=None, output_bytes_max=OUTPUT_BYTES_MAX):
        self.process, self.timed_out, self.too_much, self._timeout = process, False, "", timeout
        self._output, self._errors, self._line, self._show = [], [], b"", show
        outputs = ((process.stdout, output_bytes_max, self._output.append, "standard output"),
                   (process.stderr, ERRORS_BYTES_MAX, self._take_errors, "standard error"))
        self._threads = [threading.Thread(target=self._feed, args=(data,), daemon=True)]
        self._threads += [threading.Thread(target=self._read, args=output, daemon=True) for output in outputs]
        for thread in self._threads:
            thread.start()

    def _feed(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except OSError:
            pass                            # the other side left early; its status says why

    def _read(self, stream, bytes_max, take, name):
        count = 0
        with stream:                        # the writer is not left waiting for a reader
            while chunk := stream.read1(65536):
                count += len(chunk)
                if count > bytes_max:
                    self.too_much = f"said more than {bytes_max >> 10} KiB on {name}"
                    self.process.kill()
                    return
                take(chunk)

    def _take_errors(self, chunk):
        *lines, self._line = (self._line + chunk).split(b"\n")
        lines += [self._line] if len(self._line) > LINE_BYTES_MAX else []
        for line in lines:
            self._take_line(line)
        if len(self._line) > LINE_BYTES_MAX:
            self._line = b""

    def _take_line(self, line):
        text = printable(line[:LINE_BYTES_MAX].decode(errors="replace").rstrip("\r\n"))
        self._errors.append(text)
        if self._show:
            self._show(text)

    def finish(self):
        try:
            self.process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            self.timed_out = True
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)
        if self._line:
            self._take_line(self._line)
        return b"".join(self._output), "\n".join(self._errors)
