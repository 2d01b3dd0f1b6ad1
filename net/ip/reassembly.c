/* Fragments back into datagrams, in memory that never grows. RFC 791 §3.2, RFC 815; RFC 5722's answer to overlap.
 *
 * Fragments are taken, not dropped, because senders of the kind we meet do make them: a large ping, a UDP reply, a test
 * suite's segment. Four datagrams at a time, the oldest gives way; each has room for the longest one there is, so no
 * offset can point outside. Fragments that overlap differently from a plain repetition cost the whole datagram: no
 * honest sender makes them (RFC 5722 §1, and Linux for IPv4 alike). */
#include "net/ip/reassembly.h"

#include "base/time.h"
#include "net/ip/checksum.h"
#include "net/ip/ip.h"

static uint8_t *reassembly_payload(struct ipv4_reassembly *slot)
{
    return slot->bytes + IPV4_HEADER_BYTES_MAX + 4; /* aligned to 16 */
}

static bool reassembly_has(const struct ipv4_reassembly *slot, uint32_t unit)
{
    return (slot->arrived[unit / 64] & BIT(unit % 64)) != 0;
}

/* Finds the slot of this datagram, or the one to use for it: a free one, else the one that ends first. */
static struct ipv4_reassembly *reassembly_find(struct net_ip *ip, const struct ipv4_packet *packet, uint16_t id,
                                               uint64_t now_ns)
{
    struct ipv4_reassembly *best = &ip->reassembly[0];
    for (size_t i = 0; i < IPV4_REASSEMBLY_COUNT; i++) {
        struct ipv4_reassembly *slot = &ip->reassembly[i];
        if (slot->used && slot->id == id && slot->protocol == packet->protocol && slot->source == packet->source
            && slot->destination == packet->destination)
            return slot;
        if (best->used && (!slot->used || slot->ends_ns < best->ends_ns))
            best = slot;
    }
    if (best->used)
        IP_COUNT(ip, ipv4_rx_drop_fragment_full);
    best->used = true;
    best->id = id;
    best->protocol = packet->protocol;
    best->source = packet->source;
    best->destination = packet->destination;
    best->payload_bytes = best->unit_count = best->unit_end = best->head_bytes = best->codepoints = 0;
    best->ends_ns = now_ns + IPV4_REASSEMBLY_NS;
    memset(best->arrived, 0, sizeof best->arrived);
    return best;
}

/* Copies a fragment to its place. Returns false if the fragment contradicts earlier ones. */
static bool reassembly_place(struct ipv4_reassembly *slot, uint32_t offset, const uint8_t *data, uint32_t bytes,
                             bool last)
{
    uint32_t first = offset / IPV4_FRAGMENT_UNIT_BYTES;
    uint32_t end = (offset + bytes + IPV4_FRAGMENT_UNIT_BYTES - 1) / IPV4_FRAGMENT_UNIT_BYTES;
    uint32_t had_count = 0;
    ASSERT(end <= IPV4_REASSEMBLY_UNIT_COUNT);

    if (slot->payload_bytes != 0 && offset + bytes > slot->payload_bytes)
        return false; /* beyond the end that a last fragment gave */
    if (last && (slot->unit_end > end || (slot->payload_bytes != 0 && slot->payload_bytes != offset + bytes)))
        return false; /* two ends */
    for (uint32_t unit = first; unit < end; unit++)
        had_count += reassembly_has(slot, unit);
    if (had_count != 0) /* all of it, byte for byte: the network has repeated it */
        return had_count == end - first && memcmp(reassembly_payload(slot) + offset, data, bytes) == 0;

    memcpy(reassembly_payload(slot) + offset, data, bytes);
    for (uint32_t unit = first; unit < end; unit++)
        slot->arrived[unit / 64] |= BIT(unit % 64);
    slot->unit_count += end - first;
    if (end > slot->unit_end)
        slot->unit_end = end;
    if (last)
        slot->payload_bytes = offset + bytes;
    return true;
}

/* Takes a token of the bucket: `fragments_full_ns` moves ahead by the price of each fragment. */
static bool fragment_affordable(struct net_ip *ip, uint64_t now_ns)
{
    const uint64_t price_ns = NS_PER_S / IPV4_FRAGMENTS_PER_S;
    uint64_t *full_ns = &ip->fragments_full_ns;
    if (*full_ns > now_ns + price_ns * (IPV4_FRAGMENTS_BURST - 1))
        return false;
    *full_ns = (*full_ns > now_ns ? *full_ns : now_ns) + price_ns;
    return true;
}

bool ipv4_reassembly_accept(struct net_ip *ip, struct ipv4_packet *packet, uint16_t id, uint16_t flags_offset,
                            uint64_t now_ns)
{
    uint32_t offset = (uint32_t)(flags_offset & IPV4_OFFSET_MASK) * IPV4_FRAGMENT_UNIT_BYTES;
    bool last = (flags_offset & IPV4_MORE_FRAGMENTS) == 0;
    uint32_t bytes = packet->payload_bytes;

    IP_COUNT(ip, ipv4_rx_fragments);
    if (bytes == 0 || (!last && bytes % IPV4_FRAGMENT_UNIT_BYTES != 0)
        || offset + bytes > IPV4_DATAGRAM_BYTES_MAX - packet->header_bytes) {
        IP_COUNT(ip, ipv4_rx_drop_fragment_bounds);
        return false;
    }
    if (!fragment_affordable(ip, now_ns)) {
        IP_COUNT(ip, ipv4_rx_drop_fragment_rate);
        return false;
    }

    struct ipv4_reassembly *slot = reassembly_find(ip, packet, id, now_ns);
    if (!reassembly_place(slot, offset, packet->payload, bytes, last)) {
        IP_COUNT(ip, ipv4_rx_drop_fragment_overlap);
        slot->used = false;
        return false;
    }
    if (offset == 0) {
        slot->head_bytes = (uint8_t)packet->header_bytes;
        memcpy(reassembly_payload(slot) - packet->header_bytes, packet->header, packet->header_bytes);
    }
    slot->codepoints |= (uint8_t)(1 << (packet->tos & IPV4_ECN_MASK));
    if (slot->payload_bytes == 0 || slot->unit_count != slot->unit_end)
        return false;

    /* Whole. The slot is free for others from the next fragment on; its bytes stay until then. */
    slot->used = false;
    if ((slot->codepoints & 1 << IPV4_ECN_CONGESTED) != 0) { /* RFC 3168 §5.3 */
        if ((slot->codepoints & 1 << IPV4_ECN_INCAPABLE) != 0) {
            IP_COUNT(ip, ipv4_rx_drop_fragment_mark);
            return false;
        }
        packet->tos |= IPV4_ECN_CONGESTED;
    }
    packet->payload = reassembly_payload(slot);
    packet->payload_bytes = slot->payload_bytes;
    packet->header = packet->payload - slot->head_bytes;
    packet->header_bytes = slot->head_bytes;
    packet->checksum_good = false; /* the device cannot have seen the whole */
    packet->reassembled = true;
    IP_COUNT(ip, ipv4_rx_reassembled);
    return true;
}

void ipv4_reassembly_poll(struct net_ip *ip, uint64_t now_ns)
{
    for (size_t i = 0; i < IPV4_REASSEMBLY_COUNT; i++) {
        struct ipv4_reassembly *slot = &ip->reassembly[i];
        if (!slot->used || slot->ends_ns > now_ns)
            continue;
        ASSERT(slot->unit_count != 0);
        slot->used = false;
        IP_COUNT(ip, ipv4_rx_drop_fragment_timeout);
        if (slot->head_bytes == 0)
            continue; /* RFC 792: only if the first fragment has come */
        uint8_t *header = reassembly_payload(slot) - slot->head_bytes;
        struct ipv4_packet packet = {
            /* that fragment, which is what the error quotes */
            .header = header,
            .header_bytes = slot->head_bytes,
            .payload = reassembly_payload(slot),
            .payload_bytes = load_be16(&((const struct ipv4_wire *)header)->total_bytes) - slot->head_bytes,
            .source = slot->source,
            .destination = slot->destination,
            .protocol = slot->protocol,
            .broadcast = ipv4_is_broadcast(ip, slot->destination) || ipv4_address_is_group(slot->destination),
        };
        icmp_error_send(ip, &packet, ICMP_TIME_EXCEEDED, ICMP_CODE_REASSEMBLY_TIME_EXCEEDED, now_ns);
    }
}

uint64_t ipv4_reassembly_next_deadline_ns(const struct net_ip *ip)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (size_t i = 0; i < IPV4_REASSEMBLY_COUNT; i++)
        if (ip->reassembly[i].used && ip->reassembly[i].ends_ns < deadline_ns)
            deadline_ns = ip->reassembly[i].ends_ns;
    return deadline_ns;
}

/* ---- What must hold ---- */

static void check_slot(const struct ipv4_reassembly *slot)
{
    uint32_t unit_count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(slot->arrived); i++)
        unit_count += (uint32_t)__builtin_popcountll(slot->arrived[i]);
    ASSERT(slot->unit_count == unit_count);
    ASSERT(slot->unit_count != 0 && slot->unit_count <= slot->unit_end);
    ASSERT(slot->unit_end <= IPV4_REASSEMBLY_UNIT_COUNT);
    ASSERT(reassembly_has(slot, slot->unit_end - 1));
    /* Nothing lies beyond the end that the last fragment gave. */
    ASSERT(slot->payload_bytes == 0
           || slot->unit_end <= (slot->payload_bytes + IPV4_FRAGMENT_UNIT_BYTES - 1) / IPV4_FRAGMENT_UNIT_BYTES);
    /* A whole datagram has been handed on. */
    ASSERT(slot->payload_bytes == 0 || slot->unit_count < slot->unit_end);
    ASSERT(slot->head_bytes == 0
           || (slot->head_bytes >= IPV4_HEADER_BYTES_MIN && slot->head_bytes <= IPV4_HEADER_BYTES_MAX));
    ASSERT((slot->head_bytes != 0) == reassembly_has(slot, 0));
}

void ipv4_reassembly_check(const struct net_ip *ip)
{
    for (size_t i = 0; i < IPV4_REASSEMBLY_COUNT; i++)
        if (ip->reassembly[i].used)
            check_slot(&ip->reassembly[i]);
}
