/* Frames whose headers lie at fixed places: no VLAN tag, IPv4 without options, in one piece. The fast paths inward
 * (net/tcp/fast.c, net/ip/udp.c) look at several fields at a time, in memory order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "net/ip/checksum.h"
#include "net/ip/ethernet_wire.h"
#include "net/ip/ipv4_wire.h"

/* Offsets from the Ethernet header. */
#define PLAIN_AT(member) (sizeof(struct ethernet_wire) + offsetof(struct ipv4_wire, member))
enum {
    PLAIN_AT_TYPE = offsetof(struct ethernet_wire, type), /* EtherType, version and header length, type of service */
    PLAIN_AT_IPV4 = PLAIN_AT(version_ihl),
    PLAIN_AT_TOTAL_BYTES = PLAIN_AT(total_bytes),
    PLAIN_AT_FRAGMENT = PLAIN_AT(flags_offset), /* flags and offset, time to live, protocol */
    PLAIN_AT_PROTOCOL = PLAIN_AT(protocol),
    PLAIN_AT_SOURCE = PLAIN_AT(source),
    PLAIN_AT_DESTINATION = PLAIN_AT(destination),
    PLAIN_AT_PORTS = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire), /* the transport's header begins here */
};

/* The word at PLAIN_AT_TYPE: IPv4, version 4, 5 words of header. The type of service, in the high byte, is 0. */
#define PLAIN_IPV4      UINT32_C(0x00450008)
#define PLAIN_IPV4_MASK UINT32_C(0x00ffffff)

/* Returns true for a datagram of a protocol in one piece: no "more fragments", no offset. "Don't fragment" and the time
 * to live may be anything. */
static inline bool plain_is_whole(const uint8_t *at, uint8_t protocol)
{
    return (load_le32(at + PLAIN_AT_FRAGMENT) & UINT32_C(0xff00ff3f)) == (uint32_t)protocol << 24;
}

/* Returns true if a one's complement sum that includes the checksum is right. The right sum is all ones: a multiple
 * of 0xffff, as 2^16 leaves 1 behind. None of the sums below is 0. */
static inline bool plain_all_ones(uint64_t sum) { return sum % 0xffff == 0; }

/* Checks the sum over the IPv4 header. */
static inline bool plain_header_sum_is_good(const uint8_t *at)
{
    const uint8_t *header = at + PLAIN_AT_IPV4;
    return plain_all_ones((uint64_t)load_le32(header) + load_le32(header + 4) + load_le32(header + 8)
                          + load_le32(header + 12) + load_le32(header + 16));
}

/* Checks the sum over pseudo-header, transport's header and payload: `bytes` at PLAIN_AT_PORTS. */
static inline bool plain_payload_sum_is_good(const uint8_t *at, uint8_t protocol, uint32_t bytes)
{
    uint64_t pseudo = (uint64_t)load_le32(at + PLAIN_AT_SOURCE) + load_le32(at + PLAIN_AT_DESTINATION)
                      + ((uint32_t)protocol << 8) + __builtin_bswap16((uint16_t)bytes);
    return plain_all_ones(checksum_sum_wide(pseudo, at + PLAIN_AT_PORTS, bytes));
}
