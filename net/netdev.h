/* A network device as the stack sees it: frames in place, both ways. One of the few seams with function pointers;
 * they are set once, at init. Implemented by drivers/virtio/net.c, host/library/ (queues of IP packets) and
 * tests/lib/ (TAP, memory, seeded faults, pcap).
 *
 * Ownership. A received frame is borrowed: its bytes stay valid, and writable, until rx_release. Up to
 * NETDEV_RX_BORROWED_MAX frames may be borrowed at once, and released in any order. A transmit buffer has up to two
 * holders, the stack and the device. tx_acquire gives the buffer to the stack. tx_publish makes the device a holder as
 * well; the stack can then send the same bytes again (retransmission) without a copy. tx_release ends the stack's
 * hold. A buffer without holders is free again. The stack must not write into a buffer while the device holds it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    NETDEV_MAC_BYTES = 6,
    NETDEV_FRAME_BYTES_MAX = 1514, /* Ethernet header and 1500 bytes; larger MTUs are clamped to this */
    NETDEV_TAGS_BYTES_MAX = 8,     /* two VLAN tags, which vlan_strip takes off received frames */
    NETDEV_GROUP_COUNT_MAX = 9,    /* multicast groups: 8 of the program, and that of all systems */
    NETDEV_RX_BORROWED_MAX = 64,   /* frames borrowed at once: out-of-order segments */
    NETDEV_TX_BUFFER_COUNT = 256,  /* transmit buffers of a machine's device */
};

/* A received frame, from the Ethernet header on, without FCS. */
struct frame {
    uint8_t *data;
    uint32_t bytes;
    uint32_t cookie;    /* the device's own; the stack hands it back untouched */
    bool checksum_good; /* the device vouches for the L4 checksum (virtio: DATA_VALID or NEEDS_CSUM) */
};

/* Returns true if a VLAN tag follows the addresses of a frame: IEEE 802.1Q table 9-1, C-TAG and S-TAG. */
static inline bool netdev_frame_is_tagged(const uint8_t *frame)
{
    uint16_t type = load_be16(frame + 2 * NETDEV_MAC_BYTES);
    return type == 0x8100 || type == 0x88a8;
}

enum {
    TX_HELD_BY_STACK = 1,
    TX_HELD_BY_DEVICE = 2,
};

/* A transmit buffer. `data` points at NETDEV_FRAME_BYTES_MAX writable bytes, 2 past a multiple of 16, so the IP header
 * after the Ethernet header is aligned to 16. The driver keeps its own header in front of `data`.
 *
 * The stack may move `data` forward before tx_publish, by as much as the frame is shorter than
 * NETDEV_FRAME_BYTES_MAX. The frame, and the driver's header before it, then begin there (a head that ends where
 * prepared digits begin). tx_acquire puts `data` back. A driver therefore reads `data` in tx_publish and keeps no
 * copy. */
struct tx_buffer {
    uint8_t *data;
    uint16_t index;           /* the device's own */
    volatile uint8_t holders; /* TX_HELD_BY_* */
};

struct netdev;

struct netdev_ops {
    /* Borrows the next received frame, in place; false if there is none. Never notifies the device. */
    bool (*rx_borrow)(struct netdev *device, struct frame *frame);
    /* Ends the loan of the frame with this cookie; its other members may have changed. */
    void (*rx_release)(struct netdev *device, const struct frame *frame);

    /* Returns a free buffer, held by the stack from now on; NULL if none is free (counted). */
    struct tx_buffer *(*tx_acquire)(struct netdev *device);

    /* Sends `bytes` from buffer->data, where the Ethernet header begins. `bytes` counts at least 14. False when the
     * ring is full or the device still holds the buffer (counted); the holders are then unchanged. If csum_start is
     * not 0 the L4 checksum field holds the pseudo-header sum, and the device (or its driver) completes the checksum:
     * virtio 1.2 §5.1.6.2. Allowed only if device->tx_checksum is set. */
    bool (*tx_publish)(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset);
    void (*tx_release)(struct netdev *device, struct tx_buffer *buffer);

    /* Does the work that may wait: refills receive buffers, reclaims sent ones, reads the link state. Called in idle
     * time, and by the device itself when it would otherwise run dry. */
    void (*poll)(struct netdev *device);

    /* Replaces the list of the groups whose frames are wanted, `count` Ethernet addresses, copied. Frames to all and to
     * the device itself are wanted in any case. NULL: the device has no filter. A device may pass on other frames too:
     * the stack checks. */
    void (*groups_set)(struct netdev *device, const uint8_t (*groups)[NETDEV_MAC_BYTES], uint32_t count);

    /* Runs the code of a received and of a sent frame on other rings, and changes nothing: idle work of less than a
     * microsecond. NULL: there is nothing to rehearse. */
    void (*rehearse)(struct netdev *device);
};

struct netdev {
    const struct netdev_ops *ops;
    uint8_t mac[NETDEV_MAC_BYTES];
    uint16_t mtu_bytes; /* IP bytes in a frame: 1500, or less by the device */
    bool tx_checksum;   /* partial checksums may be given to tx_publish */
    bool link_up;
    /* The device asks for an announcement of our address on the link, because the host is new. The stack clears
     * this. */
    bool announce;
    bool point_to_point; /* one neighbour with a fixed address: no ARP (Linux: IFF_NOARP) */
};
