"""Judges the facts of HOST: if the kernel can be booted there, which faults are in the way and what a user can do about
them. Collects the values that are handed over to the kernel. Each judge_*.py holds the rules of one subject."""
from . import judge_grub, judge_kexec, judge_machine, judge_network, judge_return, judge_waits
from .verdict import GRUB, KEXEC, Verdict


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
    judge_machine.judge(facts, verdict)
    default = judge_return.judge(facts, verdict, return_to)
    judge_waits.judge(facts, verdict)
    with verdict.only(GRUB):
        judge_grub.judge(facts, verdict, default, image_bytes=image_bytes, linux_protocol=linux_protocol,
                         accept_changes=accept_changes)
    with verdict.only(KEXEC):
        judge_kexec.judge(facts, verdict, kexec_bytes)
    judge_network.judge(facts, verdict)
    with verdict.only(GRUB):
        judge_network.judge_changes(verdict, installed or {})
    return verdict
