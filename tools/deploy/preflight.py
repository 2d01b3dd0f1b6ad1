"""Judges the facts of HOST: if the kernel can be booted there, which faults are in the way and what a user can do about
them. Collects the values that are handed over to the kernel."""
import dataclasses
import re

from . import facts as f
from . import settings

STOP, WARN, NOTE = "stop", "warning", "note"

# File systems of which GRUB can rewrite a block in place, by grub-probe's names (ext2 is ext2 to ext4). save_env works
# on block lists: copy-on-write file systems (btrfs, zfs) and layered disks (LVM, RAID, LUKS) cannot be written so.
GRUB_WRITABLE = {"ext2", "xfs", "fat"}

OTHER_NICS = {
    "ena": "AWS: Nitro machines have no virtio NIC",
    "hv_netvsc": "Azure: Hyper-V machines have no virtio NIC",
    "gve": "Google Cloud: choose the network interface type VirtIO-Net when the machine is made (not gVNIC)",
    "vmxnet3": "VMware: not a KVM machine",
    "xen-netfront": "Xen: not a KVM machine",
    "e1000": "set the NIC's model to virtio", "e1000e": "set the NIC's model to virtio",
    "8139cp": "set the NIC's model to virtio", "8139too": "set the NIC's model to virtio",
}

SPARE_KIB = 1024                            # in /boot, for the settings, the copies of GRUB's files, and as a reserve


@dataclasses.dataclass
class Finding:
    level: str
    text: str
    advice: str = ""


@dataclasses.dataclass
class Verdict:
    """Everything that `check` says, and what `install` uses."""
    report: list = dataclasses.field(default_factory=list)         # (name, value)
    findings: list = dataclasses.field(default_factory=list)
    handed_over: dict = dataclasses.field(default_factory=dict)    # settings words that Linux knows
    given: dict = dataclasses.field(default_factory=dict)          # the user's own settings words
    protocol: str = ""                          # multiboot2 or linux; "": neither
    needs_default_saved: bool = False
    default: str = ""                       # GRUB_DEFAULT as it is
    regions: list = dataclasses.field(default_factory=list)        # (address, bytes) of the black box

    def stop(self, text, advice=""):
        self.findings.append(Finding(STOP, text, advice))

    def warn(self, text, advice=""):
        self.findings.append(Finding(WARN, text, advice))

    def note(self, text, advice=""):
        self.findings.append(Finding(NOTE, text, advice))

    def say(self, what, value):
        self.report.append((what, value))

    @property
    def added(self):
        """Returns the settings words that are added to the user's own."""
        return settings.additions(self.given, self.handed_over)

    @property
    def stops(self):
        return [finding for finding in self.findings if finding.level == STOP]


def judge(facts, *, image_bytes=None, linux_protocol=True, return_to="", accept_changes=False, given=None,
          installed=None):
    """Judges the facts of HOST and returns the verdict.

    `image_bytes`: the size of the image that goes to /boot, if one does. `linux_protocol`: there is an image for the
    Linux boot protocol. `return_to`: the kernel that the default must be. `accept_changes`: the menu may change for
    others as well. `given`: the user's settings words (install). `installed`: the words that an earlier install added
    (fly)."""
    verdict = Verdict(given=given or {})
    if not facts.complete:
        verdict.stop("the facts arrived cut off", "Try again; if it stays so, see whether HOST's sh is a POSIX shell")
        return verdict
    _system(facts, verdict)
    _firmware(facts, verdict)
    if _grub(facts, verdict):
        _grub_once(facts, verdict)
        _grub_default(facts, verdict, return_to, accept_changes)
        _grub_waits(facts, verdict)
        _boot_protocol(facts, verdict, linux_protocol)
    _boot(facts, verdict, image_bytes)
    device = _nic(facts, verdict)
    if device:
        _network(facts, verdict, device)
    _processor(facts, verdict)
    _black_box(facts, verdict)
    _hang(verdict)
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


def _firmware(facts, verdict):
    uefi = facts.text("firmware") == "uefi"
    secure = facts.text("secure-boot").strip() == "1"
    verdict.say("firmware", f"UEFI, Secure Boot {'on' if secure else 'off'}" if uefi else "BIOS")
    if secure:
        verdict.stop("Secure Boot is on: the firmware and GRUB start only signed kernels, and this one is not signed",
                     "Turn Secure Boot off in the machine's settings at the cloud (often: Shielded VM, Trusted launch)")
    loader = facts.text("efi-loader")
    if loader and not loader.upper().startswith("GRUB"):
        verdict.stop(f"the machine is booted by {loader}, not by GRUB",
                     "grub-reboot arms GRUB alone; install GRUB as the boot loader")
    if facts.text("lockdown") and "[none]" not in facts.text("lockdown"):
        verdict.warn("the kernel is locked down: the crash record in memory cannot be read", _advise_log(verdict))


def _advise_log(verdict):
    return "" if "log" in verdict.given else "Add log=IP:PORT to have the log sent while the kernel runs"


def _grub(facts, verdict):
    if not facts.holds("grub-directory"):
        verdict.stop("there is no GRUB here: neither /boot/grub/grub.cfg nor /boot/grub2/grub.cfg",
                     "The machine must be booted by GRUB 2; a container or a directly booted kernel will not do")
        return False
    if not facts.holds("grub-tools"):
        verdict.stop("there is no grub-mkconfig", "Install GRUB's tools: apt-get install grub2-common")
        return False
    version = f.grub_version(facts)
    written = ".".join(f"{n:02}" if i else str(n) for i, n in enumerate(version)) if version else "unknown"
    verdict.say("GRUB", f"{written} in {facts.text('grub-directory')}")
    if version and version < (2, 0):
        verdict.stop("this GRUB is older than 2.00", "Upgrade it")
    if facts.lines("grub-tools-missing"):
        verdict.stop(f"missing: {', '.join(facts.lines('grub-tools-missing'))}",
                     "Install them: apt-get install grub2-common")
    return True


def _grub_once(facts, verdict):
    """Checks that GRUB itself can forget grub-reboot: else the machine would boot into the kernel for ever."""
    layers, system = facts.text("grub-abstraction").split(), facts.text("grub-fs").strip()
    where = f"{facts.text('grub-device').strip() or 'unknown device'}, {system or 'unknown'}"
    verdict.say("boot disk", f"{where}{', ' + '+'.join(layers) if layers else ''}, partition table "
                             f"{facts.text('grub-partmap').strip() or 'none'}")
    reason = ("GRUB cannot write there, so it could not forget grub-reboot, "
              "and the machine would never come back to Linux")
    if layers:
        names = {"lvm": "LVM", "mdraid1x": "RAID", "mdraid09": "RAID", "cryptodisk": "encryption", "luks": "encryption"}
        verdict.stop(f"/boot lies on {' and '.join(sorted({names.get(x, x) for x in layers}))}: {reason}",
                     "A plain partition with ext4 for /boot is needed")
    elif system not in GRUB_WRITABLE:
        verdict.stop(f"/boot is on {system or 'a file system that GRUB does not know'}: {reason}",
                     "A partition with ext4 for /boot is needed")
    elif system == "fat" and _others_may(facts.text("grub-mode")):
        verdict.stop("/boot is on FAT, which keeps no modes of files: everybody on the machine could read the key in "
                     "the settings",
                     "Mount /boot with umask=0077 (in /etc/fstab), or use a partition with ext4")
    if facts.text("grub-once").strip() in ("", "0"):
        verdict.stop("grub.cfg does not look at next_entry, so grub-reboot has no effect", "Run update-grub")


def _others_may(mode):
    """Returns true if group or others have any right by a mode as `stat -c %a` prints it."""
    return bool(re.fullmatch("[0-7]+", mode.strip())) and int(mode, 8) & 0o077 != 0


def resolve_default(entries, wanted):
    """Returns the entry that GRUB takes for a value of `default`, or None: by number, title or id.

    A `>` stands between the levels of submenus (GRUB manual, "default")."""
    entry = None
    for part in (wanted or "0").split(">"):
        level = [e for e in entries if e.inside is entry]
        if re.fullmatch("[0-9]+", part):
            entry = level[int(part)] if len(part) < 6 and int(part) < len(level) else None
        else:
            entry = next((e for e in level if part in (e.title, e.id)), None)
        if entry is None:
            return None
    return entry


# Names of files that 10_linux makes entries of (grub-mkconfig_lib, grub_file_is_not_garbage), and other usual names of
# a kernel. memtest86+x64.bin, ipxe.lkrn and the like are left out, although `linux` loads them as well.
KERNEL_GARBAGE = re.compile(r"\.(old|sig|rpmsave|rpmnew|dpkg-.*)$")
KERNEL_NAME = re.compile(r"vmlinu[xz]|linux|kernel|bzimage", re.IGNORECASE)


def _grub_default(facts, verdict, return_to, accept_changes):
    words = facts.words("grub-settings")
    environment = facts.words("grub-environment")
    verdict.default = words.get("GRUB_DEFAULT", "")
    entries = [e for e in f.grub_entries(facts.lines("grub-entries")) if e.id != "peregrine"]
    linux = [e for e in entries if e.kind == "menuentry"]
    saved = verdict.default == "saved"
    wanted = environment.get("saved_entry", "") if saved else verdict.default
    entry = resolve_default(entries, wanted)
    verdict.needs_default_saved = not saved
    kernels = [k for k in facts.lines("kernels") if k != "vmlinuz" and not KERNEL_GARBAGE.search(k)]
    listed = [e.kernel for e in linux if KERNEL_NAME.search(e.kernel)]
    verdict.say("kernels", ", ".join(kernels) or "none named vmlinuz-*")
    verdict.say("default", f"GRUB_DEFAULT={verdict.default or 'unset'}"
                           f"{', saved_entry=' + (wanted or 'unset') if saved else ''}: "
                           f"{entry.title if entry else 'no such entry'}"
                           f"{', ' + entry.kernel if entry and entry.kernel else ''}")
    set_it = "Run grub-set-default with" if saved else "In /etc/default/grub set GRUB_DEFAULT to"
    if words.get("GRUB_ENABLE_BLSCFG") == "true":
        verdict.stop("GRUB takes its entries from /boot/loader/entries (GRUB_ENABLE_BLSCFG), where this program "
                     "cannot prove "
                     "that Linux stays the default", "Set GRUB_ENABLE_BLSCFG=false and run grub2-mkconfig, or use "
                                                     "Debian or Ubuntu")
    elif not linux:
        verdict.stop("grub.cfg lists no entry at all", "Run update-grub")
    elif not entry:
        verdict.stop(f"the default entry {wanted!r} is not in grub.cfg, so it cannot be proved that Linux stays the "
                     f"default",
                     f"{set_it} one of the entries ('SUBMENU>ENTRY' for one in a submenu), or 0; then run update-grub")
    elif entry.kind == "submenu":
        verdict.stop(f"the default entry {entry.title!r} is a submenu, so it cannot be told which kernel the machine "
                     f"would come back to",
                     f"{set_it} one entry of it, 'SUBMENU>ENTRY', or 0; then run update-grub")
    elif not KERNEL_NAME.search(entry.kernel):
        verdict.stop(f"the default entry {entry.title!r} starts no Linux, so the machine would not come back to it",
                     f"{set_it} an entry of Linux; then run update-grub")
    else:
        _password(facts, verdict, entry, linux[0])
        _kernel_to_return_to(facts, verdict, entry, sorted({*kernels, *listed}), return_to)
        missing = [kernel for kernel in kernels if kernel not in listed]
        if missing and not accept_changes:
            verdict.stop(f"{', '.join(missing)} in /boot {'is' if len(missing) == 1 else 'are'} not in GRUB's menu; "
                         f"install makes the "
                         "menu again, and another kernel than now could become the default",
                         "Run update-grub, reboot, and check again")
    armed = environment.get("next_entry", "")
    if armed.startswith("peregrine"):
        verdict.warn("one boot of the kernel is armed already: the next boot of this machine starts it",
                     f"install and uninstall disarm it; so does grub-editenv {facts.text('grub-directory')}/grubenv "
                     f"unset next_entry")
    elif armed:
        verdict.stop(f"one boot of {armed!r} is armed already (grub-reboot), and arming the kernel would forget that",
                     f"Reboot first, or run grub-editenv {facts.text('grub-directory')}/grubenv unset next_entry")
    if not saved and facts.holds("grub-default-overridden"):
        verdict.stop(f"GRUB_DEFAULT is set in {', '.join(facts.lines('grub-default-overridden'))}, which overrides "
                     f"/etc/default/grub",
                     "Set GRUB_DEFAULT=saved there, run grub-set-default 0 and update-grub")


def _kernel_to_return_to(facts, verdict, entry, kernels, return_to):
    """Checks that the default entry boots a kernel to return to.

    With several kernels the default must be the running one, which is known to boot here, or the one that the user
    names. `return_to`: its release or its file's name."""
    loaded = re.search(r"(?:^|\s)BOOT_IMAGE=(\S+)", facts.text("cmdline"))     # set by GRUB's `linux`
    running = {f"vmlinuz-{facts.text('kernel')}", *([loaded[1].rpartition("/")[2]] if loaded else ())}
    release = entry.kernel.removeprefix("vmlinuz-")
    if return_to and return_to not in (entry.kernel, release):
        verdict.stop(f"the machine would come back to {release}, the default, not to {return_to}",
                     "Make that the default (grub-set-default, or GRUB_DEFAULT and update-grub), or name the default")
    elif return_to or len(kernels) < 2:
        return
    elif entry.kernel in running:
        verdict.note(f"of {len(kernels)} kernels the machine comes back to {release}, "
                     "which is the default and runs now")
    else:
        verdict.stop(f"several kernels are installed, and the machine would come back to {release}, the default, while "
                     f"{facts.text('kernel')} runs: that the default boots here has not been seen",
                     f"Reboot into it and check again, or, if you know that it boots, say --return-to {release}")


def _password(facts, verdict, *entries):
    """Checks GRUB's password. With superusers GRUB starts only unrestricted entries without a password (GRUB manual,
    "Authentication")."""
    if not any(line.strip("'\" ") for line in facts.lines("grub-superusers")):
        return
    for entry in entries:
        while entry and entry.unrestricted:
            entry = entry.inside
        if entry:
            verdict.stop(f"GRUB asks for a password before it starts {entry.title!r}: after the run the machine "
                         f"would wait for a person",
                         "Add --unrestricted to the menu entries of Linux (CLASS= in /etc/grub.d/10_linux); then run "
                         "update-grub")
            return


def _grub_waits(facts, verdict):
    """Checks that GRUB goes on by itself, without a person at the keyboard.

    Its menu waits for ever if `timeout` is negative, unset, or no number (GRUB, grub-core/normal/menu.c)."""
    made = [line.partition("=")[2].strip("'\" ") for line in facts.lines("grub-timeouts")]
    words = facts.words("grub-settings")
    asked = {key: words.get(key, "") for key in ("GRUB_TIMEOUT", "GRUB_RECORDFAIL_TIMEOUT")}
    for key, value in asked.items():
        if value.startswith("-"):
            verdict.stop(f"{key}={value}: after the run GRUB would wait at its menu for a person",
                         f"Set {key}=5 in /etc/default/grub; then run update-grub")
            return
    if not made or not all(re.fullmatch(r"[0-9]+|.*\$.*", value) for value in made):
        verdict.stop("grub.cfg sets no timeout, or a negative one: after the run GRUB would wait at its menu for a "
                     "person",
                     "Set GRUB_TIMEOUT=5 in /etc/default/grub; then run update-grub")


def _boot_protocol(facts, verdict, linux_protocol):
    modules = facts.lines("grub-modules")
    if "multiboot2" in modules:
        verdict.protocol = "multiboot2"
    elif linux_protocol and ("linux" in modules or facts.holds("grub-signed")):
        verdict.protocol = "linux"
    names = {"multiboot2": "Multiboot2", "linux": "Linux boot protocol (this GRUB has no multiboot2)"}
    verdict.say("boot by", names.get(verdict.protocol, "none"))
    if not verdict.protocol:
        platform = "x86_64-efi" if facts.text("firmware") == "uefi" else "i386-pc"
        package = "grub-efi-amd64-bin" if platform == "x86_64-efi" else "grub-pc-bin"
        verdict.stop(f"{facts.text('grub-directory')}/{platform} holds no multiboot2.mod, so GRUB cannot start the "
                     f"kernel",
                     f"apt-get install {package}, then copy /usr/lib/grub/{platform}/multiboot2.mod there (the same "
                     f"version as the "
                     "other modules), or give a kernel with a Linux boot protocol header (--bzimage)")


def _boot(facts, verdict, image_bytes):
    free = facts.text("boot-free-kib").strip()
    if free.isdigit():
        verdict.say("/boot", f"{int(free) // 1024} MiB free on {facts.text('boot-device')}")
        needed = (image_bytes or 0) // 1024 + SPARE_KIB
        if image_bytes is not None and int(free) < needed:
            verdict.stop(f"/boot is full: {free} KiB free, {needed} KiB needed",
                         "Remove an old kernel: apt-get autoremove --purge")
    if not facts.holds("boot-writable"):
        verdict.stop("/boot is mounted read-only", "Mount it for writing: mount -o remount,rw /boot")
    if _others_may(facts.text("settings-mode")):
        verdict.stop(f"others on the machine can read the installed settings with their key (mode "
                     f"{facts.text('settings-mode')})",
                     "Put /boot on a file system that keeps modes, install again, and use another key")
    verdict.say("kexec", "there" if facts.holds("kexec") else "not there (only for fly --kexec)")


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
    if nic.features >> 33 & 1:
        verdict.stop("the NIC insists on an IOMMU (ACCESS_PLATFORM), as on confidential machines",
                     "Use an ordinary machine type")
    if nic.features >> 62 & 1:
        verdict.warn("the NIC is one half of a fail-over pair (STANDBY); only this half will be used")
    nics = [line.split()[0] for line in facts.lines("virtio-nics") if line.split()]
    if nics and nics[0] != nic.name:
        verdict.warn(f"there are several virtio NICs and the kernel takes the first it finds: {nics[0]}, while the "
                     f"default route "
                     f"leaves through {nic.name}", "Remove the others, or make the first one carry the default route")
    elif len(nics) > 1:
        verdict.note(f"of {len(nics)} virtio NICs the kernel takes the first, {nic.name}")
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
    lifetime = _lease_seconds(facts, nic.name, net.address)
    if lifetime and "ip" not in verdict.given:
        verdict.note(f"the address is leased for {lifetime // 60} more minutes, and a handed-over address is not "
                     f"renewed",
                     "For a longer run say ip=dhcp in the configuration")


def _lease_seconds(facts, device, address):
    for link in facts.json("address"):
        for info in link.get("addr_info", []):
            if link.get("ifname") == device and info.get("local") == address and info.get("dynamic"):
                seconds = info.get("valid_life_time", 0)
                return seconds if 0 < seconds < 0xffffffff else 0
    return 0


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
    names = {"ip": "Linux's address", "gw": "the gateway", "gwmac": "the gateway's hardware address", "mtu": "the MTU"}
    for key, name in names.items():
        now = verdict.handed_over.get(key, "none")
        if key in installed and installed[key] != now and not (key == "gwmac" and now == "none"):
            verdict.stop(f"{name} is {now}, and the installed settings say {key}={installed[key]}",
                         "Run peregrine install again")


def text(verdict):
    """Returns the report of `check`, as lines."""
    width = max((len(what) for what, _ in verdict.report), default=0)
    return [f"{what:{width}}  {value}" for what, value in verdict.report] + text_of_findings(verdict)


def text_of_findings(verdict, *, with_words=True):
    """Returns the values that are handed over and the findings, as lines: `install` shows all, `fly` no words."""
    lines = []
    if verdict.added and with_words:
        lines.append(f"hand over  {' '.join(f'{k}={v}' for k, v in verdict.added.items())}")
    for finding in verdict.findings:
        lines.append(f"{finding.level}: {finding.text}")
        if finding.advice:
            lines.append(f"    {finding.advice}")
    return lines
