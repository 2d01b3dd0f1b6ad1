/* ARP for IPv4 over Ethernet. RFC 826, "Packet format"; numbers: RFC 5494. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ethernet_wire.h"

enum {
    ARP_HARDWARE_ETHERNET = 1,
    ARP_OPERATION_REQUEST = 1,
    ARP_OPERATION_REPLY = 2,
};

struct arp_wire {
    uint16_t hardware_type;
    uint16_t protocol_type;
    uint8_t hardware_bytes;
    uint8_t protocol_bytes;
    uint16_t operation;
    uint8_t sender_mac[ETHERNET_ADDRESS_BYTES];
    uint32_t sender_address;
    uint8_t target_mac[ETHERNET_ADDRESS_BYTES];
    uint32_t target_address;
} __attribute__((packed));
static_assert(sizeof(struct arp_wire) == 28, "ARP packet");
static_assert(offsetof(struct arp_wire, target_address) == 24, "ARP packet");
