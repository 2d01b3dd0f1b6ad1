/* The work that a network card takes off the stack: looks at headers, sums, and cuts large TCP segments. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ETHERNET_BYTES = 14, IP_PROTOCOL_TCP = 6, IP_PROTOCOL_UDP = 17 };

struct offload_headers {
    bool ipv4, ipv6, fragment;
    uint8_t protocol;
    uint32_t l4; /* offset in the frame; 0: no IP */
};

/* Finds the headers of a frame without VLAN tag. Extension headers of IPv6 are not followed. */
struct offload_headers offload_parse(const uint8_t *frame, uint32_t bytes);

/* Completes an L4 checksum whose field holds the sum of the pseudo-header. Returns false if it is not in the frame. */
bool offload_complete(uint8_t *frame, uint32_t bytes, uint32_t l4, uint32_t field);

/* Returns true if the L4 checksum of a whole TCP or UDP datagram is right. */
bool offload_is_right(const uint8_t *frame, uint32_t bytes, struct offload_headers headers);

/* Cuts a large TCP segment into frames with `mss` bytes of payload, and sends each. Returns false if the headers do not
 * end at `header_bytes`. */
bool offload_segment(const uint8_t *packet, uint32_t bytes, uint32_t header_bytes, uint32_t mss,
                     void (*send)(void *context, const uint8_t *frame, uint32_t bytes), void *context);
