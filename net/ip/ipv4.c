/* IPv4: what arrives is checked, what leaves gets its headers. RFC 791, RFC 1122 §3. */
#include "net/ip/ipv4.h"

#include "net/ip/checksum.h"
#include "net/ip/ip.h"

/* ---- Addresses and routes ---- */

void ipv4_interface_set(struct net_ip *ip, uint32_t address, uint32_t mask, uint16_t mtu_bytes)
{
    ip->interface = (struct ipv4_interface){
        .up = address != 0,
        .address = address,
        .mask = mask,
        .mtu_bytes = mtu_bytes,
    };
    if (address != 0)
        ipv4_route_add(ip, address & mask, mask, 0);
    ASSERT(ip->interface.route_count == (address != 0));
}

bool ipv4_route_add(struct net_ip *ip, uint32_t destination, uint32_t mask, uint32_t gateway)
{
    struct ipv4_interface *interface = &ip->interface;
    ASSERT(interface->route_count <= IPV4_ROUTE_COUNT_MAX);
    if (interface->route_count == IPV4_ROUTE_COUNT_MAX)
        return false;
    interface->routes[interface->route_count++] = (struct ipv4_route){ destination & mask, mask, gateway };
    return true;
}

bool ipv4_next_hop(const struct net_ip *ip, uint32_t destination, uint32_t *next_hop)
{
    const struct ipv4_interface *interface = &ip->interface;
    const struct ipv4_route *best = NULL;
    ASSERT(interface->route_count <= IPV4_ROUTE_COUNT_MAX);
    if (!interface->up)
        return false;
    for (uint32_t i = 0; i < interface->route_count; i++) {
        const struct ipv4_route *route = &interface->routes[i];
        if ((destination & route->mask) == route->destination && (best == NULL || route->mask > best->mask))
            best = route; /* the longest prefix: masks are contiguous */
    }
    if (best == NULL)
        return false;
    *next_hop = best->gateway != 0 ? best->gateway : destination;
    return true;
}

/* RFC 1122 §3.2.1.3; RFC 3021: a /31 has no broadcast address, and a /32 no neighbours. */
bool ipv4_is_broadcast(const struct net_ip *ip, uint32_t address)
{
    const struct ipv4_interface *interface = &ip->interface;
    if (address == IPV4_ADDRESS_BROADCAST)
        return true;
    if (!interface->up || ~interface->mask <= 1)
        return false;
    uint32_t host = address & ~interface->mask;
    return (address & interface->mask) == (interface->address & interface->mask)
           && (host == ~interface->mask || host == 0); /* all ones, and the old form, all zeros */
}

/* ---- Receive ---- */

/* Returns true if the options may be skipped: they are well formed, and none is a source route. RFC 1122 §3.2.1.8 lets
 * a host refuse those; Linux does by default. Stacks that processed them have regretted it (CVE-2019-12256). */
static bool ipv4_options_acceptable(struct net_ip *ip, const uint8_t *options, uint32_t bytes)
{
    ASSERT(bytes <= IPV4_HEADER_BYTES_MAX - IPV4_HEADER_BYTES_MIN);
    for (uint32_t at = 0; at < bytes;) {
        uint8_t kind = options[at];
        if (kind == IPV4_OPTION_END)
            return true;
        if (kind == IPV4_OPTION_NOP) {
            at++;
            continue;
        }
        if (at + 2 > bytes || options[at + 1] < 2 || options[at + 1] > bytes - at) {
            IP_COUNT(ip, ipv4_rx_drop_bad_option);
            return false;
        }
        if (kind == IPV4_OPTION_LOOSE_ROUTE || kind == IPV4_OPTION_STRICT_ROUTE) {
            IP_COUNT(ip, ipv4_rx_drop_source_route);
            return false;
        }
        at += options[at + 1];
    }
    return true;
}

/* Returns true if a datagram is for us. While there is no address, DHCP's answers come to one that we do not have yet:
 * RFC 2131 §4.1. */
static bool ipv4_destination_is_ours(const struct net_ip *ip, uint32_t destination, uint8_t protocol)
{
    if (ip->interface.up)
        return destination == ip->interface.address || ipv4_is_broadcast(ip, destination);
    return protocol == IPV4_PROTOCOL_UDP;
}

/* Returns true if a host can have sent from this address. RFC 1122 §3.2.1.3: not from a broadcast, a multicast,
 * ourselves, or 0.0.0.0, which only a DHCP client sends from, and only to servers. */
static bool ipv4_source_is_possible(const struct net_ip *ip, uint32_t source)
{
    return ipv4_address_is_unicast(source) && !ipv4_is_broadcast(ip, source)
           && !(ip->interface.up && source == ip->interface.address);
}

bool ipv4_accept(struct net_ip *ip, const struct ethernet_frame *frame, bool checksum_good, uint64_t now_ns,
                 struct ipv4_packet *packet)
{
    uint8_t *data = frame->payload;
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

    /* It is for us, and from someone. */
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
    packet->broadcast = frame->broadcast || ipv4_is_broadcast(ip, packet->destination);
    if (!ipv4_destination_is_ours(ip, packet->destination, packet->protocol)) {
        IP_COUNT(ip, ipv4_rx_drop_not_ours);
        return false;
    }
    if (!ipv4_source_is_possible(ip, packet->source)) {
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

/* ---- Send ---- */

void ipv4_header_write(struct ipv4_wire *header, const struct ipv4_output *output, uint32_t payload_bytes)
{
    ASSERT(payload_bytes <= IPV4_DATAGRAM_BYTES_MAX - IPV4_HEADER_BYTES_MIN);
    header->version_ihl = IPV4_VERSION << 4 | IPV4_HEADER_BYTES_MIN / 4;
    header->tos = output->tos;
    store_be16(&header->total_bytes, (uint16_t)(IPV4_HEADER_BYTES_MIN + payload_bytes));
    store_be16(&header->id, output->id);
    store_be16(&header->flags_offset, output->flags_offset);
    header->ttl = output->ttl != 0 ? output->ttl : IPV4_TTL_DEFAULT;
    header->protocol = output->protocol;
    header->checksum = 0;
    store_be32(&header->source, output->source);
    store_be32(&header->destination, output->destination);
    store_be16(&header->checksum, checksum_finish(checksum_sum(0, header, sizeof *header)));
}

struct tx_buffer *ipv4_output_begin(struct net_ip *ip)
{
    struct tx_buffer *buffer = ip->device->ops->tx_acquire(ip->device);
    if (buffer == NULL)
        IP_COUNT(ip, ethernet_tx_no_buffer);
    return buffer;
}

bool ipv4_output_send(struct net_ip *ip, struct tx_buffer *buffer, const struct ipv4_output *output,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    static const uint8_t everyone[NETDEV_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    uint32_t frame_bytes = IPV4_PAYLOAD_OFFSET + payload_bytes;
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);

    ipv4_header_write((struct ipv4_wire *)(buffer->data + sizeof *ethernet), output, payload_bytes);
    memcpy(ethernet->source, ip->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_IPV4);
    IP_COUNT(ip, ipv4_tx_datagrams);

    if (ipv4_is_broadcast(ip, output->destination)) {
        memcpy(ethernet->destination, everyone, NETDEV_MAC_BYTES);
        return ethernet_send(ip, buffer, frame_bytes, 0, 0);
    }
    uint32_t next_hop;
    if (!ipv4_next_hop(ip, output->destination, &next_hop)) {
        IP_COUNT(ip, ipv4_tx_drop_no_route);
        ip->device->ops->tx_release(ip->device, buffer);
        return false;
    }
    bool answers_on_link = output->link_destination != NULL && next_hop == output->destination
                           && (output->link_destination[0] & ETHERNET_GROUP_BIT_MASK) == 0;
    if (answers_on_link && arp_known(ip, next_hop) == NULL) {
        memcpy(ethernet->destination, output->link_destination, NETDEV_MAC_BYTES);
        return ethernet_send(ip, buffer, frame_bytes, 0, 0);
    }
    return arp_send(ip, buffer, frame_bytes, next_hop, output->initiated, now_ns);
}

uint32_t ipv4_payload_room(const struct net_ip *ip)
{
    uint32_t mtu_bytes = ip->interface.up ? ip->interface.mtu_bytes : ip->device->mtu_bytes;
    ASSERT(mtu_bytes >= IPV4_MTU_BYTES_MIN);
    return mtu_bytes - IPV4_HEADER_BYTES_MIN;
}

static bool ipv4_output_piece(struct net_ip *ip, const struct ipv4_output *output, const uint8_t *payload,
                              uint32_t bytes, uint64_t now_ns)
{
    struct tx_buffer *buffer = ipv4_output_begin(ip);
    if (buffer == NULL)
        return false;
    memcpy(buffer->data + IPV4_PAYLOAD_OFFSET, payload, bytes);
    return ipv4_output_send(ip, buffer, output, bytes, now_ns);
}

bool ipv4_output_copy(struct net_ip *ip, const struct ipv4_output *output, const uint8_t *payload,
                      uint32_t payload_bytes, uint64_t now_ns)
{
    uint32_t room = ipv4_payload_room(ip);
    if (payload_bytes <= room)
        return ipv4_output_piece(ip, output, payload, payload_bytes, now_ns);

    room &= ~(uint32_t)(IPV4_FRAGMENT_UNIT_BYTES - 1);
    ASSERT(room != 0);
    for (uint32_t at = 0; at < payload_bytes; at += room) {
        bool last = payload_bytes - at <= room;
        struct ipv4_output fragment = *output;
        fragment.flags_offset = (uint16_t)(at / IPV4_FRAGMENT_UNIT_BYTES | (last ? 0 : IPV4_MORE_FRAGMENTS));
        if (!ipv4_output_piece(ip, &fragment, payload + at, last ? payload_bytes - at : room, now_ns))
            return false;
    }
    return true;
}
