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

/* RFC 1112 §6.4: IPv4 groups have the addresses 01:00:5e:00:00:00 to 01:00:5e:7f:ff:ff. The low bits are those of the
 * group's IPv4 address. */
#define ETHERNET_GROUPS_HIGH     UINT16_C(0x0100)
#define ETHERNET_GROUPS_LOW      UINT32_C(0x5e000000)
#define ETHERNET_IPV4_GROUP_MASK UINT32_C(0x007fffff)

struct ethernet_group_wire {
    uint16_t high;
    uint32_t low;
} __attribute__((packed));
static_assert(sizeof(struct ethernet_group_wire) == ETHERNET_ADDRESS_BYTES, "Ethernet address");

struct ethernet_wire {
    uint8_t destination[ETHERNET_ADDRESS_BYTES];
    uint8_t source[ETHERNET_ADDRESS_BYTES];
    uint16_t type;
} __attribute__((packed));
static_assert(sizeof(struct ethernet_wire) == 14, "Ethernet header");
