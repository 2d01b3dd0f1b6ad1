/* A device that carries IP packets instead of frames: for programs that speak IP to the stack (test suites, TUN).
 *
 * Two bounded queues in memory. The device adds the Ethernet header that the stack wants, and removes it again. With
 * net_config.gateway_mac set and a /32 mask every packet goes through the gateway, so the stack needs no ARP.
 * The device does not read the packets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/netdev.h"

enum {
    NETDEV_IP_PACKET_BYTES_MAX = 65535, /* into the stack: the longest packet of IPv4 */
    NETDEV_IP_QUEUE_BYTES = 256 * 1024, /* into the stack: four longest packets, or 170 of 1500 bytes */
    NETDEV_IP_BUFFER_COUNT = 1024,      /* out of the stack: a window of segments, and held messages */
    NETDEV_IP_BUFFER_BYTES = 1600,
};

struct netdev_ip {
    struct netdev device;        /* first: the address of one is the address of the other */
    uint32_t in_head, in_tail;   /* offsets into in_bytes; a packet lies in one piece */
    uint32_t in_read;            /* the oldest not yet borrowed */
    uint32_t out_head, out_tail; /* packets taken, and packets published, so far */
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
    uint8_t *out_memory; /* the buffers: out_bytes, or the memory given to netdev_ip_init_jumbo */
    uint32_t out_stride_bytes;
    _Alignas(64) uint8_t out_bytes[NETDEV_IP_BUFFER_COUNT * NETDEV_IP_BUFFER_BYTES];
};

/* Sets up a device. `mtu_bytes`: the IP bytes that the stack may send in a packet, at most 1500. */
void netdev_ip_init(struct netdev_ip *device, uint16_t mtu_bytes);

/* Returns the bytes of memory that netdev_ip_init_jumbo needs for an MTU. */
size_t netdev_ip_jumbo_bytes(uint16_t mtu_bytes);

/* Sets up a device for any MTU. The device keeps `memory`, which is aligned to 64. */
void netdev_ip_init_jumbo(struct netdev_ip *device, uint16_t mtu_bytes, void *memory);

/* Checks the whole state of a device. */
void netdev_ip_check(const struct netdev_ip *device);

/* Gives the stack a packet (copied). Returns false, and counts the packet, if the queue is full. */
bool netdev_ip_push(struct netdev_ip *device, const void *packet, size_t bytes);

/* Takes the oldest packet that the stack has sent and returns its length; 0: there is none. The packet is valid until
 * netdev_ip_release or the next netdev_ip_pop. Until then the stack cannot send the same buffer again. */
size_t netdev_ip_pop(struct netdev_ip *device, const uint8_t **packet);
void netdev_ip_release(struct netdev_ip *device);
