/* Ethernet II frames. IEEE 802.3 §3.2.6: a type field of 0x0600 or more is an EtherType. */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
    ETHERNET_ADDRESS_BYTES = 6,
    ETHERNET_GROUP_BIT_MASK = 0x01, /* in the first byte: multicast and broadcast */
    ETHERNET_TYPE_IPV4 = 0x0800,
    ETHERNET_TYPE_ARP = 0x0806,
};

struct ethernet_wire {
    uint8_t destination[ETHERNET_ADDRESS_BYTES];
    uint8_t source[ETHERNET_ADDRESS_BYTES];
    uint16_t type;
} __attribute__((packed));
static_assert(sizeof(struct ethernet_wire) == 14, "Ethernet header");
