/* ICMP: answers echoes, reports what cannot be delivered, hands errors about our segments to TCP. RFC 792, RFC 1122
 * §3.2.2. Redirects, timestamps and the rest are ignored. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/ipv4.h"

struct net_stack;

enum {
    ICMP_REPLIES_BURST = 64,            /* echo replies and errors that may leave at once ... */
    ICMP_REPLIES_PER_S = 1000,          /* ... and in the long run (RFC 1812 §4.3.2.8, Linux: icmp_msgs_per_sec) */
    ICMP_QUOTE_BYTES_MAX = 548,         /* RFC 1812 §4.3.2.3: an error stays within 576 bytes */
};

/* A token bucket in nanoseconds: `full_ns` moves ahead by the price of each reply. */
struct icmp {
    uint64_t full_ns;
};

void icmp_input(struct net_stack *stack, const struct ipv4_packet *packet, uint64_t now_ns);

/* Reports a packet that could not be delivered, within the limits of RFC 1122 §3.2.2: never about ICMP errors,
 * broadcasts, or anything but a first fragment. */
void icmp_error_send(struct net_stack *stack, const struct ipv4_packet *packet, uint8_t type, uint8_t code,
                     uint64_t now_ns);
