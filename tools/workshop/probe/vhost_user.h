/* A virtio network device of our own for QEMU: the back end of the vhost-user protocol, for one queue pair.
 *
 * QEMU keeps the device's registers and hands the rings over (docs/interop/vhost-user.rst of QEMU). Split virtqueues:
 * virtio 1.2 §2.7. The device polls both rings and never asks to be notified. A frame is taken from and put into the
 * guest's memory with one copy. Knows no protocols above Ethernet, and shares no text with drivers/virtio/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VHOST_USER_QUEUE_COUNT = 2,
    VHOST_USER_REGION_COUNT_MAX = 8, /* the protocol's own bound */
    VHOST_USER_FRAME_BYTES_MAX = 1514,
};

struct vhost_user_region {
    uint64_t guest_from, user_from, bytes;
    void *mapped; /* with offset_bytes before the region itself */
    uint64_t offset_bytes;
};

struct vhost_user_queue {
    uint32_t size;
    bool addressed, kicked, enabled, running;
    uint64_t desc_user, avail_user, used_user; /* QEMU's addresses */
    struct vring_desc *desc;
    struct vring_avail *avail;
    struct vring_used *used;
    uint16_t taken, given; /* entries of the available ring, entries of the used ring */
    int call_fd;           /* -1: the guest polls */
};

struct vhost_user {
    int socket;
    uint64_t features;
    uint32_t region_count;
    struct vhost_user_region regions[VHOST_USER_REGION_COUNT_MAX];
    struct vhost_user_queue queues[VHOST_USER_QUEUE_COUNT]; /* as the driver calls them: receive, transmit */
    uint8_t frame[VHOST_USER_FRAME_BYTES_MAX];
};

/* Takes a connected socket, which the device owns from now on. */
void vhost_user_init(struct vhost_user *device, int socket);

/* Obeys the messages that wait in the socket. Returns false when QEMU has closed it; a message that the device does not
 * understand ends the program. */
bool vhost_user_serve(struct vhost_user *device);

/* Returns true while the guest's driver runs both queues. */
bool vhost_user_is_running(const struct vhost_user *device);

/* Puts a frame into the guest's receive ring. Returns the time, in ns, right before the guest can see the frame; 0: the
 * guest has no buffer for it. */
uint64_t vhost_user_send(struct vhost_user *device, const void *frame, uint32_t bytes);

/* Takes the next frame that the guest sends. Returns its bytes, valid until the next call, and the time at which the
 * frame was found; NULL: there is none. */
const uint8_t *vhost_user_receive(struct vhost_user *device, uint32_t *bytes, uint64_t *found_ns);

/* Returns monotonic nanoseconds. */
uint64_t vhost_user_now_ns(void);
