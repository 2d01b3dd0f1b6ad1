/* Ethernet: whole frames in and out. IEEE 802.3. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ethernet_wire.h"
#include "net/netdev.h"

struct net_ip;

/* A received frame, taken apart. */
struct ethernet_frame {
    uint16_t type;
    bool broadcast;        /* to a group, not to us alone */
    const uint8_t *source; /* the sender's MAC address */
    /* A capture copies the frame afterwards: its bytes stay as they came. */
    const uint8_t *payload;
    uint32_t payload_bytes; /* with padding */
};

/* Takes a frame apart. False: dropped and counted. */
bool ethernet_accept(struct net_ip *ip, const struct frame *frame, struct ethernet_frame *out);

/* Returns a buffer for a frame of our own. NULL: none is free, which is counted. */
struct tx_buffer *ethernet_send_begin(struct net_ip *ip);

/* Sends a whole frame and ends the stack's hold on its buffer, sent or not. False: dropped and counted. */
bool ethernet_send(struct net_ip *ip, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                   uint16_t csum_offset);
