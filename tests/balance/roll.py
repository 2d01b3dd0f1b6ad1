#!/usr/bin/python3
"""A rolling upgrade of three machines that run app/digest/ behind HAProxy, under the load of balance.py.

    unshare -n tests/balance/roll.py [ansible]

Wants a network namespace of its own. Linux is a directory (tests/deploy/fakehost.py). Its kexec starts the kernel in
QEMU, on a TAP device of one bridge, with the settings that tools/peregrine has sent. The machines fly side by side.
Then `fly --rolling`, or the playbook of docs/balance.md, takes one after the other home and lets it fly again. Prints
the counts of wrk and HAProxy as JSON."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from tests.balance import balance
from tests.deploy.fakehost import ADDRESSES, ROUTES, FakeHost
from workshop.vm import qemu

BRIDGE_MAC = "52:54:00:00:00:01"
IMAGE = balance.BUILD / "digest/peregrine"
ANSIBLE = balance.ROOT / "build/third-party/ansible-core/usr"
# The program in ssh's place for all of them; `ssh -G` names the address of the kernel.
SSH = """#!/bin/sh
for word; do case $word in a|b|c) name=$word ;; esac; done
case " $* " in *" -G "*) echo hostname "$(cat "${0%/*}/$name/address")"; exit 0 ;; esac
exec "${0%/*}/$name/bin/ssh" "${0%/*}/$name" "$@"
"""
# In socat's place, which not every machine has: `socat - SOCKET`.
SOCAT = """import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[2])
    client.sendall(sys.stdin.buffer.read())
    sys.stdout.write(client.makefile().read())
"""
FLY = ("peregrine", "fly", "a", "b", "c", "--program", "digest", "--by", "kexec", "--config", "digest.conf")


class Machine(balance.Guest):
    def __init__(self, folder, number):
        super().__init__(number)
        self.folder = folder / "abc"[number]
        self.mac = f"52:54:00:12:34:{number:02}"

    def start(self):
        host = FakeHost(self.folder)
        (self.folder / "address").write_text(self.address)
        routes, addresses = (json.loads(json.dumps(part).replace("10.0.2.2", "10.77.0.1").replace(
            "10.0.2.15", self.address)) for part in (ROUTES, ADDRESSES))
        host.network(routes, addresses, [{"dst": "10.77.0.1", "dev": "eth0", "lladdr": BRIDGE_MAC,
                                          "state": ["REACHABLE"]}])
        host.file("/sys/class/net/eth0/address", self.mac + "\n")
        host.file("/proc/iomem", "00001000-0009fbff : System RAM\n00100000-0ffdcfff : System RAM\n")
        host.program("dmesg", "")
        words = [shutil.which("qemu-system-x86_64"), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                 "-M", "pc,accel=tcg", "-m", "256M", "-cpu", "max", "-kernel", f"{IMAGE}.elf", "-netdev",
                 f"tap,id=n,ifname=tap{self.number},script=no,downscript=no", "-device",
                 f"virtio-net-pci,netdev=n,mac={self.mac}", "-pidfile", self.folder / "pid", "-initrd"]
        host.reboots_into(f"""echo 1 >> {self.folder}/flights
    cp "$settings" "$ROOT/fake/flown"
    {shlex.join(map(str, words))} "$ROOT/fake/flown" """)

    def kill(self):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)

    def flights(self):
        return len((self.folder / "flights").read_text().split())


def run(folder, *words, code=0):
    """Runs a command of the operator, who is in the folder. Returns what it says, in which the key does not stand."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PEREGRINE_SSH": str(folder / "ssh"),
                   "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    done = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, preexec_fn=qemu.die_with_parent)
    assert done.returncode == code and balance.KEY not in done.stdout, done.stdout
    return done.stdout


def roll_by_tool(folder):
    said = run(folder, *FLY, "--rolling", "--haproxy", "stats")
    assert re.findall(r"(?m)^(\w): HAProxy: machines/(\w) is taken in$", said) == [(name, name) for name in "abc"], said


def roll_by_ansible(folder, page="http://{{ ansible_host }}/"):
    """Plays the page's playbook."""
    playbook = re.search(r"```yaml\n(.*?)```", (balance.ROOT / "docs/balance.md").read_text(), re.S)[1]
    (folder / "roll.yml").write_text(playbook.replace("/run/haproxy/admin.sock", str(folder / "stats")).replace(
        "http://{{ ansible_host }}/", page))
    (folder / "inventory").write_text("[machines]\n" + "".join(
        f"{name} ansible_host=10.77.0.{11 + number}\n" for number, name in enumerate("abc")))
    (folder / "socat").write_text(f"#!{sys.executable}\n{SOCAT}")
    (folder / "socat").chmod(0o755)
    said = run(folder, "env", f"PYTHONPATH={ANSIBLE}/lib/python3/dist-packages", sys.executable,
               ANSIBLE / "bin/ansible-playbook", "-i", "inventory", "roll.yml")
    assert len(re.findall(r"(?m)^[abc] +: ok=7 .* failed=0 ", said)) == 3, said


def play(folder, stack, roll):
    balance.set_up_network("qemu")
    balance.ip("link", "set", "bridge0", "address", BRIDGE_MAC)
    machines = [Machine(folder, number) for number in range(3)]
    for m in machines:
        m.start()
        stack.callback(m.kill)
    (folder / "ssh").write_text(SSH)
    (folder / "ssh").chmod(0o755)
    (folder / "peregrine").symlink_to(balance.ROOT / "tools/peregrine")
    (folder / "digest.conf").write_text(f"key={balance.KEY} port=8080 http.port=80 agent.port=81\n")
    (folder / "digest.conf").chmod(0o600)
    run(folder, *FLY)
    stack.enter_context(balance.balanced(machines, folder))
    load = balance.start_load(folder, "10.77.0.1")
    stack.callback(load.kill)
    roll(folder)
    found = balance.end_load(load, folder)
    found["flights"] = [m.flights() for m in machines]
    run(folder, "peregrine", "gg", "a", "b", "c", "--config", "digest.conf", code=3)   # no record outlives the guest
    return found


def main():
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        roll = roll_by_ansible if sys.argv[1:] == ["ansible"] else roll_by_tool
        print(json.dumps(play(pathlib.Path(name), stack, roll)))


if __name__ == "__main__":
    main()
