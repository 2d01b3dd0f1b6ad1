/* The capture: the first bytes of the last frames of both directions, in a ring of fixed size. Each has its time and,
 * if the stack dropped it, the name of the counter that says why. net/capture/pcapng.h writes them as a file.
 *
 * capture_attach puts itself between the stack and the operations of a device (net/netdev.h). A device without it has
 * its own operations, so a capture that is off costs nothing. One that is on stores the time, the place and the length
 * of a frame on the path. The bytes are copied afterwards: those of a received frame when the stack gives it back,
 * those of a sent one at the next poll.
 *
 * Frames are numbered from 1 in the order in which they came and went. One CPU writes. Any other may read a frame at
 * any time (base/broadcast_ring.h): a frame that is being overwritten is not there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "net/netdev.h"

enum {
    CAPTURE_BYTES_MAX = NETDEV_FRAME_BYTES_MAX,
    CAPTURE_FRAMES_MIN = 16,
    CAPTURE_FRAMES_MAX = 65536,
    CAPTURE_MEMORY_BYTES_MAX = 16 * 1024 * 1024,
    CAPTURE_HEAD_WORDS = 3,
    CAPTURE_WORDS_MAX = CAPTURE_HEAD_WORDS + (CAPTURE_BYTES_MAX + 7) / 8,
    CAPTURE_COUNTERS_MAX = 128,
    CAPTURE_LOGINS_MAX = 4,
};

struct capture_config {
    uint32_t bytes, frames;   /* kept of a frame; frames kept */
    void *memory;             /* capture_memory_bytes of it, zeroed, aligned to 8; for the run */
    uint64_t (*now_ns)(void); /* the clock of the stamps */
    void (*refresh)(void);    /* brings counters up to date that are copies; may be NULL */
    bool early;               /* the stack changes received frames in place: copies them at once */
};

/* A frame as it was kept. */
struct capture_frame {
    uint64_t number, stamp_ns;
    char dropped[COUNTER_PATH_BYTES]; /* the counter that rose while the stack had the frame; empty: none */
    uint16_t frame_bytes, kept_bytes;
    bool sent;                         /* by us; else received */
    uint64_t words[CAPTURE_WORDS_MAX]; /* the bytes follow CAPTURE_HEAD_WORDS */
};
static inline const uint8_t *capture_data(const struct capture_frame *frame)
{
    return (const uint8_t *)(frame->words + CAPTURE_HEAD_WORDS);
}

/* Returns the memory that the ring takes. */
size_t capture_memory_bytes(uint32_t bytes, uint32_t frames);

/* Begins a capture: once, before the first capture_attach. */
void capture_init(const struct capture_config *config);

/* Puts the capture between the stack and this device, which the stack holds no frame of. Again after another card has
 * been brought up in the same struct. Does nothing if there is no capture. */
void capture_attach(struct netdev *device);

/* Watches a group's counters of received frames dropped at their arrival. At most CAPTURE_COUNTERS_MAX. */
void capture_watch(const struct counter_group *group);

/* Leaves out all frames that are sent from now on, or keeps them again. A reader's own frames would drive out those
 * that it wants. */
void capture_mute(bool mute);

/* Copies all that waits to be copied, so that a reader sees every frame up to now. */
void capture_flush(void);

/* Returns the numbers of the newest frame, 0 if there is none, and of the oldest that may be there. */
uint64_t capture_newest(void);
uint64_t capture_oldest(void);

/* Returns how many bytes of a frame are kept; 0: there is no capture. */
uint32_t capture_bytes(void);

/* Returns the device's own address. */
const uint8_t *capture_mac(void);

/* Reads a frame, on any CPU. Returns false if it is not there: overwritten, being written, or not copied yet. */
bool capture_read(uint64_t number, struct capture_frame *frame);

/* Names a TCP server to which a login goes. Called by whoever logs in; at most CAPTURE_LOGINS_MAX, each counts once. */
void capture_note_login(uint32_t address, uint16_t port);

/* Returns how many of a frame's kept bytes may be shown to whoever has no key. The payload of connections with a login
 * is left out, both ways, and what ICMP quotes of TCP. */
size_t capture_public_bytes(const struct capture_frame *frame);

/* Asserts the invariant of the frames that wait to be copied. */
void capture_check(void);
