#!/usr/bin/python3
"""Runs a hosted program on an emulated processor that has AVX-512 (Bochs, Intel Skylake-X), for machines without it.

    tests/matcher/bochs.py 'build/host/tests/matcher/matcher_check online 1 10000 avx512' ...

Each argument is a command; its program and libraries go into an initramfs under Debian's cloud kernel, its output comes
here. Exit status: 0 if all commands ended with 0, 1 if one did not, 2 if Bochs or the guest failed.

Bochs counts an instruction as one tick of the TSC, and this guest takes the TSC for one of 3500 MHz. So the nanoseconds
that a program measures, times 3.5, are instructions. Some 20 million of them run in a second."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from workshop.vm import linux_guest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Bochs knows no XSAVES layout that Linux accepts. No other clock than the TSC is worth having here.
GUEST_WORDS = "console=ttyS0 quiet mitigations=off nosmp tsc=reliable lpj=1000000 clearcpuid=xsaves,xsavec"
GRUB_CONFIG = f"set timeout=0\nmenuentry linux {{\nlinux /vmlinuz {GUEST_WORDS}\ninitrd /initramfs\n}}\n"
BOCHS_CONFIG = """cpu: model=corei7_skylake_x, count=1, ips=50000000, reset_on_triple_fault=0
memory: guest=512, host=512
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path={iso}, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={serial}
display_library: term
log: {log}
panic: action=fatal
clock: sync=none
"""
BEGIN, END = "bochs: begin", "bochs: all done"


def make_iso(work, commands):
    """Makes the CD that boots the guest. Its init runs the commands one after the other."""
    programs = {command.split()[0]: f"program{k}" for k, command in enumerate(commands)}
    init = f"#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\necho '{BEGIN}'\n"
    for command in commands:
        path, *words = command.split()
        init += f"echo '$ {command}'\n/{programs[path]} {' '.join(words)} 2>&1\necho \"exit status $?\"\n"
    init += f"echo '{END}'\n/bin/busybox sleep 1\n/bin/busybox poweroff -f\n"
    tree = linux_guest.kernel_tree()
    (work / "cd/boot/grub").mkdir(parents=True)
    (work / "cd/boot/grub/grub.cfg").write_text(GRUB_CONFIG)
    shutil.copy(next(tree.glob("boot/vmlinuz-*")), work / "cd/vmlinuz")
    files = linux_guest.program_files(**{name: path for path, name in programs.items()})
    (work / "cd/initramfs").write_bytes(linux_guest.initramfs(files, init))
    subprocess.run(["grub-mkrescue", "-o", work / "guest.iso", work / "cd"], check=True, stderr=subprocess.DEVNULL)


def print_output(bochs, serial, log):
    """Prints the commands' output until the guest is done. Returns the number of commands that failed, or None if the
    guest ended too early."""
    seen, failed, begun = b"", 0, False
    while True:
        ended = bochs.poll() is not None
        seen += serial.read()
        *lines, seen = seen.split(b"\n")
        for line in (line.decode(errors="replace").rstrip("\r") for line in lines):
            if line == END:
                return failed
            if begun and not re.match(r"\[ *\d+\.\d{6}\] ", line):     # no line of Linux
                print(line, flush=True)
            begun |= line == BEGIN
            failed += bool(re.fullmatch("exit status [1-9][0-9]*", line))
        if ended:
            print(f"bochs: the guest ended early; the end of Bochs' log:\n{log.read_text()[-1000:]}", file=sys.stderr)
            return None
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="+", help="PROGRAM WORD..., without quoting inside")
    commands = parser.parse_args().command
    for program in ("bochs", "script"):
        if not shutil.which(program):
            sys.exit(f"bochs.py: there is no {program}: apt-get install bochs bochs-term bochsbios vgabios bsdutils")
    for command in commands:
        if not pathlib.Path(command.split()[0]).is_file():
            sys.exit(f"bochs.py: {command.split()[0]}: no such program; make host, or make check-matcher-long")
    with tempfile.TemporaryDirectory(prefix="peregrine-bochs-") as name:
        work = pathlib.Path(name)
        make_iso(work, commands)
        serial, log = work / "serial", work / "log"
        serial.touch()
        (work / "bochsrc").write_text(BOCHS_CONFIG.format(iso=work / "guest.iso", serial=serial, log=log))
        # Bochs' debugger needs a terminal, and a command to go on.
        bochs = subprocess.Popen(["script", "-qfc", f"bochs -q -f {work / 'bochsrc'}", "/dev/null"],
                                 stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            bochs.stdin.write(b"c\n")
            bochs.stdin.flush()
            with serial.open("rb") as output:
                failed = print_output(bochs, output, log)
            bochs.wait(60)          # the guest turns itself off
        finally:
            bochs.terminate()
            bochs.wait()
    return 2 if failed is None else int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
