/* The IPv4 header. RFC 791 §3.1. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IPV4_ECN_MASK = 3,      /* the low bits of `tos`: RFC 3168 §5 */
    IPV4_ECN_INCAPABLE = 0, /* codepoint Not-ECT */
    IPV4_ECN_CAPABLE = 2,   /* codepoint ECT(0) */
    IPV4_ECN_CONGESTED = 3, /* codepoint CE */
    IPV4_VERSION = 4,
    IPV4_HEADER_BYTES_MIN = 20,
    IPV4_HEADER_BYTES_MAX = 60,
    IPV4_DATAGRAM_BYTES_MAX = 65535,
    IPV4_DONT_FRAGMENT = 0x4000, /* bits of flags_offset */
    IPV4_MORE_FRAGMENTS = 0x2000,
    IPV4_OFFSET_MASK = 0x1fff, /* in units of IPV4_FRAGMENT_UNIT_BYTES */
    IPV4_FRAGMENT_UNIT_BYTES = 8,
    IPV4_PROTOCOL_ICMP = 1,
    IPV4_PROTOCOL_IGMP = 2,
    IPV4_PROTOCOL_TCP = 6,
    IPV4_PROTOCOL_UDP = 17,
    IPV4_TTL_DEFAULT = 64, /* RFC 1700, "IP time to live" */
    IPV4_OPTION_END = 0,
    IPV4_OPTION_NOP = 1,
    IPV4_OPTION_LOOSE_ROUTE = 131,
    IPV4_OPTION_STRICT_ROUTE = 137,
    IPV4_OPTION_ROUTER_ALERT = 148,       /* RFC 2113 §2.1 */
    IPV4_TOS_INTERNETWORK_CONTROL = 0xc0, /* a precedence: RFC 791 §3.1 */
};

/* The rest of the option follows; END and NOP are one byte alone. */
struct ipv4_option_wire {
    uint8_t kind;
    uint8_t bytes; /* kind and length among them */
} __attribute__((packed));
static_assert(sizeof(struct ipv4_option_wire) == 2, "RFC 791 §3.1");

struct ipv4_wire {
    uint8_t version_ihl;
    uint8_t tos;
    uint16_t total_bytes;
    uint16_t id;
    uint16_t flags_offset;
    uint8_t ttl;
    uint8_t protocol;
    uint16_t checksum;
    uint32_t source;
    uint32_t destination;
} __attribute__((packed));
static_assert(sizeof(struct ipv4_wire) == IPV4_HEADER_BYTES_MIN, "IPv4 header");
static_assert(offsetof(struct ipv4_wire, source) == 12, "IPv4 header");
