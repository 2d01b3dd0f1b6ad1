/* UDP. RFC 768, RFC 1122 §4.1. */
#include "net/ip/udp.h"

#include "base/hot_section.h"
#include "net/ip/checksum.h"
#include "net/ip/icmp_wire.h"
#include "net/ip/ip.h"
#include "net/ip/plain_ipv4.h"
#include "net/ip/udp_wire.h"

static inline bool udp_is_bound(const struct net_ip *ip, uint16_t port)
{
    for (uint32_t i = 0; i < ip->udp.port_count; i++)
        if (ip->udp.ports[i] == port)
            return true;
    return false;
}

bool udp_bind(struct net_ip *ip, uint16_t port)
{
    ASSERT(ip->udp.port_count <= UDP_PORT_COUNT_MAX);
    struct udp *udp = &ip->udp;
    if (port == 0 || udp->port_count == UDP_PORT_COUNT_MAX || udp_is_bound(ip, port))
        return false;
    udp->ports[udp->port_count++] = port;
    return true;
}

/* Remembers the way that an answer goes back. */
static void latest_set(struct udp *udp, const struct udp_datagram *datagram, const uint8_t *mac, uint64_t now_ns)
{
    udp->latest_source = datagram->source;
    udp->latest_source_port = datagram->source_port;
    udp->latest_port = datagram->destination_port;
    udp->latest_ns = now_ns;
    memcpy(udp->latest_mac, mac, NETDEV_MAC_BYTES);
}

bool udp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns, struct udp_datagram *datagram)
{
    const struct udp_wire *wire = (const struct udp_wire *)packet->payload;
    IP_COUNT(ip, udp_rx_datagrams);
    if (packet->payload_bytes < sizeof *wire) {
        IP_COUNT(ip, udp_rx_drop_short);
        return false;
    }
    uint32_t bytes = load_be16(&wire->bytes);
    if (bytes < sizeof *wire || bytes > packet->payload_bytes) {
        IP_COUNT(ip, udp_rx_drop_length);
        return false;
    }
    if (!packet->checksum_good && !NET_SKIP_CHECKSUMS
        && load_be16(&wire->checksum) != 0) { /* RFC 1122 §4.1.3.4: MUST check */
        uint32_t sum = checksum_pseudo_ipv4(packet->source, packet->destination, IPV4_PROTOCOL_UDP, (uint16_t)bytes);
        if (checksum_finish(checksum_sum(sum, packet->payload, bytes)) != 0) {
            IP_COUNT(ip, udp_rx_drop_bad_checksum);
            return false;
        }
    }
    *datagram = (struct udp_datagram){
        .source = packet->source,
        .destination = packet->destination,
        .source_port = load_be16(&wire->source_port),
        .destination_port = load_be16(&wire->destination_port),
        .payload = { packet->payload + sizeof *wire, bytes - sizeof *wire },
    };
    ASSERT(datagram->payload.count <= packet->payload_bytes);
    if (!udp_is_bound(ip, datagram->destination_port)) {
        IP_COUNT(ip, udp_rx_drop_no_port);
        if (ip->interface.up) /* RFC 1122 §4.1.3.1 */
            icmp_error_send(ip, packet, ICMP_UNREACHABLE, ICMP_CODE_PORT_UNREACHABLE, now_ns);
        return false;
    }
    latest_set(&ip->udp, datagram, packet->link_source, now_ns);
    return true;
}

/* Returns true if a frame is to us alone, or to a group that we receive. */
static inline bool udp_fast_is_ours(const struct net_ip *ip, const uint8_t *at, uint32_t destination)
{
    if (destination == ip->interface.address)
        return memcmp(at, ip->device->mac, NETDEV_MAC_BYTES) == 0;
    const struct ethernet_group_wire *group = (const struct ethernet_group_wire *)at;
    return load_be16(&group->high) == ETHERNET_GROUPS_HIGH
           && load_be32(&group->low) == (ETHERNET_GROUPS_LOW | (destination & ETHERNET_IPV4_GROUP_MASK))
           && ipv4_receives_group(ip, destination, UINT32_MAX);
}

/* Takes a datagram in which nothing is wrong. Returns true. */
static inline bool udp_fast_take(struct net_ip *ip, const uint8_t *at, uint64_t now_ns, struct udp_datagram *datagram)
{
    const struct udp_wire *wire = (const struct udp_wire *)(at + PLAIN_AT_PORTS);
    IP_COUNT(ip, ethernet_rx_frames);
    IP_COUNT(ip, ipv4_rx_datagrams);
    IP_COUNT(ip, udp_rx_datagrams);
    datagram->source = load_be32(at + PLAIN_AT_SOURCE);
    datagram->destination = load_be32(at + PLAIN_AT_DESTINATION);
    datagram->source_port = load_be16(&wire->source_port);
    datagram->destination_port = load_be16(&wire->destination_port);
    datagram->payload = (struct bytes){ (const uint8_t *)(wire + 1), load_be16(&wire->bytes) - sizeof *wire };
    latest_set(&ip->udp, datagram, ((const struct ethernet_wire *)at)->source, now_ns);
    return true;
}

/* Takes a datagram if its own checksum is right. */
__attribute__((noinline)) static bool udp_fast_sum(struct net_ip *ip, const uint8_t *at, uint64_t now_ns,
                                                   struct udp_datagram *datagram)
{
    const struct udp_wire *wire = (const struct udp_wire *)(at + PLAIN_AT_PORTS);
    return plain_payload_sum_is_good(at, IPV4_PROTOCOL_UDP, load_be16(&wire->bytes))
           && udp_fast_take(ip, at, now_ns, datagram);
}

/* Calls nobody, so that no register is saved. */
HOT bool udp_fast_receive(struct net_ip *ip, const struct frame *frame, uint64_t now_ns, struct udp_datagram *datagram)
{
    const uint8_t *at = frame->data;
    const struct udp_wire *wire = (const struct udp_wire *)(at + PLAIN_AT_PORTS);
    if (frame->bytes < PLAIN_AT_PORTS + sizeof *wire || !plain_is_whole(at, IPV4_PROTOCOL_UDP)
        || (load_le32(at + PLAIN_AT_TYPE) & PLAIN_IPV4_MASK) != PLAIN_IPV4)
        return false;
    uint32_t source = load_be32(at + PLAIN_AT_SOURCE), destination = load_be32(at + PLAIN_AT_DESTINATION);
    if (!udp_fast_is_ours(ip, at, destination) || !ipv4_address_is_unicast(source) || ipv4_is_broadcast(ip, source)
        || source == ip->interface.address)
        return false;
    uint32_t total_bytes = load_be16(at + PLAIN_AT_TOTAL_BYTES), bytes = load_be16(&wire->bytes);
    if (total_bytes > frame->bytes - PLAIN_AT_IPV4 || bytes < sizeof *wire
        || IPV4_HEADER_BYTES_MIN + bytes != total_bytes)
        return false;
    uint16_t port = load_be16(&wire->destination_port);
    if ((!NET_SKIP_CHECKSUMS && !plain_header_sum_is_good(at)) || port == DHCP_CLIENT_PORT || !udp_is_bound(ip, port))
        return false;
    return frame->checksum_good || NET_SKIP_CHECKSUMS || wire->checksum == 0 ? udp_fast_take(ip, at, now_ns, datagram)
                                                                             : udp_fast_sum(ip, at, now_ns, datagram);
}

bool udp_send(struct net_ip *ip, uint16_t from_port, uint32_t address, uint16_t port, const void *data, size_t bytes,
              uint64_t now_ns)
{
    return udp_send_from(ip, ip->interface.address, from_port, address, port, data, bytes, now_ns);
}

/* Writes a datagram of `bytes` of data at `at`. */
static void udp_write(uint8_t *at, const struct ipv4_output *output, uint16_t from_port, uint16_t port,
                      const void *data, size_t bytes)
{
    struct udp_wire *wire = (struct udp_wire *)at;
    uint16_t udp_bytes = (uint16_t)(sizeof *wire + bytes);
    ASSERT(bytes <= UINT16_MAX - sizeof *wire);
    store_be16(&wire->source_port, from_port);
    store_be16(&wire->destination_port, port);
    store_be16(&wire->bytes, udp_bytes);
    wire->checksum = 0;
    memcpy(wire + 1, data, bytes);
    uint32_t sum = checksum_pseudo_ipv4(output->source, output->destination, IPV4_PROTOCOL_UDP, udp_bytes);
    uint16_t checksum = checksum_finish(checksum_sum(sum, wire, udp_bytes));
    store_be16(&wire->checksum, checksum != 0 ? checksum : 0xffff); /* RFC 768: 0 would mean "none" */
}

/* Protects the neighbour that a request of ours goes to as a TCP peer is protected. Strangers cannot take its entry,
 * and no datagram in its name leads the next request elsewhere. */
static void neighbour_choose(struct net_ip *ip, uint32_t address, uint64_t now_ns)
{
    uint32_t next_hop;
    if (ipv4_address_is_unicast(address) && !ipv4_is_broadcast(ip, address) && ipv4_next_hop(ip, address, &next_hop))
        arp_lookup(ip, next_hop, true, now_ns);
}

bool udp_send_from(struct net_ip *ip, uint32_t source, uint16_t from_port, uint32_t address, uint16_t port,
                   const void *data, size_t bytes, uint64_t now_ns)
{
    bool dhcp = from_port == DHCP_CLIENT_PORT;
    const struct udp *udp = &ip->udp;
    bool answers = address == udp->latest_source && port == udp->latest_source_port && from_port == udp->latest_port
                   && now_ns - udp->latest_ns < ARP_FRESH_NS;
    uint16_t udp_bytes = (uint16_t)(sizeof(struct udp_wire) + bytes);
    const struct ipv4_output output = {
        .source = source,
        .destination = address,
        .protocol = IPV4_PROTOCOL_UDP,
        .id = ip->ipv4_id++,
        .initiated = dhcp,
        .link_destination = answers ? udp->latest_mac : NULL,
    };
    if (!answers && !dhcp)
        neighbour_choose(ip, address, now_ns);
    bool sent = false;
    if (udp_bytes <= ipv4_payload_room(ip)) {
        struct tx_buffer *buffer = ethernet_send_begin(ip);
        if (buffer != NULL) {
            udp_write(buffer->data + IPV4_PAYLOAD_OFFSET, &output, from_port, port, data, bytes);
            sent = ipv4_output_send(ip, buffer, &output, udp_bytes, now_ns);
        }
    } else if (dhcp) {
        /* A DHCP message takes 576 bytes and leaves in fragments if the device's MTU is smaller. */
        uint8_t datagram[sizeof(struct udp_wire) + DHCP_OUTPUT_BYTES_MAX];
        ASSERT(bytes <= DHCP_OUTPUT_BYTES_MAX);
        udp_write(datagram, &output, from_port, port, data, bytes);
        sent = ipv4_output_copy(ip, &output, datagram, udp_bytes, now_ns);
    }
    if (sent)
        IP_COUNT(ip, udp_tx_datagrams);
    else
        IP_COUNT(ip, udp_tx_drop);
    return sent;
}
