/* ICMP: answers echoes, reports what cannot be delivered, takes errors about our datagrams apart. RFC 792, RFC 1122
 * §3.2.2. Redirects, timestamps and the rest are ignored. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/ip/ipv4.h"

struct net_ip;

enum {
    ICMP_REPLIES_BURST = 64,    /* echo replies and errors that may leave at once ... */
    ICMP_REPLIES_PER_S = 1000,  /* ... and in the long run (RFC 1812 §4.3.2.8, Linux: icmp_msgs_per_sec) */
    ICMP_QUOTE_BYTES_MAX = 548, /* RFC 1812 §4.3.2.3: an error stays within 576 bytes */
};

/* A token bucket in nanoseconds: `full_ns` moves ahead by the price of each reply. */
struct icmp {
    uint64_t full_ns;
};

/* An error that quotes a datagram of ours. Host order. */
struct icmp_error {
    uint8_t type, code;
    uint16_t next_hop_mtu_bytes; /* in "fragmentation needed"; 0: not named */
    uint8_t protocol;            /* the quoted datagram's, like the members below */
    uint32_t destination;
    uint16_t total_bytes;
    const uint8_t *transport; /* the payload's first 8 bytes, valid as long as the packet */
};

/* Answers an echo. True: `error` describes an error about a datagram of ours. */
bool icmp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns, struct icmp_error *error);

/* Reports a packet that could not be delivered, within the limits of RFC 1122 §3.2.2: never about ICMP errors,
 * broadcasts, or anything but a first fragment. */
void icmp_error_send(struct net_ip *ip, const struct ipv4_packet *packet, uint8_t type, uint8_t code, uint64_t now_ns);
