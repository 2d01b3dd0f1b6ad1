/* ICMP messages. RFC 792; the next-hop MTU: RFC 1191 §4. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ICMP_ECHO_REPLY = 0,
    ICMP_UNREACHABLE = 3,
    ICMP_SOURCE_QUENCH = 4,
    ICMP_REDIRECT = 5,
    ICMP_ECHO = 8,
    ICMP_TIME_EXCEEDED = 11,
    ICMP_PARAMETER_PROBLEM = 12,

    ICMP_CODE_NET_UNREACHABLE = 0, /* codes of ICMP_UNREACHABLE */
    ICMP_CODE_HOST_UNREACHABLE = 1,
    ICMP_CODE_PROTOCOL_UNREACHABLE = 2,
    ICMP_CODE_PORT_UNREACHABLE = 3,
    ICMP_CODE_FRAGMENTATION_NEEDED = 4,
    ICMP_CODE_NET_PROHIBITED = 9,
    ICMP_CODE_HOST_PROHIBITED = 10,
    ICMP_CODE_FILTERED = 13,
    ICMP_CODE_REASSEMBLY_TIME_EXCEEDED = 1, /* a code of ICMP_TIME_EXCEEDED */
};

struct icmp_wire {
    uint8_t type;
    uint8_t code;
    uint16_t checksum;
    union {
        struct {
            uint16_t id;
            uint16_t sequence;
        } __attribute__((packed)) echo;
        struct {
            uint16_t unused;
            uint16_t next_hop_mtu;
        } __attribute__((packed)) unreachable;
        uint32_t rest;
    };
} __attribute__((packed));
static_assert(sizeof(struct icmp_wire) == 8, "ICMP header");
static_assert(offsetof(struct icmp_wire, unreachable.next_hop_mtu) == 6, "ICMP header");
