"""The two ways from Linux to the kernel, with one interface: what a way does, how it loads, leaves and unloads.
judge_grub.py and judge_kexec.py say what stops each. state.py remembers where the crash record lies.

    way     writes                              comes back by
    GRUB    /boot and /etc, by `install`        any reset: GRUB forgets the armed entry before it starts the kernel
    kexec   nothing but /run, which is memory   any reset: nothing is armed"""
import hashlib

from .ssh import RemoteError, as_line
from .verdict import GRUB, KEXEC

UNLOAD_SECONDS = 120                        # after a load: HOST unloads the kernel unless it is leaving Linux
# Settings of hosts that take a guest's reset for the machine's end.
NO_RESET = "(on_reboot=destroy, -no-reboot, Nomad, KubeVirt)"


class Grub:
    name = GRUB
    steps = ("grub-reboot peregrine: the next boot is the kernel's, the one after it Linux's; then reboot",)
    done = "grub-reboot: done"
    unloaded = "the kernel is not armed any more"
    uncertain = "one boot of the kernel may still be armed; peregrine uninstall disarms it"
    ended = (f"A host may take Linux' own reboot for the machine's end {NO_RESET}. Then the kernel is still armed: the "
             f"next start of the machine boots it, the one after that Linux")

    def load(self, host, boot):
        host.run(["way", "grub"], ["load"], timeout=60)


class Kexec:
    name = KEXEC
    steps = ("copy image and settings (mode 0600) to /run, load them by kexec, and remove them again",
             "leave Linux by systemctl kexec: services are stopped, file systems unmounted; any reset leads back")
    done = "kexec: done"
    unloaded = "the kernel is not loaded any more, and the machine stays in Linux"
    uncertain = (f"unless it is leaving Linux already, the machine stays there, and unloads the kernel by itself "
                 f"{UNLOAD_SECONDS} s after the load")
    ended = (f"A host may take the kernel's reset for the machine's end {NO_RESET}. Then start it there: nothing is "
             f"armed, and Linux boots")

    def load(self, host, boot):
        image, text = boot.image, boot.text.encode()
        sums = [hashlib.sha256(data).hexdigest() for data in (image, text)]
        host.run(["way", "kexec"], ["load", str(UNLOAD_SECONDS), *sums], as_line(text) + image, timeout=300)


WAYS = {way.name: way for way in (Grub(), Kexec())}


def leave(way, host, boot):
    """Loads the kernel and leaves Linux. Raises RemoteError, with the state in which HOST is."""
    try:
        way.load(host, boot)
        host.run(["way", way.name], ["leave"], timeout=60)
    except RemoteError as error:
        if undone := unload(way, host):
            raise RemoteError(f"{error}; {undone}", error.status) from None


def unload(way, host):
    """Takes the load back, for a boot that did not happen; says in words what came of it. Empty: Linux is on its way
    down, nothing was done."""
    try:
        answer = host.run(["way", way.name], ["unload"], timeout=60)
    except RemoteError as error:
        return f"{way.uncertain} ({error})"
    said = " / ".join(answer.decode(errors="replace").split("\n")).strip(" /")
    if said == "leaving":
        return ""
    return f"{way.unloaded}. There it says: {said}" if said else way.unloaded
