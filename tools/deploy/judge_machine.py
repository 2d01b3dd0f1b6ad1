"""Judges the machine of HOST: system, firmware, processor, the places of the crash record, and the end of a hang.
Collects the values of the machine that are handed over to the kernel."""
import re

from . import facts as f
from .distribution import install
from .verdict import GRUB

# Hosts, by a name in the DMI table, that are often set up to take a guest's reset for its end.
ENDS_AT_RESET = ("KubeVirt", "Firecracker")


def judge(facts, verdict):
    _system(facts, verdict)
    _firmware(facts, verdict)
    _processor(facts, verdict)
    _black_box(facts, verdict)
    _hang(verdict)


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
    if facts.lines("tools-missing"):
        verdict.stop(f"missing here: {', '.join(facts.lines('tools-missing'))}",
                     f"Install what has them: {install(facts, 'coreutils diffutils grep sed')}")
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
