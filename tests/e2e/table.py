"""The table of end-to-end games: one row, one machine, one server, a few seconds of play.

Every value of every column occurs in some row; the full product would take hours. A row passes if:

- every offered answer was submitted, none was wrong, and none was submitted more often than it was offered;
- the GG packet brought the statistics and reset the machine;
- the driver's report names the transport that the row asks for.
"""
import dataclasses
import re
import sys

SMALL = "n=12 m=823,108,10000019 hidden=2^9*5^3"     # answers everywhere: by chance, overlapping, with tails of zeros
TWO = "n=40 m=104648257118348370704723119,20220217214410"
WIDE = "n=1024 m=3^100,104648257118348370704723119,2^75*3^50*7^25"


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    # the machine
    boot: str = "kernel"            # kernel | bzimage | iso | microvm; linux: the hosted player, without a machine
    firmware: str = "bios"          # bios | uefi
    nic: str = "transitional"       # legacy | transitional | modern | rootport | mmio | mmio-legacy
    nic_more: str = ""              # QEMU's properties of the NIC
    net: str = "user"               # user | tap | dpdk: testpmd is the device
    restart: bool = False           # testpmd is killed and started again while the game goes on
    cpus: int = 1
    memory: str = "256M"
    module: bool = False            # settings in a module file instead of on the command line
    stack: str = ""                 # own | lwip; "" is the one that the image was built with
    # the network of a TAP row: an address from a lease as clouds give it, else a static one
    lease: bool = False
    # the server
    body: str = "raw"               # raw | chunked
    start: str = "push"             # push | wait
    server: tuple = ()              # further options of `contest serve`
    front: str = ""                 # a server that stands before ours: of foreign.py, of hostile.py
    round: str = "online"           # a name, or the text of a round file
    added: bool = False             # the last modulus is added while the player plays
    seconds: float = 1.4            # seconds of play on an unhurried machine: 22 bursts a second
    # the player
    settings: tuple = ()
    # the expected results
    report: str = ""                # a regular expression for the driver's self-report; "" takes that of the NIC
    offered_min: int = 8


# The driver's self-report by NIC.
REPORTS = {
    "legacy": r"virtio-net: pci 00:\S+ 1af4:1000, legacy,",
    "transitional": r"virtio-net: pci 00:\S+ 1af4:1000, transitional ",
    "modern": r"virtio-net: pci 00:\S+ 1af4:1041, modern,",
    "rootport": r"virtio-net: pci 01:\S+ 1af4:1041, modern,",
    "mmio": r"virtio-net: mmio 0x\S+ mmio v2,",
    "mmio-legacy": r"virtio-net: mmio 0x\S+ mmio v1,",
}

ROWS = [
    # Boots.
    Row("kernel-user"),
    Row("iso-bios", boot="iso"),
    Row("iso-uefi", boot="iso", firmware="uefi", nic="modern"),
    Row("kernel-module", module=True, nic="modern"),
    Row("iso-module", boot="iso", module=True),
    Row("bzimage", boot="bzimage", nic="modern"),
    Row("bzimage-module", boot="bzimage", module=True, nic="legacy"),
    Row("microvm", boot="microvm", nic="mmio"),
    Row("microvm-version-1", boot="microvm", nic="mmio-legacy", body="chunked"),
    # NICs.
    Row("legacy", nic="legacy", start="wait"),
    Row("modern", nic="modern", body="chunked", start="wait"),
    Row("root-port", nic="rootport"),
    Row("no-mergeable-buffers", nic_more=",mrg_rxbuf=off,event_idx=off",
        report=r"features (?!.*(MRG_RXBUF|EVENT_IDX))"),
    Row("no-offloads", nic="legacy", nic_more=",csum=off,guest_csum=off,mrg_rxbuf=off,event_idx=off,host_mtu=576",
        report=r"legacy, .*mtu 576"),
    Row("large-queues", nic="legacy", nic_more=",rx_queue_size=1024,tx_queue_size=256",
        report=r"queues rx 1024 tx (256|1024)"),
    # Machines.
    Row("two-cpus", cpus=2, nic="modern"),
    Row("idle-work-on-second-cpu", cpus=2, settings=("cpus=2", "watchdog=5"), report=r"worker 1: APIC id \d+ is up"),
    Row("idle-work-without-second-cpu", settings=("cpus=2",), report=r"workers: 1 wanted, CPUs besides the first: 0"),
    Row("small-memory", memory="128M"),
    Row("large-memory", memory="8G", nic="modern"),
    Row("watched-by-nmi", settings=("watchdog=2",), report=r"watchdog: after 2000 ms without a turn, by a timer's NMI",
        round="onsite", server=("--rate", "14", "--burst", "50-100"), seconds=2.8),
    Row("sleeping", settings=("wait=sleep",), report=r"sleep: APIC timer \d+ kHz"),
    Row("sleeping-legacy", settings=("wait=sleep",), nic="legacy", nic_more=",event_idx=off", start="wait"),
    Row("wants-sleep-but-spins", settings=("wait=sleep",), boot="microvm", nic="mmio",
        report=r"wait=sleep: .* it spins"),
    # Networks.
    Row("tap", net="tap", report=r"features .*\bCSUM\b"),
    Row("tap-without-checksums", net="tap", nic_more=",csum=off,guest_csum=off", report=r"features (?!.*CSUM)"),
    Row("tap-legacy-cloud-lease", net="tap", nic="legacy", lease=True),
    Row("tap-modern-chunked", net="tap", nic="modern", body="chunked", start="wait", cpus=2),
    Row("tap-static-gateway-mac", net="tap", nic="rootport", settings=("gwmac=tap",)),
    # DPDK's testpmd as the device, behind vhost-user, as in clouds with a DPDK switch.
    Row("dpdk-modern", net="dpdk", nic="modern", report=r"modern, features .*EVENT_IDX.*MRG_RXBUF"),
    Row("dpdk-modern-plain", net="dpdk", nic="modern", nic_more=",mrg_rxbuf=off,event_idx=off",
        report=r"modern, features (?!.*(MRG_RXBUF|EVENT_IDX))"),
    Row("dpdk-legacy", net="dpdk", nic="legacy", nic_more=",event_idx=off",
        report=r"legacy, features (?!.*EVENT_IDX).*MRG_RXBUF"),
    Row("dpdk-legacy-plain", net="dpdk", nic="legacy", nic_more=",mrg_rxbuf=off",
        report=r"legacy, features (?!.*MRG_RXBUF).*EVENT_IDX"),
    Row("dpdk-killed-and-started", net="dpdk", nic="modern", restart=True, seconds=4),
    # The control channel.
    Row("constant-added", round=TWO, added=True, seconds=4),
    # Servers.
    Row("split-raw", server=("--split",)),
    Row("split-chunked-wait", body="chunked", start="wait", server=("--split",), nic="modern"),
    Row("connections-closed", server=("--close-after", "12"), seconds=2),
    Row("connections-closed-chunked-and-refused", body="chunked", seconds=3, nic="modern",
        server=("--close-after", "25", "--close-for", "0.3")),
    Row("connections-reset", net="tap", server=("--close-after", "15", "--close-how", "rst", "--close-wait", "0.5"),
        settings=("capture=1514,512",), seconds=2),
    Row("nginx", front="nginx", start="wait", body="raw"),
    Row("closes-never", front="closes-never", seconds=3, server=("--rate", "20"), offered_min=20),
    # The hosted player.
    Row("linux", boot="linux", report=r"playing"),
    Row("linux-chunked-split-closed", boot="linux", body="chunked", start="wait", seconds=2, report=r"playing",
        server=("--split", "--close-after", "15", "--close-for", "0.2")),
    Row("linux-two-threads", boot="linux", settings=("cpus=2",), server=("--rate", "6"), seconds=2.8,
        report=r"playing"),
    Row("linux-closes-never", boot="linux", front="closes-never", seconds=3, server=("--rate", "20"), offered_min=20,
        report=r"playing"),
    Row("linux-nginx", boot="linux", front="nginx", start="wait", report=r"playing"),
    # Rounds.
    Row("small-constants", round=SMALL, server=("--burst", "10-60")),
    Row("wide-answers", round=WIDE, server=("--rate", "6"), seconds=2.8, offered_min=5),
    Row("onsite", round="onsite", server=("--rate", "14", "--burst", "50-100"), seconds=2.8),
    Row("linux-onsite", boot="linux", round="onsite", server=("--rate", "40", "--burst", "20-60"), seconds=4.2,
        report=r"playing"),     # once an early answer lacked one of M4's factors 2
    Row("qualification-no-early", round="qualification", settings=("early=off",), nic="modern"),
]

# lwIP plays these rows only: a stack depends on the machine by its device interface, clock, lease and wake-ups alone.
# tests/transport checks both stacks against net/transport.h, segment by segment; tests/fuzz covers both.
LWIP_ROWS = ("kernel-user", "sleeping", "tap-legacy-cloud-lease", "tap-modern-chunked", "connections-reset")


def stacks_of(row):
    """Returns the stacks that play a row, in whichever image. The hosted player uses Linux' stack alone."""
    if row.boot == "linux":
        return ("",)
    return ("own", "lwip") if row.name in LWIP_ROWS else ("own",)


PLAYED = [dataclasses.replace(row, name=f"{row.name}-{stack}" if stack else row.name, stack=stack)
          for row in ROWS for stack in stacks_of(row)]


# Starts that must end in a message and in the machine's return: the words on the command line, QEMU's options, and the
# log's lines. {host} and {port} lead to a port where nobody listens.
@dataclasses.dataclass(frozen=True)
class BadStart:
    name: str
    settings: str
    says: tuple                     # regular expressions, all of which the log must match
    nic: bool = True
    silent_network: bool = False    # a network without any other host


GOOD_GAME = "feed=10.0.2.2:{port} submit=10.0.2.2:{port} user=u passwd=p n=256 m=823"

BAD_STARTS = [
    BadStart("no-server", GOOD_GAME + " server.timeout=4",
             (r"refused|no answer|timed out", r"back to Linux: .*server")),
    BadStart("no-dhcp", GOOD_GAME + " net.timeout=3", (r"DHCP", r"back to Linux: .*network"), silent_network=True),
    BadStart("no-gateway", GOOD_GAME + " ip=10.9.9.9/24 gw=10.9.9.1 server.timeout=3", (r"back to Linux: ",),
             silent_network=True),
    BadStart("no-nic", GOOD_GAME, (r"pci [0-9a-f]{2}:[0-9a-f]{2}\.\d 8086:", r"back to Linux: "), nic=False),
    BadStart("malformed-m", GOOD_GAME.replace("m=823", "m=823,1x8"), (r'm=: "1x8"', r"back to Linux: ")),
    BadStart("empty-m", GOOD_GAME.replace("m=823", "m="), (r'm=: ""', r"back to Linux: ")),
    BadStart("n-too-large", GOOD_GAME.replace("n=256", "n=1025"), (r'n=: "1025"', r"back to Linux: ")),
    BadStart("unknown-key", GOOD_GAME + " fee=1", (r'"fee": there is no such key', r"back to Linux: ")),
    BadStart("repeated-key", GOOD_GAME + " n=3", (r'"n": given twice', r"back to Linux: ")),
    BadStart("nothing-given", "", (r"feed= is missing", r"back to Linux: ")),
    BadStart("deadline", GOOD_GAME + " deadline=2", (r"back to Linux: .*deadline",)),
]


def row_named(name):
    named = {row.name: row for row in PLAYED}
    if name not in named:
        raise SystemExit(f"row.py: the table has no row {name!r}; it has {', '.join(named)}")
    return named[name]


def report_of(row):
    return re.compile(row.report or REPORTS[row.nic], re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write("\n".join(row.name for row in PLAYED) + "\n")
