"""The DHCP lease of HOST's address, and the options by which the server knows its holder: what remote/probe.sh found of
leases and of the clients' settings. A server that knows a client by its identifier (RFC 2131 §4.2) refuses a renewal
without it."""
import ipaddress
import re

HOST_NAME, VENDOR_CLASS, CLIENT_ID, FQDN = 12, 60, 61, 81          # RFC 2132 §3.14, §9.13, §9.14; RFC 4702
SENT_BYTES_MAX = 256                        # the limit of dhcp.send=

# The address and the server in a lease of: networkd; dhclient; NetworkManager and dhcpcd.
LEASE_ADDRESS = r"^(?:ADDRESS=|\s*fixed-address |(?:DHCP4\S*:)?ip_address ?= ?)'?([\d.]+)"
LEASE_SERVER = (r"^(?:SERVER_ADDRESS=|\s*option dhcp-server-identifier |(?:DHCP4\S*:)?dhcp_server_identifier ?= ?)"
                r"'?([\d.]+)")


def options(facts):
    """Returns the DHCP oddities that Linux's leases show: {"client", "classless routes", "mtu", "netmask"}."""
    found = {}
    text = facts.text("dhcp")
    for path, _ in _files(facts, "dhcp"):
        found["client"] = _client(path)
    # networkd's lease: ROUTES=dst/len,gw ...; dhclient's: option rfc3442-classless-static-routes 32,10,128,0,1,...
    routes = re.search(r"^(?:ROUTES|CLASSLESS_ROUTES)=(.+)|option (?:rfc3442-)?classless-static-routes ([^;]+);", text,
                       re.MULTILINE)
    if routes:
        found["classless routes"] = routes[1] or routes[2]
    mtu = re.search(r"^MTU=(\d+)|option interface-mtu (\d+);", text, re.MULTILINE)
    if mtu:
        found["mtu"] = mtu[1] or mtu[2]
    mask = re.search(r"^NETMASK=(\S+)|option subnet-mask ([\d.]+);", text, re.MULTILINE)
    if mask:
        found["netmask"] = mask[1] or mask[2]
    return found


def lease_server(facts, address):
    """Returns the DHCP server that has leased an address, by the last lease that names both, or None."""
    return _lease(facts, address)[1]


def identity(facts, mac, address):
    """Returns the options that Linux's client sends, {number: bytes}, and the reason why its identifier is not known,
    or an empty text. `mac` is the NIC's; `address` chooses the client, by its lease."""
    path, _, lease = _lease(facts, address)
    if not path:
        return {}, ""
    settings = dict(_files(facts, "dhcp-clients"))
    # dhclient runs for NetworkManager as well, with a file of settings that NetworkManager has written.
    client = "dhclient" if "dhclient" in settings else _client(path)
    sent, reason = {"systemd-networkd": _networkd, "NetworkManager": _network_manager, "dhcpcd": _dhcpcd,
                    "dhclient": _dhclient}[client](facts, settings, _hexadecimal(mac) or b"", lease)
    sent = {option: value for option, value in sent.items() if value}
    while sum(2 + len(value) for value in sent.values()) > SENT_BYTES_MAX:
        sent.popitem()                      # the identifier stands first and fits alone
    return sent, reason


def setting(sent):
    """Returns options as the value of dhcp.send=."""
    return ",".join(f"{option}:{value.hex()}" for option, value in sent.items())


def _client(path):
    return ("systemd-networkd" if "/netif/leases/" in path else "NetworkManager" if "NetworkManager" in path else
            "dhcpcd" if path == "dhcpcd" else "dhclient")


def _files(facts, name):
    """Returns [(path, text)] of a fact that shows several files."""
    parts = re.split(r"^file (.*)\n?", facts.text(name), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2]))


def _lease(facts, address):
    """Returns path, server and text of the last lease that names an address and a server; else (None, None, "")."""
    last = None, None, ""
    for path, text in _files(facts, "dhcp"):
        for lease in re.split(r"^\s*lease \{.*$", text, flags=re.MULTILINE):
            names = [re.search(pattern, lease, re.MULTILINE) for pattern in (LEASE_ADDRESS, LEASE_SERVER)]
            if all(names) and names[0][1] == address and _is_host(names[1][1]):
                last = path, names[1][1], text
    return last


def _is_host(text):
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (address.is_multicast or address.is_loopback or address.is_reserved or address.packed[0] == 0)


def _host_name(facts):
    """Returns the machine's name; none of these clients sends localhost."""
    name = facts.text("host-name").strip()
    return "" if re.fullmatch(r"(localhost|\(none\))(\..*)?", name) else name


def _name_option(name):
    """Returns the option with a host name: RFC 4702 §2 for a name with dots, which the server enters in the DNS."""
    if "." not in name:
        return {HOST_NAME: name.encode()}
    labels = name.rstrip(".").encode().split(b".")
    return {FQDN: b"\x05\0\0" + b"".join(bytes([len(label) & 63]) + label[:63] for label in labels) + b"\0"}


def _hexadecimal(text):
    """Returns the bytes of "1:52:54", or None."""
    parts = text.split(":")
    return bytes(int(part, 16) for part in parts) if len(parts) > 1 and \
        all(re.fullmatch("[0-9a-fA-F]{1,2}", part) for part in parts) else None


def _values(text, separator="="):
    """Returns {KEY: last value} of lines, which may be quoted as shells quote."""
    pairs = (line.strip().partition(separator) for line in text.splitlines())
    return {key.strip(): value.strip().strip("'\"") for key, equals, value in pairs if equals}


# ---- One function a client: (facts, settings, MAC, lease's text) to (options, reason)

def _networkd(facts, settings, _mac, lease):
    ident = re.search(r"^CLIENTID=((?:[0-9a-f]{2})+)$", lease, re.MULTILINE)
    words = _values(settings.get("systemd-networkd", ""))
    name = words.get("Hostname") or _host_name(facts)
    if words.get("SendHostname", "yes").lower() in ("no", "false", "off", "0", "n", "f"):
        name = ""
    return {CLIENT_ID: bytes.fromhex(ident[1]) if ident else b"", **_name_option(name),
            VENDOR_CLASS: words.get("VendorClassIdentifier", "").encode()}, \
        "" if ident else "the lease file of systemd-networkd has no CLIENTID="


def _network_manager(facts, settings, mac, lease):
    words = _values(settings.get("NetworkManager", ""), ":")
    name = words.get("ipv4.dhcp-hostname") or words.get("ipv4.dhcp-fqdn") or _host_name(facts)
    if words.get("ipv4.dhcp-send-hostname") == "no":
        name = ""
    echoed = re.search(r"dhcp_client_identifier ?= ?(\S+)", lease)      # RFC 6842
    wanted = words.get("ipv4.dhcp-client-id") or \
        _values(settings.get("NetworkManager.conf", "")).get("ipv4.dhcp-client-id") or "mac"
    if echoed and _hexadecimal(echoed[1]):
        ident = _hexadecimal(echoed[1])
    elif wanted in ("duid", "ipv6-duid", "stable"):
        ident = None
    elif wanted in ("mac", "perm-mac", "none"):
        ident = b"" if wanted == "none" else b"\1" + mac
    else:
        ident = _hexadecimal(wanted) or b"\0" + wanted.encode()
    named = {HOST_NAME: name.encode()} if not words.get("ipv4.dhcp-fqdn") else _name_option(name)
    return {CLIENT_ID: ident, **named, VENDOR_CLASS: words.get("ipv4.dhcp-vendor-class-identifier", "").encode()}, \
        "" if ident is not None else f"NetworkManager makes it by ipv4.dhcp-client-id={wanted}"


def _dhclient(facts, settings, mac, lease):
    # The first line is the command: Debian's ifupdown says -i.
    command, _, text = settings.get("dhclient", "").partition("\n")
    text = re.sub(r"#.*", "", text)
    send = {key: value.strip().strip("=").strip() for key, value in re.findall(r"send\s+([\w.-]+)([^;]*);", text)}
    ident, reason = b"", ""
    wanted = send.get("dhcp-client-identifier", "")
    duid = re.findall(r'default-duid "((?:[^"\\]|\\.)*)"', lease)
    if wanted == "hardware":
        ident = b"\1" + mac
    elif wanted:
        ident = _hexadecimal(wanted.replace(" ", "")) or _quoted(wanted)
        reason = "" if ident else f"dhclient makes it by {wanted!r}"
    elif "-i" in command.split() and duid:
        # RFC 4361 §6.1, with the last bytes of the MAC as the IAID
        ident = b"\xff" + mac[-4:] + _quoted(f'"{duid[-1]}"')
    elif "-i" in command.split():
        reason = "the lease file of dhclient has no default-duid"
    name = send.get("host-name", "")
    name = _host_name(facts).encode() if "gethostname()" in name else _quoted(name)
    return {CLIENT_ID: ident, HOST_NAME: name, VENDOR_CLASS: _quoted(send.get("vendor-class-identifier", ""))}, reason


def _quoted(text):
    """Returns the bytes of a string in dhclient's files, where \\ooo and \\x are bytes; none for anything else."""
    if not re.fullmatch(r'"(?:[^"\\]|\\.)*"', text):
        return b""
    pieces = re.findall(r"\\([0-7]{3})|\\(.)|([^\\]+)", text[1:-1])
    return b"".join(bytes([int(octal, 8) & 255]) if octal else (escaped or plain).encode()
                    for octal, escaped, plain in pieces)


def _dhcpcd(facts, settings, mac, _lease_text):
    words, ours = {}, True
    device = facts.words("nic").get("name", "")
    for line in settings.get("dhcpcd", "").splitlines():
        key, _, value = line.strip().partition(" ")
        if key in ("interface", "ssid", "profile"):     # begins a block of lines for it alone
            ours = key == "interface" and value.strip() == device
        elif ours:
            words[key] = value.strip().strip('"')
    ident, reason = b"", ""
    if "clientid" in words:
        ident = _hexadecimal(words["clientid"]) or (b"\0" if words["clientid"] else b"\1" + mac) + \
            words["clientid"].encode()
    elif "duid" in words:                   # RFC 4361 §6.1, as above
        duid = _hexadecimal(settings.get("dhcpcd.duid", "").strip())
        ident = b"\xff" + mac[-4:] + duid if duid else b""
        reason = "" if duid else "the DUID of dhcpcd was not found"
    cpu = dict(re.findall(r"^(\w+)\s*: (.*)$", facts.text("processor"), re.MULTILINE)).get("vendor_id", "")
    version = re.search(r"^dhcpcd ([\d.]+)$", settings.get("dhcpcd.version", ""), re.MULTILINE)
    vendor = words.get("vendorclassid") if "vendorclassid" in words else \
        f"dhcpcd-{version[1]}:Linux-{facts.text('kernel')}:{facts.text('arch')}{':' + cpu if cpu else ''}" \
        if version else ""
    name = (words["hostname"] or _host_name(facts)) if "hostname" in words else ""
    return {CLIENT_ID: ident, HOST_NAME: name.encode(), VENDOR_CLASS: vendor.encode()}, reason
