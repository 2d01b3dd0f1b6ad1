"""Judges what a HOST boots after a run of the kernel, by either way. It must be Linux, without a person's help, and a
Linux that was seen to boot there."""
import dataclasses
import fnmatch
import re

from . import facts as f
from .distribution import make_menu
from .verdict import GRUB, KEXEC

# Names of files that 10_linux makes entries of (grub-mkconfig_lib, grub_file_is_not_garbage), and other usual names of
# a kernel. memtest86+x64.bin, ipxe.lkrn and the like are left out, although `linux` loads them as well.
KERNEL_GARBAGE = re.compile(r"\.(old|sig|rpmsave|rpmnew|dpkg-.*)$")
KERNEL_NAME = re.compile(r"vmlinu[xz]|linux|kernel|bzimage", re.IGNORECASE)


@dataclasses.dataclass
class Default:
    """The entry that GRUB boots by default."""
    entries: list                           # all but ours
    wanted: str                             # the value of `default`
    edited: str                             # GRUB_DEFAULT, if by that the next menu boots another entry
    saved: bool                             # `default` is saved_entry
    custom: str                             # a default that replaces this one and next_entry
    blscfg: bool                            # the entries are files in /boot/loader/entries
    entry: object                           # None: the entry does not exist


def judge(facts, verdict, return_to):
    """Judges the return. Returns the default of GRUB, None if another loader boots HOST."""
    kernels = installed_kernels(facts)
    verdict.say("kernels", ", ".join(kernels) or "none named vmlinuz-*")
    _armed_by_others(facts, verdict)
    if not boots_by_grub(facts):
        verdict.say("default", "what the machine boots by itself")
        with verdict.only(KEXEC):
            if return_to or not _systemd_boot(facts, verdict):
                _unknown_kernel(facts, verdict, "it is not known which one boots by default", kernels, return_to)
        return None
    default = grub_default(facts)
    entry = default.entry
    given = facts.words("grub-settings").get("GRUB_DEFAULT", "")
    verdict.say(
        "default",
        f"GRUB_DEFAULT={given or 'unset'}{', saved_entry=' + (default.wanted or 'unset') if default.saved else ''}: "
        f"{entry.title if entry else 'no such entry'}{', ' + entry.kernel if entry and entry.kernel else ''}")
    set_it = "Run grub-set-default with" if default.saved else "In /etc/default/grub set GRUB_DEFAULT to"
    then = f"then run {make_menu(facts)}"
    if entry and entry.kind == "menuentry" and not KERNEL_NAME.search(entry.kernel):
        verdict.stop(f"the default entry {entry.title!r} starts no Linux, so the machine would not come back to it",
                     f"{set_it} an entry of Linux; {then}")
    elif entry and entry.kind == "menuentry":
        _password(facts, verdict, entry)
        listed = [e.kernel for e in default.entries if KERNEL_NAME.search(e.kernel)]
        _kernel_to_return_to(facts, verdict, entry, sorted({*kernels, *listed}), return_to)
    else:
        with verdict.only(GRUB):
            if entry:
                verdict.stop(f"the default entry {entry.title!r} is a submenu, so it is not known which kernel the "
                             f"machine would come back to",
                             f"{set_it} one entry of it, 'SUBMENU>ENTRY', or 0; {then}")
            elif default.entries:
                verdict.stop(f"the default entry {default.wanted!r} is not in grub.cfg, so it cannot be proved that "
                             f"Linux stays the default",
                             f"{set_it} one of the entries ('SUBMENU>ENTRY' for one in a submenu), or 0; {then}")
            else:
                verdict.stop("grub.cfg lists no entry at all", f"Run {make_menu(facts)}")
        with verdict.only(KEXEC):
            _unknown_kernel(facts, verdict, "it is not known which one GRUB boots by default", kernels, return_to)
    _menu_waits(facts, verdict)
    return default


def installed_kernels(facts):
    return [k for k in facts.lines("kernels") if k != "vmlinuz" and not KERNEL_GARBAGE.search(k)]


def boots_by_grub(facts):
    loader = facts.text("efi-loader")
    return facts.holds("grub-directory") and (not loader or loader.upper().startswith("GRUB"))


def _armed_by_others(facts, verdict):
    """Checks that nothing is armed for the next boot alone: it would take the place of the kernel, or of Linux after
    it."""
    if facts.holds("boot-next"):
        verdict.stop("the firmware has an order what to boot next (BootNext), for one boot alone",
                     "Reboot first, or run efibootmgr --delete-bootnext")
    if one_shot := facts.text("efi-one-shot").strip():
        verdict.stop(f"one boot of {one_shot!r} is armed already (LoaderEntryOneShot)",
                     "Reboot first, or run bootctl set-oneshot ''")
    if not boots_by_grub(facts):
        return
    armed = facts.words("grub-environment").get("next_entry", "")
    disarm = (f"{facts.text('grub-tools').strip() or 'grub'}-editenv {facts.text('grub-directory')}/grubenv unset "
              f"next_entry")
    if armed and not armed.startswith("peregrine"):
        verdict.stop(
            f"one boot of {armed!r} is armed already (grub-reboot), and a boot of the kernel would forget or meet that",
            f"Reboot first, or run {disarm}")
    elif armed:
        with verdict.only(GRUB):
            verdict.warn("one boot of the kernel is armed already: the next boot of this machine starts it",
                         f"install and uninstall disarm it; so does {disarm}")
        with verdict.only(KEXEC):
            verdict.stop("one boot of the kernel by GRUB is armed already: it would follow this one",
                         f"Run peregrine uninstall, or {disarm}")


def grub_default(facts):
    words, environment = facts.words("grub-settings"), facts.words("grub-environment")
    blscfg = facts.holds("grub-blscfg") or words.get("GRUB_ENABLE_BLSCFG") == "true"
    entries = [e for e in f.grub_entries(facts.lines("grub-entries")) if e.id != "peregrine"]
    if blscfg:
        entries = f.bls_entries(facts) + entries
    given = words.get("GRUB_DEFAULT", "") or "0"
    made, custom = _made_default(facts.lines("grub-defaults"))
    custom = _assigned([line for line in facts.lines("grub-custom") if line.startswith("default=")]) or custom
    present = custom or made or given
    wanted, next_wanted = (environment.get("saved_entry", "") if word == "saved" else word for word in (present, given))
    entry = resolve_default(entries, wanted)
    edited = not custom and resolve_default(entries, next_wanted) is not entry
    return Default(entries, wanted, given if edited else "", present == "saved", custom, blscfg, entry)


def _made_default(lines):
    """Returns two defaults that grub.cfg sets, from its lines that do: the one beside next_entry, and one that it sets
    later and in no `if`, as 40_custom may. Empty: there is none."""
    once = max((at for at, line in enumerate(lines) if "next_entry" in line), default=-1)
    after = lines[once + 1:]
    return _assigned(after[:1] or lines[:once]), _assigned([line for line in after[1:] if not line[:1].isspace()])


def _assigned(lines):
    """Returns the value of the last line, in the words of GRUB_DEFAULT; empty if there is none."""
    value = (lines or [""])[-1].partition("=")[2].strip("'\" ")
    return "saved" if "saved_entry" in value else value


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


def _kernel_to_return_to(facts, verdict, entry, kernels, return_to):
    """Checks that the default entry boots a kernel to return to.

    With several kernels the default must be the running one, which is known to boot here, or the one that the user
    names. `return_to`: its release or its file's name."""
    loaded = re.search(r"(?:^|\s)BOOT_IMAGE=(\S+)", facts.text("cmdline"))     # set by GRUB's `linux`
    running = {f"vmlinuz-{facts.text('kernel')}", *([loaded[1].rpartition("/")[2]] if loaded else ())}
    running -= _replaced(facts)
    release = _releases(facts).get(entry.kernel) or entry.kernel.removeprefix("vmlinuz-")
    if return_to and return_to not in (entry.kernel, entry.kernel.removeprefix("vmlinuz-"), release):
        verdict.stop(f"the machine would come back to {release}, the default, not to {return_to}",
                     "Make that the default (grub-set-default, or GRUB_DEFAULT and update-grub), or name the default")
    elif return_to or len(kernels) < 2 and (entry.kernel in running or not loaded):
        return
    elif entry.kernel in running:
        verdict.note(
            f"of {len(kernels)} kernels the machine comes back to {release}, which is the default and runs now")
    else:
        several = "several kernels are installed, and " if len(kernels) > 1 else ""
        verdict.stop(f"{several}the machine would come back to {release}, the default, while {facts.text('kernel')} "
                     f"runs: that the default boots here has not been seen",
                     f"Reboot into it and check again, or, if you know that it boots, say --return-to {release}")


def _systemd_boot(facts, verdict):
    """Checks that the default of systemd-boot is the entry that it has booted. Returns false if that is not known."""
    entries = {re.sub(r"\+\d+(-\d+)?$", "", entry.id): entry.kernel for entry in f.bls_entries(facts)}
    selected = facts.text("efi-selected").removesuffix(".conf")
    if selected not in entries or not facts.text("efi-loader").startswith("systemd-boot"):
        return False
    wanted = (facts.lines("loader-default") or ["*"])[0].strip().removesuffix(".conf")
    default = selected if wanted == "@saved" else (fnmatch.filter(entries, wanted) or list(entries))[0]
    if default != selected or entries[selected] in _replaced(facts):
        verdict.stop(f"the machine would come back to {default}, the default of systemd-boot, while {selected} with "
                     f"{facts.text('kernel')} runs: that the default boots here has not been seen",
                     "Reboot into it and check again, or, if you know that it boots, say --return-to KERNEL")
    return True


def _releases(facts):
    """Returns {file name: release} of kernels in /boot, by their own headers. An upgrade puts another kernel under a
    name without a release (vmlinuz-lts, vmlinuz-linux)."""
    return dict(line.split(" ") for line in facts.lines("kernel-releases") if line.count(" ") == 1)


def _replaced(facts):
    """Returns the names of kernels that are certainly not the running one."""
    return {name for name, release in _releases(facts).items() if release != facts.text("kernel")}


def _unknown_kernel(facts, verdict, why, kernels, return_to):
    """Judges a return to a kernel that no menu names: with several of them, the user must know that it boots."""
    kernels = [kernel for kernel in kernels if "rescue" not in kernel]
    if return_to and kernels and not {return_to, f"vmlinuz-{return_to}"} & set(kernels):
        verdict.stop(f"/boot holds no kernel {return_to}", f"Name one of {', '.join(kernels)}")
    elif return_to:
        verdict.note(f"the machine comes back to {return_to} by your word: {why}")
    elif len(kernels) > 1:
        verdict.stop(f"several kernels are installed, and {why}: that it boots here has not been seen",
                     "Remove the others, or, if you know which one it is and that it boots, say --return-to KERNEL")
    elif {*kernels} & _replaced(facts) and (facts.text("efi-loader") or "BOOT_IMAGE=" in facts.text("cmdline")):
        # Without a loader the host starts Linux, perhaps from a file of its own.
        release = _releases(facts)[kernels[0]]
        verdict.stop(f"the machine would come back to {release} ({kernels[0]}), while {facts.text('kernel')} runs: "
                     f"that it boots here has not been seen",
                     f"Reboot into it and check again, or, if you know that it boots, say --return-to {kernels[0]}")


def restricted(facts, entry):
    """Returns the entry, or the submenu around it, for which GRUB asks for a password; None if for neither.

    With superusers GRUB starts only unrestricted entries without one (GRUB manual, "Authentication")."""
    if not any(line.strip("'\" ") for line in facts.lines("grub-superusers")):
        return None
    while entry and entry.unrestricted:
        entry = entry.inside
    return entry


def _password(facts, verdict, entry):
    if entry := restricted(facts, entry):
        verdict.stop(f"GRUB asks for a password before it starts {entry.title!r}: after the run the machine would wait "
                     f"for a person",
                     f"Add --unrestricted to the menu entries of Linux (CLASS= in /etc/grub.d/10_linux); then run "
                     f"{make_menu(facts)}")


def _menu_waits(facts, verdict):
    """Checks that GRUB goes on by itself, without a person at the keyboard.

    GRUB's menu waits without end if `timeout` is negative, unset, or no number (GRUB, grub-core/normal/menu.c)."""
    made = [line.partition("=")[2].strip("'\" ") for line in facts.lines("grub-timeouts") + facts.lines("grub-custom")
            if line.startswith("timeout=")]
    waits = not made or not all(re.fullmatch(r"[0-9]+|.*\$.*", value) for value in made)
    words = facts.words("grub-settings")
    asked = next((f"{key}={words[key]}" for key in ("GRUB_TIMEOUT", "GRUB_RECORDFAIL_TIMEOUT")
                  if words.get(key, "").startswith("-")), None)
    with verdict.only("" if waits else GRUB):           # install makes grub.cfg again
        if asked:
            verdict.stop(f"{asked}: after the run GRUB would wait at its menu for a person",
                         f"Set {asked.partition('=')[0]}=5 in /etc/default/grub; then run {make_menu(facts)}")
        elif waits:
            verdict.stop(
                "grub.cfg sets no timeout, or a negative one: after the run GRUB would wait at its menu for a person",
                f"Set GRUB_TIMEOUT=5 in /etc/default/grub; then run {make_menu(facts)}")
