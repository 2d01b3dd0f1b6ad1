"""`make PROGRAM=NAME run`: any program's kernel in QEMU, its ports forwarded, until Ctrl-C, GG, or its own end.

The program itself says what ports it listens at with these settings: build/host/NAME-linux --ports, the same sources on
Linux. That program refuses wrong settings, too, before anything is booted."""
import os
import pathlib
import re
import secrets
import socket
import subprocess
import tempfile
import time

from workshop.vm import machine, qemu, relay
from workshop.vm.guest_log import Log, end_of, say, shown_statistics, statistics_in

SOCKETS = "PEREGRINE_RUN_SOCKETS"       # the sockets that were made before the namespace: kind:number:port ...
ASK_S_MAX = 60
LOOK_S = 0.1
GOOD_ENDS = ("gg", "finished", "deadline", "nobody asked")


class Refused(Exception):
    pass


class Program:
    """A program with its settings, on a machine."""

    def __init__(self, name, setup, words, all_statistics=False):
        self.name, self.setup, self.all_statistics = name, setup, all_statistics
        self.image = qemu.BUILD / name / "peregrine.elf"
        given = dict(word.partition("=")[::2] for word in words)
        self.key = given.get("key") or "0x" + secrets.token_hex(32)
        ours = [f"key={self.key}", *setup.words(), *machine.cpus_words(setup, words)]
        self.words = [*words, *(word for word in ours if word.partition("=")[0] not in given)]
        self.control_port = given.get("control.port") or str(machine.CONTROL_PORT)
        self.page_port = given.get("http.port")

    def ask_ports(self):
        """Returns the ports that the program listens at, such as [("tcp", 7)].

        Raises Refused with the program's reason."""
        program = qemu.BUILD / f"host/{self.name}-linux"
        try:
            done = subprocess.run([program, "--ports", *self.words], capture_output=True, text=True, timeout=ASK_S_MAX)
        except OSError as error:
            raise Refused(f"{program}: {error.strerror}; `make PROGRAM={self.name} run` builds it") from error
        except subprocess.TimeoutExpired as error:
            raise Refused(f"{program} --ports: no answer within {ASK_S_MAX} s") from error
        if done.returncode:
            raise Refused((done.stderr.strip().splitlines() or [f"{program} --ports: {done.returncode}"])[-1])
        return [(kind, int(port)) for kind, port in map(str.split, done.stdout.splitlines())]


def forward(program):
    """Chooses a port of ours for each of the program's: [(kind, ours, the program's)]."""
    chosen = []
    for kind, port in program.ask_ports():
        with relay.bind(kind, port) as bound:
            chosen.append((kind, bound.getsockname()[1], port))
    return chosen


def listen(program):
    """Makes the sockets for a machine in another namespace; the environment takes them there."""
    made = [(kind, relay.listen(kind, port), port) for kind, port in program.ask_ports()]
    os.environ[SOCKETS] = " ".join(f"{kind}:{sock.detach()}:{port}" for kind, sock, port in made)


def relay_all():
    """Relays what comes to the sockets of `listen`; [(kind, ours, the program's)]."""
    words = [word.split(":") for word in os.environ.pop(SOCKETS, "").split()]
    sockets = [(kind, socket.socket(fileno=int(number)), int(port)) for kind, number, port in words]
    relay.start([(kind, sock, (machine.TAP_GUEST, port)) for kind, sock, port in sockets])
    return [(kind, sock.getsockname()[1], port) for kind, sock, port in sockets]


def say_how_to_reach(program, forwards, control, key_file):
    for kind, ours, port in forwards:
        if (kind, str(port)) == ("tcp", program.page_port):
            say(f"run: the status page is http://127.0.0.1:{ours}/")
        elif (kind, str(port)) != ("udp", program.control_port):
            say(f"run: {kind} port {port} is at 127.0.0.1:{ours}")
    tools = "tools" if qemu.BUILD.resolve().is_relative_to(qemu.ROOT) else qemu.ROOT / "tools"
    say(f"run: {tools}/peregrine status 127.0.0.1 --config {key_file}   and log, slow, capture")
    say(f"run: {tools}/gg 127.0.0.1 --port {control} --key-file {key_file}   or Ctrl-C ends {program.name}")


def watch(host, log, say_once_it_runs):
    """Shows the log until the machine ends. Returns true if Ctrl-C came."""
    said = False
    try:
        while host.process.poll() is None:
            log.show()
            if not said and re.search(r"\] \w+: running, ", host.log):
                said = True
                say_once_it_runs()
            time.sleep(LOOK_S)
    except KeyboardInterrupt:
        return True
    return False


def leave(host, control, key):
    """Orders the machine to leave, and waits for its reset. A second Ctrl-C ends QEMU."""
    say("run: Ctrl-C: the machine is ordered to leave")
    _, error = machine.send_gg(control, key)
    if error:
        say(f"run: GG: {error}")
        return
    try:
        host.wait_reset()
    except AssertionError as error:
        say(f"run: {error}")


def run(program, make_log=Log):
    """Runs the program, and returns the exit code. `make_log` makes what shows the machine's log."""
    on_tap = program.setup.net == "tap"
    forwards = relay_all() if on_tap else forward(program)
    control = next(ours for kind, ours, port in forwards if (kind, str(port)) == ("udp", program.control_port))
    kvm, finding = machine.probe_kvm(program.image, lambda text: say(f"run: {text}"))
    setup = machine.dataclasses.replace(program.setup, accelerator="kvm" if kvm else "tcg")
    say(f"run: {'KVM' if kvm else 'no KVM, so QEMU emulates the processor (TCG)'} ({finding})")
    say(f"run: {program.name}: boot {setup.boot}, firmware {setup.firmware}, virtio-net {setup.nic}, "
        f"network {setup.net}, {machine.cpus_text(setup.cpus)}, {setup.memory}")
    with tempfile.TemporaryDirectory(prefix="peregrine-run-") as directory:
        key_file = pathlib.Path(directory) / "key"
        key_file.touch(0o600)
        key_file.write_text(f"key={program.key}\ncontrol.port={control}\n")
        with machine.boot_image(setup, " ".join(program.words), directory, program.image,
                                () if on_tap else forwards) as host:
            log = make_log(host)
            if watch(host, log, lambda: say_how_to_reach(program, forwards, control, key_file)):
                inside = (machine.TAP_GUEST, int(program.control_port))
                leave(host, inside if on_tap else ("127.0.0.1", control), program.key)
            host.process.poll()
            text = host.log
            log.show()
    if numbers := statistics_in(text):
        say(shown_statistics(numbers, program.all_statistics))
    return verdict(program.name, text)


def verdict(name, text):
    """Says how the machine ended by its log, with the reason last, and returns the exit code."""
    cause, reason = end_of(text)
    if cause in GOOD_ENDS:
        say(f"run: {name} has left ({cause}); the machine has reset")
        return 0
    say(f"run: {name}: {cause or 'the machine did not give itself back'}" + (f": {reason}" if reason else ""))
    return 1
