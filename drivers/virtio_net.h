/* The virtio network device, virtio 1.2 §5.1, as the stack's struct netdev: polled, two queues, frames in place.
 *
 * virtio_net_find (drivers/virtio_net_find.c) searches the machine; virtio_net_init drives whatever stands behind a
 * struct virtio_transport, so the same text runs hosted against the model of tests/model/. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/virtio_transport.h"
#include "drivers/virtqueue.h"
#include "kernel/base/counters.h"
#include "net/netdev.h"

enum virtio_net_error {
    VIRTIO_NET_OK,
    VIRTIO_NET_NO_DEVICE,
    VIRTIO_NET_NO_REGISTERS,        /* found, but none of its register blocks can be reached */
    VIRTIO_NET_RESET_TIMEOUT,
    VIRTIO_NET_NOT_VERSION_1,
    VIRTIO_NET_NEEDS_IOMMU,
    VIRTIO_NET_FEATURES_REFUSED,
    VIRTIO_NET_NO_QUEUE,            /* no receive or no transmit queue */
    VIRTIO_NET_QUEUE_SIZE,          /* not a power of two, or too small for a header descriptor and one for data */
    VIRTIO_NET_QUEUE_UNREACHABLE,   /* rings where a legacy device cannot be pointed at, or a doorbell outside its area */
};
const char *virtio_net_error_text(enum virtio_net_error error);

/* Whether the device can end a sleep: false without MSI-X. Then virtio_net_wake asks it to do so at the next frame, and
 * returns false if one is already there; virtio_net_quiet ends that. In between the device's messages go where
 * virtio_net_find was told. */
bool virtio_net_can_wake(const struct netdev *device);
bool virtio_net_wake(struct netdev *device);
void virtio_net_quiet(struct netdev *device);

/* Searches the command line's virtio_mmio.device= words, the ACPI tables, then PCI, for the first network device that
 * comes up, reports it in one line of the log and names the others in a second one. None there: lists what PCI holds.
 * `message`: where its interrupts shall go; NULL: it shall have none. Before memory_seal. */
enum virtio_net_error virtio_net_find(struct netdev **device, const char *command_line,
                                      const struct virtio_message *message);

enum {
    VIRTIO_NET_RX_SLOT_COUNT_MAX = 256,     /* 300 us of full frames at 10 Gbit/s: longer than any slice of idle work */
    VIRTIO_NET_TX_SLOT_COUNT_MAX = 256,     /* as many as there are buffers: the ring is never the limit */

    VIRTIO_NET_RX_BUFFER_COUNT = VIRTIO_NET_RX_SLOT_COUNT_MAX   /* posted */
        + NETDEV_RX_BORROWED_MAX,                               /* lent to the stack: the ring stays full meanwhile */
    VIRTIO_NET_TX_BUFFER_COUNT = 256,       /* frames prepared, unacknowledged or in flight; acquire says when they end */

    /* 25 cache lines, an odd number, so that the buffers' first lines spread over all sets of the L1 cache. */
    VIRTIO_NET_BUFFER_BYTES = 1600,
    /* Where the Ethernet header begins in a buffer: room for virtio's header in front of it within the first line, and
     * 2 past a multiple of 16 (netdev.h). */
    VIRTIO_NET_FRAME_OFFSET = 18,
};

/* The path touches the first line and one of the queues; aligned to 64. */
struct virtio_net {
    struct netdev device;           /* first: the seam casts back */
    uint8_t header_bytes;           /* 10 or 12, §5.1.6.1 */
    uint8_t checksum_flags;         /* of a received header: those that vouch for the checksum; 0 without GUEST_CSUM */
    bool merges;                    /* VIRTIO_NET_F_MRG_RXBUF */
    uint8_t *rx_memory, *tx_memory; /* the buffers */
    struct virtio_transport *transport;
    uint16_t rx_free_count, tx_free_count;

    _Alignas(64) struct virtqueue rx;
    _Alignas(64) struct virtqueue tx;

    uint16_t rx_posted_max;         /* buffers the device has when all is well */
    uint16_t rx_refill_count;       /* so many missing are worth an index update */
    bool reads_status;              /* VIRTIO_NET_F_STATUS */
    const char *broken;             /* NULL, or why the device is not used any more */
    uint64_t heard_cycles;          /* when a frame was last seen to have come, or the device was asked for its state */
    uint16_t heard_idx;             /* rx.used_idx then */
    struct virtio_net_standstill {
        uint64_t begun_cycles;      /* since when the device has asked in vain and used nothing; or now, if not */
        uint16_t used_idx;          /* the queue's, then */
    } rx_standstill, tx_standstill;
    uint64_t features;              /* agreed */

    uint16_t rx_free[VIRTIO_NET_RX_BUFFER_COUNT];   /* stacks: the buffer used last is the warmest */
    uint16_t tx_free[VIRTIO_NET_TX_BUFFER_COUNT];
    bool rx_is_free[VIRTIO_NET_RX_BUFFER_COUNT];
    struct tx_buffer tx_buffer[VIRTIO_NET_TX_BUFFER_COUNT];
};
static_assert(offsetof(struct virtio_net, rx) == 64 && sizeof(struct virtqueue) == 64, "one cache line each");

/* Brings the device up, ready to send and receive. `net` and `transport` stay in use. Takes memory. */
enum virtio_net_error virtio_net_init(struct virtio_net *net, struct virtio_transport *transport);

/* Why the device cannot be used any more (it lied about its rings, asked for a reset, or is gone), or NULL. The
 * caller gives the machine back. Whether the link is up is device->link_up. */
const char *virtio_net_broken(const struct netdev *device);

/* The one-line report: place, transport, features, queues, MAC, MTU, link. */
size_t virtio_net_describe(const struct virtio_net *net, char *out, size_t out_bytes);

/* virtio_net.c for virtio_net_init.c: the frames' part of the start, once the queues stand. */
extern const struct netdev_ops virtio_net_ops;
void virtio_net_buffers_init(struct virtio_net *net);

/* Gives the device all the free buffers that its ring has room for, then shows them in one step. Returns whether the
 * device wants to be notified: it does after it has run dry, hardly ever else. */
bool virtio_net_rx_post(struct virtio_net *net);

/* All devices of a program count together; there is one in practice. */
struct virtio_net_counters {
    uint64_t rx_frames, tx_frames;
    uint64_t rx_kicks, tx_kicks;            /* notifications; each is a VM exit */
    uint64_t rx_reminders, tx_reminders;    /* of them, those that came late: the device was not heard asking */
    uint64_t state_exits;                   /* other VM exits after init: link and status reads */
    uint64_t tx_ring_full;                  /* tx_publish found no slot */
    uint64_t tx_still_held;                 /* tx_publish of a buffer that the device still holds */
    uint64_t tx_no_buffer;                  /* tx_acquire found none */
    uint64_t rx_merged;                     /* frames that came in several buffers, and were put together */
    uint64_t rx_drop_short;                 /* less than virtio's header and an Ethernet header */
    uint64_t rx_drop_long;                  /* more than NETDEV_FRAME_BYTES_MAX, or than the buffer holds */
    uint64_t rx_drop_bad_merge;             /* several buffers that together are too short or too long */
    uint64_t rx_buffers_free, tx_buffers_free;      /* as virtio_net_levels saw them last */
};
extern struct virtio_net_counters virtio_net_counters;
struct counter_group virtio_net_counter_group(void);

/* Looks how many buffers neither the device nor the stack holds; now and again, for the statistics. */
void virtio_net_levels(const struct netdev *device);
