/* ICMP errors, in and out. lwIP only counts "destination unreachable". Here it ends a connection attempt that a router
 * or a firewall refuses, at once instead of after 15 s. Established connections ignore it: RFC 9293 §3.9.2.2, RFC 5927
 * §6. lwIP also sends errors that RFC 1122 §3.2.2 forbids, and errors at any rate: those are dropped on their way
 * out. */
#include "net/lwip/port.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"
#include "net/ip/checksum.h"

enum {
    IPV4_BYTES = 20,
    PROTOCOL_ICMP = 1,
    PROTOCOL_TCP = 6,
    ICMP_BYTES = 8,
    TYPE_ECHO_REPLY = 0, /* RFC 792 */
    TYPE_UNREACHABLE = 3,
    TYPE_ECHO = 8,
    TYPE_TIME_EXCEEDED = 11,
    TYPE_PARAMETER_PROBLEM = 12,
    QUOTED_BYTES = 8,  /* bytes of the TCP header that every error quotes */
    ERRORS_BURST = 64, /* errors that may leave at once: as in net/ip/icmp.h */
    ERRORS_PER_S = 1000,
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

/* Returns true if an address in network order is that of one host: no group, no broadcast, not 0.0.0.0. */
static bool is_one_host(const struct netif *netif, const uint8_t *address)
{
    const ip4_addr_t at = { load_le32(address) };
    return !ip4_addr_ismulticast(&at) && !ip4_addr_isbroadcast(&at, netif);
}

/* RFC 1122 §3.2.2: Returns true if the error in a packet may be sent. lwIP sends none about a later fragment. */
static bool is_permitted(const struct netif *netif, const uint8_t *packet, const uint8_t *quoted)
{
    const uint8_t *end = packet + load_be16(packet + 2), *payload = quoted + 4u * (quoted[0] & 0x0f);
    ASSERT(end >= quoted + IPV4_BYTES);
    if (!is_one_host(netif, packet + 16) || !is_one_host(netif, quoted + 16))
        return false;
    uint8_t type = payload < end ? *payload : TYPE_UNREACHABLE;
    return quoted[9] != PROTOCOL_ICMP || type == TYPE_ECHO || type == TYPE_ECHO_REPLY;
}

/* Takes a token of the bucket: `full_ns` moves ahead by the price of each error. */
static bool is_affordable(void)
{
    static uint64_t full_ns;
    const uint64_t price_ns = NS_PER_S / ERRORS_PER_S;
    if (full_ns > hooks_now_ns + price_ns * (ERRORS_BURST - 1))
        return false;
    full_ns = (full_ns > hooks_now_ns ? full_ns : hooks_now_ns) + price_ns;
    return true;
}

bool icmp_error_may_leave(const struct netif *netif, const uint8_t *packet)
{
    const uint8_t *icmp = packet + 4u * (packet[0] & 0x0f);
    if (packet[9] != PROTOCOL_ICMP || (load_be16(packet + 6) & 0x3fff) != 0
        || (icmp[0] != TYPE_UNREACHABLE && icmp[0] != TYPE_TIME_EXCEEDED && icmp[0] != TYPE_PARAMETER_PROBLEM))
        return true;
    if (!is_permitted(netif, packet, icmp + ICMP_BYTES)) {
        port_counters.tx_drop_icmp_forbidden++;
        return false;
    }
    if (!is_affordable()) {
        port_counters.tx_drop_icmp_rate++;
        return false;
    }
    return true;
}
