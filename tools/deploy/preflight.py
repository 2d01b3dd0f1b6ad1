"""Judges the facts of HOST: if the kernel can be booted there, which faults are in the way and what a user can do about
them. Collects the values that are handed over to the kernel."""
import re

from . import facts as f
from . import judge_grub, judge_kexec, judge_return, settings
from .text import number
from .verdict import GRUB, KEXEC, Verdict, others_may

OTHER_NICS = {
    "ena": "AWS: Nitro machines have no virtio NIC",
    "hv_netvsc": "Azure: Hyper-V machines have no virtio NIC",
    "gve": "Google Cloud: choose the network interface type VirtIO-Net when the machine is made (not gVNIC)",
    "vmxnet3": "VMware: not a KVM machine",
    "xen-netfront": "Xen: not a KVM machine",
    "e1000": "set the NIC's model to virtio", "e1000e": "set the NIC's model to virtio",
    "8139cp": "set the NIC's model to virtio", "8139too": "set the NIC's model to virtio",
}

# Hosts, by a name in the DMI table, that are often set up to take a guest's reset for its end.
ENDS_AT_RESET = ("KubeVirt", "Firecracker")

SPARE_KIB = 1024                            # in /boot, for the settings, the copies of GRUB's files, and as a reserve


def judge(facts, *, image_bytes=None, kexec_bytes=None, linux_protocol=True, return_to="", accept_changes=False,
          given=None, installed=None):
    """Judges the facts of HOST for both ways and returns the verdict.

    `image_bytes`, `kexec_bytes`: the size of the image that goes to /boot or to /run. `linux_protocol`: there is an
    image for the Linux boot protocol. `return_to`: the kernel that the default must be. `accept_changes`: the menu may
    change for others as well. `given`: the user's settings words (install, fly). `installed`: the words that an earlier
    install added (fly)."""
    verdict = Verdict(given=given or {})
    if not facts.complete:
        verdict.stop("the facts arrived cut off", "Try again; if it stays so, see whether HOST's sh is a POSIX shell")
        return verdict
    _system(facts, verdict)
    _firmware(facts, verdict)
    default = judge_return.judge(facts, verdict, return_to)
    with verdict.only(GRUB):
        judge_grub.judge(facts, verdict, default, linux_protocol=linux_protocol, accept_changes=accept_changes)
        _boot(facts, verdict, image_bytes)
    with verdict.only(KEXEC):
        judge_kexec.judge(facts, verdict, kexec_bytes)
    device = _nic(facts, verdict)
    if device:
        _network(facts, verdict, device)
    _names(facts, verdict)
    _processor(facts, verdict)
    _black_box(facts, verdict)
    _hang(verdict)
    with verdict.only(GRUB):
        _changes(verdict, installed or {})
    return verdict


def _system(facts, verdict):
    release = facts.words("os-release")
    verdict.say("system", f"{release.get('PRETTY_NAME', 'unknown')}, Linux {facts.text('kernel')}")
    machine = " ".join(filter(None, (facts.text("vendor"), facts.text("product")))) or "unnamed"
    kind = facts.text("virtualisation") or "unknown"
    verdict.say("machine", f"{machine}, hypervisor {kind}")
    if facts.text("arch") != "x86_64":
        verdict.stop(f"the processor is {facts.text('arch')}", "The kernel runs on x86-64 alone")
    if kind not in ("kvm", "qemu", "amazon", "google", "unknown", "none"):
        verdict.warn(f"the hypervisor is {kind}; only KVM and QEMU are tested")
    ends = next((name for name in ENDS_AT_RESET if name.lower() in machine.lower()), None)
    if ends:
        verdict.warn(f"machines of {ends} may end at a reset of the guest, and then Linux does not come back",
                     "See that the machine is restarted at a reset (libvirt: on_reboot=restart)")


def _firmware(facts, verdict):
    uefi = facts.text("firmware") == "uefi"
    secure = facts.text("secure-boot").strip() == "1"
    verdict.say("firmware", f"UEFI, Secure Boot {'on' if secure else 'off'}" if uefi else "BIOS")
    if secure:
        verdict.stop("Secure Boot is on: firmware, GRUB and kexec start only signed kernels, and this is none",
                     "Turn Secure Boot off in the machine's settings at the cloud (often: Shielded VM, Trusted launch)")
    if facts.text("lockdown") and "[none]" not in facts.text("lockdown"):
        with verdict.only(GRUB):
            verdict.warn("the kernel is locked down: the crash record in memory cannot be read", _advise_log(verdict))


def _advise_log(verdict):
    return "" if "log" in verdict.given else "Add log=IP:PORT to have the log sent while the kernel runs"


def _boot(facts, verdict, image_bytes):
    free = facts.text("boot-free-kib").strip()
    if number(free) is not None:
        verdict.say("/boot", f"{int(free) // 1024} MiB free on {facts.text('boot-device')}")
        needed = (image_bytes or 0) // 1024 + SPARE_KIB
        if image_bytes is not None and int(free) < needed:
            verdict.stop(f"/boot is full: {free} KiB free, {needed} KiB needed",
                         "Remove an old kernel of Linux")
    if not facts.holds("boot-writable"):
        verdict.stop("/boot is mounted read-only", "Mount it for writing: mount -o remount,rw /boot")
    if others_may(facts.text("settings-mode")):
        verdict.stop(f"others on the machine can read the installed settings with their key (mode "
                     f"{facts.text('settings-mode')})",
                     "Put /boot on a file system that keeps modes, install again, and use another key")


def _nic(facts, verdict):
    nic = f.nic(facts)
    if not nic:
        if not facts.holds("route"):
            verdict.stop("there is no `ip` tool, or no IPv4 default route",
                         "Install iproute2; the machine needs an IPv4 default route")
        else:
            verdict.stop("no interface carries an IPv4 default route",
                         "The kernel speaks IPv4 alone and needs a way out")
        return None
    verdict.say("NIC", f"{nic.name}: {nic.driver or 'no driver'}, {nic.transport}{', ' + nic.pci if nic.pci else ''}"
                       f"{', behind a bridge' if len(nic.path) > 1 else ''}, {nic.mac}, MTU {nic.mtu}, {nic.queues} "
                       f"receive queue(s)")
    if nic.driver != "virtio_net":
        made_of = f" (made of {', '.join(nic.lower)})" if nic.lower else ""
        verdict.stop(f"{nic.name} is driven by {nic.driver or 'nothing physical'}{made_of}, not by virtio_net: the "
                     f"kernel has a "
                     "driver for virtio alone", OTHER_NICS.get(nic.driver, "Give the machine a virtio NIC that "
                                                                           "carries the default route"))
        return None
    verdict.say("features", " ".join(f.feature_names(nic.features)))
    behind = f.behind_the_nic(facts)
    if nic.features >> 33 & 1 and behind:
        verdict.stop(f"the NIC insists on ACCESS_PLATFORM, and this machine has an IOMMU or encrypted memory: {behind}",
                     "Use an ordinary machine type")
    if nic.features >> 62 & 1:
        verdict.warn("the NIC is one half of a fail-over pair (STANDBY); only this half will be used")
    if nic.mac_is_its_own:
        verdict.handed_over["nic"] = nic.mac
    nics = [line.split()[0] for line in facts.lines("virtio-nics") if line.split()]
    wanted = verdict.given.get("nic", nic.mac).lower()
    if wanted != nic.mac:
        verdict.warn(f"nic={wanted} is not {nic.name}, which carries the default route ({nic.mac})",
                     "Say ip= and gw= of the network that this card is in")
    elif nics and nics[0] != nic.name and "nic" not in verdict.given and not nic.mac_is_its_own:
        verdict.warn(f"there are several virtio NICs and the kernel takes the first it finds: {nics[0]}, while the "
                     f"default route leaves through {nic.name}, whose hardware address was set in Linux",
                     "Say nic= with the address that the host gave the card")
    elif len(nics) > 1:
        verdict.note(f"of {len(nics)} virtio NICs the kernel takes {nic.name}")
    return nic


def _network(facts, verdict, nic):
    net = f.network(facts, nic.name)
    options = f.dhcp_options(facts)
    if not net.address:
        verdict.stop(f"{nic.name} has no IPv4 address", "The kernel speaks IPv4 alone")
        return
    verdict.say("address", f"{net.address}/{net.length}{' by DHCP' if net.dynamic else ''}"
                           f"{', and ' + ', '.join(net.others) + ' (not used)' if net.others else ''}")
    verdict.say("gateway", f"{net.gateway or 'none'} {net.gateway_mac or '(hardware address unknown)'}"
                           f"{', outside the subnet' if net.onlink else ''}")
    if options:
        verdict.say("DHCP", ", ".join(f"{key} {value}" for key, value in options.items()))
    verdict.handed_over["ip"] = f"{net.address}/{net.length}"
    if net.gateway:
        verdict.handed_over["gw"] = net.gateway
        if net.gateway_mac and "FAILED" not in net.gateway_state:
            verdict.handed_over["gwmac"] = net.gateway_mac
        elif not verdict.given.keys() & {"ip", "gw", "gwmac"}:
            verdict.warn(f"the gateway {net.gateway} did not answer ARP here; the kernel will ask for itself")
    else:
        verdict.warn("the default route names no gateway; only hosts of the subnet can be reached")
    if nic.mtu < 576:
        verdict.stop(f"the MTU is {nic.mtu}", "The kernel needs 576 at least")
    verdict.handed_over["mtu"] = str(min(nic.mtu, 1500))
    if nic.mtu > 1500:
        verdict.note(f"the MTU is {nic.mtu}; the kernel uses 1500")
    lifetime, server = _lease_seconds(facts, nic.name, net.address), f.lease_server(facts, net.address)
    if lifetime // 2 and server:
        # Linux renews at half of a lease. Half of what is left now is left, too, when the kernel starts later.
        verdict.handed_over["lease"] = f"{lifetime // 2}@{server}"
    elif lifetime and "ip" not in verdict.given:
        verdict.note(f"the address is leased for {lifetime // 60} more minutes, and no lease here names the server "
                     f"that could renew it",
                     "For a longer run say ip=dhcp in the configuration")


def _lease_seconds(facts, device, address):
    for info in f.addresses_of(facts, device):
        if info["local"] == address and info.get("dynamic"):
            seconds = number(str(info.get("valid_life_time")), 0)
            return seconds if seconds < 0xffffffff else 0
    return 0


def _names(facts, verdict):
    for name in settings.host_names(verdict.given):
        if not facts.text(f"resolve {name}"):
            verdict.stop(f"the machine cannot resolve {name}", "Give an address in its place")


def _processor(facts, verdict):
    words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in facts.lines("processor"))}
    flags = set(words.get("flags", "").split())
    wide = [name for name in ("avx2", "bmi2", "avx512f", "avx512bw", "avx512vl", "avx512dq") if name in flags]
    verdict.say("processor", f"{words.get('model name', 'unknown')}, {facts.text('processors') or '?'} CPU(s), "
                             f"{' '.join(wide) or 'no AVX2'}")
    khz = f.tsc_khz(facts)
    unstable = f.tsc_unstable(facts)
    verdict.say("clock", f"{facts.text('clocksource') or 'unknown'}, TSC "
                         f"{f'{khz} kHz' if khz else 'frequency not in the log'}"
                         f"{', which Linux calls unstable' if unstable else ''}")
    if flags and "lm" not in flags:
        verdict.stop("the processor has no long mode")
    if khz and not unstable:
        verdict.handed_over["tsc.khz"] = str(khz)
    if flags and "constant_tsc" not in flags:
        verdict.note("the processor does not promise a TSC of constant rate; the kernel measures it at start")


# The places that docs/blackbox.md argues for. (address or fraction of the low RAM's end, bytes)
LOW_REGION = (0x90000, 0x8000)
FRACTIONS = ((1, 4), (3, 8), (1, 2))
REGION_BYTES = 128 << 10
REGION_FLOOR = 64 << 20                     # below it GRUB and Linux unpack themselves


def black_box_regions(rows):
    """Regions for the record from /proc/iomem's rows: whole inside System RAM, clear of the spot where GRUB loads."""
    ram = [(first, last) for first, last, name in rows if name == "System RAM"]
    end = max((last + 1 for first, last in ram if first < 1 << 32), default=0)
    wanted = [LOW_REGION] + [((end * a // b) & ~(REGION_BYTES - 1), REGION_BYTES) for a, b in FRACTIONS]
    inside = lambda address, size: any(first <= address and address + size - 1 <= last for first, last in ram)
    return [(address, size) for address, size in wanted
            if inside(address, size) and (address == LOW_REGION[0] or address >= REGION_FLOOR)]


def _black_box(facts, verdict):
    rows = f.memory_map(facts)
    readable = facts.text("kcore").split() == ["7f", "45", "4c", "46"]
    if rows and readable:
        verdict.regions = black_box_regions(rows)
    if verdict.regions:
        verdict.handed_over["blackbox"] = ",".join(f"0x{address:x},{size}" for address, size in verdict.regions)
    verdict.say("black box", " ".join(f"{size // 1024}K@0x{address:x}" for address, size in verdict.regions)
                or "nowhere")
    if not verdict.regions and "blackbox" not in verdict.given:
        why = "/proc/kcore is closed" if rows else "/proc/iomem hides its addresses"
        verdict.warn(f"no crash record in memory: {why}", _advise_log(verdict))


def _hang(verdict):
    """Reports the end of a hang, and warns if the watchdog is off: a kernel that hangs answers nobody."""
    watchdog = verdict.given.get("watchdog", "")
    verdict.say("a hang", "watchdog= ends it, after 30 s by default; without one the machine stands until somebody "
                          "resets it")
    if watchdog == "off" or re.fullmatch(r"0+(\.0*)?(ms|us)?", watchdog):
        verdict.warn(f"watchdog={watchdog}: if the kernel hangs, the machine stands until somebody resets it",
                     "Say watchdog=30")


def _changes(verdict, installed):
    """Warns of changes since install: the kernel would fly with the network of that time."""
    names = {"ip": "Linux's address", "gw": "the gateway", "gwmac": "the gateway's hardware address", "mtu": "the MTU",
             "nic": "the hardware address of the NIC with the default route"}
    for key, name in names.items():
        now = verdict.handed_over.get(key, "none")
        if key in installed and installed[key] != now and not (key == "gwmac" and now == "none"):
            verdict.stop(f"{name} is {now}, and the installed settings say {key}={installed[key]}",
                         "Run peregrine install again")
