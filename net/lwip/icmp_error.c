/* ICMP destination unreachable. lwIP only counts this message. Here it ends a connection attempt that a router or a
 * firewall refuses, at once instead of after 15 s. Established connections ignore it: RFC 9293 §3.9.2.2, RFC 5927
 * §6. */
#include "net/lwip/port.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/checksum.h"

enum {
    IPV4_BYTES = 20,
    PROTOCOL_ICMP = 1,
    PROTOCOL_TCP = 6,
    ICMP_BYTES = 8,
    TYPE_UNREACHABLE = 3, /* RFC 792 */
    QUOTED_BYTES = 8,     /* bytes of the TCP header that every error quotes */
};

/* RFC 1122 §3.2.2.1 and §4.2.3.9: protocol and port unreachable are final; so are the administrative ones of RFC 1812
 * §5.2.7.1, all against a SYN. The others may pass. */
static bool reason_of(uint8_t code, enum transport_reason *reason)
{
    switch (code) {
    case 2:
    case 3:
        *reason = TRANSPORT_REFUSED;
        return true;
    case 9:
    case 10:
    case 13:
        *reason = TRANSPORT_UNREACHABLE;
        return true;
    default:
        return false;
    }
}

bool icmp_error_parse(const uint8_t *packet, struct icmp_error *error)
{
    size_t header_bytes = 4u * (packet[0] & 0x0f), total_bytes = load_be16(packet + 2);
    ASSERT(header_bytes >= IPV4_BYTES);
    ASSERT(total_bytes >= header_bytes);
    if (packet[9] != PROTOCOL_ICMP || (load_be16(packet + 6) & 0x3fff) != 0)
        return false;
    const uint8_t *icmp = packet + header_bytes;
    size_t bytes = total_bytes - header_bytes;
    if (bytes < ICMP_BYTES + IPV4_BYTES + QUOTED_BYTES || icmp[0] != TYPE_UNREACHABLE
        || !reason_of(icmp[1], &error->reason))
        return false;
    if (checksum_finish(checksum_sum(0, packet, header_bytes)) != 0
        || checksum_finish(checksum_sum(0, icmp, bytes)) != 0)
        return false;

    /* The refused packet must be a TCP segment of ours, and not a later fragment. */
    const uint8_t *quoted = icmp + ICMP_BYTES;
    size_t quoted_header_bytes = 4u * (quoted[0] & 0x0f);
    if (quoted[0] >> 4 != 4 || quoted_header_bytes < IPV4_BYTES || quoted[9] != PROTOCOL_TCP
        || (load_be16(quoted + 6) & 0x1fff) != 0 || bytes < ICMP_BYTES + quoted_header_bytes + QUOTED_BYTES)
        return false;
    const uint8_t *segment = quoted + quoted_header_bytes;
    error->local_address = load_be32(quoted + 12);
    error->address = load_be32(quoted + 16);
    error->local_port = load_be16(segment);
    error->port = load_be16(segment + 2);
    error->seq = load_be32(segment + 4);
    return true;
}
