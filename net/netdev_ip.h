/* A device that carries IP packets instead of frames: for programs that speak IP to the stack (test suites, TUN).
 *
 * Two bounded queues in memory. The Ethernet header that the stack wants is put on and taken off here; with
 * net_config.gateway_mac set and a /32 mask every packet goes "through the gateway", so no ARP is spoken.
 * Knows nothing of IP but its first nibble. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/netdev.h"

enum {
    NETDEV_IP_PACKET_BYTES_MAX = 65535,     /* into the stack: whatever a foreign sender thinks a packet is */
    NETDEV_IP_QUEUE_BYTES = 256 * 1024,     /* into the stack: four of the longest, some 170 of the usual */
    NETDEV_IP_BUFFER_COUNT = 1024,          /* out of the stack: a window of segments, and held messages */
    NETDEV_IP_BUFFER_BYTES = 1600,
};

struct netdev_ip {
    struct netdev device;                   /* first: the address of one is the address of the other */
    uint32_t in_head, in_tail;              /* offsets into in_bytes; a packet lies in one piece */
    uint32_t in_read;                       /* the oldest not yet borrowed */
    uint32_t out_head, out_tail;            /* packets taken, and published, so far */
    uint32_t borrowed_count;
    uint64_t in_drop_full, out_drop_full;
    struct {
        uint16_t buffer;
        uint16_t bytes;
        uint8_t *data;
    } out[NETDEV_IP_BUFFER_COUNT];
    uint16_t free[NETDEV_IP_BUFFER_COUNT];
    uint32_t free_count;
    struct tx_buffer *popped;
    struct tx_buffer buffers[NETDEV_IP_BUFFER_COUNT];
    _Alignas(64) uint8_t in_bytes[NETDEV_IP_QUEUE_BYTES];
    uint8_t *out_memory;                    /* the buffers: out_bytes, or what netdev_ip_init_jumbo was given */
    uint32_t out_stride_bytes;
    _Alignas(64) uint8_t out_bytes[NETDEV_IP_BUFFER_COUNT * NETDEV_IP_BUFFER_BYTES];
};

/* `mtu_bytes`: IP bytes the stack may send in a packet, at most 1500. */
void netdev_ip_init(struct netdev_ip *device, uint16_t mtu_bytes);

/* The same for any MTU, in memory of netdev_ip_jumbo_bytes(mtu_bytes) aligned to 64, which is lent for good. */
size_t netdev_ip_jumbo_bytes(uint16_t mtu_bytes);
void netdev_ip_init_jumbo(struct netdev_ip *device, uint16_t mtu_bytes, void *memory);

/* Gives the stack a packet (copied). False, and counted, when the queue is full. */
bool netdev_ip_push(struct netdev_ip *device, const void *packet, size_t bytes);

/* Takes the oldest packet the stack has sent: its bytes, valid until netdev_ip_release or the next netdev_ip_pop; 0
 * when there is none. Until then the device holds it, and the stack cannot send the same buffer again. */
size_t netdev_ip_pop(struct netdev_ip *device, const uint8_t **packet);
void netdev_ip_release(struct netdev_ip *device);
