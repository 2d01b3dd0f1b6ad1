/* The UDP header. RFC 768. */
#pragma once

#include <assert.h>
#include <stdint.h>

struct udp_wire {
    uint16_t source_port;
    uint16_t destination_port;
    uint16_t bytes;    /* header and payload */
    uint16_t checksum; /* 0: none was made; a sum of 0 is sent as 0xffff */
} __attribute__((packed));
static_assert(sizeof(struct udp_wire) == 8, "UDP header");
