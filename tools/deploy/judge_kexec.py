"""Judges a HOST for a boot by kexec: if Linux there loads the kernel, which needs no boot loader and no disk."""
from .distribution import install
from .text import number

SPARE_KIB = 256                             # in /run, for the settings and as a reserve


def judge(facts, verdict, image_bytes):
    loaded = facts.text("kexec-loaded").strip()
    if not facts.holds("kexec"):
        verdict.stop("there is no kexec here", f"Install it: {install(facts, 'kexec-tools')}")
    if not loaded:
        verdict.stop("this Linux has no kexec (/sys/kernel/kexec_loaded is not there)",
                     "Boot a kernel with CONFIG_KEXEC, as all distributions build it")
    elif loaded != "0":
        verdict.stop("another kernel is loaded for kexec already (kexec_loaded is 1)",
                     "See who loaded it; kexec -u unloads it")
    if facts.text("kexec-disabled").strip() not in ("", "0"):
        verdict.stop("kernel.kexec_load_disabled is 1, which lasts until Linux boots again",
                     "Take it out of /etc/sysctl.d and reboot")
    if facts.text("kexec-limit").strip() == "0":
        verdict.stop("kernel.kexec_load_limit_reboot is 0: no kernel may be loaded until Linux boots again",
                     "Take it out of /etc/sysctl.d and reboot")
    if facts.text("lockdown") and "[none]" not in facts.text("lockdown"):
        verdict.stop("Linux is locked down (/sys/kernel/security/lockdown) and loads only signed kernels",
                     "Boot it without lockdown= and without Secure Boot")
    free = facts.text("run-free-kib").strip()
    needed = (image_bytes or 0) // 1024 + SPARE_KIB
    if number(free, needed) < needed:
        verdict.stop(f"/run is full: {free} KiB free, {needed} KiB needed", "See what fills it: du -x /run")
