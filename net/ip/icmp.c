/* ICMP for a host. RFC 792, RFC 1122 §3.2.2. */
#include "net/ip/icmp.h"

#include "base/time.h"
#include "net/ip/checksum.h"
#include "net/ip/icmp_wire.h"
#include "net/ip/ip.h"

/* Takes a token for a reply. A token costs 1 s / ICMP_REPLIES_PER_S; the bucket holds ICMP_REPLIES_BURST tokens. */
static bool icmp_reply_allowed(struct net_ip *ip, uint64_t now_ns)
{
    const uint64_t price_ns = NS_PER_S / ICMP_REPLIES_PER_S;
    struct icmp *icmp = &ip->icmp;
    if (icmp->full_ns > now_ns + price_ns * (ICMP_REPLIES_BURST - 1)) {
        IP_COUNT(ip, icmp_tx_drop_rate);
        return false;
    }
    icmp->full_ns = (icmp->full_ns > now_ns ? icmp->full_ns : now_ns) + price_ns;
    return true;
}

/* RFC 1122 §3.2.2.6: the payload comes back whole; addresses are exchanged. */
static void icmp_echo_answer(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns)
{
    if (packet->broadcast) { /* §3.2.2.6 lets us ignore these: they serve to flood others */
        IP_COUNT(ip, icmp_rx_drop_broadcast);
        return;
    }
    if (!icmp_reply_allowed(ip, now_ns))
        return;
    struct icmp_wire reply = *(const struct icmp_wire *)packet->payload;
    ASSERT(packet->payload_bytes >= sizeof reply);
    reply.type = ICMP_ECHO_REPLY;
    reply.checksum = 0;
    uint32_t sum = checksum_sum(0, &reply, sizeof reply);
    sum = checksum_sum(sum, packet->payload + sizeof reply, packet->payload_bytes - sizeof reply);
    store_be16(&reply.checksum, checksum_finish(sum));
    const struct ipv4_output output = {
        .source = ip->interface.address,
        .destination = packet->source,
        .link_destination = packet->link_source,
        .protocol = IPV4_PROTOCOL_ICMP,
        .tos = packet->header[offsetof(struct ipv4_wire, tos)], /* RFC 1349 §5.1: a reply has its request's */
        .id = ip->ipv4_id++,
        .head = { (const uint8_t *)&reply, sizeof reply },
    };
    if (ipv4_output_copy(ip, &output, packet->payload, packet->payload_bytes, now_ns))
        IP_COUNT(ip, icmp_tx_echo_replies);
}

/* Takes an error apart. It quotes the datagram that it is about: its header and at least 8 bytes. RFC 792. */
static bool icmp_error_accept(struct net_ip *ip, const struct ipv4_packet *packet, struct icmp_error *error)
{
    const struct icmp_wire *icmp = (const struct icmp_wire *)packet->payload;
    ASSERT(packet->payload_bytes >= sizeof *icmp);
    const uint8_t *quote = packet->payload + sizeof *icmp;
    uint32_t quote_bytes = packet->payload_bytes - (uint32_t)sizeof *icmp;
    const struct ipv4_wire *quoted = (const struct ipv4_wire *)quote;

    IP_COUNT(ip, icmp_rx_errors);
    uint32_t header_bytes = quote_bytes < IPV4_HEADER_BYTES_MIN ? 0 : (quoted->version_ihl & 0xfu) * 4;
    if (header_bytes < IPV4_HEADER_BYTES_MIN || quoted->version_ihl >> 4 != IPV4_VERSION
        || quote_bytes < header_bytes + 8 || load_be32(&quoted->source) != ip->interface.address
        || (load_be16(&quoted->flags_offset) & IPV4_OFFSET_MASK) != 0) {
        IP_COUNT(ip, icmp_rx_drop_bad_quote);
        return false;
    }
    *error = (struct icmp_error){
        .type = icmp->type,
        .code = icmp->code,
        .next_hop_mtu_bytes = load_be16(&icmp->unreachable.next_hop_mtu),
        .protocol = quoted->protocol,
        .destination = load_be32(&quoted->destination),
        .total_bytes = load_be16(&quoted->total_bytes),
        .transport = quote + header_bytes,
    };
    return true;
}

bool icmp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns, struct icmp_error *error)
{
    IP_COUNT(ip, icmp_rx_messages);
    if (packet->payload_bytes < sizeof(struct icmp_wire)) {
        IP_COUNT(ip, icmp_rx_drop_short);
        return false;
    }
    if (!NET_SKIP_CHECKSUMS && checksum_finish(checksum_sum(0, packet->payload, packet->payload_bytes)) != 0) {
        IP_COUNT(ip, icmp_rx_drop_bad_checksum);
        return false;
    }
    switch (((const struct icmp_wire *)packet->payload)->type) {
    case ICMP_ECHO:
        icmp_echo_answer(ip, packet, now_ns);
        return false;
    case ICMP_UNREACHABLE:
    case ICMP_TIME_EXCEEDED:
    case ICMP_PARAMETER_PROBLEM:
        return icmp_error_accept(ip, packet, error);
    default: /* source quench too: RFC 6633; RFC 9293, MUST-55 */
        IP_COUNT(ip, icmp_rx_drop_type);
        return false;
    }
}

/* RFC 1122 §3.2.2: which datagrams must not be answered by an error. */
static bool icmp_error_permitted(const struct ipv4_packet *packet)
{
    if (packet->broadcast || !ipv4_address_is_unicast(packet->source))
        return false;
    if (packet->protocol != IPV4_PROTOCOL_ICMP)
        return true;
    uint8_t type = packet->payload_bytes > 0 ? packet->payload[0] : ICMP_UNREACHABLE;
    return type == ICMP_ECHO || type == ICMP_ECHO_REPLY;
}

void icmp_error_send(struct net_ip *ip, const struct ipv4_packet *packet, uint8_t type, uint8_t code, uint64_t now_ns)
{
    if (!icmp_error_permitted(packet) || !icmp_reply_allowed(ip, now_ns))
        return;
    struct tx_buffer *buffer = ethernet_send_begin(ip);
    ASSERT(packet->header_bytes <= IPV4_HEADER_BYTES_MAX);
    if (buffer == NULL)
        return;
    uint32_t payload_bytes = min_u32(packet->payload_bytes, ICMP_QUOTE_BYTES_MAX - packet->header_bytes);
    uint8_t *at = buffer->data + IPV4_PAYLOAD_OFFSET;
    struct icmp_wire *icmp = (struct icmp_wire *)at;
    *icmp = (struct icmp_wire){ .type = type, .code = code };
    memcpy(at + sizeof *icmp, packet->header, packet->header_bytes);
    memcpy(at + sizeof *icmp + packet->header_bytes, packet->payload, payload_bytes);
    uint32_t bytes = (uint32_t)min_size(sizeof *icmp + packet->header_bytes + payload_bytes, ipv4_payload_room(ip));
    store_be16(&icmp->checksum, checksum_finish(checksum_sum(0, at, bytes)));
    const struct ipv4_output output = {
        .source = ip->interface.address,
        .destination = packet->source,
        .link_destination = packet->link_source,
        .protocol = IPV4_PROTOCOL_ICMP,
        .id = ip->ipv4_id++,
    };
    if (ipv4_output_send(ip, buffer, &output, bytes, now_ns))
        IP_COUNT(ip, icmp_tx_errors);
}
