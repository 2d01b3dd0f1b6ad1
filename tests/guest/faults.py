"""The fault table: one row for each fault of a run. A row passes if QMP reports the machine's reset, and the crash
record in the machine's memory names the cause.

Rows with a game play against `contest serve`. Their `scenario` gets the game and the running guest, and causes the
fault."""
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import os
import random
import socket
import threading
import time

from tests.guest import recorded_run
from tests.lib.waiting import wait_for

from deploy import control

KEY = "a-key-for-tests"
PLAYER = "user=u passwd=p n=12 m=823,108"
NOBODY = f"feed=10.0.2.2:1 submit=10.0.2.2:2 {PLAYER}"  # a game without servers
GAME = "feed=10.0.2.2:{input} submit=10.0.2.2:{output} " + PLAYER

NIC = ("-device", "virtio-net-pci,netdev=n,id=nic,addr=5")
USER = ("-netdev", "user,id=n,hostfwd=udp:127.0.0.1:{udp}-:18247", *NIC)
VISITED = ("-netdev", "user,id=n,hostfwd=udp:127.0.0.1:{udp}-:18247,hostfwd=tcp:127.0.0.1:{udp}-:80", *NIC)
SILENCE = ("-netdev", "hubport,id=n,hubid=0", *NIC)     # a network without any other host
HUB = ("-netdev", "user,id=world", "-netdev", "hubport,id=end,hubid=0,netdev=world",
       "-netdev", "hubport,id=n,hubid=0", *NIC)
ROUND = "n=12 m=823,108"
SERVER = ("--burst", "20-60", "--interval", "0.05-0.1", "--rate", "10")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    words: str                          # the settings
    cause: str                          # the cause in the record
    options: tuple = ()                 # QEMU's
    machine: str = "pc"
    cpus: int = 1
    state: int = recorded_run.FAILED
    says: tuple = ()                    # regular expressions that the log must match
    game: tuple = None                  # options of the contest server; None: there is none
    game_round: str = ROUND             # the round that decides which answers are right
    scenario: object = None             # scenario(guest, game, udp); `udp` is the control channel's port
    check: object = None                # check(statistics of the record)


# ---- scenarios ----

def wait_until_it_waits(guest):
    guest.wait_for("waiting for the host")


def nmi(guest, game, udp):
    wait_until_it_waits(guest)
    guest.inject_nmi()


def machine_check(guest, game, udp):
    wait_until_it_waits(guest)
    # cpu 0, bank 1; VAL, UC, EN, PCC; then the global status MCIP
    guest.qmp("human-monitor-command", **{"command-line": "mce 0 1 0xb200000000000000 0x4 0 0"})


def until_playing(guest, game):
    guest.wait_for(r"input stream 1: HTTP 200")
    wait_for(lambda: game.board()["users"], "somebody submits")


def unplug(guest, game, udp):
    """Removes the NIC. This guest ignores the host's request. So the host writes to the port by which an operating
    system releases the device (QEMU docs/specs/acpi_pci_hotplug.txt, "PCI device eject register")."""
    until_playing(guest, game)
    guest.qmp("device_del", id="nic")
    guest.qmp("human-monitor-command", **{"command-line": f"o /w 0xae08 {1 << 5}"})
    guest.wait_event("DEVICE_DELETED")


def link_down(guest, game, udp):
    until_playing(guest, game)
    guest.qmp("set_link", name="n", up=False)


def link_down_unseen(guest, game, udp):
    guest.wait_for("network: up")
    guest.qmp("set_link", name="n", up=False)


def wire_cut(guest, game, udp):
    """Cuts the wire behind the hub: the link stays up, nothing comes or goes."""
    until_playing(guest, game)
    guest.qmp("set_link", name="world", up=False)


def server_stops(guest, game, udp):
    until_playing(guest, game)
    game.process.terminate()


def wait_for_wrong(guest, game, udp):
    until_playing(guest, game)
    wait_for(lambda: game.board()["users"][0]["wrong"] >= 3, "three results are wrong")


# ---- attacks on the control channel ----

def command(client, sock, which, key=KEY.encode()):
    """Returns the packet of a command with a genuine challenge. The command is genuine if `key` is."""
    challenge = None
    for _ in range(20):                         # a busy machine may answer late, or not at all
        nonce = os.urandom(16)
        client._send(sock, control.hello(nonce, client.key))
        challenge = next((found for data in client._datagrams(sock)
                          for _, found in [control.challenge_in(data, (nonce,))] if found), None)
        if challenge:
            break
    assert challenge, "no challenge"
    body = control.HEADER.pack(control.MAGIC, control.VERSION, control.COMMAND, control.COMMAND_BYTES) + nonce \
        + challenge + bytes([which]) + bytes(7)
    return body + hmac.new(key, body, hashlib.sha256).digest()


def attack_control(guest, game, udp):
    """Sends a flood of datagrams, commands forged without the key, and a replayed command. Then sends a genuine GG."""
    until_playing(guest, game)
    client = control.Client("127.0.0.1", KEY.encode(), udp)
    with client._socket() as sock:
        forged = command(client, sock, control.GG, b"another key altogether")
        for _ in range(2000):
            sock.send(os.urandom(96))
            sock.send(forged)
            sock.send(control.HEADER.pack(control.MAGIC, 1, control.HELLO, 64) + os.urandom(56))
    assert control.parse(client.status())["control.drop_mac"] >= 1
    with client._socket() as sock:
        genuine = command(client, sock, control.STATUS)
        sock.send(genuine)
        sock.send(genuine)
    assert guest.process.poll() is None
    control.Client("127.0.0.1", KEY.encode(), udp, timeout_s=5).gg()


def resets_survived(statistics):
    assert statistics["session.lost_reset"] + statistics["session.lost_closed"] >= 6, "nothing was lost"
    assert statistics["session.connected"] >= 8 and statistics["submit.results_points"] >= 3


def attacks_were_counted(statistics):
    assert statistics["control.commands_gg"] == 1
    for name in ("drop_mac", "drop_replayed", "drop_magic", "drop_rate"):
        assert statistics[f"control.{name}"] >= 1, name
    assert statistics["player.answers"] > 0


# ---- pools ----

class OverloadingServer:
    """Sends digits with more answers than the send queue holds, and never reads a submission."""

    def __init__(self, *_):
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.ports = dict(zip(("input", "output"), (s.getsockname()[1] for s in self.sockets)))
        self.open, self.stopping = [], False
        self.threads = [threading.Thread(target=self.serve, args=pair, daemon=True)
                        for pair in zip(self.sockets, (self.feed, lambda peer: None))]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for sock in [*self.sockets, *self.open]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def serve(self, sock, use):
        with contextlib.suppress(OSError):
            while not self.stopping:
                self.open.append(sock.accept()[0])
                use(self.open[-1])

    def feed(self, peer):
        digits = random.Random(1)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-type: text/plain\r\n\r\n")
        for _ in range(6):                      # some 20,000 answers each
            peer.sendall(bytes(digits.choices(b"0123456789", k=250)))
            time.sleep(0.05)


def empty_the_pools(guest, game, udp):
    guest.wait_for("input stream 1: HTTP 200")
    client = control.Client("127.0.0.1", KEY.encode(), udp)
    idle = [socket.create_connection(("127.0.0.1", udp)) for _ in range(8)]     # to the page, without a request

    def others_are_empty():
        statistics = control.parse(client.status())
        return (statistics["submit.dropped_no_room"] and statistics["submit.waited"]
                and statistics["status_page.refused_busy"] + statistics["status_page.evicted"] == 4)
    wait_for(others_are_empty, "all pools are empty")
    sent = collections.deque(maxlen=80)
    with client._socket() as sock:
        while len(sent) < 80 or sent[-1] - sent[0] > 9:     # 64 in 10 s are remembered
            sock.send(command(client, sock, control.STATUS))
            sent.append(time.monotonic())
            time.sleep(0.015)                   # slower than the rate at which HELLOs are answered
    for connection in idle:
        connection.close()
    guest.inject_nmi()                          # the guest can receive no GG any more


def pools_were_empty(statistics):
    assert statistics["submit.dropped_no_room"] > 0, "the send queue"
    assert statistics["submit.waited"] > 0, "the connection's message areas"
    assert statistics["control.drop_busy"] > 0, "the memory of used challenges"
    accepted, refused, evicted = (statistics[f"status_page.{name}"] for name in ("accepted", "refused_busy", "evicted"))
    assert (accepted - evicted, refused + evicted) == (4, 4), "the page's connections"


# ---- the rows ----

def trap(word, cause, **more):
    return Row(word, f"test.trap={word}", cause, **more)


TRAPS = [
    trap("divide", "divide error"), trap("debug", "debug"), Row("nmi", "test.trap=wait", "NMI", scenario=nmi),
    trap("breakpoint", "breakpoint"), trap("overflow", "overflow"), trap("bound", "bound range exceeded"),
    trap("opcode", "invalid opcode"), trap("device", "device not available"), trap("double", "double fault"),
    trap("vector-9", "coprocessor segment overrun"),
    Row("tss", "watchdog=off test.trap=tss", "invalid TSS"),  # the broken TSS has no stack for a tick
    trap("segment", "segment not present"), trap("stack-segment", "stack-segment fault"),
    trap("general", "general protection"), trap("null", "page fault"), trap("vector-15", "reserved"),
    trap("x87", "x87 floating-point error"), trap("vector-17", "alignment check"),
    Row("machine-check", "test.trap=wait", "machine check", scenario=machine_check),
    trap("vector-19", "SIMD floating-point exception"), trap("vector-20", "virtualization exception"),
    trap("vector-21", "control protection"),
    *[trap(f"vector-{n}", "reserved") for n in (22, 23, 24, 25, 26, 27, 31)],
    trap("vector-28", "hypervisor injection"), trap("vector-29", "VMM communication"),
    trap("vector-30", "security exception"),
    Row("stack-overflow", "test.trap=stack", "page fault", says=("stack overflow: .* the main stack",)),
    trap("nested", "a trap inside a trap"), trap("assert", "panic"), trap("panic", "panic"),
    *[Row(f"worker-{what}", f"cpus=all watchdog=1 test.trap=worker-{what}", f"worker 3: {cause}", says=says, cpus=4)
      for what, cause, says in [
        ("null", "page fault", ("worker 3, APIC id 3: page fault", "a NULL pointer", "trap_null", "worker_null")),
        ("assert", "panic", ("worker 3, APIC id 3: kernel/rescue/selftest.c:[0-9]+: assertion failed", "trap_assert")),
        ("hang", "stood still", ("worker 3, APIC id 3: stood still", "worker_hang")),
        ("stack", "page fault", ("stack overflow: .* the worker's stack",))]],
]

LOOPS = [
    Row("hang-pc", "watchdog=1 test.trap=hang", "watchdog: the loop stood still", cpus=2),
    Row("hang-q35", "watchdog=1 test.trap=hang", "watchdog: the loop stood still", cpus=2, machine="q35"),
    Row("hang-microvm", "watchdog=1 test.trap=hang", "watchdog: the loop stood still", cpus=2, machine="microvm"),
    Row("hang-deaf", "watchdog=1 test.trap=hang-deaf", "watchdog: the loop stood still and did not answer an NMI",
        cpus=2),
    Row("hang-one-cpu-pc", "watchdog=1 test.trap=hang", "watchdog: the loop stood still", says=("by a timer's NMI",)),
    Row("hang-one-cpu-q35", "watchdog=1 test.trap=hang", "watchdog: the loop stood still", machine="q35"),
    Row("hang-one-cpu-microvm", "watchdog=1 test.trap=hang", "watchdog: the loop stood still",
        machine="microvm,pit=on"),
    Row("hang-one-cpu-in-a-game", GAME + " watchdog=1 test.trap=hang test.after=1", "watchdog: the loop stood still",
        USER,
        game=SERVER),
    Row("hang-deaf-one-cpu", "watchdog=1 test.trap=hang-deaf",
        "watchdog: the loop stood still and did not answer an NMI"),
    # Without ACPI tables there is no I/O APIC. Only the device is left, and the record is the last second's.
    Row("hang-i6300esb", NOBODY + " watchdog=1 test.trap=hang test.after=1", "", (*USER, "-device", "i6300esb"),
        machine="pc,acpi=off", state=recorded_run.RUNNING,
        says=("no timer that can send an NMI", "i6300esb resets the machine after")),
]

FED = [
    Row("i6300esb-fed", NOBODY + " watchdog=1 deadline=12", "deadline", (*USER, "-device", "i6300esb"), machine="q35",
        says=("i6300esb resets the machine after 11000 ms",)),
]

RESETS = [
    Row("reset-by-acpi-q35", "test.resets=acpi test.trap=panic", "panic", machine="q35"),
    Row("reset-by-acpi-microvm", "test.resets=acpi test.trap=panic", "panic", machine="microvm"),
    Row("reset-by-cf9-pc", "test.resets=cf9 test.trap=panic", "panic"),
    Row("reset-by-cf9-q35", "test.resets=cf9 test.trap=panic", "panic", machine="q35"),
    Row("reset-by-8042-pc", "test.resets=8042 test.trap=panic", "panic"),
    Row("reset-by-8042-q35", "test.resets=8042 test.trap=panic", "panic", machine="q35"),
    Row("reset-by-triple-pc", "test.resets=triple test.trap=panic", "panic"),
    Row("reset-by-triple-microvm", "test.resets=cf9,8042,triple test.trap=panic", "panic", machine="microvm"),
]

NETWORK = [
    Row("settings-refused", "nonsense", "the settings cannot be used"),
    Row("no-nic", NOBODY, "no network device"),
    Row("nic-removed", GAME, "the network device failed", USER, game=SERVER, scenario=unplug),
    Row("link-down", GAME + " net.timeout=4", "network lost", USER, game=SERVER, scenario=link_down,
        says=("waiting for link",)),
    # The card reports no link: nothing comes any more, and the address stays.
    Row("card-deaf", NOBODY + " net.timeout=2 server.timeout=0", "network lost",
        ("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,status=off"), scenario=link_down_unseen,
        says=("no frame for 2[0-9]{3} ms, nor an answer to 4 ARP requests",)),
    Row("dhcp-silent", NOBODY + " net.timeout=1.5", "network lost", SILENCE, says=("waiting for DHCP",)),
    Row("gateway-never", NOBODY + " ip=10.0.2.15/24 gw=10.0.2.2 server.timeout=1.5", "server lost", SILENCE),
    Row("gateway-gone", GAME + " server.timeout=1", "server lost", HUB, game=SERVER, scenario=wire_cut),
    Row("server-never", NOBODY + " server.timeout=1", "server lost", USER, says=("refused",)),
    Row("server-gone", GAME + " server.timeout=1", "server lost", USER, game=SERVER, scenario=server_stops),
    Row("reset-every-second", GAME + " deadline=6", "deadline", USER,
        game=(*SERVER, "--close-after", "13", "--close-how", "rst"), check=resets_survived),
    # The watchdog's default is 30 s.
    Row("deadline", NOBODY + " deadline=1", "deadline", USER, says=("watchdog: after 30000 ms without a turn",)),
    Row("nobody-asks", NOBODY + f" idle.timeout=1 key={KEY}", "nobody asked", USER),
    Row("breaker", GAME + " breaker=3 breaker.linger=0.5", "submit breaker", USER, game=SERVER,
        game_round="n=12 m=1000003",
        scenario=wait_for_wrong, says=("breaker: open",)),
    Row("gg-forged-replayed-flooded", GAME + f" key={KEY}", "gg", USER, state=recorded_run.ORDERED, game=SERVER,
        scenario=attack_control,
        check=attacks_were_counted),
]

POOLS = [
    trap("memory", "panic", says=("no memory left",)),
    trap("sealed", "panic", says=("memory is sealed",)),
    Row("pools", GAME.replace("n=12 m=823,108", "n=256 m=3") + f" key={KEY} http.port=80", "NMI", VISITED,
        game=OverloadingServer, scenario=empty_the_pools, check=pools_were_empty),
]

ROWS = TRAPS + LOOPS + FED + RESETS + NETWORK + POOLS
