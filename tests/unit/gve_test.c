/* drivers/gve/ against the model of tests/gve: up and home in each format, frames both ways, ownership, and a device
 * whose answers, completions and counters are out of range. SEED=n replays the random ones. */
#include "base/cycles.h"
#include "base/trace.h"
#include "drivers/gve/gve.h"
#include "net/ip/checksum.h"
#include "tests/gve/bus.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/packet.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

enum { RAW = 1 << GVE_FORMAT_GQI_RDA, LISTS = 1 << GVE_FORMAT_GQI_QPL, DQO = 1 << GVE_FORMAT_DQO_RDA };
enum { ENTRIES = 256, TCP_FRAME_BYTES = 54 + 100 };

static _Alignas(64) struct gve_model_bus bus;
static struct gve_model *const model = &bus.model;
static struct gve net;
static struct netdev *const device = &net.device;

BEFORE_ALL() { random_seed(20261128); }

AFTER_EACH()
{
    model_memory_free_all();
    memset(&gve_counters, 0, sizeof gve_counters);
}

static void make(uint32_t formats, uint8_t revision, uint16_t entries)
{
    test_after_each();
    gve_model_bus_init(&bus, formats, revision, entries);
}

static void start_as(uint32_t formats, uint8_t revision, uint16_t entries)
{
    make(formats, revision, entries);
    assert_null(gve_init(&net, &bus.bus));
    assert_null(model->violation);
}

static void start(void) { start_as(RAW | LISTS, 0, ENTRIES); }

/* Fills a frame with bytes that follow from `number`. */
static void fill(uint8_t *at, uint32_t bytes, uint32_t number)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

static void check(const uint8_t *at, uint32_t bytes, uint32_t number)
{
    uint8_t expected[GVE_BUS_FRAME_BYTES];
    fill(expected, bytes, number);
    assert_memory_equal(at, expected, bytes);
}

static bool deliver(uint32_t bytes, uint32_t number)
{
    static uint8_t frame[9000];
    fill(frame, bytes, number);
    return gve_model_receive(model, frame, bytes);
}

static bool borrow(struct frame *frame) { return device->ops->rx_borrow(device, frame); }

static void expect(uint32_t bytes, uint32_t number)
{
    struct frame frame;
    assert_true(borrow(&frame));
    assert_int_equal(frame.bytes, bytes);
    check(frame.data, bytes, number);
    device->ops->rx_release(device, &frame);
}

static void expect_none(void)
{
    struct frame frame;
    assert_false(borrow(&frame));
}

/* Sends a frame; `moved` bytes lie before it in its buffer. */
static bool send_moved(uint32_t bytes, uint32_t number, uint32_t moved)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    if (buffer == NULL)
        return false;
    assert_int_equal((uintptr_t)buffer->data % 16, 2);
    buffer->data += moved;
    fill(buffer->data, bytes, number);
    bool sent = device->ops->tx_publish(device, buffer, bytes, 0, 0);
    device->ops->tx_release(device, buffer);
    return sent;
}

static void expect_sent(uint32_t bytes, uint32_t number)
{
    const uint64_t at = (model->sent_count - 1) % GVE_BUS_SENT_MAX;
    assert_int_equal(bus.sent[at].length, bytes);
    check(bus.sent[at].bytes, bytes, number);
}

static void poll(void)
{
    device->ops->poll(device);
    gve_check(&net);
}

/* Lets the time pass after which the state is read. */
static void silence_passes(void)
{
    poll();
    net.last_rx_cycles = cycles_now() - BIT(33);
    poll();
}

/* Makes a TCP frame of TCP_FRAME_BYTES with good checksums. */
static void tcp_frame(uint8_t *frame)
{
    uint8_t segment[TCP_FRAME_BYTES - 34];
    random_fill(segment, sizeof segment);
    packet_ethernet(frame, segment, segment + 6, ETHERNET_TYPE_IPV4);
    packet_around(frame + 14, IPV4_PROTOCOL_TCP, (uint32_t)random_next(), (uint32_t)random_next(), segment,
                  sizeof segment);
}

/* ---- up and home ---- */

TEST(device_comes_up_in_each_format_and_goes_home_clean)
{
    static const char *const names[] = { "GQI with page lists", "GQI with raw addressing", "DQO with raw addressing" };
    static const uint32_t offered[] = { LISTS, RAW | LISTS | DQO, DQO };
    for (uint8_t i = 0; i < 12; i++) {
        const bool raw = i % 3 != 0, revision = i & 1;
        const int entries = i / 6 ? 1024 : i % 3 == 2 ? 256 : 16;
        start_as(offered[i % 3], revision, (uint16_t)entries);
        assert_int_equal(net.raw, raw);
        assert_memory_equal(device->mac, model->config.mac, 6);
        assert_int_equal(device->mtu_bytes, 1460);
        assert_true(device->link_up && device->tx_checksum);
        assert_true(model->state.block[GVE_NOTIFY_TX].masked && model->state.block[GVE_NOTIFY_RX].masked);
        assert_int_equal(model->state.list[0].page_count != 0, !raw);
        char text[200], wanted[200];
        assert_true(gve_describe(&net, text, sizeof text) < sizeof text);
        snprintf(wanted, sizeof wanted,
                 "model, revision %d, format %s, queues rx %d tx %d, mac 42:01:0a:00:00:02, mtu 1460, link up",
                 revision, names[i % 3], entries, entries);
        assert_string_equal(text, wanted);
        assert_true(deliver(60, 1));
        expect(60, 1);

        const uint64_t resets = model->reset_count;
        gve_stop(&net);
        assert_null(model->violation); /* destroys, unregisters and deconfigures in an order that the model accepts */
        assert_false(model->state.configured);
        assert_int_equal(model->reset_count, resets + 1);
        assert_false(deliver(60, 2));
    }
}

TEST(device_left_running_by_another_is_reset_first)
{
    start();
    static struct gve again;
    assert_null(gve_init(&again, &bus.bus));
    assert_null(model->violation);
    uint8_t mac[6];
    assert_true(gve_peek_mac(&bus.bus, mac));
    assert_memory_equal(mac, model->config.mac, 6);
    assert_false(model->state.tx[0].created);
}

static enum gve_model_written altered;
static uint32_t alter_at, alter_bytes, alter_value;

/* Writes `alter_bytes` of `alter_value` at `alter_at` of each structure of the kind `altered`. */
static void alter(enum gve_model_written what, uint8_t *structure)
{
    if (what != altered)
        return;
    if (alter_bytes == 1)
        structure[alter_at] = (uint8_t)alter_value;
    else if (alter_bytes == 2)
        store_be16(structure + alter_at, (uint16_t)alter_value);
    else
        store_be32(structure + alter_at, alter_value);
}

static void alter_field(enum gve_model_written what, size_t at, uint32_t bytes, uint32_t value)
{
    altered = what;
    alter_at = (uint32_t)at;
    alter_bytes = bytes;
    alter_value = value;
    bus.alter = alter;
}

#define DESCRIPTION(field) GVE_MODEL_DESCRIPTION, offsetof(struct gve_device_descriptor, field)
#define OPTION(field)                                                                                                  \
    GVE_MODEL_DESCRIPTION, sizeof(struct gve_device_descriptor) + offsetof(struct gve_device_option, field)
#define RESOURCES(field) GVE_MODEL_RESOURCES, offsetof(struct gve_queue_resources, field)
#define REGISTERS(field) GVE_MODEL_REGISTERS, offsetof(struct gve_registers, field)

TEST(answers_out_of_range_are_refused_by_name_and_value)
{
    static const char tx_size[] = "the gVNIC's transmit queue has an impossible size: %u",
                      rx_size[] = "the gVNIC's receive queue has an impossible size: %u",
                      cut[] = "the gVNIC's description of itself is cut off, its bytes: %u",
                      place[] = "the gVNIC puts a doorbell where there is none, or another one: %u",
                      counter[] = "the gVNIC puts a counter where there is none: %u",
                      mac[] = "the gVNIC has an impossible hardware address, which begins with: %u",
                      mtu[] = "the gVNIC has an impossible MTU: %u",
                      pages[] = "the gVNIC takes too few pages for the buffers: %u",
                      refused[] = "the gVNIC refuses a command, with status: %u",
                      silent[] = "the gVNIC does not answer its admin queue, its count of commands: %u",
                      status[] = "the gVNIC is gone or asks for a reset, its status: %u";
    static const struct {
        enum gve_model_written what;
        size_t at;
        uint32_t bytes, value;
        const char *error;
        uint32_t format; /* 0: LISTS */
    } cases[] = {
        { DESCRIPTION(tx_queue_entries), 2, 0, tx_size, 0 },
        { DESCRIPTION(tx_queue_entries), 2, 8, tx_size, 0 },
        { DESCRIPTION(tx_queue_entries), 2, 100, tx_size, 0 },
        { DESCRIPTION(tx_queue_entries), 2, 0x8000, tx_size, 0 },
        { DESCRIPTION(tx_queue_entries), 2, 128, tx_size, DQO },
        { DESCRIPTION(rx_queue_entries), 2, 0, rx_size, 0 },
        { DESCRIPTION(rx_queue_entries), 2, 257, rx_size, 0 },
        { DESCRIPTION(rx_queue_entries), 2, 0x8000, rx_size, 0 },
        { DESCRIPTION(rx_queue_entries), 2, 0xffff, rx_size, DQO },
        { DESCRIPTION(counters), 2, 0, "the gVNIC has no counters", 0 },
        { DESCRIPTION(mtu), 2, 0, mtu, 0 },
        { DESCRIPTION(mtu), 2, 67, mtu, DQO },
        { DESCRIPTION(mtu), 2, 0xffff, NULL, 0 },
        { DESCRIPTION(mac), 1, 0x43, mac, 0 },
        { DESCRIPTION(mac), 1, 0xff, mac, 0 },
        { DESCRIPTION(max_registered_pages), 4, 0, NULL, 0 }, /* the upper half: fewer pages are said below */
        { GVE_MODEL_DESCRIPTION, 4, 4, 300, pages, 0 },
        { DESCRIPTION(total_bytes), 2, 0, cut, 0 },
        { DESCRIPTION(total_bytes), 2, 39, cut, 0 },
        { DESCRIPTION(total_bytes), 2, 4097, cut, 0 },
        { DESCRIPTION(total_bytes), 2, 50, cut, 0 },
        { DESCRIPTION(option_count), 2, 2, "cut off", 0 },
        { DESCRIPTION(option_count), 2, 0xffff, "cut off", DQO },
        { OPTION(bytes), 2, 0xffff, "cut off", 0 },
        { OPTION(id), 2, GVE_OPTION_DQO_QPL, "DQO with page lists alone", 0 },
        { RESOURCES(doorbell_index), 4, 1024, place, 0 },
        { RESOURCES(doorbell_index), 4, UINT32_MAX, place, DQO },
        { RESOURCES(doorbell_index), 4, 0x40, place, 0 }, /* one for both queues */
        { RESOURCES(counter_index), 4, 8, counter, 0 },
        { RESOURCES(counter_index), 4, UINT32_MAX, NULL, DQO }, /* without counters */
        { GVE_MODEL_IRQ_INDEX, 0, 4, 1024, place, 0 },
        { GVE_MODEL_IRQ_INDEX, 0, 4, 0x80, place, DQO }, /* a queue's doorbell */
        { GVE_MODEL_STATUS, 0, 4, 0, refused, 0 },
        { GVE_MODEL_STATUS, 0, 4, 0xfffffff7, refused, DQO },
        { REGISTERS(adminq_event_counter), 4, 77, silent, 0 },
        { REGISTERS(adminq_event_counter), 4, UINT32_MAX, silent, DQO },
        { REGISTERS(adminq_pfn), 4, 1, "the gVNIC does not come out of its reset, adminq_pfn: %u", 0 },
        { REGISTERS(device_status), 4, GVE_DEVICE_STATUS_RESET, status, 0 },
        { REGISTERS(device_status), 4, UINT32_MAX, status, DQO },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char wanted[200] = "";
        make(cases[i].format ? cases[i].format : LISTS, 0, ENTRIES);
        alter_field(cases[i].what, cases[i].at, cases[i].bytes, cases[i].value);
        const char *error = gve_init(&net, &bus.bus);
        if (cases[i].error != NULL)
            snprintf(wanted, sizeof wanted, cases[i].error, cases[i].value);
        if (cases[i].error == NULL ? error != NULL : error == NULL || strstr(error, wanted) == NULL)
            fail_msg("case %zu: %s", i, error ? error : "came up");
        assert_int_equal(model->state.configured, error == NULL);
        assert_true(device->mtu_bytes <= 1500);
    }
    make(LISTS, 0, ENTRIES);
    memset(model->config.mac, 0, sizeof model->config.mac);
    assert_string_equal(gve_init(&net, &bus.bus), "the gVNIC has an impossible hardware address, which begins with: 0");
    make(LISTS, 0, ENTRIES);
    bus.bus.behind = "DMAR";
    assert_non_null(strstr(gve_init(&net, &bus.bus), "IOMMU"));
    assert_int_equal(model->reset_count, 1); /* the model's own: nothing was touched */
    make(LISTS, 1, ENTRIES);
    model->never_resets = true;
    assert_string_equal(gve_init(&net, &bus.bus), "the gVNIC does not come out of its reset, its status: 4");
    uint8_t found[6];
    assert_false(gve_peek_mac(&bus.bus, found));
}

TEST(option_that_requires_unknown_features_is_none)
{
    make(RAW | LISTS, 0, ENTRIES);
    alter_field(OPTION(required_features), 4, 1);
    assert_null(gve_init(&net, &bus.bus));
    assert_false(net.raw);
}

/* ---- frames ---- */

TEST(sent_frame_takes_one_doorbell_and_no_reading)
{
    static const uint32_t formats[] = { RAW, LISTS, DQO };
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        start_as(formats[i], 1, ENTRIES);
        const uint64_t doorbells = model->doorbell_count, reads = model->register_read_count;
        for (uint32_t n = 0; n < 90; n++) { /* fewer than leave the ring nearly dry */
            assert_true(send_moved(100, n, 40));
            expect_sent(100, n);
            assert_true(deliver(100, n));
            expect(100, n);
            assert_int_equal(model->doorbell_count, doorbells + n + 1);
        }
        poll();
        assert_int_equal(model->register_read_count, reads);
        assert_int_equal(gve_counters.tx_kicks, 90);
        assert_int_equal(gve_counters.tx_frames, 90);
        assert_int_equal(gve_counters.rx_frames, 90);
    }
}

TEST(transmit_checksum_is_completed_by_the_device)
{
    for (int i = 0; i < 100; i++) {
        if (i % 50 == 0)
            start_as(i ? DQO : RAW, 0, ENTRIES);
        uint8_t frame[TCP_FRAME_BYTES];
        tcp_frame(frame);
        struct tx_buffer *buffer = device->ops->tx_acquire(device);
        memcpy(buffer->data, frame, sizeof frame);
        uint32_t pseudo = checksum_pseudo_ipv4(load_be32(frame + 26), load_be32(frame + 30), 6, TCP_FRAME_BYTES - 34);
        store_be16(buffer->data + 50, checksum_fold(pseudo));
        assert_true(device->ops->tx_publish(device, buffer, sizeof frame, 34, 16));
        device->ops->tx_release(device, buffer);
        assert_memory_equal(bus.sent[(model->sent_count - 1) % GVE_BUS_SENT_MAX].bytes, frame, sizeof frame);
    }
}

#define DQO_RX(field) offsetof(struct gve_dqo_rx_completion, field)

/* In DQO the device looks at the sum, and sees the padding. */
TEST(checksum_is_vouched_for_only_if_the_sum_proves_it)
{
    for (int i = 0; i < 800; i++) {
        if (i % 400 == 0)
            start_as(i ? DQO : RAW, 0, ENTRIES);
        uint8_t bytes[TCP_FRAME_BYTES + 6] = { 0 };
        struct frame frame;
        tcp_frame(bytes);
        uint32_t length = TCP_FRAME_BYTES;
        switch (i % 5) {
        case 1: /* a wrong byte that the checksum covers */
            bytes[34 + random_below(length - 34)] ^= (uint8_t)(1u << random_below(8));
            break;
        case 2: /* padding */
            length += 1 + (uint32_t)random_below(6);
            break;
        case 3: /* a part of a datagram */
            store_be16(bytes + 20, 0x2000);
            break;
        case 4: /* a device that has no sum */
            if (net.is_dqo)
                alter_field(GVE_MODEL_RX, DQO_RX(status), 1, GVE_DQO_RX_DONE | GVE_DQO_RX_END);
            else
                alter_field(GVE_MODEL_RX, offsetof(struct gve_rx_descriptor, checksum), 2, 0);
            break;
        }
        assert_true(gve_model_receive(model, bytes, length));
        bus.alter = NULL;
        assert_true(borrow(&frame));
        assert_int_equal(frame.checksum_good, i % 5 == 0 || (net.is_dqo && i % 5 == 2));
        device->ops->rx_release(device, &frame);
        poll();
    }
}

/* Random traffic on a ring that is gone round many times. Frames stay borrowed and are given back in any order; sent
 * buffers are held by the stack, by the device or by both. */
TEST(any_format_any_size_any_order_loses_nothing)
{
    static struct frame borrowed[NETDEV_RX_BORROWED_MAX];
    static uint32_t number[NETDEV_RX_BORROWED_MAX], lengths[1 << 16];
    for (uint32_t round = 0; round < 36; round++) {
        static const uint32_t formats[] = { RAW, LISTS, DQO };
        start_as(formats[round % 3], round & 1, (uint16_t)((round % 3 == 2 ? 256u : 16u) << random_below(5)));
        uint32_t held = 0, delivered = 0, seen = 0;
        struct tx_buffer *kept[8] = { NULL };
        for (uint32_t step = 0; step < 12000; step++) {
            struct frame frame;
            uint32_t bytes = 14 + (uint32_t)random_below(1461);
            switch (random_below(8)) {
            case 0:
            case 1:
                if (deliver(bytes, delivered))
                    lengths[delivered++ & 0xffff] = bytes;
                break;
            case 2:
            case 3:
                if (held < NETDEV_RX_BORROWED_MAX && borrow(&frame)) {
                    assert_int_equal(frame.bytes, lengths[seen & 0xffff]);
                    number[held] = seen++;
                    borrowed[held++] = frame;
                }
                break;
            case 4:
                if (held > 0) {
                    uint32_t i = (uint32_t)random_below(held);
                    check(borrowed[i].data, borrowed[i].bytes, number[i]);
                    device->ops->rx_release(device, &borrowed[i]);
                    borrowed[i] = borrowed[--held];
                    number[i] = number[held];
                }
                break;
            case 5:
                bus.holds = random_below(3) == 0;
                if (send_moved(bytes, step, (uint32_t)random_below(1474 - bytes + 1)))
                    expect_sent(bytes, step);
                break;
            case 6: { /* bytes that were sent before, as a retransmission */
                struct tx_buffer **slot = &kept[random_below(ARRAY_COUNT(kept))];
                if (*slot == NULL && (*slot = device->ops->tx_acquire(device)) != NULL) {
                    fill((*slot)->data, 60, 7);
                } else if (*slot != NULL) {
                    if (device->ops->tx_publish(device, *slot, 60, 0, 0))
                        expect_sent(60, 7);
                    if (random_below(3) == 0) {
                        device->ops->tx_release(device, *slot);
                        *slot = NULL;
                    }
                }
                break;
            }
            default:
                if (!bus.holds)
                    gve_model_bus_report(&bus);
                poll();
            }
        }
        while (held > 0)
            device->ops->rx_release(device, &borrowed[--held]);
        for (size_t i = 0; i < ARRAY_COUNT(kept); i++)
            if (kept[i] != NULL)
                device->ops->tx_release(device, kept[i]);
        for (; seen < delivered; seen++)
            expect(lengths[seen & 0xffff], seen);
        bus.holds = false;
        gve_model_bus_report(&bus);
        poll();
        assert_int_equal(net.tx_pool.taken_count, 0);
        const uint32_t all = net.rx_posted_max + NETDEV_RX_BORROWED_MAX;
        assert_int_equal(net.rx_free_count + (net.rx.posted - net.rx.taken), all);
        assert_null(gve_broken(device));
        assert_null(model->violation);
    }
}

static void counts_run_past_the_end(uint32_t format)
{
    start_as(format, 0, ENTRIES);
    const uint32_t shift = UINT32_MAX - 511; /* 512 divides 2^32: entries and generations go on */
    net.rx.taken += shift, net.rx.posted += shift, net.rx.lapped = false;
    net.tx.sent += shift, net.tx.done += shift;
    model->state.rx[0].done += shift, model->state.rx[0].published += shift;
    model->state.tx[0].done += shift, model->state.tx[0].published += shift;
    net.tx.completed += shift, model->state.tx[0].completions += shift;
    if (!net.is_dqo)
        store_be32((uint32_t *)(uintptr_t)net.tx.counter, shift);
    for (uint32_t n = 0; n < 1200; n++) {
        assert_true(deliver(60, n));
        expect(60, n);
        assert_true(send_moved(60, n, 0));
        expect_sent(60, n);
        if (n > ENTRIES)
            poll();
    }
    assert_null(gve_broken(device));
    assert_null(model->violation);
}

TEST(counts_run_past_the_end_of_32_bits)
{
    counts_run_past_the_end(RAW);
    counts_run_past_the_end(DQO);
}

static void misuse_is_an_assertion(uint32_t format)
{
    struct frame frame;
    start_as(format, 0, ENTRIES);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    expect_assert_failure(device->ops->tx_publish(device, buffer, 13, 0, 0));
    expect_assert_failure(device->ops->tx_publish(device, buffer, NETDEV_FRAME_BYTES_MAX + 1, 0, 0));
    device->ops->tx_release(device, buffer);
    expect_assert_failure(device->ops->tx_release(device, buffer));
    expect_assert_failure(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_true(deliver(60, 1) && borrow(&frame));
    device->ops->rx_release(device, &frame);
    expect_assert_failure(device->ops->rx_release(device, &frame));
    frame.cookie++; /* the next frame's: the device has it */
    expect_assert_failure(device->ops->rx_release(device, &frame));
    frame.cookie = GVE_RX_BUFFER_COUNT;
    expect_assert_failure(device->ops->rx_release(device, &frame));
}

TEST(misuse_of_buffers_is_an_assertion)
{
    misuse_is_an_assertion(RAW);
    misuse_is_an_assertion(DQO);
}

TEST(full_ring_and_empty_pool_refuse_for_now)
{
    start_as(RAW, 0, 16);
    bus.holds = true;
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_false(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_int_equal(gve_counters.tx_still_held, 1);
    for (int i = 1; i < 16; i++)
        assert_true(send_moved(60, 0, 0));
    assert_false(send_moved(60, 0, 0));
    assert_int_equal(gve_counters.tx_ring_full, 1);
    while (device->ops->tx_acquire(device) != NULL)
        ;
    assert_int_equal(gve_counters.tx_no_buffer, 1);
    gve_model_bus_report(&bus);
    assert_non_null(device->ops->tx_acquire(device));
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0));
}

TEST(borrowed_frames_leave_the_ring_full)
{
    struct frame frame[NETDEV_RX_BORROWED_MAX];
    start();
    for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++)
        assert_true(deliver(60, i) && borrow(&frame[i]));
    poll();
    assert_int_equal(net.rx.posted - net.rx.taken, ENTRIES);
    for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++)
        device->ops->rx_release(device, &frame[i]);
    for (uint32_t n = 0; n < 5 * ENTRIES; n++) { /* release alone keeps the ring from running dry */
        assert_true(deliver(60, n));
        expect(60, n);
    }
}

TEST(long_frames_are_dropped_whole_and_tagged_ones_may_be_longer)
{
    start();
    assert_true(deliver(9000, 1) && deliver(2100, 2) && deliver(1515, 3) && deliver(60, 4));
    expect(60, 4);
    assert_int_equal(gve_counters.rx_drop_long, 3);
    uint8_t tagged[1523];
    fill(tagged, sizeof tagged, 5);
    store_be16(tagged + 12, 0x8100);
    assert_true(gve_model_receive(model, tagged, 1522) && gve_model_receive(model, tagged, 1523));
    struct frame frame;
    assert_true(borrow(&frame));
    assert_int_equal(frame.bytes, 1522);
    device->ops->rx_release(device, &frame);
    expect_none();
    assert_int_equal(gve_counters.rx_drop_long, 4);
    poll();
    assert_null(gve_broken(device));
}

#define RX(field) GVE_MODEL_RX, offsetof(struct gve_rx_descriptor, field)

/* A field that the device writes wrong, what it breaks, and the counter that rises. */
struct lie {
    enum gve_model_written what;
    size_t at;
    uint32_t bytes, value;
    const char *broken;
    const uint64_t *counter;
};

/* Plays a lie on a fresh device: it is passed over, or the device is silent from then on. */
static void play_lie(const struct lie *lie)
{
    const bool breaks = lie->broken != NULL;
    alter_field(lie->what, lie->at, lie->bytes, lie->value);
    assert_true(send_moved(60, 1, 0) && deliver(60, 1));
    if (lie->what == GVE_MODEL_RX)
        expect_none();
    silence_passes();
    bus.alter = NULL;
    assert_int_equal(*lie->counter, 1);
    const char *said = gve_broken(device);
    if ((said != NULL) != breaks || (breaks && strstr(said, lie->broken) == NULL))
        fail_msg("%s: %s", breaks ? lie->broken : "not broken", said ? said : "not broken");
    assert_true(deliver(60, 2) || breaks);
    if (!breaks) {
        expect(60, 2);
        return;
    }
    expect_none();
    assert_false(device->link_up);
    poll();
}

TEST(completions_out_of_range_are_dropped_or_break_the_device)
{
    static const struct lie cases[] = {
        { RX(bytes), 2, 0, NULL, &gve_counters.rx_drop_short },
        { RX(bytes), 2, 1, NULL, &gve_counters.rx_drop_short },
        { RX(bytes), 2, 15, NULL, &gve_counters.rx_drop_short },
        { RX(bytes), 2, 1517, NULL, &gve_counters.rx_drop_long },
        { RX(bytes), 2, 2048, NULL, &gve_counters.rx_drop_long },
        { RX(bytes), 2, 2049, "longer than its buffer: 2049", &gve_counters.faults },
        { RX(bytes), 2, 0xffff, "longer than its buffer: 65535", &gve_counters.faults },
        { RX(flags_seq), 2, GVE_RX_ERROR | 1, NULL, &gve_counters.rx_drop_error },
        { RX(flags_seq), 2, 2, "impossible sequence number: 2", &gve_counters.faults },
        { RX(flags_seq), 2, 7, "impossible sequence number: 7", &gve_counters.faults },
        { GVE_MODEL_COUNTER, 0, 4, 2, "counts frames that it was not given: 2", &gve_counters.faults },
        { GVE_MODEL_COUNTER, 0, 4, UINT32_MAX, "counts frames that it was not given: 4294967295",
          &gve_counters.faults },
        { REGISTERS(device_status), 4, UINT32_MAX, "asks for a reset, its status: 4294967295", &gve_counters.faults },
        { REGISTERS(device_status), 4, GVE_DEVICE_STATUS_RESET, "asks for a reset, its status: 2",
          &gve_counters.faults },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start();
        play_lie(&cases[i]);
    }
}

TEST(dqo_completions_out_of_range_are_dropped_or_break_the_device)
{
    /* 16 bits as they lie in memory, in the first round, whose generation bits are 1 */
#define RX_BYTES(n)  GVE_MODEL_RX, DQO_RX(bytes), 2, __builtin_bswap16(GVE_DQO_RX_GENERATION | (n))
#define RX_BUFFER(n) GVE_MODEL_RX, DQO_RX(buffer_id), 2, __builtin_bswap16(n)
#define TX_TYPE(n)   GVE_MODEL_TX_COMPLETION, 0, 2, __builtin_bswap16(GVE_DQO_COMPLETION_GENERATION | (n) << 11)
#define TX_TAG(n)    GVE_MODEL_TX_COMPLETION, 2, 2, __builtin_bswap16(n)
    static const struct lie cases[] = {
        { RX_BYTES(0), NULL, &gve_counters.rx_drop_short },
        { RX_BYTES(13), NULL, &gve_counters.rx_drop_short },
        { RX_BYTES(1515), NULL, &gve_counters.rx_drop_long },
        { RX_BYTES(2048), NULL, &gve_counters.rx_drop_long },
        { RX_BYTES(2049), "longer than its buffer: 2049", &gve_counters.faults },
        { RX_BYTES(0x3fff), "longer than its buffer: 16383", &gve_counters.faults },
        { RX_BUFFER(128 + NETDEV_RX_BORROWED_MAX - 1), "does not have", &gve_counters.faults }, /* is free */
        { RX_BUFFER(GVE_RX_BUFFER_COUNT), "does not have: 576", &gve_counters.faults },
        { RX_BUFFER(0xffff), "does not have: 65535", &gve_counters.faults },
        { GVE_MODEL_RX, 0, 2, 0x0100 | GVE_DQO_RX_ERROR, NULL, &gve_counters.rx_drop_error },
        { TX_TYPE(0), "no known type", &gve_counters.faults },
        { TX_TYPE(5), "no known type: 5", &gve_counters.faults },
        { TX_TYPE(7), "no known type", &gve_counters.faults },
        { TX_TAG(1), "reported as sent", &gve_counters.faults },
        { TX_TAG(NETDEV_TX_BUFFER_COUNT), "does not have: 256", &gve_counters.faults },
        { TX_TAG(0xffff), "reported as sent", &gve_counters.faults },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start_as(DQO, 0, ENTRIES);
        play_lie(&cases[i]);
    }
}

static uint16_t late_tag;

/* Sends each frame by the slower way, and reports it as sent one completion later. */
static void alter_to_miss(enum gve_model_written what, uint8_t *structure)
{
    const bool first = model->state.tx[0].completions == 1;
    if (what != GVE_MODEL_TX_COMPLETION)
        return;
    const uint16_t tag = load_le16(structure + 2);
    store_le16(structure, (uint16_t)(GVE_DQO_COMPLETION_GENERATION
                                     | (first ? GVE_DQO_COMPLETION_MISS : GVE_DQO_COMPLETION_REINJECTION) << 11));
    store_le16(structure + 2, first ? tag : late_tag);
    late_tag = tag;
}

TEST(dqo_completion_may_come_after_that_of_a_later_frame)
{
    start_as(DQO, 0, ENTRIES);
    bus.alter = alter_to_miss;
    for (uint32_t n = 0; n < 100; n++)
        assert_true(send_moved(60, n, 0));
    poll();
    assert_null(gve_broken(device));
    assert_int_equal(net.tx.sent - net.tx.done, 1); /* the last one is still on its way */
    assert_int_equal(net.tx_pool.taken_count, 1);
    assert_true(net.tx_pool.buffer[late_tag].holders == TX_HELD_BY_DEVICE);
}

TEST(frame_in_a_buffer_that_was_not_given_breaks_the_device)
{
    start_as(RAW, 0, 16);
    for (uint32_t n = 0; n < 16; n++)
        assert_true(deliver(60, n));
    struct frame frame[16];
    for (uint32_t n = 0; n < 16; n++)
        assert_true(borrow(&frame[n]));
    struct gve_rx_descriptor *next = (void *)(uintptr_t)&net.rx.ring[0];
    store_be16(&next->flags_seq, 16 % 7 + 1);
    expect_none();
    assert_non_null(strstr(gve_broken(device), "in more buffers than the device has: 17"));
    assert_int_equal(gve_counters.faults, 1);
}

TEST(counter_that_jumps_back_breaks_the_device)
{
    start_as(RAW, 0, 16);
    for (uint32_t n = 0; n < 5; n++)
        assert_true(send_moved(60, n, 0));
    poll();
    assert_int_equal(net.tx.done, 5);
    store_be32(net.counters, 3);
    poll();
    assert_string_equal(gve_broken(device), "the gVNIC counts frames that it was not given: 3");
    assert_int_equal(net.tx.done, 5);
}

/* A tag that comes again, when its frame has been sent, and when another frame is on its way. */
TEST(tag_that_comes_twice_breaks_the_device)
{
    for (uint32_t frames = 1; frames <= 2; frames++) {
        start_as(DQO, 0, ENTRIES);
        assert_true(send_moved(60, 1, 0));
        poll();
        struct gve_dqo_tx_completion *again = (struct gve_dqo_tx_completion *)(uintptr_t)net.tx.completions;
        again[1] = again[0];
        if (frames == 2) {
            assert_non_null(device->ops->tx_acquire(device)); /* the buffer that was sent */
            net.tx.sent++;                                    /* as if another one were on its way */
            net.tx_pool.buffer[net.tx_pool.free[net.tx_pool.taken_count++]].holders = TX_HELD_BY_DEVICE;
        }
        poll();
        assert_string_equal(gve_broken(device), "a frame is reported as sent that the device does not have: 0");
    }
}

/* The host has reset it, without a word: nothing goes out any more, which the caller sees. */
TEST(device_that_was_reset_by_its_host_stalls)
{
    static const uint32_t formats[] = { RAW, LISTS, DQO };
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        struct buffer_levels levels;
        start_as(formats[i], 1, ENTRIES);
        gve_model_reset(model);
        gve_levels(device, &levels);
        assert_true(send_moved(60, 1, 0));
        assert_false(deliver(60, 1));
        expect_none();
        for (uint64_t n = 1; n <= 3; n++) {
            gve_levels(device, &levels);
            assert_int_equal(gve_counters.tx_stalled_seconds, n);
            silence_passes();
        }
        assert_null(gve_broken(device));
        gve_stop(&net);
    }
}

TEST(any_write_of_a_hostile_device_is_survived)
{
    int broken = 0;
    for (int round = 0; round < 450; round++) {
        start_as(round % 3 == 2 ? DQO : round & 1 ? RAW : LISTS, 0, round % 3 == 2 ? 256 : 64);
        for (int step = 0; step < 400; step++) {
            struct frame frame;
            uint8_t *ring = (uint8_t *)(uintptr_t)net.rx.ring;
            switch (random_below(8)) {
            case 0:
                if (random_below(10) == 0)
                    ring[random_below(64 * sizeof *net.rx.ring)] = (uint8_t)random_next();
                break;
            case 1:
                if (random_below(20) == 0 && net.is_dqo)
                    ((uint8_t *)(uintptr_t)net.tx.completions)[random_below(256 * 8)] = (uint8_t)random_next();
                else if (random_below(20) == 0)
                    store_be32((uint32_t *)(uintptr_t)net.tx.counter, (uint32_t)(random_next() >> random_below(64)));
                break;
            case 2:
                alter_field(GVE_MODEL_RX, net.is_dqo ? random_below(31) : 48 + random_below(15), 2,
                            (uint32_t)random_next());
                deliver(14 + (uint32_t)random_below(3000), 0);
                bus.alter = NULL;
                break;
            case 3:
                send_moved(14 + (uint32_t)random_below(1461), 0, 0);
                break;
            case 4:
                poll();
                break;
            default:
                if (borrow(&frame)) {
                    assert_in_range(frame.bytes, 14, NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX);
                    assert_true(model_memory_contains(frame.data, frame.bytes));
                    device->ops->rx_release(device, &frame);
                }
            }
            gve_check(&net);
        }
        broken += gve_broken(device) != NULL;
    }
    assert_true(broken > 225);
}

/* ---- upkeep ---- */

TEST(status_is_read_after_silence_and_not_under_traffic)
{
    start();
    poll();
    const uint64_t reads = model->register_read_count;
    gve_counters.state_exits = 0;
    gve_model_set_link(model, false);
    poll();
    assert_true(deliver(60, 1) == false && device->link_up);
    silence_passes();
    assert_int_equal(model->register_read_count, reads + 1);
    assert_int_equal(gve_counters.state_exits, 1);
    assert_false(device->link_up);
    gve_model_set_link(model, true);
    net.last_rx_cycles = cycles_now() - BIT(33);
    assert_true(deliver(60, 2));
    expect(60, 2);
    poll(); /* a frame has come */
    assert_false(device->link_up);
    silence_passes();
    assert_true(device->link_up);
}

static void wake_asks(uint32_t format)
{
    start_as(format, 0, ENTRIES);
    assert_false(gve_can_wake(device));
    bus.bus.interrupts = true;
    assert_true(gve_can_wake(device));
    assert_true(deliver(60, 1));
    assert_int_equal(bus.interrupts, 0);
    expect(60, 1);
    model->state.block[GVE_NOTIFY_RX].pending = false;
    assert_true(gve_wake(device));
    assert_true(deliver(60, 2));
    assert_int_equal(bus.interrupts, 1);
    assert_true(gve_frame_waits(device));
    assert_false(gve_wake(device)); /* that frame waits */
    gve_quiet(device);
    const uint64_t doorbells = model->doorbell_count;
    gve_quiet(device);
    assert_int_equal(model->doorbell_count, doorbells);
    assert_true(model->state.block[GVE_NOTIFY_RX].masked);
    assert_null(model->violation);
}

TEST(wake_asks_for_an_interrupt_and_quiet_for_none)
{
    wake_asks(RAW);
    wake_asks(DQO);
}

TEST(levels_count_the_seconds_without_a_sent_frame_and_the_free_buffers)
{
    struct buffer_levels levels;
    start();
    bus.holds = true;
    gve_levels(device, &levels);
    assert_int_equal(gve_counters.tx_stalled_seconds, 0);
    assert_int_equal(levels.tx_buffers_free, NETDEV_TX_BUFFER_COUNT);
    assert_int_equal(levels.rx_buffers_free, NETDEV_RX_BORROWED_MAX);
    assert_true(send_moved(60, 1, 0));
    for (uint64_t n = 1; n <= 3; n++) {
        gve_levels(device, &levels);
        assert_int_equal(gve_counters.tx_stalled_seconds, n);
    }
    gve_notify(device);
    assert_int_equal(gve_counters.tx_frames, 1);
    assert_int_equal(gve_counters.tx_kicks, 2);
    gve_model_bus_report(&bus);
    gve_levels(device, &levels);
    assert_int_equal(gve_counters.tx_stalled_seconds, 0);
    assert_null(model->violation);
}

static void rehearse_as(uint32_t formats)
{
    static struct gve before;
    start_as(formats, 0, ENTRIES);
    for (uint32_t n = 0; n < 5; n++) {
        assert_true(deliver(100, n));
        expect(100, n);
        assert_true(send_moved(100, n, 0));
    }
    assert_true(deliver(200, 7)); /* waits meanwhile */
    const struct gve_counters counters = gve_counters;
    const struct trace stamps = trace;
    const uint64_t doorbells = model->doorbell_count, reads = model->register_read_count;
    memcpy(&before, &net, sizeof net);
    for (uint32_t n = 0; n < 70000; n++)
        device->ops->rehearse(device);
    assert_memory_equal(&net, &before, sizeof net);
    assert_memory_equal(&gve_counters, &counters, sizeof counters);
    assert_memory_equal(&trace, &stamps, sizeof stamps);
    assert_int_equal(model->doorbell_count, doorbells);
    assert_int_equal(model->register_read_count, reads);
    expect(200, 7);
    assert_true(send_moved(100, 8, 0));
    expect_sent(100, 8);
    assert_null(model->violation);
    const uint64_t received = gve_counters.rx_frames, sent = gve_counters.tx_frames;
    for (uint32_t n = 0; n < 100; n++)
        gve_twin_play(&net);
    assert_int_equal(gve_counters.rx_frames, received + 100);
    assert_int_equal(gve_counters.tx_frames, sent + 100);
    assert_int_equal(gve_counters.faults, 0);
}

TEST(rehearsals_change_nothing_and_show_the_device_nothing)
{
    rehearse_as(RAW | LISTS);
    rehearse_as(DQO);
}
