"""Judges the network of HOST: the NIC with the default route, its addresses, and the names in the settings.
Collects the values of the network that are handed over to the kernel."""
from . import dhcp
from . import facts as f
from . import settings
from .distribution import install
from .text import number

OTHER_NICS = {
    "ena": "AWS: Nitro machines have no virtio NIC",
    "hv_netvsc": "Azure: Hyper-V machines have no virtio NIC",
    "idpf": "Google Cloud: choose the network interface type gVNIC or VirtIO-Net when the machine is made (not IDPF)",
    "vmxnet3": "VMware: not a KVM machine",
    "xen-netfront": "Xen: not a KVM machine",
    "e1000": "set the NIC's model to virtio", "e1000e": "set the NIC's model to virtio",
    "8139cp": "set the NIC's model to virtio", "8139too": "set the NIC's model to virtio",
}


def judge(facts, verdict):
    if missing := next((name for name in ("route", "address", "neighbours") if not facts.holds(name)), None):
        verdict.stop("the `ip` here cannot print JSON (ip -j), as BusyBox's cannot, so it is not known which addresses "
                     "this machine has" if facts.has(missing) else "there is no `ip` here",
                     f"Install it: {install(facts, 'iproute2')}")
        return
    device = _nic(facts, verdict)
    if device:
        _network(facts, verdict, device)
    _names(facts, verdict)


def _nic(facts, verdict):
    nic = f.nic(facts)
    if not nic:
        verdict.stop("no interface carries an IPv4 default route", "The kernel speaks IPv4 alone and needs a way out")
        return None
    verdict.say("NIC", f"{nic.name}: {nic.driver or 'no driver'}, {nic.transport}{', ' + nic.pci if nic.pci else ''}"
                       f"{', behind a bridge' if len(nic.path) > 1 else ''}, {nic.mac}, MTU {nic.mtu}, {nic.queues} "
                       f"receive queue(s)")
    if nic.driver not in ("virtio_net", "gve"):
        made_of = f" (made of {', '.join(nic.lower)})" if nic.lower else ""
        verdict.stop(f"{nic.name} is driven by {nic.driver or 'nothing physical'}{made_of}, not by virtio_net or "
                     f"gve: the kernel has drivers for virtio and gVNIC alone",
                     OTHER_NICS.get(nic.driver, "Give the machine a virtio NIC that carries the default route"))
        return None
    behind = f.behind_the_nic(facts)
    if nic.driver == "gve":
        _gvnic(verdict, behind)
    else:
        verdict.say("features", " ".join(f.feature_names(nic.features)))
    if nic.features >> 33 & 1 and behind:
        verdict.stop(f"the NIC insists on ACCESS_PLATFORM, and this machine has an IOMMU or encrypted memory: {behind}",
                     "Use an ordinary machine type")
    if nic.features >> 62 & 1:
        verdict.warn("the NIC is one half of a fail-over pair (STANDBY); only this half will be used")
    if nic.mac_is_its_own:
        verdict.handed_over["nic"] = nic.mac
    nics = [line.split()[0] for line in facts.lines("nics") if line.split()]
    wanted = verdict.given.get("nic", nic.mac).lower()
    if wanted != nic.mac:
        verdict.warn(f"nic={wanted} is not {nic.name}, which carries the default route ({nic.mac})",
                     "Say ip= and gw= of the network that this card is in")
    elif nics and nics[0] != nic.name and "nic" not in verdict.given and not nic.mac_is_its_own:
        verdict.warn(f"the kernel has drivers for several NICs here and takes the first it finds: {nics[0]}, while the "
                     f"default route leaves through {nic.name}, whose hardware address was set in Linux",
                     "Say nic= with the address that the host gave the card")
    elif len(nics) > 1:
        verdict.note(f"of {len(nics)} NICs that it has drivers for the kernel takes {nic.name}")
    return nic


def _gvnic(verdict, behind):
    if behind:
        verdict.stop(f"the NIC is a gVNIC, and this machine has an IOMMU or encrypted memory: {behind}",
                     "Use an ordinary machine type")
    verdict.warn("the NIC is a gVNIC: its driver was proved on a model of the device, and has not been seen on Google's"
                 " machines", "Try `peregrine survey --fly` first, which boots once")


def _network(facts, verdict, nic):
    net = f.network(facts, nic.name)
    options = dhcp.options(facts)
    if not net.address:
        verdict.stop(f"{nic.name} has no IPv4 address", "The kernel speaks IPv4 alone")
        return
    verdict.say("address", f"{net.address}/{net.length}{' by DHCP' if net.dynamic else ''}"
                           f"{', and ' + ', '.join(net.others) + ' (not used)' if net.others else ''}")
    verdict.say("gateway", f"{net.gateway or 'none'} {net.gateway_mac or '(hardware address unknown)'}"
                           f"{', outside the subnet' if net.onlink else ''}")
    if options:
        verdict.say("DHCP", ", ".join(f"{key} {value}" for key, value in options.items()))
    verdict.handed_over["ip"] = f"{net.address}/{net.length}"
    if net.gateway:
        verdict.handed_over["gw"] = net.gateway
        if net.gateway_mac and "FAILED" not in net.gateway_state:
            verdict.handed_over["gwmac"] = net.gateway_mac
        elif not verdict.given.keys() & {"ip", "gw", "gwmac"}:
            verdict.warn(f"the gateway {net.gateway} did not answer ARP here; the kernel will ask for itself")
    else:
        verdict.warn("the default route names no gateway; only hosts of the subnet can be reached")
    if nic.mtu < 576:
        verdict.stop(f"the MTU is {nic.mtu}", "The kernel needs 576 at least")
    verdict.handed_over["mtu"] = str(min(nic.mtu, 1500))
    if nic.mtu > 1500:
        verdict.note(f"the MTU is {nic.mtu}; the kernel uses 1500")
    lifetime, server = _lease_seconds(facts, nic.name, net.address), dhcp.lease_server(facts, net.address)
    if lifetime // 2 and server:
        # Linux renews at half of a lease. Half of the present rest still remains when the kernel starts later.
        verdict.handed_over["lease"] = f"{lifetime // 2}@{server}"
    elif lifetime and "ip" not in verdict.given:
        verdict.note(f"the address is leased for {lifetime // 60} more minutes, and no lease here names the server "
                     f"that could renew it",
                     "For a longer run say ip=dhcp in the configuration")
    if server and (net.dynamic or verdict.given.get("ip") == "dhcp"):
        sent, reason = dhcp.identity(facts, nic.mac, net.address)
        if sent:
            verdict.handed_over["dhcp.send"] = dhcp.setting(sent)
        if reason and not verdict.given.keys() & {"dhcp.send", "ip"}:
            verdict.warn(f"the DHCP client's identifier is not known ({reason}); a server that knows the machine by it "
                         f"refuses to renew the lease, and the address changes",
                         "Say dhcp.send=61:HEX in the configuration; `tcpdump -v port 67` shows it")


def _lease_seconds(facts, device, address):
    for info in f.addresses_of(facts, device):
        if info["local"] == address and info.get("dynamic"):
            seconds = number(str(info.get("valid_life_time")), 0)
            return seconds if seconds < 0xffffffff else 0
    return 0


def _names(facts, verdict):
    for name in settings.host_names(verdict.given):
        if not facts.text(f"resolve {name}"):
            verdict.stop(f"the machine cannot resolve {name}", "Give an address in its place")


def judge_changes(verdict, installed):
    """Warns of changes since install: the kernel would boot with the network of that time."""
    names = {"ip": "Linux's address", "gw": "the gateway", "gwmac": "the gateway's hardware address", "mtu": "the MTU",
             "nic": "the hardware address of the NIC with the default route"}
    for key, name in names.items():
        now = verdict.handed_over.get(key, "none")
        if key in installed and installed[key] != now and not (key == "gwmac" and now == "none"):
            verdict.stop(f"{name} is {now}, and the installed settings say {key}={installed[key]}",
                         "Run peregrine install again")
