/* A network device as the stack sees it: frames in place, both ways. One of the few seams with function pointers;
 * they are set once, at init. Implemented by drivers/virtio_net.c, host/ (TAP, scripts, seeded faults, pcap) and
 * the model devices of the tests.
 *
 * Ownership. A received frame is borrowed: its bytes stay valid, and writable, until rx_release; any number up to
 * NETDEV_RX_BORROWED_MAX may be out at once, released in any order. A transmit buffer has up to two holders, the
 * stack and the device. tx_acquire gives it to the stack; tx_publish lends it to the device as well, so that the
 * stack can send the same bytes again (retransmission) without a copy; tx_release ends the stack's hold. It is free
 * again when neither holds it. The stack must not write into a buffer while the device holds it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NETDEV_MAC_BYTES = 6,
    NETDEV_FRAME_BYTES_MAX = 1514,      /* Ethernet header and 1500 bytes; larger MTUs are clamped to this */
    NETDEV_RX_BORROWED_MAX = 64,        /* frames lent out at once: reassembly and out-of-order segments */
};

/* A received frame, from the Ethernet header on, without FCS. */
struct frame {
    uint8_t *data;
    uint32_t bytes;
    uint32_t cookie;            /* the device's own; the stack hands it back untouched */
    bool checksum_good;         /* the device vouches for the L4 checksum (virtio: DATA_VALID or NEEDS_CSUM) */
};

enum {
    TX_HELD_BY_STACK = 1,
    TX_HELD_BY_DEVICE = 2,
};

/* A transmit buffer. `data` points at NETDEV_FRAME_BYTES_MAX writable bytes, 2 past a multiple of 16 so that the
 * IP header behind the Ethernet header is aligned to 16; the driver keeps its own header in front of it.
 *
 * The stack may move `data` forward before tx_publish, by as much as the frame is shorter than
 * NETDEV_FRAME_BYTES_MAX: the frame, and the driver's header before it, then begin there (a head that ends where
 * prepared digits begin). tx_acquire puts `data` back. So a driver reads it in tx_publish and keeps no copy. */
struct tx_buffer {
    uint8_t *data;
    uint16_t index;             /* the device's own */
    volatile uint8_t holders;   /* TX_HELD_BY_* */
};

struct netdev;

struct netdev_ops {
    /* The next received frame, in place; false when there is none. Never notifies the device. */
    bool (*rx_borrow)(struct netdev *device, struct frame *frame);
    void (*rx_release)(struct netdev *device, const struct frame *frame);

    /* A free buffer, held by the stack from now on; NULL when none is free (counted). */
    struct tx_buffer *(*tx_acquire)(struct netdev *device);

    /* Sends `bytes` from buffer->data, where the Ethernet header begins. `bytes` counts at least 14. False when the
     * ring is full or the device still holds the buffer (counted); the holders are then unchanged. If csum_start is
     * not 0 the L4 checksum field holds the pseudo-header sum and the device (or the driver for it) completes it:
     * virtio 1.2 §5.1.6.2; only allowed where device->tx_checksum is set. */
    bool (*tx_publish)(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset);
    void (*tx_release)(struct netdev *device, struct tx_buffer *buffer);

    /* Work that may wait: refill receive buffers, reclaim sent ones, read the link state. Called in idle time,
     * and by the device itself when it would otherwise run dry. */
    void (*tend)(struct netdev *device);
};

struct netdev {
    const struct netdev_ops *ops;
    uint8_t mac[NETDEV_MAC_BYTES];
    uint16_t mtu_bytes;         /* IP bytes in a frame: 1500, or what the device says if that is less */
    bool tx_checksum;           /* partial checksums may be given to tx_publish */
    bool link_up;
};
