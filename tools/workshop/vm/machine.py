"""The machines that the kernel is started in: how it boots, what its NIC and its network are; and whether KVM works.

Turns a handful of words (those of `make run` and of the rows of tests/e2e) into options of QEMU."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import secrets
import subprocess
import tempfile
import time

from deploy import control as control_channel
from workshop.vm import ports
from workshop.vm import qemu                 # the tests' harness: one QEMU with serial line and QMP

ROOT = pathlib.Path(__file__).resolve().parents[3]

# PCI devices of virtio-net by the transport they offer; virtio 1.2 §4.1.2. `mmio` is for microvm alone.
NICS = {
    "legacy": "virtio-net-pci,disable-modern=on,disable-legacy=off",
    "transitional": "virtio-net-pci,disable-modern=off,disable-legacy=off",
    "modern": "virtio-net-pci,disable-modern=off,disable-legacy=on",
    "rootport": "virtio-net-pci,disable-modern=off,disable-legacy=on,bus=port0",
    "mmio": "virtio-net-device",
    "mmio-legacy": "virtio-net-device",
}
BOOTS = ("kernel", "bzimage", "iso", "microvm")
HOSTED = "linux"                # no machine at all: host/peregrine-linux on this one
# The CPU that QEMU shows. Without arch-capabilities: not every KVM lets a guest have that MSR; then QEMU 7.2 aborts.
CPUS = {"kvm": "host,-arch-capabilities", "tcg": "max"}
CONTROL_PORT = 18247            # the guest's: docs/settings.md
MAC = "52:54:00:12:34:56"

# The namespace of NET=tap: our side of the wire and the guest's.
TAP, TAP_HOST, TAP_GUEST, TAP_BITS = "tap0", "10.77.0.1", "10.77.0.2", 24
USER_HOST = "10.0.2.2"          # our loopback, seen from a guest in QEMU's user networking


@dataclasses.dataclass(frozen=True)
class Setup:
    boot: str = "kernel"
    firmware: str = "bios"
    nic: str = "transitional"
    nic_more: str = ""          # further properties of the NIC: ",mrg_rxbuf=off"
    net: str = "user"           # user | tap | vhost-user: another program is the device, at `socket`
    socket: str = ""
    cpus: int = 1
    memory: str = "256M"
    accelerator: str = "tcg"
    stack: str = ""             # own | lwip; "": whichever the image was built with
    module: bool = False        # the settings come in a file beside the image
    lease: bool = False         # the guest asks DHCP on TAP, too

    @property
    def host(self):
        """Returns the address where the player finds the contest."""
        return USER_HOST if self.net == "user" and self.boot != HOSTED else self.bind

    @property
    def bind(self):
        return "127.0.0.1" if self.net == "user" else TAP_HOST

    def words(self):
        """Returns the guest's settings that the network asks for."""
        return [] if self.net == "user" or self.lease else [f"ip={TAP_GUEST}/{TAP_BITS}", f"gw={TAP_HOST}"]


def cpus_text(count):
    return "1 CPU" if count == 1 else f"{count} CPUs"


def cpus_words(setup, words):
    """Returns the setting by which the kernel uses all CPUs of the machine, if the words have none of their own."""
    return [f"cpus={setup.cpus}"] if setup.cpus > 1 and not any(word.startswith("cpus=") for word in words) else []


def settings_text(setup, contest_round, endpoints, user, key, more=()):
    """Returns the guest's settings, as one line. They hold the hidden moduli: another program finds those."""
    return " ".join([*endpoints, f"user={user}", f"passwd={user}", f"n={contest_round.n}",
                     f"m={','.join(map(str, contest_round.constants))}", f"key={key}", *setup.words(), *more])


def unshare_words():
    """Returns the words in front of a command that is to have a network namespace of its own."""
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]


def set_up_namespace(tap=True):
    """Sets up a fresh namespace from inside: loopback, and our end of the wire to the guest. Raises OSError."""
    if tap:
        os.close(os.open("/dev/net/tun", os.O_RDWR))        # `ip` would not name it
    steps = [["link", "set", "lo", "up"]]
    if tap:
        steps += [["tuntap", "add", TAP, "mode", "tap"], ["addr", "add", f"{TAP_HOST}/{TAP_BITS}", "dev", TAP],
                  ["link", "set", TAP, "up"]]
    for words in steps:
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def tap_mac():
    """Returns the hardware address of our end of the wire. (sysfs may show another namespace's devices.)"""
    shown = subprocess.run(["ip", "-o", "link", "show", "dev", TAP], capture_output=True, text=True, check=True).stdout
    return re.search(r"link/ether (\S+)", shown)[1]


def send_gg(control, key):
    """Sends the command to leave. Returns (the last statistics, None), or (None, the reason of the failure).

    The machine's reset shows that it has left."""
    try:
        client = control_channel.Client(control[0], control_channel.key_from_text(key), control[1], timeout_s=5)
        return client.gg(), None
    except control_channel.ControlError as error:
        return None, str(error)


def image_of(stack):
    """Returns the image with that stack: the one of `make`, or the one that `make check` builds beside it."""
    if not stack or (qemu.BUILD / f"kernel/parts-{stack}").exists():
        return qemu.IMAGE
    return qemu.BUILD / "other/peregrine.elf"


def network_options(setup, forwards=()):
    """QEMU's options of the NIC and of what it is plugged into.

    `forwards` of the user's network: ("udp", a port of ours, the guest's port) and so on."""
    forward = "".join(f",hostfwd={kind}:127.0.0.1:{ours}-:{theirs}" for kind, ours, theirs in forwards)
    nets = {"user": f"user,id=net0{forward}", "tap": f"tap,id=net0,ifname={TAP},script=no,downscript=no",
            "vhost-user": "vhost-user,id=net0,chardev=device"}
    options = ["-netdev", nets[setup.net]]
    if setup.net == "vhost-user":       # the other program maps the guest's memory, and may restart
        options = ["-object", f"memory-backend-memfd,id=ram,size={setup.memory},share=on",
                   "-machine", "memory-backend=ram",
                   "-chardev", f"socket,id=device,path={setup.socket},reconnect=1", *options]
    if setup.nic == "rootport":
        options += ["-device", "pcie-root-port,id=port0,chassis=1"]
    return [*options, "-device", f"{NICS[setup.nic]},netdev=net0,mac={MAC}{setup.nic_more}"]


def start(setup, settings, directory):
    """Starts the machine; (machine, (address, port) of its control channel). `settings` is the text of its settings."""
    if setup.boot == HOSTED:
        control = ("127.0.0.1", ports.free_port(ports.UDP))
        return HostedPlayer([*settings.split(), f"control.port={control[1]}"]), control
    udp_port = ports.free_port(ports.UDP) if setup.net == "user" else None
    forwards = [("udp", udp_port, CONTROL_PORT)] if udp_port else []
    control = ("127.0.0.1", udp_port) if udp_port else (TAP_GUEST, CONTROL_PORT)
    return boot_image(setup, settings, directory, image_of(setup.stack), forwards), control


def boot_image(setup, settings, directory, image, forwards):
    """Starts QEMU with an image, and returns the machine."""
    module = None
    if setup.module:
        module = pathlib.Path(directory) / "settings"
        module.write_text("# one word a line\n" + settings.replace(" ", "\n") + "\n")
        settings = ""
    options, machine_type = [], "q35" if setup.nic == "rootport" else "pc"
    if setup.boot == "iso":
        path = qemu.make_iso(pathlib.Path(directory) / f"{secrets.token_hex(4)}.iso", settings, module, image)
        options += qemu.iso(path, setup.firmware)
    else:
        options += qemu.kernel(settings, module, image.with_suffix(".bzImage") if setup.boot == "bzimage" else image)
    if setup.boot == "microvm":
        # With ACPI tables they name the virtio-mmio devices; without, QEMU's command line does, as Firecracker's.
        old = setup.nic == "mmio-legacy"
        machine_type = f"microvm,acpi={'off' if old else 'on'}"
        options += ["-global", f"virtio-mmio.force-legacy={'on' if old else 'off'}"]
    options += network_options(setup, forwards)
    return qemu.Machine(options, machine=machine_type, memory=setup.memory, cpus=setup.cpus,
                        cpu=CPUS[setup.accelerator], accelerator=setup.accelerator)


class HostedPlayer:
    """The Linux player, with the face of a qemu.Machine: its end by GG stands for the reset."""

    def __init__(self, words):
        self.file = tempfile.TemporaryFile()
        self.process = subprocess.Popen([qemu.BUILD / "host/peregrine-linux", *words], stdin=subprocess.DEVNULL,
                                        stdout=self.file, stderr=self.file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(qemu.PATIENCE_S)
        self.file.close()

    @property
    def log(self):
        # pread: the file's own position is where the player writes.
        return os.pread(self.file.fileno(), 1 << 24, 0).decode()

    def wait_reset(self, seconds=qemu.PATIENCE_S):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"peregrine-linux did not end within {seconds} s") from error
        if code:
            raise AssertionError(f"peregrine-linux ended with {code}")


BOOT_S_MAX = 60                 # a machine that takes longer does not work


def boot(accelerator, seconds, image):
    """Boots an image without a NIC, so that it hands the machine back at once.

    Returns (the seconds that took, the finding in words); None if they were more than `seconds`."""
    begun = time.monotonic()
    try:
        with qemu.Machine([*qemu.kernel("probe=kvm", image=image), "-vga", "none"], accelerator=accelerator,
                          cpu=CPUS[accelerator]) as machine:
            machine.wait_reset(seconds)
    except qemu.Timeout:
        return None, f"a boot under {accelerator} did not end within {seconds:.3g} s"
    except (AssertionError, OSError) as error:
        return None, f"a boot under {accelerator} failed: {str(error).splitlines()[0]}"
    taken = time.monotonic() - begun
    return taken, f"a boot under {accelerator} took {taken:.2f} s"


def this_boot():
    """Names this boot of this machine, and its QEMU: as long as they are the same, KVM works or does not."""
    shown = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, timeout=qemu.PATIENCE_S)
    return [pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(), shown.stdout.partition("\n")[0]]


def probe_kvm(image=qemu.IMAGE, say=lambda text: None):
    """Returns (true if KVM works well enough to play, the finding in words). The build folder remembers both until the
    next boot; `say` gets a line if they must be found out.

    Some machines' KVM interprets every kernel instruction, at about 1400 cycles each and without SIMD: it opens, and
    is tens of times slower than TCG. Therefore a boot under KVM may take a second more than two under TCG."""
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError as error:
        return False, f"/dev/kvm does not open: {error.strerror}"
    memory, boot_name = qemu.BUILD / "kvm.json", this_boot()
    try:
        known = json.loads(memory.read_text())
        if known["boot"] == boot_name:
            return known["works"], known["finding"]
    except (OSError, ValueError, KeyError, TypeError):
        pass                    # nothing is known, or no JSON of ours
    say("checking if KVM works ...")
    tcg, finding = boot("tcg", BOOT_S_MAX, image)
    if tcg is None:
        return False, finding
    kvm, finding = boot("kvm", 1 + 2 * tcg, image)
    with contextlib.suppress(OSError):      # a tree that cannot be written
        memory.write_text(json.dumps({"boot": boot_name, "works": kvm is not None, "finding": finding}) + "\n")
    return kvm is not None, finding


def memory_bytes(text):
    """Parses 128M or 8G to bytes; None if the text is no size."""
    match = re.fullmatch(r"(\d+)([MG])", text)
    return int(match[1]) << {"M": 20, "G": 30}[match[2]] if match else None
