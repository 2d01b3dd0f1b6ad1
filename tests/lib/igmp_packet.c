/* See igmp_packet.h. Nothing of net/ writes these packets, only the checksums' arithmetic. */
#include "tests/lib/igmp_packet.h"

#include <stdio.h>

#include "base/bytes.h"
#include "net/ip/checksum.h"

enum { ALERT_HEADER_BYTES = 24, PROTOCOL = 2 };
static const uint8_t router_alert[4] = { 0x94, 4, 0, 0 };

void igmp_packet_sum(uint8_t *packet, size_t bytes)
{
    size_t header_bytes = (packet[0] & 0xfu) * 4;
    store_be16(packet + 10, 0);
    store_be16(packet + 10, checksum_finish(checksum_sum(0, packet, header_bytes)));
    store_be16(packet + header_bytes + 2, 0);
    store_be16(packet + header_bytes + 2,
               checksum_finish(checksum_sum(0, packet + header_bytes, bytes - header_bytes)));
}

size_t igmp_packet_write(const struct igmp_packet *message, uint8_t packet[IGMP_PACKET_BYTES_MAX])
{
    size_t header_bytes = message->no_alert ? 20 : ALERT_HEADER_BYTES;
    bool v3 = message->type == IGMP_QUERY && message->version == 3;
    size_t bytes = header_bytes + (v3 ? 12 + 4 * message->source_count : 8);
    uint8_t *at = packet + header_bytes;
    memset(packet, 0, bytes);
    packet[0] = (uint8_t)(0x40 | header_bytes / 4);
    packet[1] = 0xc0;
    store_be16(packet + 2, (uint16_t)bytes);
    packet[8] = message->ttl != 0 ? message->ttl : 1;
    packet[9] = PROTOCOL;
    store_be32(packet + 12, message->source);
    store_be32(packet + 16, message->destination);
    if (!message->no_alert)
        memcpy(packet + 20, router_alert, sizeof router_alert);
    at[0] = message->type;
    at[1] = message->max_response;
    store_be32(at + 4, message->group);
    if (v3) {
        at[8] = 2; /* QRV */
        at[9] = 125;
        store_be16(at + 10, (uint16_t)message->source_count);
        for (uint32_t i = 0; i < message->source_count; i++)
            store_be32(at + 12 + 4 * i, message->sources[i]);
    }
    igmp_packet_sum(packet, bytes);
    return bytes;
}

static size_t address_text(const uint8_t *at, char *text, size_t text_bytes)
{
    return (size_t)snprintf(text, text_bytes, " %u.%u.%u.%u", at[0], at[1], at[2], at[3]);
}

/* Writes the records of a report of version 3. Returns the fault, or NULL. */
static const char *records_text(const uint8_t *at, size_t bytes, char *text, size_t text_bytes)
{
    static const char *const types[] = { "", "is_in", "is_ex", "to_in", "to_ex" };
    size_t written = 0, count = load_be16(at + 6), used = 8;
    if (at[1] != 0 || load_be16(at + 4) != 0)
        return "reserved field";
    if (count == 0)
        return "no record";
    for (size_t i = 0; i < count; i++) {
        const uint8_t *record = at + used;
        if (used + 8 > bytes || record[0] == 0 || record[0] > 4 || record[1] != 0)
            return "record";
        size_t source_count = load_be16(record + 2);
        used += 8 + 4 * source_count;
        if (used > bytes || text_bytes - written < 24 + 16 * source_count)
            return "record's length";
        written += (size_t)snprintf(text + written, text_bytes - written, "%s%s", i == 0 ? "" : " ", types[record[0]]);
        for (size_t k = 0; k <= source_count; k++)
            written += address_text(record + 4 + 4 * k, text + written, text_bytes - written);
    }
    return used == bytes ? NULL : "bytes after the last record";
}

const char *igmp_packet_text(const uint8_t *packet, size_t bytes, uint32_t source, char *text, size_t text_bytes)
{
    const uint8_t *at = packet + ALERT_HEADER_BYTES;
    uint32_t destination = load_be32(packet + 16), wanted;
    const char *fault = NULL;
    text[0] = 0;
    if (bytes < ALERT_HEADER_BYTES + 8 || packet[0] != 0x46 || load_be16(packet + 2) != bytes || packet[9] != PROTOCOL)
        return "IPv4 header";
    if (packet[1] != 0xc0 || packet[8] != 1 || memcmp(packet + 20, router_alert, sizeof router_alert) != 0)
        return "precedence, TTL or router alert";
    if (load_be32(packet + 12) != source)
        return "source";
    if (checksum_finish(checksum_sum(0, packet, ALERT_HEADER_BYTES)) != 0
        || checksum_finish(checksum_sum(0, at, bytes - ALERT_HEADER_BYTES)) != 0)
        return "checksum";
    if (at[0] == IGMP_REPORT_V3) {
        fault = records_text(at, bytes - ALERT_HEADER_BYTES, text, text_bytes);
        wanted = IGMP_ALL_ROUTERS_V3;
    } else {
        const char *name = at[0] == IGMP_REPORT_V1 ? "v1" : at[0] == IGMP_REPORT_V2 ? "v2" : "leave";
        if (bytes != ALERT_HEADER_BYTES + 8 || at[1] != 0 || (name[0] == 'l' && at[0] != IGMP_LEAVE_V2))
            return "type or length";
        int written = snprintf(text, text_bytes, "%s", name);
        address_text(at + 4, text + written, text_bytes - (size_t)written);
        wanted = at[0] == IGMP_LEAVE_V2 ? IGMP_ALL_ROUTERS : load_be32(at + 4);
    }
    return fault != NULL ? fault : destination == wanted ? NULL : "destination";
}
