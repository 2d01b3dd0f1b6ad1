/* The drivers of network cards, each over its model device in memory, with caches warm.
 *
 *     bench_card ROW CARD warm N    times N events and prints ROW P50 P99 SAMPLES EVENTS in nanoseconds, then
 *                                   `clock STEP READING`, as bench_net; a sample is the mean of EVENTS events
 *     bench_card ROW CARD count N   the same calls under `valgrind --tool=callgrind --collect-atstart=no`; prints the
 *                                   registers read and the doorbells rung in the timed parts
 *
 * CARD is virtio, gqi-lists, gqi-raw or dqo-raw. ROW names the timed part:
 *
 *     receive   a small frame stands in the ring -> `poll` is done, the frame borrowed, its buffer given back
 *     send      -> a buffer is acquired, published, released: the doorbell rings
 *
 * Doorbells are kept during the timed part; the device sees them after it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

#include "base/assert.h"
#include "base/bytes.h"
#include "base/cycles.h"
#include "drivers/gve/gve.h"
#include "drivers/virtio/net.h"
#include "host/platform.h"
#include "net/ip/checksum.h"
#include "tests/gve/bus.h"
#include "tests/lib/virtio_model.h"

enum { FRAME_BYTES = 100, IP_BYTES = FRAME_BYTES - 14, TCP_BYTES = IP_BYTES - 20, EVENTS = 20, WARM_UP = 600 };

static union {
    struct virtio_net virtio;
    struct gve gve;
} card;
static struct virtio_model virtio;
static struct gve_model_bus gve;
static struct netdev *const device = (struct netdev *)&card;
static bool is_virtio, timing, counting;
static uint64_t begin_cycles, doorbell_count, register_count;

static struct {
    uint32_t index, value;
} kept[4];
static size_t kept_count;
static const struct gve_bus_ops *model_ops;

/* ---- the devices ---- */

static uint32_t gve_read(struct gve_bus *bus, uint32_t offset)
{
    register_count += timing;
    return model_ops->read(bus, offset);
}

static void gve_write(struct gve_bus *bus, uint32_t offset, uint32_t value, uint8_t bytes)
{
    register_count += timing;
    model_ops->write(bus, offset, value, bytes);
}

static void gve_doorbell(struct gve_bus *bus, uint32_t index, uint32_t value)
{
    doorbell_count += timing;
    if (!timing) {
        model_ops->doorbell(bus, index, value);
        return;
    }
    ASSERT(kept_count < ARRAY_COUNT(kept));
    kept[kept_count].index = index;
    kept[kept_count++].value = value;
}

static void on_kick(uint16_t queue)
{
    (void)queue;
    doorbell_count += timing;
}

static void start(const char *name)
{
    static const struct gve_bus_ops ops = { .read = gve_read, .write = gve_write, .doorbell = gve_doorbell };
    static const struct {
        const char *name;
        uint32_t format;
    } formats[] = { { "gqi-lists", GVE_FORMAT_GQI_QPL },
                    { "gqi-raw", GVE_FORMAT_GQI_RDA },
                    { "dqo-raw", GVE_FORMAT_DQO_RDA } };
    is_virtio = strcmp(name, "virtio") == 0;
    if (is_virtio) {
        virtio_model_init(&virtio, VIRTIO_MODEL_MODERN);
        virtio.on_kick = on_kick;
        ASSERT(virtio_net_init(&card.virtio, &virtio.bus) == VIRTIO_NET_OK);
        return;
    }
    size_t i = 0;
    while (i < ARRAY_COUNT(formats) && strcmp(formats[i].name, name) != 0)
        i++;
    ASSERT(i < ARRAY_COUNT(formats));
    gve_model_bus_init(&gve, 1u << formats[i].format, 0, 256);
    model_ops = gve.bus.ops;
    gve.bus.ops = &ops;
    ASSERT(gve_init(&card.gve, &gve.bus) == NULL);
}

static void deliver(const uint8_t *frame)
{
    ASSERT(is_virtio ? virtio_model_receive(&virtio, frame, FRAME_BYTES, VIRTIO_NET_HDR_F_DATA_VALID)
                     : gve_model_receive(&gve.model, frame, FRAME_BYTES));
}

/* Lets the device see its doorbells, and send all that it has. */
static void device_turn(void)
{
    struct virtio_model_packet packet;
    for (size_t i = 0; i < kept_count; i++)
        model_ops->doorbell(&gve.bus, kept[i].index, kept[i].value);
    kept_count = 0;
    while (is_virtio && virtio_model_transmit_take(&virtio, &packet))
        virtio_model_transmit_done(&virtio, &packet);
    if (is_virtio)
        virtio_model_want_kick(&virtio, VIRTIO_NET_TRANSMITQ);
    ASSERT(virtio.violation == NULL && gve.model.violation == NULL);
}

/* ---- the rows ---- */

static void timed_begin(void)
{
    const uint32_t reads = virtio.register_reads;
    register_count -= reads;
    timing = true;
    if (counting)
        CALLGRIND_TOGGLE_COLLECT;
    begin_cycles = cycles_now_serialised();
}

static uint64_t timed_end(void)
{
    const uint64_t end_cycles = cycles_now_serialised();
    if (counting)
        CALLGRIND_TOGGLE_COLLECT;
    timing = false;
    register_count += virtio.register_reads;
    return end_cycles - begin_cycles;
}

static uint64_t receive(const uint8_t *bytes)
{
    struct frame frame;
    deliver(bytes);
    timed_begin();
    device->ops->poll(device);
    const bool got = device->ops->rx_borrow(device, &frame);
    device->ops->rx_release(device, &frame);
    const uint64_t cycles = timed_end();
    ASSERT(got && frame.bytes == FRAME_BYTES && frame.checksum_good);
    device_turn();
    return cycles;
}

static uint64_t send(const uint8_t *bytes)
{
    device->ops->poll(device);
    device_turn();
    timed_begin();
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    memcpy(buffer->data, bytes, FRAME_BYTES);
    const bool sent = device->ops->tx_publish(device, buffer, FRAME_BYTES, 34, 16);
    device->ops->tx_release(device, buffer);
    const uint64_t cycles = timed_end();
    ASSERT(sent);
    device_turn();
    return cycles;
}

/* Makes a TCP frame with good checksums. */
static void tcp_frame(uint8_t *frame)
{
    uint8_t *ip = frame + 14, *tcp = ip + 20;
    memset(frame, 0, FRAME_BYTES);
    store_be16(frame + 12, 0x0800);
    ip[0] = 0x45;
    ip[9] = 6;
    tcp[12] = 0x50;
    store_be16(ip + 2, IP_BYTES);
    store_be16(ip + 10, checksum_finish(checksum_sum(0, ip, 20)));
    store_be16(tcp + 16, checksum_finish(checksum_sum(checksum_pseudo_ipv4(0, 0, 6, TCP_BYTES), tcp, TCP_BYTES)));
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns the sorted sums of EVENTS events each; of two readings around nothing without a row. */
static uint64_t *measure(uint64_t (*row)(const uint8_t *frame), const uint8_t *frame, size_t samples)
{
    uint64_t *sums = calloc(samples, sizeof *sums);
    ASSERT(sums != NULL);
    for (size_t i = 0; i < samples * EVENTS; i++) {
        const uint64_t from = cycles_now_serialised();
        sums[i / EVENTS] += row != NULL ? row(frame) : cycles_now_serialised() - from;
    }
    qsort(sums, samples, sizeof *sums, compare);
    return sums;
}

int main(int argc, char **argv)
{
    uint8_t frame[FRAME_BYTES];
    const char *const name = argc == 5 ? argv[1] : "";
    uint64_t (*const row)(const uint8_t *) = strcmp(name, "receive") == 0 ? receive
                                             : strcmp(name, "send") == 0  ? send
                                                                          : NULL;
    const size_t samples = row != NULL ? strtoull(argv[4], NULL, 10) / EVENTS : 0;
    if (samples == 0) {
        fprintf(stderr, "bench_card receive|send virtio|gqi-lists|gqi-raw|dqo-raw warm|count N\n");
        return 2;
    }
    platform_init();
    tcp_frame(frame);
    start(argv[2]);
    free(measure(row, frame, WARM_UP / EVENTS));
    counting = strcmp(argv[3], "count") == 0;
    register_count = doorbell_count = 0;
    const uint64_t *sums = measure(row, frame, samples);
    if (counting) {
        printf("registers %llu doorbells %llu\n", (unsigned long long)register_count,
               (unsigned long long)doorbell_count);
        return 0;
    }
    const double ns = 1e6 / (double)platform_tsc_khz() / EVENTS, reading = (double)measure(NULL, NULL, 500)[250];
    printf("%s %.2f %.2f %zu %d\n", name, ((double)sums[samples / 2] - reading) * ns,
           ((double)sums[samples * 99 / 100] - reading) * ns, samples, EVENTS);
    printf("clock 0 %.2f\n", reading * ns);
    return 0;
}
