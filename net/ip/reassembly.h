/* Fragments back into datagrams. RFC 791 §3.2, RFC 815. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/ip/ipv4.h"
#include "net/ip/ipv4_wire.h"

enum {
    /* RFC 791 §3.2 asks for datagrams of 576 bytes; the largest ping needs more. Four datagrams of the longest kind
     * have room at once. */
    IPV4_REASSEMBLY_COUNT = 4,
    /* The most fragments that are copied at once, and in a second in the long run. A flood of fragments must not cost
     * more than a flood of any other frames. Two of the longest datagrams need 90. */
    IPV4_FRAGMENTS_BURST = 256,
    IPV4_FRAGMENTS_PER_S = 500,
    IPV4_REASSEMBLY_UNIT_COUNT = 65536 / IPV4_FRAGMENT_UNIT_BYTES,
};
/* RFC 1122 §3.3.2 asks for 60 to 120 s. The value, 30 s, is Linux's. */
#define IPV4_REASSEMBLY_NS UINT64_C(30000000000)

/* A datagram being put together. Its payload lies where it belongs; a bit per 8 bytes says what has come. */
struct ipv4_reassembly {
    bool used;
    uint16_t id;
    uint8_t protocol;
    uint32_t source, destination;
    uint32_t payload_bytes; /* 0: the last fragment has not come */
    uint32_t unit_count;    /* units that have come */
    uint32_t unit_end;      /* one past the highest of them */
    uint64_t ends_ns;
    uint8_t head_bytes; /* 0: the first fragment has not come */
    uint8_t codepoints; /* a bit for each ECN codepoint that has come */
    uint64_t arrived[IPV4_REASSEMBLY_UNIT_COUNT / 64];
    /* The first fragment's header is put right before the payload, for ICMP errors that quote it. */
    _Alignas(16) uint8_t bytes[IPV4_HEADER_BYTES_MAX + 4 + 65536];
};

/* Gives up reassemblies whose time is over. */
void ipv4_reassembly_poll(struct net_ip *ip, uint64_t now_ns);
uint64_t ipv4_reassembly_next_deadline_ns(const struct net_ip *ip);

/* Asserts what holds of all reassemblies between two calls. */
void ipv4_reassembly_check(const struct net_ip *ip);

/* Takes a fragment; true if the datagram is now whole and `packet` describes it, valid until the
 * next call. */
bool ipv4_reassembly_accept(struct net_ip *ip, struct ipv4_packet *packet, uint16_t id, uint16_t flags_offset,
                            uint64_t now_ns);
