/* The virtio network device, virtio 1.2 §5.1, as the stack's struct netdev: polled, two queues, frames in place.
 *
 * drivers/nic/nic.c searches the machine; virtio_net_init drives any device by its struct virtio_bus, so the same code
 * runs hosted against the model of tests/lib/. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "drivers/buffers.h"
#include "drivers/virtio/bus.h"
#include "drivers/virtio/virtqueue.h"
#include "kernel/settings.h"
#include "net/netdev.h"

enum virtio_net_error {
    VIRTIO_NET_OK,
    VIRTIO_NET_RESET_TIMEOUT,
    VIRTIO_NET_NOT_VERSION_1,
    VIRTIO_NET_NEEDS_PLATFORM, /* ACCESS_PLATFORM, and `behind` of the bus is not NULL */
    VIRTIO_NET_FEATURES_REFUSED,
    VIRTIO_NET_NO_QUEUE,   /* no receive or no transmit queue */
    VIRTIO_NET_QUEUE_SIZE, /* no power of two, or no room for header and data */
    /* A legacy device cannot be pointed at the rings, or a doorbell lies outside its area. */
    VIRTIO_NET_QUEUE_UNREACHABLE,
};
const char *virtio_net_error_text(enum virtio_net_error error);

/* Returns true if the device can end a sleep, which takes MSI-X. Its messages go where virtio_pci_open says. */

bool virtio_net_can_wake(const struct netdev *device);

/* Asks the device to end a sleep at the next frame, until virtio_net_quiet. Returns false if a frame is there
 * already. */
bool virtio_net_wake(struct netdev *device);

/* Asks for no more wake-ups. */
void virtio_net_quiet(struct netdev *device);

/* Returns true if a received frame waits in the ring. On any CPU, for those who measure. */
bool virtio_net_frame_waits(const struct netdev *device);

/* Notifies the transmit queue, though no frame is new: for those who measure what that takes. */
void virtio_net_notify(struct netdev *device);

enum {
    /* VIRTIO_NET_RX_SLOT_COUNT_MAX full frames take 315 us at 10 Gbit/s: longer than a slice of idle work. For
     * transmission there are as many slots as buffers: the ring is no limit if the device allows that. */
    VIRTIO_NET_RX_SLOT_COUNT_MAX = 256,
    VIRTIO_NET_TX_SLOT_COUNT_MAX = 256,

    VIRTIO_NET_RX_BUFFER_COUNT = VIRTIO_NET_RX_SLOT_COUNT_MAX /* posted */
                                 + NETDEV_RX_BORROWED_MAX,    /* borrowed by the stack: the ring stays full meanwhile */

    VIRTIO_NET_BUFFER_BYTES = TX_BUFFER_BYTES, /* for both directions */
    /* The offset of the Ethernet header in a buffer. virtio's header has room in front of it within the first line, and
     * the offset is 2 past a multiple of 16 (netdev.h). */
    VIRTIO_NET_FRAME_OFFSET = 18,

    /* The longest command: the table of the groups, after an empty list of unicast addresses. */
    VIRTIO_NET_COMMAND_BYTES = VIRTIO_NET_CTRL_HEAD_BYTES + 4 + 4 + NETDEV_GROUP_COUNT_MAX * NETDEV_MAC_BYTES
                               + VIRTIO_NET_CTRL_ACK_BYTES,
};

/* The path touches the first line and one of the queues; aligned to 64. */
struct virtio_net {
    struct netdev device;   /* first: net.c casts it back to struct virtio_net */
    uint8_t header_bytes;   /* 10 or 12, virtio 1.2 §5.1.6.1 */
    uint8_t checksum_flags; /* flags of received headers that vouch for checksums; 0: none do */
    bool merges;            /* VIRTIO_NET_F_MRG_RXBUF */
    uint8_t *rx_memory;     /* the buffers */
    struct virtio_bus *bus;
    uint16_t rx_free_count;

    _Alignas(64) struct virtqueue rx;
    _Alignas(64) struct virtqueue tx;
    struct virtqueue control; /* only if `announces` or `filters` */

    uint16_t rx_posted_max; /* buffers that the device has after a refill */
    /* A refill begins at this many missing buffers, because each refill writes a line that the device reads. */
    uint16_t rx_refill_count;
    bool reads_status;  /* VIRTIO_NET_F_STATUS */
    bool announces;     /* VIRTIO_NET_F_GUEST_ANNOUNCE, and the queue to acknowledge with */
    bool filters;       /* VIRTIO_NET_F_CTRL_RX, and the queue for the table of groups */
    bool groups_due;    /* the device does not have the table yet */
    bool reads_always;  /* the state is read under traffic too: `announces` or `groups_due` */
    const char *broken; /* NULL, or why the device is not used any more */
    /* The time of the newest reading of the state. Unless `reads_always`, the time of the newest frame. */
    uint64_t last_rx_cycles;
    uint16_t last_rx_idx; /* rx.used_idx at that time */
    struct virtio_net_stall {
        /* Since this time the device asks for a kick, has got none, and has used nothing. */
        uint64_t begin_cycles;
        uint16_t used_idx; /* the queue's at that time */
    } rx_stall, tx_stall;
    uint16_t tx_level_idx; /* tx's used index at the last virtio_net_levels */
    uint64_t features;     /* agreed */

    struct tx_pool tx_pool;
    uint16_t rx_free[VIRTIO_NET_RX_BUFFER_COUNT]; /* a stack: the buffer used last is the warmest */
    bool rx_is_free[VIRTIO_NET_RX_BUFFER_COUNT];

    uint8_t command[VIRTIO_NET_COMMAND_BYTES]; /* the one that is under way on the control queue */
    uint8_t group_count;
    uint8_t groups[NETDEV_GROUP_COUNT_MAX][NETDEV_MAC_BYTES];
};
static_assert(offsetof(struct virtio_net, rx) == 64 && sizeof(struct virtqueue) == 64, "one cache line each");

/* Brings the device up, ready to send and receive. `net` and `bus` stay in use. Takes memory: before memory_seal. */
enum virtio_net_error virtio_net_init(struct virtio_net *net, struct virtio_bus *bus);

/* Resets a device and reads its address. Returns false if it has none of its own. The device stays reset. */
bool virtio_net_peek_mac(struct virtio_bus *bus, uint8_t mac[NETDEV_MAC_BYTES]);

/* Returns why the device cannot be used any more (impossible values in its rings, a request for a reset, no answer), or
 * NULL. The caller gives the machine back. The link's state is device->link_up. */
const char *virtio_net_broken(const struct netdev *device);

/* Writes the one-line report: place, bus, features, queues, MAC, MTU, link. */
size_t virtio_net_describe(const struct virtio_net *net, char *out, size_t out_bytes);

/* Makes the driver's twin (net_twin.c) of a device that has no buffers yet, and plays on it. The twin's frames are
 * counted as well. */
void virtio_net_twin_init(const struct virtio_net *like);
void virtio_net_twin_play(const struct virtio_net *net);

/* For drivers/virtio/net_init.c alone: the operations, and the set-up of the buffers after that of the queues. */
extern const struct netdev_ops virtio_net_ops;
void virtio_net_buffers_init(struct virtio_net *net);

/* Asserts the invariant of queues, free lists and holders. */
void virtio_net_check(const struct virtio_net *net);

/* Gives the device all the free buffers that its ring has room for, then shows them in one step. Returns true if the
 * device wants a notification: it does after it has run dry, and hardly ever else. */
bool virtio_net_rx_post(struct virtio_net *net);

/* All devices of a program count together; there is one in practice.
 *
 *     rx_kicks, tx_kicks      notifications; each is a VM exit
 *     rx_rekicks, tx_rekicks  kicks among them that repaired a missed one
 *     state_exits             other VM exits after init: link and status reads
 *     tx_ring_full            tx_publish found no slot
 *     tx_still_held           tx_publish of a buffer that the device still holds
 *     tx_no_buffer            tx_acquire found none
 *     tx_stalled_seconds      calls of virtio_net_levels in a row that saw the device send nothing
 *     rx_merged               frames that came in several buffers, and were put together
 *     rx_drop_short           less than virtio's header and an Ethernet header
 *     rx_drop_long            more than NETDEV_FRAME_BYTES_MAX, or than the buffer holds
 *     rx_drop_bad_merge       several buffers that together are too short or too long
 *     announcements           asked for by the device, after a migration
 *     group_tables            given to the device's filter */
#define VIRTIO_NET_COUNTERS(X)                                                                                         \
    X(COUNT, rx_frames), X(COUNT, tx_frames), X(COUNT, rx_kicks), X(COUNT, tx_kicks), X(COUNT, rx_rekicks),            \
        X(COUNT, tx_rekicks), X(COUNT, state_exits), X(COUNT, tx_ring_full), X(COUNT, tx_still_held),                  \
        X(COUNT, tx_no_buffer), X(LEVEL, tx_stalled_seconds), X(COUNT, rx_merged), X(DROP_FRAME, rx_drop_short),       \
        X(DROP_FRAME, rx_drop_long), X(DROP_FRAME, rx_drop_bad_merge), X(COUNT, announcements), X(COUNT, group_tables)
extern struct virtio_net_counters {
    uint64_t VIRTIO_NET_COUNTERS(COUNTER_MEMBER);
} virtio_net_counters;
extern const struct counter_group virtio_net_counter_group;

/* Counts the buffers that neither the device nor the stack holds, and how long the device has sent nothing of what it
 * was given. Call once a second. */
void virtio_net_levels(struct netdev *device, struct buffer_levels *levels);
