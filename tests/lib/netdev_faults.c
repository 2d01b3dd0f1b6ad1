/* Seeded faults over another device. Every frame is copied; a swapped one waits until the next has gone by, or until
 * nothing else comes (rx) or the stack is idle (tx). */
#include "tests/lib/netdev_faults.h"

#include <string.h>

#include "base/assert.h"
#include "tests/lib/random.h"

static struct netdev_faults *of(struct netdev *device) { return (struct netdev_faults *)device; }

static bool happens(struct netdev_faults *self, uint32_t chance, uint64_t *count)
{
    bool yes = random_chance(&self->random, chance);
    *count += yes;
    return yes;
}

static void maybe_corrupt(struct netdev_faults *self, uint8_t *data, uint32_t bytes)
{
    if (!happens(self, self->faults.corrupt, &self->counters.corrupted))
        return;
    uint64_t bit = random_from(&self->random) % (8u * bytes);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static bool copy_in(struct netdev_faults *self, struct frame *to, const struct frame *from)
{
    if (!frame_pool_rx_take(&self->pool, to))
        return false;
    memcpy(to->data, from->data, from->bytes);
    to->bytes = from->bytes;
    to->checksum_good = from->checksum_good;
    return true;
}

/* Takes the next frame from below that is not lost, and copies it to this device's buffer. Returns false if there is
 * none. */
static bool take_from_below(struct netdev_faults *self, struct frame *frame)
{
    struct frame given;
    while (self->below->ops->rx_borrow(self->below, &given)) {
        bool lost = happens(self, self->faults.lose, &self->counters.lost) || !copy_in(self, frame, &given);
        self->below->ops->rx_release(self->below, &given);
        if (lost)
            continue;
        maybe_corrupt(self, frame->data, frame->bytes);
        return true;
    }
    return false;
}

static bool next_frame(struct netdev_faults *self, struct frame *frame)
{
    if (self->has_rx_again) {
        self->has_rx_again = false;
        *frame = self->rx_again;
        return true;
    }
    if (!take_from_below(self, frame)) {
        if (!self->has_rx_held)
            return false;
        self->has_rx_held = false;
        *frame = self->rx_held;
        return true;
    }
    if (self->has_rx_held) { /* this one overtakes it */
        self->has_rx_held = false;
        self->rx_again = self->rx_held;
        self->has_rx_again = true;
        return true;
    }
    if (happens(self, self->faults.swap, &self->counters.swapped)) {
        self->rx_held = *frame;
        self->has_rx_held = true;
        return next_frame(self, frame); /* once: has_rx_held is set now */
    }
    if (happens(self, self->faults.duplicate, &self->counters.duplicated))
        self->has_rx_again = copy_in(self, &self->rx_again, frame);
    return true;
}

static bool faults_rx_borrow(struct netdev *device, struct frame *frame)
{
    struct netdev_faults *self = of(device);
    if (!next_frame(self, frame))
        return false;
    frame_pool_rx_lend(&self->pool, frame, frame->bytes);
    return true;
}

static void faults_rx_release(struct netdev *device, const struct frame *frame)
{
    frame_pool_rx_release(&of(device)->pool, frame);
}

static struct tx_buffer *faults_tx_acquire(struct netdev *device) { return frame_pool_tx_acquire(&of(device)->pool); }

static bool send_below(struct netdev_faults *self, const uint8_t *data, uint32_t bytes)
{
    struct tx_buffer *buffer = self->below->ops->tx_acquire(self->below);
    if (buffer == NULL)
        return false;
    memcpy(buffer->data, data, bytes);
    maybe_corrupt(self, buffer->data, bytes);
    bool sent = self->below->ops->tx_publish(self->below, buffer, bytes, 0, 0);
    self->below->ops->tx_release(self->below, buffer);
    return sent;
}

static void send_held(struct netdev_faults *self)
{
    if (self->tx_held_bytes != 0)
        send_below(self, self->tx_held, self->tx_held_bytes);
    self->tx_held_bytes = 0;
}

static bool faults_tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                              uint16_t csum_offset)
{
    struct netdev_faults *self = of(device);
    (void)csum_offset;
    ASSERT(csum_start == 0);
    frame_pool_tx_check(&self->pool, buffer, bytes);
    if (happens(self, self->faults.lose, &self->counters.lost))
        return true;
    if (self->tx_held_bytes == 0 && happens(self, self->faults.swap, &self->counters.swapped)) {
        memcpy(self->tx_held, buffer->data, bytes);
        self->tx_held_bytes = bytes;
        return true;
    }
    if (!send_below(self, buffer->data, bytes))
        return false;
    if (happens(self, self->faults.duplicate, &self->counters.duplicated))
        send_below(self, buffer->data, bytes);
    send_held(self);
    return true;
}

static void faults_tx_release(struct netdev *device, struct tx_buffer *buffer)
{
    frame_pool_tx_release(&of(device)->pool, buffer);
}

static void faults_poll(struct netdev *device)
{
    struct netdev_faults *self = of(device);
    send_held(self);
    self->below->ops->poll(self->below);
    self->device.link_up = self->below->link_up;
}

static const struct netdev_ops faults_ops = {
    .rx_borrow = faults_rx_borrow,
    .rx_release = faults_rx_release,
    .tx_acquire = faults_tx_acquire,
    .tx_publish = faults_tx_publish,
    .tx_release = faults_tx_release,
    .poll = faults_poll,
};

void netdev_faults_init(struct netdev_faults *self, struct netdev *below, struct faults faults, uint64_t seed)
{
    ASSERT(!below->tx_checksum);
    self->device = *below;
    self->device.ops = &faults_ops;
    self->below = below;
    self->faults = faults;
    self->counters = (struct faults_counters){ 0 };
    self->random = seed;
    self->has_rx_again = self->has_rx_held = false;
    self->tx_held_bytes = 0;
    frame_pool_init(&self->pool);
}
