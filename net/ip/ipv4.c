/* Received datagrams: headers, options and addresses are checked. RFC 791, RFC 1122 §3. */
#include "net/ip/ipv4.h"

#include "net/ip/checksum.h"
#include "net/ip/ip.h"
#include "net/ip/ipv4_route.h"
#include "net/ip/reassembly.h"

/* Returns true if the options may be skipped: they are well formed, and none is a source route. RFC 1122 §3.2.1.8 lets
 * a host refuse those; Linux does by default. Stacks that processed them have regretted it (CVE-2019-12256). */
static bool ipv4_options_acceptable(struct net_ip *ip, const uint8_t *options, uint32_t bytes)
{
    ASSERT(bytes <= IPV4_HEADER_BYTES_MAX - IPV4_HEADER_BYTES_MIN);
    for (uint32_t at = 0; at < bytes;) {
        const struct ipv4_option_wire *option = (const struct ipv4_option_wire *)(options + at);
        if (option->kind == IPV4_OPTION_END)
            return true;
        if (option->kind == IPV4_OPTION_NOP) {
            at++;
            continue;
        }
        if (bytes - at < sizeof *option || option->bytes < sizeof *option || option->bytes > bytes - at) {
            IP_COUNT(ip, ipv4_rx_drop_bad_option);
            return false;
        }
        if (option->kind == IPV4_OPTION_LOOSE_ROUTE || option->kind == IPV4_OPTION_STRICT_ROUTE) {
            IP_COUNT(ip, ipv4_rx_drop_source_route);
            return false;
        }
        at += option->bytes;
    }
    return true;
}

/* Returns true if a datagram is for us. While there is no address, DHCP's answers come to one that we do not have yet:
 * RFC 2131 §4.1. */
static bool ipv4_destination_is_ours(const struct net_ip *ip, uint32_t destination, uint8_t protocol)
{
    if (ip->interface.up)
        return destination == ip->interface.address || ipv4_is_broadcast(ip, destination)
               || ipv4_receives_group(ip, destination, UINT32_MAX);
    return protocol == IPV4_PROTOCOL_UDP;
}

/* Returns true if a host can have sent from this address. RFC 1122 §3.2.1.3: not from a broadcast, a multicast,
 * ourselves, or 0.0.0.0. Only a DHCP client sends from there, and only to servers; and, by RFC 4541 §2.1.1, a switch
 * that asks for groups and has no address. */
static bool ipv4_source_is_possible(const struct net_ip *ip, uint32_t source, uint8_t protocol)
{
    if (source == 0)
        return protocol == IPV4_PROTOCOL_IGMP;
    return ipv4_address_is_unicast(source) && !ipv4_is_broadcast(ip, source)
           && !(ip->interface.up && source == ip->interface.address);
}

bool ipv4_accept(struct net_ip *ip, const struct ethernet_frame *frame, bool checksum_good, uint64_t now_ns,
                 struct ipv4_packet *packet)
{
    const uint8_t *data = frame->payload;
    uint32_t bytes = frame->payload_bytes;
    const struct ipv4_wire *wire = (const struct ipv4_wire *)data;

    /* The header holds together. */
    if (bytes < IPV4_HEADER_BYTES_MIN) {
        IP_COUNT(ip, ipv4_rx_drop_short);
        return false;
    }
    if (wire->version_ihl >> 4 != IPV4_VERSION) {
        IP_COUNT(ip, ipv4_rx_drop_version);
        return false;
    }
    uint32_t header_bytes = (wire->version_ihl & 0xfu) * 4;
    if (header_bytes < IPV4_HEADER_BYTES_MIN || header_bytes > bytes) {
        IP_COUNT(ip, ipv4_rx_drop_header_bytes);
        return false;
    }
    uint32_t total_bytes = load_be16(&wire->total_bytes);
    if (total_bytes < header_bytes || total_bytes > bytes) {
        IP_COUNT(ip, ipv4_rx_drop_total_bytes);
        return false;
    }
    if (!NET_SKIP_CHECKSUMS && checksum_finish(checksum_sum(0, data, header_bytes)) != 0) {
        IP_COUNT(ip, ipv4_rx_drop_bad_checksum);
        return false;
    }

    /* The datagram must be for us, and from a possible source. */
    *packet = (struct ipv4_packet){
        .header = data,
        .header_bytes = header_bytes,
        .payload = data + header_bytes,
        .payload_bytes = total_bytes - header_bytes,
        .source = load_be32(&wire->source),
        .destination = load_be32(&wire->destination),
        .link_source = frame->source,
        .protocol = wire->protocol,
        .tos = wire->tos,
        .checksum_good = checksum_good,
    };
    packet->broadcast = frame->broadcast || ipv4_is_broadcast(ip, packet->destination)
                        || ipv4_address_is_group(packet->destination);
    if (!ipv4_destination_is_ours(ip, packet->destination, packet->protocol)) {
        IP_COUNT(ip, ipv4_rx_drop_not_ours);
        return false;
    }
    if (!ipv4_source_is_possible(ip, packet->source, packet->protocol)) {
        IP_COUNT(ip, ipv4_rx_drop_source);
        return false;
    }
    if (header_bytes > IPV4_HEADER_BYTES_MIN
        && !ipv4_options_acceptable(ip, data + IPV4_HEADER_BYTES_MIN, header_bytes - IPV4_HEADER_BYTES_MIN))
        return false;

    IP_COUNT(ip, ipv4_rx_datagrams);
    uint16_t flags_offset = load_be16(&wire->flags_offset);
    if ((flags_offset & (IPV4_MORE_FRAGMENTS | IPV4_OFFSET_MASK)) != 0)
        return ipv4_reassembly_accept(ip, packet, load_be16(&wire->id), flags_offset, now_ns);
    return true;
}
