"""The facts that remote/probe.sh found on HOST, parsed. Knows the shapes of the tools' outputs, and judges nothing."""
import dataclasses
import ipaddress
import json
import re
import shlex

from .text import number


class Facts:
    """Texts by name, with the exit status of what printed them."""

    def __init__(self, text):
        self._texts, self._status = {}, {}
        name = None
        self.complete = False
        for line in text.split("\n"):      # splitlines() ends lines within a fact's text, too
            header = re.fullmatch(r"#fact (.+) ([0-9]{1,3})", line)
            if header:
                name = header[1]
                self._status[name], self._texts[name] = int(header[2]), []
            elif line == "#end":
                self.complete = True
            elif name and line.startswith(" "):
                self._texts[name].append(line[1:])

    def text(self, name):
        return "\n".join(self._texts.get(name, []))

    def lines(self, name):
        return self._texts.get(name, [])

    def has(self, name):
        return name in self._status

    def holds(self, name):
        """Returns true if the command was there and succeeded."""
        return self._status.get(name) == 0

    def json(self, name):
        """Returns the objects of a list, as `ip -j` prints it."""
        try:
            return _objects(json.loads(self.text(name) or "[]"))
        except (ValueError, RecursionError):
            return []

    def words(self, name):
        """Returns `KEY=value` lines as a dictionary, shell quotes taken off."""
        pairs = (line.partition("=") for line in self.lines(name))
        return {key.strip(): _unquote(value) for key, equals, value in pairs if equals}


def _objects(value):
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _hexadecimal(text):
    return int(text, 16) if re.fullmatch("(0x)?[0-9a-f]{1,8}", text) else 0


def _ipv4(text):
    """Returns an IPv4 address as it is written, or an empty text if it is none."""
    try:
        return str(ipaddress.IPv4Address(text)) if isinstance(text, str) else ""
    except ValueError:
        return ""


def _unquote(value):
    """Takes shell quotes off. os-release's values stand in quotes; values that our script prints do not."""
    try:
        return "".join(shlex.split(value)) if value[:1] in ("'", '"') else value
    except ValueError:
        return value


@dataclasses.dataclass
class Nic:
    name: str
    mac: str
    mac_is_its_own: bool                    # false: somebody has set the address in Linux
    mtu: int
    driver: str
    transport: str                          # "PCI, legacy", "PCI, transitional", "PCI, modern", "mmio", or a bus
    pci: str                                # 1af4:1000 rev 0, or empty
    path: list                              # the PCI addresses from the root to the device
    features: int                           # negotiated by Linux
    queues: int
    lower: list                             # the interfaces below a bond or the like


VIRTIO_NET_FEATURES = {                     # virtio 1.2 §5.1.3 and §6, the ones that matter here
    0: "CSUM", 1: "GUEST_CSUM", 3: "MTU", 5: "MAC", 15: "MRG_RXBUF", 16: "STATUS", 17: "CTRL_VQ", 22: "MQ",
    28: "INDIRECT_DESC", 29: "EVENT_IDX", 32: "VERSION_1", 33: "ACCESS_PLATFORM", 34: "RING_PACKED", 62: "STANDBY",
}


def feature_names(features):
    return [name for bit, name in VIRTIO_NET_FEATURES.items() if features >> bit & 1]


def nic(facts):
    words = facts.words("nic")
    if not words.get("name"):
        return None
    path = re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", words.get("path", ""))
    bits = words.get("features", "")[:128]
    features = sum(1 << i for i, bit in enumerate(bits) if bit == "1")      # sysfs prints bit 0 first
    pci, transport = "", words.get("bus", "") or "no bus"
    if words.get("bus") == "pci":
        vendor, device, revision = (_hexadecimal(words.get(f"pci_{k}", "")) for k in ("vendor", "device", "revision"))
        pci = f"{vendor:04x}:{device:04x} rev {revision}"
        # virtio 1.2 §4.1.2.1: 0x1040 + device type is modern only; 0x1000 has a legacy interface, and a modern one as
        # well if Linux could negotiate VERSION_1 on it.
        transport = "PCI" if words.get("driver") != "virtio_net" else \
            "PCI, modern" if device >= 0x1040 else "PCI, transitional" if features >> 32 & 1 else "PCI, legacy"
    elif "virtio-mmio" in words.get("path", "") or "virtio_mmio" in words.get("path", ""):
        transport = "mmio"
    return Nic(name=words["name"], mac=words.get("address", ""),
               mac_is_its_own=words.get("addr_assign_type") == "0", mtu=number(words.get("mtu"), 0),
               driver=words.get("driver", ""),
               transport=transport, pci=pci, path=path, features=features, queues=number(words.get("queues"), 0),
               lower=words.get("slaves", "").split())


def behind_the_nic(facts):
    """Returns the name of what stands between a NIC and memory, by the kernel's rule: an ACPI table, SEV or TDX."""
    tables = facts.text("acpi-tables").split()
    flags = re.search(r"^flags\s*:(.*)", facts.text("processor"), re.MULTILINE)
    flags = flags[1].split() if flags else []
    return next((table for table in ("DMAR", "IVRS", "VIOT") if table in tables), "") or \
        ("TDX" if "tdx_guest" in flags else "SEV" if "sev" in flags else "")


@dataclasses.dataclass
class Network:
    address: str = ""
    length: int = 0
    dynamic: bool = False                   # Linux has it from DHCP
    gateway: str = ""
    gateway_mac: str = ""
    gateway_state: str = ""                 # the state of Linux's neighbour entry
    onlink: bool = False                    # the gateway lies outside the subnet
    others: tuple = ()                      # further addresses of the interface


def network(facts, device):
    """Returns the addresses of the interface that the default route leaves through."""
    found = Network()
    routes = [r for r in facts.json("route") if r.get("dst") == "default" and r.get("dev") == device]
    routes.sort(key=lambda r: number(str(r.get("metric")), 0))
    found.gateway = next(filter(None, (_ipv4(r.get("gateway")) for r in routes)), "")
    preferred = next((r["prefsrc"] for r in routes if r.get("prefsrc")), None)
    addresses = [a for a in addresses_of(facts, device) if a.get("scope") == "global"]
    addresses.sort(key=lambda a: (a.get("local") != preferred, bool(a.get("secondary"))))
    if addresses:
        found.address, found.length = addresses[0]["local"], int(addresses[0]["prefixlen"])
        found.dynamic = bool(addresses[0].get("dynamic"))
        found.others = tuple(a["local"] for a in addresses[1:])
    if found.gateway and found.address:
        subnet = ipaddress.ip_network(f"{found.address}/{found.length}", False)
        found.onlink = ipaddress.ip_address(found.gateway) not in subnet
    for entry in facts.json("neighbours"):
        if entry.get("dst") == found.gateway and entry.get("dev") == device and \
                re.fullmatch("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", str(entry.get("lladdr"))):
            found.gateway_mac, found.gateway_state = entry["lladdr"], str(entry.get("state"))
    return found


def addresses_of(facts, device):
    """Returns the IPv4 addresses of an interface, as `ip -j` names their parts."""
    return [a for link in facts.json("address") if link.get("ifname") == device
            for a in _objects(link.get("addr_info")) if a.get("family") == "inet" and _ipv4(a.get("local"))
            and number(str(a.get("prefixlen")), 33) <= 32]


def tsc_khz(facts):
    """Returns the TSC's frequency by Linux's calibration, or None. Prefers the refined calibration to the first one."""
    text = facts.text("tsc")
    for pattern in (r"Refined TSC clocksource calibration: ([0-9]{1,6})\.([0-9]{3}) MHz",
                    r"Detected ([0-9]{1,6})\.([0-9]{3}) MHz TSC", r"Detected ([0-9]{1,6})\.([0-9]{3}) MHz processor"):
        found = re.findall(pattern, text)
        if found:
            return int(found[-1][0]) * 1000 + int(found[-1][1])
    return None


def tsc_unstable(facts):
    return "unstable" in facts.text("tsc") or "tsc" not in facts.text("clocksources").split()


def memory_map(facts):
    """Returns [(first, last, name)] of /proc/iomem's outermost rows; empty if it hid the addresses."""
    rows = []
    for line in facts.lines("memory-map"):
        match = re.fullmatch(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) : (.*)", line)
        if match:
            rows.append((int(match[1], 16), int(match[2], 16), match[3]))
    return rows if any(last for _, last, _ in rows) else []


@dataclasses.dataclass
class Entry:
    kind: str                               # menuentry or submenu
    title: str
    id: str
    inside: object = None                   # the submenu that it stands in
    unrestricted: bool = False              # nobody is asked for a password (GRUB manual, "Authentication")
    kernel: str = ""                        # the file, without its path, that its `linux` line loads


def grub_entries(lines):
    """Returns the entries of a grub.cfg, in order, from the lines that probe.sh picks (or from all)."""
    entries, opened = [], []
    for line in lines:
        match = re.match(r"\s*(menuentry|submenu)\s+('([^']*)'|\"([^\"]*)\"|(\S+))", line)
        loads = re.match(r"\s*linux(?:16|efi)?\s+(\S+)", line)
        if match:
            title = next(t for t in match.groups()[2:] if t is not None)
            ident = re.search(r"(?:--id|\$menuentry_id_option)[ =]+'?([^'\s{]+)", line)
            entries.append(Entry(match[1], title, ident[1] if ident else "", opened[-1] if opened else None,
                                 "--unrestricted" in line))
            opened.append(entries[-1])
        elif re.match(r"\s*function\s", line):
            opened.append(None)
        elif loads and opened and opened[-1] and not opened[-1].kernel:
            opened[-1].kernel = loads[1].strip("'\"").rpartition("/")[2]
        elif line.strip() == "}" and opened:
            opened.pop()
    return entries


def bls_entries(facts):
    """Returns the entries by the Boot Loader Specification, the newest version first, as blscfg of GRUB lists them."""
    entries = []
    for line in facts.lines("bls-entries"):
        key, _, value = line.partition(" ")
        value = value.strip()
        if key == "entry":
            entries.append((Entry("menuentry", value, value, unrestricted=True), [value]))
        elif entries and key == "title":
            entries[-1][0].title = value
        elif entries and key == "linux":
            entries[-1][0].kernel = value.rpartition("/")[2]
        elif entries and key == "grub_users":
            entries[-1][0].unrestricted = False
        elif entries and key == "grub_arg" and "--unrestricted" in value:
            entries[-1][0].unrestricted = True
        elif entries and key == "version":
            entries[-1][1][0] = value
    entries.sort(key=lambda pair: _by_version(pair[1][0]), reverse=True)
    return [entry for entry, _ in entries]


def _by_version(text):
    """Returns a key that sorts 6.9 before 6.10, and a rescue entry ("0-rescue-...") before all."""
    return [(part[0].isdigit(), number(part, 0), part) for part in re.findall("[0-9]+|[a-z]+", text)]


def grub_version(facts, name="grub-version"):
    """Returns (2, 6) from `grub-mkconfig (GRUB) 2.06-13+deb12u1`, or None."""
    match = re.search(r"(?:^|\s)([0-9]{1,4})\.([0-9]{1,4})", facts.text(name))
    return (int(match[1]), int(match[2])) if match else None


@dataclasses.dataclass
class Mount:
    """A line of /etc/fstab."""
    device: str
    point: str
    kind: str
    options: list


def fstab(facts):
    rows = [[plain(word) for word in line.split()] for line in facts.lines("fstab")
            if not line.lstrip().startswith("#")]
    return [Mount(row[0], row[1], row[2], row[3].split(",") if len(row) > 3 else []) for row in rows if len(row) > 2]


def plain(text):
    """Returns a word of fstab with blanks and tabs in place of \\040 and \\011 (getmntent(3))."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found[1], 8)), text)


@dataclasses.dataclass
class Encrypted:
    """An encrypted device that Linux opens: named by /etc/crypttab or by the kernel's command line, or in use."""
    name: str
    device: str = ""
    key: str = ""                           # the file of the key; empty: none is named
    options: dict = dataclasses.field(default_factory=dict)
    points: list = dataclasses.field(default_factory=list)      # mount points that lie on it; "swap"
    by: str = ""                            # "crypttab", "cmdline", or empty: something else has opened it


def encrypted(facts):
    """Returns the encrypted devices by name. Formats: crypttab(5); dracut.cmdline(7), "crypto LUKS"; the encrypt hook
    of mkinitcpio; mkinitfs-bootparam(7)."""
    found = {}
    for line in facts.lines("crypttab"):
        words = line.split()
        if len(words) > 1 and not words[0].startswith("#"):
            key = words[2] if len(words) > 2 and words[2] not in ("none", "-") else ""
            found[words[0]] = Encrypted(words[0], words[1], key, _options(words[3:]), by="crypttab")
    for line in facts.lines("encrypted"):
        words = line.split(" ")
        if len(words) == 3:
            found.setdefault(words[1], Encrypted(words[1], words[2])).points.append(plain(words[0]))
    words = dict(word.partition("=")[::2] for word in facts.text("cmdline").split())
    for device, name in _encrypted_by_cmdline(facts, words):
        same = next((e for e in found.values() if e.name == name or device in e.device), None) or \
            found.setdefault(name, Encrypted(name, device))
        same.by = "cmdline"
        same.key = same.key or words.get("rd.luks.key") or re.sub("^yes$", "", words.get("cryptkey", "")) or \
            "/crypto_keyfile.bin"
        same.options |= _options([re.sub("^[0-9a-f-]{36}=", "", words.get("rd.luks.options", ""))])
    return found


def _options(words):
    return {name: value for name, _, value in (word.partition("=") for word in ",".join(words).split(",")) if name}


def _encrypted_by_cmdline(facts, words):
    """Returns the (device, name) pairs that the kernel's command line has opened."""
    uuids = re.findall(r"(?:^|\s)(?:rd\.)?luks\.(?:name|uuid)=(?:luks-)?([0-9a-f-]{36})(?:=(\S+))?",
                       facts.text("cmdline"))
    pairs = [(uuid, name or f"luks-{uuid}") for uuid, name in uuids]
    if words.get("cryptdevice"):
        device, name = (words["cryptdevice"].split(":") + ["root"])[:2]
        pairs.append((device, name))
    if device := words.get("cryptroot") or words.get("crypt_root"):
        pairs.append((device, words.get("cryptdm") or "root"))
    return pairs


def key_tokens(facts):
    """Returns, by name of an encrypted device, the lines of its header that name a holder of a key. A device whose
    header could not be read is left out."""
    tokens, lines = {}, []
    for line in facts.lines("headers"):
        words = line.split()
        if len(words) == 3 and words[0] == "header":
            lines = tokens.setdefault(words[1], []) if words[2] == "0" else []
        else:
            lines.append(line.strip())
    return tokens
