"""A HOST that is a directory: a root file system with the few files that tools/peregrine reads. Its `ssh` runs the
remote scripts in the directory with a PATH of its own, which has only the programs of a minimal Linux. GRUB's
environment tool and its script checker are the real ones. GRUB's other tools, and those that ask the kernel, are
stand-ins.

`next_boot` does what GRUB's 00_header does, so a test can ask at any moment which system would boot."""
import contextlib
import json
import pathlib
import re
import shutil
import stat
import subprocess

from deploy import facts
from deploy.ssh import Host

ROOT = pathlib.Path(__file__).resolve().parents[2]

TOOLS = """[ awk basename cat chmod cmp cp cut dd df diff dirname echo env expr false find grep head ls mkdir
mktemp mv od printf readlink rm sed sha256sum sh sleep sort stat tail test touch tr true wc
grub-editenv grub-script-check""".split()

# The shell, and the multi-call binary that the other programs are, with the word that lists them.
USERLANDS = {"dash": ("dash", None, None), "bash": ("bash", None, None), "busybox": ("busybox", "busybox", "--list"),
             "uutils": ("dash", "coreutils", "--help")}

UUID = "0a1b2c3d-0000-4000-8000-00000000beef"
NEIGHBOUR = [{"dst": "10.0.2.2", "dev": "eth0", "lladdr": "52:55:0a:00:02:02", "state": ["REACHABLE"]}]
ROUTES = [{"dst": "default", "gateway": "10.0.2.2", "dev": "eth0", "flags": []}]
ADDRESSES = [{"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.0.2.15", "prefixlen": 24,
                                               "scope": "global"}]}]

MKCONFIG = r"""#!/bin/sh
# The parts of grub-mkconfig that the tests need: settings, the scripts of /etc/grub.d in order, -o FILE.
[ "$1" != --version ] || { echo "grub-mkconfig (GRUB) ${FAKE_GRUB_VERSION-2.06-13+deb12u1}"; exit 0; }
[ ! -e "$ROOT/fake/mkconfig-fails" ] || exit 1
. "$ROOT/etc/default/grub"
for f in "$ROOT"/etc/default/grub.d/*.cfg; do [ ! -e "$f" ] || . "$f"; done
export GRUB_DEFAULT GRUB_TIMEOUT GRUB_RECORDFAIL_TIMEOUT ROOT
[ "$GRUB_DEFAULT" != saved ] || GRUB_DEFAULT='${saved_entry}'
make() { for s in "$ROOT"/etc/grub.d/*; do [ ! -x "$s" ] || {
    echo "### BEGIN ${s#"$ROOT"} ###"; "$s" || exit 1; echo "### END ${s#"$ROOT"} ###"; }; done; }
if [ "$1" = -o ]; then make > "$2.new" && cat "$2.new" > "$2" && rm "$2.new"; else make; fi
"""
HEADER = r"""#!/bin/sh
cat <<END
if [ -s \$prefix/grubenv ]; then
  load_env
fi
if [ "\${next_entry}" ] ; then
   set default="\${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="${GRUB_DEFAULT:-0}"
fi
if [ "\${recordfail}" = 1 ] ; then
  set timeout=${GRUB_RECORDFAIL_TIMEOUT:-30}
else
  set timeout=${GRUB_TIMEOUT-5}
fi
END
"""
LINUX = r"""#!/bin/sh
for v in $(cd "$ROOT/boot" && ls -r vmlinuz-*); do v=${v#vmlinuz-}
printf "menuentry 'Debian GNU/Linux, with Linux %s' --class debian \$menuentry_id_option 'gnulinux-%s' {\n" $v $v
printf "\tlinux /boot/vmlinuz-%s root=/dev/vda1 ro\n}\n" $v
done
"""


# Loads nothing, and keeps what was given. A file fake/no-file or fake/no-segments holds the reason why the kernel says
# no to kexec_file_load or to kexec_load.
KEXEC = r"""#!/bin/sh
echo "$*" >> "$ROOT/fake/kexec-calls"
loaded=$ROOT/sys/kernel/kexec_loaded
case " $* " in
*" -u "*) echo 0 > "$loaded"; exit 0 ;;
*" -e "*) exec "$0-flight" ;;
*" -s "*) how=file ;;
*) how=segments ;;
esac
[ ! -e "$ROOT/fake/no-$how" ] || { cat "$ROOT/fake/no-$how" >&2; exit 1; }
for word; do case $word in --initrd=*) cp -p "${word#*=}" "$ROOT/fake/kexec-settings" ;; esac; done
ls -ld "$ROOT/run/peregrine" "$ROOT"/run/peregrine/* > "$ROOT/fake/kexec-modes"
echo 1 > "$loaded"
[ ! -e "$ROOT/fake/lost-when-loaded" ] || touch "$ROOT/fake/away"
"""


# systemctl while another program holds a lock (systemd-inhibit(1)).
INHIBITED = """echo 'Operation inhibited by "apt" (PID 7), reason is "Upgrade".' >&2; exit 1\n"""


class FakeHost(Host):
    def __init__(self, directory, *, grub="grub", userland="dash"):
        self.root = pathlib.Path(directory) / "root"
        self.bin = pathlib.Path(directory) / "bin"
        self.grub = self.root / "boot" / grub
        self.environment = {}
        self.bin.mkdir(parents=True)
        shell, binary, list_word = USERLANDS[userland]
        applets = subprocess.run([binary, list_word], capture_output=True, text=True).stdout if binary else ""
        for tool in TOOLS:
            name = shell if tool == "sh" else binary if tool in re.split(r"[,\s]+", applets) else tool
            real = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/bin")
            assert real, f"{name} is needed by this test"
            (self.bin / tool).symlink_to(real)
        self._fill()
        ssh = self.program("ssh", SSH)
        super().__init__("fake", (str(ssh), str(directory)))

    # ---- building it

    def program(self, name, body):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(body if body.startswith("#!") else "#!/bin/sh\n" + body)
        path.chmod(0o755)
        return path

    def file(self, path, text="", mode=0o644):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode()
        target.write_bytes(data)
        target.chmod(mode)
        return target

    def link(self, path, to):
        source = self.root / path.lstrip("/")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.symlink_to(to)

    def _fill(self):
        self.file("/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n')
        self.file("/proc/sys/kernel/random/boot_id", "first\n")
        self.file("/proc/cmdline", "root=/dev/vda1 ro\n")
        self.file("/proc/mounts", "/dev/vda1 / ext4 rw,relatime 0 0\n")
        self.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: fpu lm constant_tsc avx2 bmi2\n"
                                   "\nprocessor\t: 1\n")
        self.file("/proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 1900000 kB\n")
        self.file("/proc/iomem", "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00002000-00002fff : "
                                 "x\n"
                                 "00100000-7ffdcfff : System RAM\n  01000000-01ffffff : Kernel code\n")
        self.file("/proc/kcore", b"\x7fELF" + bytes(60))
        self.file("/sys/class/dmi/id/sys_vendor", "QEMU\n")
        self.file("/sys/kernel/kexec_loaded", "0\n")
        self.file("/proc/sys/kernel/kexec_load_disabled", "0\n")
        self.file("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "fake").mkdir()
        self.program("kexec", KEXEC)
        self.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n")
        self.file("/sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm\n")
        self.nic()
        self.file("/boot/vmlinuz-6.1.0-1-amd64", "linux\n")
        self.file("/etc/default/grub", "# settings\nGRUB_DEFAULT=0\nGRUB_TIMEOUT=5\n")
        self.file("/etc/grub.d/00_header", HEADER, 0o755)
        self.file("/etc/grub.d/10_linux", LINUX, 0o755)
        self.file("/etc/grub.d/README", "not executable\n")
        for module in ("normal", "multiboot2", "linux"):
            self.file(f"/boot/{self.grub.name}/i386-pc/{module}.mod")
        prefix = "grub2" if self.grub.name == "grub2" else "grub"
        self.program(f"{prefix}-mkconfig", MKCONFIG)
        if prefix != "grub":
            for tool in ("editenv", "script-check"):
                (self.bin / f"{prefix}-{tool}").symlink_to(shutil.which(f"grub-{tool}"))
        self.program(f"{prefix}-probe", f'case $1 in *fs_uuid) echo {UUID} ;; *=fs) cat "$ROOT/fake/fs" 2>/dev/null '
                                        f'|| echo ext2 ;;\n'
                     '*device) echo /dev/vda1 ;; *partmap) echo gpt ;; *abstraction) cat "$ROOT/fake/abstraction" '
                     '2>/dev/null ;; esac\nexit 0\n')
        self.program(f"{prefix}-mkrelpath", "echo /boot\n")
        self.program(f"{prefix}-reboot", f'case $1 in --boot-directory=*) shift ;; esac\n{prefix}-editenv '
                                         f'"$ROOT/boot/{self.grub.name}/grubenv" set "next_entry=$1"\n')
        self.program("id", "echo ${FAKE_ID-0}\n")
        self.program("uname", "case $1 in -m) echo ${FAKE_ARCH-x86_64} ;; *) echo 6.1.0-1-amd64 ;; esac\n")
        self.program("systemd-detect-virt", "echo kvm\n")
        self.program("dmesg", "echo '[    0.000000] tsc: Detected 2399.000 MHz processor'\n"
                              "echo '[    1.000000] tsc: Refined TSC clocksource calibration: 2399.998 MHz'\n")
        # A real fsync of a hundred small files takes most of a test's time. The stand-in checks that the files exist.
        self.program("sync", 'for f; do [ "$f" = -- ] || [ -e "$f" ] || exit 1; done\n')
        self.program("ping", "exit 0\n")
        self.program("getent", 'case $2 in feed.example) echo "192.0.2.7  STREAM feed.example" ;; *) exit 2 ;; esac\n')
        self.network(ROUTES, ADDRESSES, NEIGHBOUR)
        subprocess.run(["grub-editenv", self.grub / "grubenv", "create"], check=True)
        self.update_grub()

    def nic(self, driver="virtio_net", device="0x1000", features="1" * 33):
        shutil.rmtree(self.root / "sys/class/net", ignore_errors=True)
        shutil.rmtree(self.root / "sys/devices/pci0000:00", ignore_errors=True)
        pci = "/sys/devices/pci0000:00/0000:00:03.0"
        self.file(f"{pci}/vendor", "0x1af4\n")
        self.file(f"{pci}/device", device + "\n")
        self.file(f"{pci}/revision", "0x00\n")
        self.file(f"{pci}/virtio0/features", features + "\n")
        self.file(f"{pci}/virtio0/net/eth0/address", "52:54:00:12:34:56\n")
        self.file(f"{pci}/virtio0/net/eth0/addr_assign_type", "0\n")
        self.file(f"{pci}/virtio0/net/eth0/mtu", "1500\n")
        self.file(f"{pci}/virtio0/net/eth0/queues/rx-0/x")
        (self.root / "sys/bus/pci").mkdir(parents=True, exist_ok=True)
        (self.root / f"sys/bus/virtio/drivers/{driver}").mkdir(parents=True, exist_ok=True)
        self.link(f"{pci}/subsystem", self.root / "sys/bus/pci")
        self.link(f"{pci}/virtio0/driver", self.root / f"sys/bus/virtio/drivers/{driver}")
        self.link(f"{pci}/virtio0/net/eth0/device", self.root / pci.lstrip("/") / "virtio0")
        self.link("/sys/class/net/eth0", self.root / pci.lstrip("/") / "virtio0/net/eth0")

    def gvnic(self):
        """Makes the NIC a gVNIC, whose interface belongs to the PCI function itself."""
        self.nic()
        pci = self.root / "sys/devices/pci0000:00/0000:00:03.0"
        shutil.move(pci / "virtio0/net", pci / "net")
        shutil.rmtree(pci / "virtio0")
        self.file(f"/{pci.relative_to(self.root)}/vendor", "0x1ae0\n")
        self.file(f"/{pci.relative_to(self.root)}/device", "0x0042\n")
        (self.root / "sys/bus/pci/drivers/gve").mkdir(parents=True, exist_ok=True)
        for link, target in ((pci / "driver", "sys/bus/pci/drivers/gve"), (pci / "net/eth0/device", pci),
                             (self.root / "sys/class/net/eth0", pci / "net/eth0"),
                             (self.root / "sys/bus/pci/drivers/gve/0000:00:03.0", pci)):
            link.unlink(missing_ok=True)
            self.link(f"/{link.relative_to(self.root)}", self.root / target)

    def network(self, routes, addresses, neighbours):
        plain = "".join(f"default via {r['gateway']} dev {r['dev']}\\n" for r in routes if r["dst"] == "default"
                        and "gateway" in r)
        for name, value in (("route", routes), ("address", addresses), ("neigh", neighbours)):
            self.file(f"/fake/{name}.json", json.dumps(value))
        self.program("ip", f'[ "$1" != -j ] || {{ cat "$ROOT/fake/$3.json"; exit 0; }}\nprintf "{plain}"\n')

    def reboots_into(self, command):
        """Makes `systemctl reboot` obey grubenv, and `systemctl kexec` the loaded image. If that is the kernel, the
        shell command runs in place of Linux with $settings, and ssh does not answer meanwhile. Then Linux has a new
        boot id, and nothing that was in memory."""
        self.program("kexec-flight", f'''
settings=$ROOT/fake/kexec-settings
loaded=$ROOT/sys/kernel/kexec_loaded
if [ "$1" = reboot ] && [ "$(cat "$loaded")" = 1 ] && [ -z "$SYSTEMCTL_SKIP_AUTO_KEXEC" ]; then
    settings=                               # systemd starts what is loaded: another's
elif [ "$1" = reboot ]; then
    settings=$ROOT/boot/peregrine/settings
    [ "$(grub-editenv "$ROOT/boot/grub/grubenv" list | sed -n 's/^next_entry=//p')" = peregrine ] || settings=
    [ ! -e "$ROOT/fake/power-cut" ] || settings=
    [ -z "$settings" ] || grub-editenv "$ROOT/boot/grub/grubenv" set next_entry=
else
    [ "$(cat "$loaded")" = 1 ] || exit 1
fi
echo 0 > "$loaded"
rm -rf "$ROOT/run/peregrine"
if [ -n "$settings" ]; then
    echo away > "$ROOT/fake/away"
    {command}
    rm "$ROOT/fake/away"
fi
echo another $$ > "$ROOT/proc/sys/kernel/random/boot_id"
''')
        self.program("systemctl", '[ "$1" = reboot ] || [ "$1" = kexec ] || exit 0\nexec kexec-flight "$1"\n')
        self.breakable_ssh()

    def breakable_ssh(self):
        """Makes ssh fail while there is a file fake/away."""
        away = '[ ! -e "$directory/root/fake/away" ] || { sleep 0.2; exit 255; }\n'
        self.program("ssh", SSH.replace("while :;", away + "while :;", 1))

    # ---- asking it

    def update_grub(self):
        tool = next(self.bin.glob("grub*-mkconfig"))
        subprocess.run([tool, "-o", self.grub / "grub.cfg"], check=True, env=self.env())

    def env(self):
        return {"ROOT": str(self.root), "PATH": str(self.bin), **self.environment}

    def variables(self):
        path = self.grub / "grubenv"
        if not path.exists() or not path.stat().st_size:
            return {}
        text = subprocess.run(["grub-editenv", path, "list"], capture_output=True, text=True, check=True).stdout
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def next_boot(self):
        """Returns the id of the entry that GRUB would boot by 00_header's rules: a cut-off grub.cfg boots nothing."""
        config = self.grub / "grub.cfg"
        subprocess.run(["grub-script-check", config], check=True)
        text = config.read_text()
        entries = facts.grub_entries(text.splitlines())
        environment = self.variables()
        default = re.search(r'else\n\s*set default="(.*)"', text)[1]
        default = default.replace("${saved_entry}", environment.get("saved_entry", ""))
        wanted = environment.get("next_entry") or default or "0"
        if wanted.isdigit():
            return entries[int(wanted)].id
        return next((e.id for e in entries if wanted in (e.id, e.title)), entries[0].id)

    def tree(self):
        """Returns everything below /boot and /etc: {path: (mode, bytes)}."""
        found = {}
        for top in ("boot", "etc"):
            for path in sorted((self.root / top).rglob("*")):
                mode = stat.S_IMODE(path.stat().st_mode)
                found[str(path.relative_to(self.root))] = (oct(mode), path.read_bytes() if path.is_file() else None)
        return found

    @contextlib.contextmanager
    def unchanged(self):
        """Checks that the host is afterwards as before."""
        before = self.tree()
        yield
        assert self.tree() == before


# The program in ssh's place: `ssh DIRECTORY [options] HOST COMMAND`. The user's login shell is sh.
SSH = r"""#!/bin/sh
directory=$1
shift
case " $* " in *" -G "*) echo hostname 127.0.0.1; exit 0 ;; esac
while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done
shift
export ROOT="$directory/root" PATH="$directory/bin"
printf 'Welcome from .bashrc, %s' $$
exec sh -c "$*"
"""
