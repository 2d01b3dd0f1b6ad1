/* See segment.h. */
#include "tests/wire/segment.h"
#include "tests/lib/packet.h"

#include <stdio.h>

#include "net/ip/icmp_wire.h"

static const char flag_letters[] = "FSRP.UEW"; /* from bit 0 */

uint8_t wire_stream_byte(enum wire_direction direction, uint32_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 8) * 7 + (direction == WIRE_TO_STACK ? 3 : 11));
}

/* ---- Bytes ---- */

static uint32_t option_write(const struct wire_option *o, const struct wire_base *base, uint8_t *at)
{
    if (o->raw_bytes != 0) {
        memcpy(at, o->raw, o->raw_bytes);
        return o->raw_bytes;
    }
    at[0] = o->kind;
    switch (o->kind) {
    case TCP_OPTION_MSS:
        at[1] = 4;
        store_be16(at + 2, (uint16_t)o->values[0]);
        break;
    case TCP_OPTION_WINDOW_SCALE:
        at[1] = 3;
        at[2] = (uint8_t)o->values[0];
        break;
    case TCP_OPTION_SACK_PERMITTED:
        at[1] = 2;
        break;
    case TCP_OPTION_SACK:
        at[1] = (uint8_t)(2 + 4 * o->value_count);
        for (uint32_t i = 0; i < o->value_count; i++)
            store_be32(at + 2 + 4 * i, base->stack_isn + o->values[i]);
        break;
    case TCP_OPTION_TIMESTAMPS:
        at[1] = 10;
        store_be32(at + 2, o->values[0]);
        store_be32(at + 6, base->timestamp_known ? base->timestamp + o->values[1] : o->values[1]);
        break;
    default: /* END, NOP */
        return 1;
    }
    return at[1];
}

/* Writes an ICMP error about a segment of the stack. The error quotes the IP header and 8 bytes, RFC 792's minimum. */
static size_t icmp_write(const struct wire_segment *s, const struct wire_base *base, uint8_t *packet)
{
    enum { QUOTE_BYTES = sizeof(struct ipv4_wire) + 8 };
    struct icmp_wire *icmp = (struct icmp_wire *)(packet + sizeof(struct ipv4_wire));
    uint8_t *quote = (uint8_t *)(icmp + 1), *ports = quote + sizeof(struct ipv4_wire);
    *icmp = (struct icmp_wire){ .type = s->icmp_type, .code = s->icmp_code };
    store_be16(&icmp->unreachable.next_hop_mtu, s->icmp_mtu);
    packet_ipv4(quote, IPV4_PROTOCOL_TCP, WIRE_STACK_ADDRESS, WIRE_PEER_ADDRESS, 20 + s->bytes);
    store_be16(ports, base->port);
    store_be16(ports + 2, base->peer_port);
    store_be32(ports + 4, base->stack_isn + s->seq);
    uint32_t bytes = packet_ipv4(packet, IPV4_PROTOCOL_ICMP, s->source, s->destination, sizeof *icmp + QUOTE_BYTES);
    packet_sum(packet, bytes);
    return bytes;
}

size_t wire_segment_write(const struct wire_segment *s, const struct wire_base *base, uint8_t *packet)
{
    if (s->icmp)
        return icmp_write(s, base, packet);
    struct tcp_wire *tcp = (struct tcp_wire *)(packet + sizeof(struct ipv4_wire));
    uint8_t *options = (uint8_t *)(tcp + 1);
    uint32_t option_bytes = 0;
    for (uint32_t i = 0; i < s->option_count; i++)
        option_bytes += option_write(&s->options[i], base, options + option_bytes);
    while (option_bytes % 4 != 0)
        options[option_bytes++] = TCP_OPTION_END;
    uint8_t *payload = options + option_bytes;
    for (uint32_t i = 0; i < s->bytes; i++)
        payload[i] = s->fill >= 0 ? (uint8_t)s->fill
                                  : wire_stream_byte(WIRE_TO_STACK, s->seq + ((s->flags & TCP_SYN) != 0) + i);

    uint16_t tcp_bytes = (uint16_t)(sizeof *tcp + option_bytes + s->bytes);
    uint32_t words = s->header_words != 0 ? (uint32_t)s->header_words : (sizeof *tcp + option_bytes) / 4;
    *tcp = (struct tcp_wire){ .offset = (uint8_t)(words << 4 | s->reserved), .flags = s->flags };
    store_be16(&tcp->source_port, s->peer_port);
    store_be16(&tcp->destination_port, s->port);
    store_be32(&tcp->seq, base->peer_isn + s->seq);
    store_be32(&tcp->ack, (s->flags & TCP_ACK) != 0 ? base->stack_isn + s->ack : s->ack);
    store_be16(&tcp->window, (uint16_t)(s->window < 0 ? 65535 : s->window));
    store_be16(&tcp->urgent, (uint16_t)s->urgent);
    uint32_t bytes = packet_ipv4(packet, IPV4_PROTOCOL_TCP, s->source, s->destination, tcp_bytes);
    packet[1] = s->codepoint;
    packet_sum(packet, bytes);
    tcp->checksum ^= (uint16_t)(s->corrupt ? 0x10 : 0);
    return bytes;
}

uint16_t wire_segment_peer_port(const uint8_t *packet, size_t bytes)
{
    bool tcp = bytes >= 40 && packet[9] == IPV4_PROTOCOL_TCP;
    return tcp ? load_be16(packet + (packet[0] & 0xf) * 4 + 2) : 0;
}

static const char *option_read(struct wire_option *o, struct wire_base *base, const uint8_t *at, uint32_t bytes)
{
    *o = (struct wire_option){ .kind = at[0] };
    if (at[0] == TCP_OPTION_END || at[0] == TCP_OPTION_NOP) {
        o->raw_bytes = 1; /* the segment's length, for the caller */
        return NULL;
    }
    if (bytes < 2 || at[1] < 2 || at[1] > bytes)
        return "an option's length is wrong";
    o->raw_bytes = at[1];
    if (at[0] == TCP_OPTION_MSS && at[1] == 4) {
        o->values[o->value_count++] = load_be16(at + 2);
    } else if (at[0] == TCP_OPTION_WINDOW_SCALE && at[1] == 3) {
        o->values[o->value_count++] = at[2];
    } else if (at[0] == TCP_OPTION_SACK && at[1] % 8 == 2) {
        for (uint32_t i = 2; i < at[1]; i += 4)
            o->values[o->value_count++] = load_be32(at + i) - base->peer_isn;
    } else if (at[0] == TCP_OPTION_TIMESTAMPS && at[1] == 10) {
        if (!base->timestamp_known) {
            base->timestamp = load_be32(at + 2);
            base->timestamp_known = true;
        }
        o->values[o->value_count++] = load_be32(at + 2) - base->timestamp;
        o->values[o->value_count++] = load_be32(at + 6);
    } else if (at[0] != TCP_OPTION_SACK_PERMITTED || at[1] != 2) {
        return "an option that the stack should not send";
    }
    return NULL;
}

static const char *options_read(struct wire_segment *s, struct wire_base *base, const uint8_t *at, uint32_t bytes)
{
    while (bytes > 0) {
        struct wire_option *o = &s->options[s->option_count++];
        const char *fault = option_read(o, base, at, bytes);
        if (fault != NULL)
            return fault;
        at += o->raw_bytes;
        bytes -= o->raw_bytes;
        o->raw_bytes = 0;
    }
    return NULL;
}

const char *wire_segment_read(struct wire_segment *s, struct wire_base *base, const uint8_t *packet, size_t bytes)
{
    const struct ipv4_wire *ipv4 = (const struct ipv4_wire *)packet;
    *s = (struct wire_segment){ .fill = -1, .options_said = true };
    if (bytes < 28 || ipv4->version_ihl != 0x45 || load_be16(&ipv4->total_bytes) != bytes)
        return "IPv4 header: version, length";
    if (checksum_finish(checksum_sum(0, ipv4, sizeof *ipv4)) != 0)
        return "IPv4 header: checksum";
    if (load_be32(&ipv4->source) != WIRE_STACK_ADDRESS || ipv4->ttl == 0)
        return "IPv4 header: source, TTL";
    if ((load_be16(&ipv4->flags_offset) & IPV4_DONT_FRAGMENT) == 0) {
        if (base->cuttable_id == load_be16(&ipv4->id))
            return "IPv4 header: the ID of the packet before, which could be cut, too (RFC 6864)";
        base->cuttable_id = load_be16(&ipv4->id);
    }
    uint32_t transport_bytes = (uint32_t)bytes - sizeof *ipv4;
    if (ipv4->protocol == IPV4_PROTOCOL_ICMP) {
        const struct icmp_wire *icmp = (const struct icmp_wire *)(ipv4 + 1);
        s->icmp = true;
        s->icmp_type = icmp->type;
        s->icmp_code = icmp->code;
        return checksum_finish(checksum_sum(0, icmp, transport_bytes)) == 0 ? NULL : "ICMP checksum";
    }
    const struct tcp_wire *tcp = (const struct tcp_wire *)(ipv4 + 1);
    uint32_t header_bytes = (uint32_t)(tcp->offset >> 4) * 4;
    if (ipv4->protocol != IPV4_PROTOCOL_TCP || transport_bytes < sizeof *tcp || header_bytes < sizeof *tcp
        || header_bytes > transport_bytes)
        return "protocol, TCP header length";
    if ((tcp->offset & 0xf) != 0) /* RFC 9293 §3.1, Rsrvd: "must be zero in generated segments" */
        return "reserved bits";
    uint32_t sum = checksum_pseudo_ipv4(load_be32(&ipv4->source), load_be32(&ipv4->destination), IPV4_PROTOCOL_TCP,
                                        (uint16_t)transport_bytes);
    if (checksum_finish(checksum_sum(sum, tcp, transport_bytes)) != 0)
        return "TCP checksum";
    if (!base->stack_known && (tcp->flags & (TCP_SYN | TCP_RST)) == TCP_SYN) {
        base->stack_isn = load_be32(&tcp->seq);
        base->stack_known = true;
        base->port = load_be16(&tcp->source_port);
    }
    s->flags = tcp->flags;
    s->codepoint = ipv4->tos & IPV4_ECN_MASK;
    s->peer_port = load_be16(&tcp->destination_port);
    s->port = load_be16(&tcp->source_port);
    s->seq = load_be32(&tcp->seq) - base->stack_isn;
    s->ack = (tcp->flags & TCP_ACK) != 0 ? load_be32(&tcp->ack) - base->peer_isn : load_be32(&tcp->ack);
    s->window = load_be16(&tcp->window);
    s->urgent = load_be16(&tcp->urgent);
    s->bytes = transport_bytes - header_bytes;
    const char *fault = options_read(s, base, (const uint8_t *)(tcp + 1), header_bytes - (uint32_t)sizeof *tcp);
    for (uint32_t i = 0; fault == NULL && i < s->bytes; i++)
        if (((const uint8_t *)tcp)[header_bytes + i] != wire_stream_byte(WIRE_FROM_STACK, s->seq + i))
            fault = "payload: not the stream's bytes";
    return fault;
}

/* ---- Text ---- */

static int option_print(const struct wire_option *o, char *text, size_t bytes)
{
    if (o->raw_bytes != 0)
        return snprintf(text, bytes, "raw(%u)", o->raw_bytes);
    switch (o->kind) {
    case TCP_OPTION_END:
        return snprintf(text, bytes, "eol");
    case TCP_OPTION_NOP:
        return snprintf(text, bytes, "nop");
    case TCP_OPTION_MSS:
        return snprintf(text, bytes, "mss %u", o->values[0]);
    case TCP_OPTION_WINDOW_SCALE:
        return snprintf(text, bytes, "ws %u", o->values[0]);
    case TCP_OPTION_SACK_PERMITTED:
        return snprintf(text, bytes, "sackOK");
    case TCP_OPTION_TIMESTAMPS:
        return o->any ? snprintf(text, bytes, "ts * %u", o->values[1])
                      : snprintf(text, bytes, "ts %u %u", o->values[0], o->values[1]);
    default:
        break;
    }
    int at = snprintf(text, bytes, "sack");
    for (uint32_t i = 0; i + 1 < o->value_count; i += 2)
        at += snprintf(text + at, bytes - (size_t)at, " %u:%u", o->values[i], o->values[i + 1]);
    return at;
}

static char *options_print(const struct wire_segment *s, char *text, size_t bytes)
{
    int at = snprintf(text, bytes, "<");
    for (uint32_t i = 0; i < s->option_count; i++) {
        at += option_print(&s->options[i], text + at, bytes - (size_t)at);
        at += snprintf(text + at, bytes - (size_t)at, "%s", i + 1 < s->option_count ? ", " : "");
    }
    snprintf(text + at, bytes - (size_t)at, s->options_any ? "...>" : ">");
    return text;
}

static char *flags_print(uint8_t flags, char *text)
{
    char *at = text;
    for (int bit = 0; bit < 8; bit++)
        if ((flags >> bit & 1) != 0)
            *at++ = flag_letters[bit];
    if (at == text)
        *at++ = '-';
    *at = 0;
    return text;
}

char *wire_segment_print(const struct wire_segment *s, char *text, size_t text_bytes)
{
    char flags[9], options[400] = "";
    if (s->icmp) {
        snprintf(text, text_bytes, "icmp %u %u", s->icmp_type, s->icmp_code);
        return text;
    }
    int at = snprintf(text, text_bytes, "%s %u:%u(%u)", flags_print(s->flags, flags), s->seq, s->seq + s->bytes,
                      s->bytes);
    if ((s->flags & TCP_ACK) != 0)
        at += snprintf(text + at, text_bytes - (size_t)at, " ack %u", s->ack);
    if (s->window >= 0)
        at += snprintf(text + at, text_bytes - (size_t)at, " win %u", (uint32_t)s->window);
    if (s->codepoint != 0)
        at += snprintf(text + at, text_bytes - (size_t)at, " ecn %u", s->codepoint);
    if (s->options_said && (s->option_count != 0 || s->options_any))
        at += snprintf(text + at, text_bytes - (size_t)at, " %s", options_print(s, options, sizeof options));
    if (s->port != 0)
        snprintf(text + at, text_bytes - (size_t)at, " from %u to %u", s->port, s->peer_port);
    return text;
}

/* ---- Comparison ---- */

static const char *differs(char values[2][200], const char *field, uint64_t expected, uint64_t actual)
{
    snprintf(values[0], 200, "%llu", (unsigned long long)expected);
    snprintf(values[1], 200, "%llu", (unsigned long long)actual);
    return field;
}

static bool option_same(const struct wire_option *e, const struct wire_option *a)
{
    if (e->kind != a->kind || e->value_count != a->value_count)
        return false;
    for (uint32_t i = e->any ? 1 : 0; i < e->value_count; i++)
        if (e->values[i] != a->values[i])
            return false;
    return true;
}

/* Compares options. A segment without options in the timeline may have timestamps, with the padding before them. */
static bool options_same(const struct wire_segment *e, const struct wire_segment *a)
{
    if (e->options_any)
        return true;
    if (!e->options_said) {
        for (uint32_t i = 0; i < a->option_count; i++)
            if (a->options[i].kind != TCP_OPTION_NOP && a->options[i].kind != TCP_OPTION_TIMESTAMPS)
                return false;
        return true;
    }
    if (e->option_count != a->option_count)
        return false;
    for (uint32_t i = 0; i < e->option_count; i++)
        if (!option_same(&e->options[i], &a->options[i]))
            return false;
    return true;
}

const char *wire_segment_compare(const struct wire_segment *e, const struct wire_segment *a, char values[2][200])
{
    if (e->icmp != a->icmp)
        return differs(values, "icmp", e->icmp, a->icmp);
    if (e->icmp && (e->icmp_type != a->icmp_type || e->icmp_code != a->icmp_code))
        return differs(values, "icmp type and code", e->icmp_type * 256u + e->icmp_code,
                       a->icmp_type * 256u + a->icmp_code);
    if (e->icmp)
        return NULL;
    if (e->flags != a->flags) {
        flags_print(e->flags, values[0]);
        flags_print(a->flags, values[1]);
        return "flags";
    }
    if (e->seq != a->seq)
        return differs(values, "seq", e->seq, a->seq);
    if (e->bytes != a->bytes)
        return differs(values, "length", e->bytes, a->bytes);
    if (e->ack != a->ack)
        return differs(values, "ack", e->ack, a->ack);
    if (e->window >= 0 && e->window != a->window)
        return differs(values, "win", (uint64_t)e->window, (uint64_t)a->window);
    if (e->urgent != a->urgent)
        return differs(values, "urg", e->urgent, a->urgent);
    if (e->codepoint != a->codepoint)
        return differs(values, "ecn", e->codepoint, a->codepoint);
    if (e->port != 0 && e->port != a->port)
        return differs(values, "from port", e->port, a->port);
    if (!options_same(e, a)) {
        options_print(e, values[0], 200);
        options_print(a, values[1], 200);
        return "options";
    }
    return NULL;
}
