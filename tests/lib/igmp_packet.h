/* IGMP messages of a peer, and those of the stack as text. For the unit test and the timelines. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/igmp_wire.h"

enum { IGMP_PACKET_SOURCES_MAX = 64, IGMP_PACKET_BYTES_MAX = 24 + 12 + 4 * IGMP_PACKET_SOURCES_MAX };

/* A message to the stack. Addresses in host order. */
struct igmp_packet {
    uint32_t source, destination;
    uint8_t type, max_response;
    uint32_t group;
    int version; /* 1, 2 or 3 */
    uint32_t source_count;
    uint32_t sources[IGMP_PACKET_SOURCES_MAX];
    uint8_t ttl;   /* 0: 1 */
    bool no_alert; /* no router alert option */
};

/* Writes a message as an IPv4 packet with right checksums, and returns its length. */
size_t igmp_packet_write(const struct igmp_packet *message, uint8_t packet[IGMP_PACKET_BYTES_MAX]);

/* Makes the checksum of the message in a packet right again. */
void igmp_packet_sum(uint8_t *packet, size_t bytes);

/* Writes a message that the stack sent as text:
 *
 *     to_ex 239.1.1.1 to_in 239.1.1.2     a report of version 3: its records
 *     is_ex 239.1.1.1
 *     is_in 239.1.1.1 10.0.0.9 10.0.0.8   the sources follow the group
 *     v1 239.1.1.1, v2 239.1.1.1          reports of older versions
 *     leave 239.1.1.1
 *
 * Returns NULL, or the fault of a packet that is not well formed: RFC 9776 §4, §4.2.14. */
const char *igmp_packet_text(const uint8_t *packet, size_t bytes, uint32_t source, char *text, size_t text_bytes);
