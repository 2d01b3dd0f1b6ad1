/* The problem: a capture copies frames, and the path has no time for a copy. The bytes are there for longer than the
 * path lasts, though. A received frame is the stack's until rx_release, after the answer has left. A sent one lies in
 * its buffer until the stack uses the buffer again.
 *
 * The first idea is to copy at these two moments. A frame then gets its place in the ring in the order of the copies,
 * and a frame on which the stack crashed is never copied.
 *
 * The second idea gives a frame its number on the path, and with it its place in the ring. `waiting` keeps time, place
 * and length of a frame until its bytes are copied there: at rx_release, at the next poll, or before the buffer may
 * change. capture_flush copies all of it, also out of the handler of a crash.
 *
 * A drop is seen from outside. Counters of drops that rose between the copies of two frames rose for the second one,
 * because the stack takes one frame after the other. Nothing in the stack knows of the capture.
 *
 * The bound: a poll copies POLL_FRAMES_MAX sent frames. More wait for the next one, at most one for each buffer. */
#include "net/capture/capture.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/broadcast_ring.h"
#include "base/bytes.h"
#include "base/format.h"

enum {
    ETHERNET_BYTES = 14,
    POLL_FRAMES_MAX = 16,
    BITS = 64, /* in a word of `sent_waits` */
};

/* A record of the ring: the stamp, where the counter's name lies, the lengths; then the bytes. */
enum { WORD_STAMP, WORD_DROPPED, WORD_LENGTHS };
static_assert((int)CAPTURE_HEAD_WORDS == (int)WORD_LENGTHS + 1, "the bytes follow the head");
enum { LENGTHS_KEPT_SHIFT = 16, LENGTHS_SENT_SHIFT = 32 };

/* A frame with a number, until its bytes are in the ring. */
struct waiting {
    uint64_t number, stamp_ns;
    const uint8_t *data;
    uint32_t bytes;
    /* For received frames. `copied`: the bytes are in the ring; the reason to drop the frame may follow. */
    uint32_t cookie;
    bool copied;
};

/* A watched counter's: two parts of its path. */
struct name {
    const char *prefix, *name;
};

static struct {
    struct capture_config config; /* `bytes` 0: no capture */
    const struct netdev_ops *below;
    const uint8_t *mac;
    struct broadcast_ring ring;
    bool muted;
    uint32_t received_count;
    struct waiting received[NETDEV_RX_BORROWED_MAX]; /* borrowed by the stack */
    uint64_t sent_waits[NETDEV_TX_BUFFER_COUNT / BITS];
    struct waiting sent[NETDEV_TX_BUFFER_COUNT]; /* by the buffer's index */
    uint32_t counter_count;
    const uint64_t *values[CAPTURE_COUNTERS_MAX];
    struct name names[CAPTURE_COUNTERS_MAX];
    uint64_t counted[CAPTURE_COUNTERS_MAX], counted_sum; /* the values when they were last looked at */
} capture;

/* ---- the ring ---- */

static uint32_t record_words_of(uint32_t bytes) { return CAPTURE_HEAD_WORDS + (bytes + 7) / 8; }

size_t capture_memory_bytes(uint32_t bytes, uint32_t frames)
{
    ASSERT(bytes >= 1 && bytes <= CAPTURE_BYTES_MAX);
    ASSERT(frames >= CAPTURE_FRAMES_MIN && frames <= CAPTURE_FRAMES_MAX);
    return broadcast_bytes(frames, record_words_of(bytes));
}

static void copy(const struct waiting *frame, bool sent, const struct name *dropped)
{
    uint64_t *words = broadcast_write_begin(&capture.ring, frame->number);
    if (!words)
        return;
    size_t kept_bytes = min_size(frame->bytes, capture.config.bytes);
    ASSERT(frame->bytes <= UINT16_MAX);
    seqlock_write_word(&words[WORD_STAMP], frame->stamp_ns);
    seqlock_write_word(&words[WORD_DROPPED], (uintptr_t)dropped);
    seqlock_write_word(&words[WORD_LENGTHS],
                       frame->bytes | kept_bytes << LENGTHS_KEPT_SHIFT | (uint64_t)sent << LENGTHS_SENT_SHIFT);
    uint64_t *to = words + CAPTURE_HEAD_WORDS, last = 0;
    size_t at = 0;
    for (; at + sizeof last <= kept_bytes; at += sizeof last)
        seqlock_write_word(to++, load_le64(frame->data + at));
    memcpy(&last, frame->data + at, kept_bytes - at);
    if (at < kept_bytes)
        seqlock_write_word(to, last);
    broadcast_write_end(&capture.ring, frame->number);
}

/* ---- drops ---- */

void capture_watch(const struct counter_group *group)
{
    ASSERT(group->values != NULL);
    for (size_t k = 0; k < group->count && capture.config.bytes != 0; k++) {
        if (group->counters[k].kind != COUNTER_DROP_FRAME)
            continue;
        ASSERT(capture.counter_count < CAPTURE_COUNTERS_MAX);
        uint32_t i = capture.counter_count++;
        capture.names[i] = (struct name){ group->prefix, group->counters[k].name };
        capture.values[i] = &group->values[k];
        capture.counted[i] = group->values[k];
        capture.counted_sum += group->values[k];
    }
}

/* Returns the name of the first counter that has risen since the last call, or NULL. Counters only rise, so their sum
 * says if one has. */
static const struct name *drop_find(void)
{
    const struct name *name = NULL;
    uint64_t sum = 0;
    ASSERT(capture.counter_count <= CAPTURE_COUNTERS_MAX);
    if (capture.config.refresh)
        capture.config.refresh();
    for (uint32_t i = 0; i < capture.counter_count; i++)
        sum += *capture.values[i];
    if (__builtin_expect(sum == capture.counted_sum, 1))
        return NULL;
    capture.counted_sum = sum;
    for (uint32_t i = capture.counter_count; i-- > 0;) {
        name = *capture.values[i] != capture.counted[i] ? &capture.names[i] : name;
        capture.counted[i] = *capture.values[i];
    }
    return name;
}

/* ---- the device's operations ---- */

static bool rx_borrow(struct netdev *device, struct frame *frame)
{
    if (!capture.below->rx_borrow(device, frame))
        return false;
    ASSERT(capture.received_count < NETDEV_RX_BORROWED_MAX);
    struct waiting *waiting = &capture.received[capture.received_count];
    *waiting = (struct waiting){
        broadcast_number(&capture.ring), capture.config.now_ns(), frame->data, frame->bytes, frame->cookie, false
    };
    __atomic_signal_fence(__ATOMIC_RELEASE); /* a crash in between finds whole entries */
    capture.received_count++;
    /* vlan_strip moves the addresses over the tag. */
    if (capture.config.early || (frame->bytes >= ETHERNET_BYTES && netdev_frame_is_tagged(frame->data))) {
        copy(waiting, false, NULL);
        waiting->copied = true;
    }
    return true;
}

static void rx_release(struct netdev *device, const struct frame *frame)
{
    uint32_t i = capture.received_count;
    while (i > 0 && capture.received[i - 1].cookie != frame->cookie)
        i--;
    ASSERT(i > 0);
    struct waiting *waiting = &capture.received[i - 1];
    const struct name *dropped = drop_find();
    if (!waiting->copied)
        copy(waiting, false, dropped);
    else if (dropped)
        broadcast_change(&capture.ring, waiting->number, WORD_DROPPED, (uintptr_t)dropped);
    *waiting = capture.received[--capture.received_count];
    capture.below->rx_release(device, frame);
}

static bool sent_is_waiting(uint16_t index)
{
    ASSERT(index < NETDEV_TX_BUFFER_COUNT);
    return (capture.sent_waits[index / BITS] & BIT(index % BITS)) != 0;
}

static void sent_copy(uint16_t index)
{
    ASSERT(sent_is_waiting(index));
    capture.sent_waits[index / BITS] &= ~BIT(index % BITS);
    copy(&capture.sent[index], true, NULL);
}

static struct tx_buffer *tx_acquire(struct netdev *device)
{
    struct tx_buffer *buffer = capture.below->tx_acquire(device);
    if (buffer && sent_is_waiting(buffer->index))
        sent_copy(buffer->index);
    return buffer;
}

static bool tx_publish(struct netdev *device, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                       uint16_t csum_offset)
{
    uint16_t index = buffer->index;
    if (sent_is_waiting(index))
        sent_copy(index);
    if (!capture.below->tx_publish(device, buffer, bytes, csum_start, csum_offset))
        return false;
    if (capture.muted)
        return true;
    /* The stamp is taken when the frame has left: the way out is no longer. */
    capture.sent[index] = (struct waiting){
        broadcast_number(&capture.ring), capture.config.now_ns(), buffer->data, bytes, 0, false
    };
    capture.sent_waits[index / BITS] |= BIT(index % BITS);
    return true;
}

static void tx_release(struct netdev *device, struct tx_buffer *buffer) { capture.below->tx_release(device, buffer); }

/* Copies at most `most` frames that were sent. */
static void sent_copy_some(uint32_t most)
{
    ASSERT(most > 0);
    for (size_t i = 0; i < ARRAY_COUNT(capture.sent_waits); i++)
        for (; capture.sent_waits[i] != 0 && most > 0; most--)
            sent_copy((uint16_t)(i * BITS + (size_t)__builtin_ctzll(capture.sent_waits[i])));
}

static void poll(struct netdev *device)
{
    sent_copy_some(POLL_FRAMES_MAX); /* before the device gives buffers back */
    capture.below->poll(device);
}

static void groups_set(struct netdev *device, const uint8_t (*groups)[NETDEV_MAC_BYTES], uint32_t count)
{
    if (capture.below->groups_set != NULL)
        capture.below->groups_set(device, groups, count);
}

static void rehearse(struct netdev *device)
{
    if (capture.below->rehearse != NULL)
        capture.below->rehearse(device);
}

static const struct netdev_ops capture_ops = {
    .rx_borrow = rx_borrow,
    .rx_release = rx_release,
    .tx_acquire = tx_acquire,
    .tx_publish = tx_publish,
    .tx_release = tx_release,
    .poll = poll,
    .groups_set = groups_set,
    .rehearse = rehearse,
};

/* ---- set-up and reading ---- */

void capture_init(const struct capture_config *config)
{
    memset(&capture, 0, sizeof capture);
    capture.config = *config;
    ASSERT(config->bytes == 0 || (config->memory != NULL && config->now_ns != NULL));
    ASSERT(config->bytes == 0 || capture_memory_bytes(config->bytes, config->frames) <= CAPTURE_MEMORY_BYTES_MAX);
    capture.ring = (struct broadcast_ring){ config->memory, config->frames, 1 + record_words_of(config->bytes), 0 };
}

void capture_attach(struct netdev *device)
{
    if (capture.config.bytes == 0)
        return;
    ASSERT(device->ops != &capture_ops);
    capture.below = device->ops;
    capture.mac = device->mac;
    capture.received_count = 0;
    memset(capture.sent_waits, 0, sizeof capture.sent_waits);
    device->ops = &capture_ops;
    capture_check();
}

void capture_mute(bool mute) { capture.muted = mute; }

void capture_flush(void)
{
    sent_copy_some(NETDEV_TX_BUFFER_COUNT);
    ASSERT(capture.received_count <= NETDEV_RX_BORROWED_MAX);
    for (uint32_t i = 0; i < capture.received_count; i++) {
        if (!capture.received[i].copied)
            copy(&capture.received[i], false, NULL);
        capture.received[i].copied = true;
    }
}

uint64_t capture_newest(void) { return broadcast_newest(&capture.ring); }

uint64_t capture_oldest(void) { return broadcast_oldest(&capture.ring); }

uint32_t capture_bytes(void) { return capture.config.bytes; }

const uint8_t *capture_mac(void) { return capture.mac; }

bool capture_read(uint64_t number, struct capture_frame *frame)
{
    ASSERT(capture.config.bytes != 0);
    if (broadcast_read(&capture.ring, number, frame->words) != BROADCAST_READ)
        return false;
    uint64_t lengths = frame->words[WORD_LENGTHS];
    frame->number = number;
    frame->stamp_ns = frame->words[WORD_STAMP];
    const struct name *dropped = (const struct name *)(uintptr_t)frame->words[WORD_DROPPED];
    frame->dropped[0] = '\0';
    if (dropped)
        format(frame->dropped, sizeof frame->dropped, "%s%s", dropped->prefix, dropped->name);
    frame->frame_bytes = (uint16_t)lengths;
    frame->kept_bytes = (uint16_t)(lengths >> LENGTHS_KEPT_SHIFT);
    frame->sent = (lengths >> LENGTHS_SENT_SHIFT & 1) != 0;
    ASSERT(frame->kept_bytes <= capture.config.bytes && frame->kept_bytes <= frame->frame_bytes);
    return true;
}

/* ---- logins ---- */

/* Apart from `capture`: a login may be named before the capture begins, or without one. */
static struct {
    uint32_t count;
    struct {
        uint32_t address;
        uint16_t port;
    } at[CAPTURE_LOGINS_MAX];
} logins;

static bool is_login(uint32_t address, uint16_t port)
{
    for (uint32_t i = 0; i < logins.count; i++)
        if (logins.at[i].address == address && logins.at[i].port == port)
            return true;
    return false;
}

void capture_note_login(uint32_t address, uint16_t port)
{
    if (is_login(address, port))
        return;
    ASSERT(logins.count < CAPTURE_LOGINS_MAX);
    logins.at[logins.count].address = address;
    logins.at[logins.count++].port = port;
}

size_t capture_public_bytes(const struct capture_frame *frame)
{
    enum {
        IPV4_BYTES_MIN = 20,
        PROTOCOL_ICMP = 1,
        PROTOCOL_TCP = 6,
        ICMP_BYTES = 8,
        QUOTED_BYTES = 8,
        TCP_OFFSET = 12
    };
    const uint8_t *data = capture_data(frame);
    const size_t kept = frame->kept_bytes;
    size_t ip = ETHERNET_BYTES;
    while (kept >= ip && (load_be16(data + ip - 2) == 0x8100 || load_be16(data + ip - 2) == 0x88a8))
        ip += 4; /* a VLAN tag */
    if (logins.count == 0 || kept < ip + IPV4_BYTES_MIN || load_be16(data + ip - 2) != 0x0800)
        return kept;
    const size_t l4 = ip + (data[ip] & 15) * 4u;
    const size_t quoted = l4 + ICMP_BYTES;
    if (data[ip + 9] == PROTOCOL_ICMP) /* an error that quotes TCP keeps the ports */
        return kept > quoted + 9 && data[quoted + 9] == PROTOCOL_TCP
                   ? min_size(kept, quoted + IPV4_BYTES_MIN + QUOTED_BYTES)
                   : kept;
    if (data[ip + 9] != PROTOCOL_TCP)
        return kept;
    if ((load_be16(data + ip + 6) & 0x1fff) != 0)
        return min_size(kept, l4); /* a later fragment */
    if (kept <= l4 + TCP_OFFSET
        || !is_login(load_be32(data + ip + (frame->sent ? 16 : 12)), load_be16(data + l4 + (frame->sent ? 2 : 0))))
        return kept;
    return min_size(kept, l4 + (data[l4 + TCP_OFFSET] >> 4) * 4u);
}

void capture_check(void)
{
    ASSERT(logins.count <= CAPTURE_LOGINS_MAX);
    ASSERT(capture.received_count <= NETDEV_RX_BORROWED_MAX);
    for (uint32_t i = 0; i < capture.received_count; i++)
        ASSERT(capture.received[i].number != 0 && capture.received[i].number <= capture.ring.newest);
    for (uint16_t i = 0; i < NETDEV_TX_BUFFER_COUNT; i++)
        ASSERT(!sent_is_waiting(i) || (capture.sent[i].number != 0 && capture.sent[i].number <= capture.ring.newest));
}
