/* Google's virtual NIC as the stack's struct netdev: polled, one queue pair, frames in place. The queue format is GQI,
 * with raw addressing if the device offers that, else with queue page lists; or DQO with raw addressing on a device
 * without GQI. There is no public specification: spec.h.
 *
 * drivers/nic/nic.c searches the machine; gve_init drives any device by its struct gve_bus, so the same code runs
 * hosted against a model. */
#pragma once

#include "base/counters.h"
#include "drivers/buffers.h"
#include "drivers/gve/bus.h"

enum {
    /* Rings have the size that the device says. */
    GVE_RING_ENTRIES_MIN = 16,
    GVE_RING_ENTRIES_MAX = 4096,
    GVE_DQO_RING_ENTRIES_MIN = 256,

    /* Full frames that take 630 us at 10 Gbit/s: longer than a slice of idle work. */
    GVE_RX_POSTED_MAX = 512,
    GVE_RX_BUFFER_COUNT = GVE_RX_POSTED_MAX + NETDEV_RX_BORROWED_MAX, /* at most: posted, borrowed by the stack */
    GVE_RX_BUFFER_BYTES = 2048,                                       /* two a page: no buffer lies in two pages */
    GVE_TX_FRAME_OFFSET = 2,                                          /* 2 past a multiple of 16 (netdev.h) */
    GVE_ETHERNET_BYTES = 14,
    GVE_FAULT_BYTES = 112,
};

enum { GVE_SEQ_BROKEN = GVE_RX_SEQ + 1 }; /* no descriptor has it: nothing is received any more */

enum gve_rx_state { GVE_RX_FREE, GVE_RX_POSTED, GVE_RX_BORROWED };

/* The path touches the first lines: the device, and one of the queues. */
struct gve {
    struct netdev device; /* first: cast back to struct gve */
    struct gve_bus *bus;
    bool is_dqo; /* the format is DQO, not GQI */
    bool raw;    /* raw addressing */
    uint16_t rx_free_count;
    uint8_t *rx_memory;

    /* Counts of descriptors since the creation, modulo 2^32. The entry of a count is its lower bits. */
    _Alignas(64) struct gve_rx_queue {
        union {
            const struct gve_rx_descriptor *ring;
            const struct gve_dqo_rx_completion *completions;
        };
        union {
            uint64_t *data; /* GQI, big-endian: the buffer's address, or its offset in the page list */
            struct gve_dqo_rx_buffer *posts;
        };
        uint16_t *buffer;  /* the index of the buffer in an entry */
        uint32_t mask;     /* entries - 1 */
        uint32_t taken;    /* used by the device and borrowed or dropped */
        uint32_t posted;   /* given to the device; it knows of them by the doorbell */
        uint32_t doorbell; /* an index */
        uint8_t step;      /* the doorbell takes multiples of this */
        /* The next descriptor's number, or the upper byte of its generation bit, or GVE_SEQ_BROKEN. */
        uint8_t seq;
        /* The ring has been gone round once: old descriptors have the numbers of the round before. */
        bool lapped;
        bool dropping; /* up to the end of a frame of several buffers */
    } rx;
    _Alignas(64) struct gve_tx_queue {
        union {
            struct gve_tx_packet *ring;
            struct gve_dqo_tx_packet *dqo_ring;
        };
        union {
            const uint32_t *counter; /* GQI, big-endian: descriptors done, written by the device */
            const struct gve_dqo_tx_completion *completions;
        };
        uint16_t *buffer;
        uint32_t mask, room; /* entries - 1; descriptors that the device may have */
        uint32_t sent;       /* reported by the doorbell */
        uint32_t done;
        uint32_t doorbell;
        uint32_t completed; /* completions taken; DQO */
    } tx;

    uint32_t *counters;                      /* the device's, big-endian */
    uint64_t rx_base, tx_base;               /* the origin of addresses in the rings; 0: bus addresses */
    uint16_t rx_posted_max, rx_refill_count; /* as those of struct virtio_net */
    bool armed;                              /* an interrupt is asked for */
    uint32_t irq_doorbell[GVE_NOTIFY_COUNT];
    const char *broken; /* NULL, or why the device is not used any more: `fault` */
    char fault[GVE_FAULT_BYTES];
    uint64_t last_rx_cycles;              /* the newest frame's, or the newest reading of the state */
    uint32_t last_rx_taken;               /* rx.taken at that time */
    uint32_t level_done;                  /* tx.done at the last gve_levels */
    uint8_t summed[GVE_PACKET_TYPES / 8]; /* DQO: a bit for each packet type whose L4 has a checksum */

    struct tx_pool tx_pool;
    uint16_t rx_free[GVE_RX_BUFFER_COUNT]; /* a stack: the buffer used last is the warmest */
    uint8_t rx_state[GVE_RX_BUFFER_COUNT]; /* enum gve_rx_state */
};

/* Brings the device up, ready to send and receive. `net` and `bus` stay in use. Returns NULL, or why it fails; the
 * device is reset then. Takes memory: before memory_seal. */
const char *gve_init(struct gve *net, struct gve_bus *bus);

/* Resets a device and reads its address. Returns false if it does not answer. The device stays reset. */
bool gve_peek_mac(struct gve_bus *bus, uint8_t mac[NETDEV_MAC_BYTES]);

/* Resets the device: it touches memory no more. Linux does the same if commands do not undo one another. */
void gve_stop(struct gve *net);

/* Writes the one-line report: place, format, queues, MAC, MTU, link. */
size_t gve_describe(const struct gve *net, char *out, size_t out_bytes);

/* The functions of drivers/nic/nic.h for this card. */

const char *gve_broken(const struct netdev *device);
bool gve_can_wake(const struct netdev *device);
bool gve_wake(struct netdev *device);
void gve_quiet(struct netdev *device);
bool gve_frame_waits(const struct netdev *device);
void gve_notify(struct netdev *device);
void gve_levels(struct netdev *device, struct buffer_levels *levels);

/* Asserts the invariant of queues, free lists and holders. */
void gve_check(const struct gve *net);

/* For drivers/gve/ alone. The twin (twin.c) is for `rehearse`; its frames are counted as well. */
extern const struct netdev_ops gve_gqi_ops, gve_dqo_ops;
void gve_buffers_init(struct gve *net);
void gve_rx_refill(struct gve *net);
void gve_state_set(struct gve *net, uint32_t status);
void gve_twin_init(const struct gve *like);
void gve_twin_play(const struct gve *net);

/* Ends the use of a device that has written a value which no device writes. Returns false. */
bool gve_fault(struct gve *net, const char *what, uint64_t value);

/* Ends a received frame's stay in the ring: `end`, it ends in this buffer; `error`, by the device. Returns true if it
 * is whole and good, else counts it and frees the buffer. */
bool gve_rx_is_good(struct gve *net, uint16_t index, const uint8_t *data, uint32_t bytes, bool end, bool error);

static inline uint8_t *gve_rx_buffer(const struct gve *net, uint16_t index)
{
    return net->rx_memory + (size_t)index * GVE_RX_BUFFER_BYTES;
}

static inline void gve_rx_free_push(struct gve *net, uint32_t index)
{
    ASSERT(index < GVE_RX_BUFFER_COUNT);
    ASSERT(net->rx_state[index] != GVE_RX_FREE);
    net->rx_state[index] = GVE_RX_FREE;
    net->rx_free[net->rx_free_count++] = (uint16_t)index;
}

/* The formats' own parts, on their rings: gqi.c, dqo.c. */

bool gve_gqi_frame_waits(const struct gve *net);
bool gve_dqo_frame_waits(const struct gve *net);
bool gve_gqi_rx_borrow(struct netdev *device, struct frame *frame);
bool gve_dqo_rx_borrow(struct netdev *device, struct frame *frame);
void gve_gqi_rx_check(struct gve *net);
void gve_gqi_tx_reclaim(struct gve *net);
void gve_dqo_tx_reclaim(struct gve *net);
void gve_gqi_tx_write(struct gve *net, const struct tx_buffer *buffer, uint32_t bytes, uint32_t csum_start,
                      uint32_t csum_offset);
void gve_dqo_tx_write(struct gve *net, const struct tx_buffer *buffer, uint32_t bytes, bool sum);

/*     rx_kicks, tx_kicks      doorbells; each may be a VM exit
 *     state_exits             other VM exits after init: link and status reads, doorbells of interrupts
 *     tx_ring_full            tx_publish found no entry
 *     tx_still_held           tx_publish of a buffer that the device still holds
 *     tx_no_buffer            tx_acquire found none
 *     tx_stalled_seconds      calls of gve_levels in a row that saw the device send nothing
 *     faults                  values that a device never writes; after the first it is not used any more
 *     rx_drop_error           the device says that the frame is damaged
 *     rx_drop_short           less than an Ethernet header
 *     rx_drop_long            more than NETDEV_FRAME_BYTES_MAX, or several buffers */
#define GVE_COUNTERS(X)                                                                                                \
    X(COUNT, rx_frames), X(COUNT, tx_frames), X(COUNT, rx_kicks), X(COUNT, tx_kicks), X(COUNT, state_exits),           \
        X(COUNT, tx_ring_full), X(COUNT, tx_still_held), X(COUNT, tx_no_buffer), X(LEVEL, tx_stalled_seconds),         \
        X(ALERT, faults), X(DROP_FRAME, rx_drop_error), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_long)
extern struct gve_counters {
    uint64_t GVE_COUNTERS(COUNTER_MEMBER);
} gve_counters;
extern const struct counter_group gve_counter_group;
