/* drivers/virtio/net*.c against the model device: start, frames both ways, ownership, and a hostile device.
 * SEED=n replays the random ones. */
#include "base/trace.h"
#include "drivers/virtio/net.h"
#include "tests/lib/device_memory.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"
#include "tests/lib/virtio_model.h"

enum { KINDS = 3 }; /* the members of enum virtio_model_kind */

static struct virtio_model model;
static struct virtio_net net;
static struct netdev *const device = &net.device;

BEFORE_ALL() { random_seed(20220311); }

AFTER_EACH()
{
    model_memory_free_all();
    memset(&virtio_net_counters, 0, sizeof virtio_net_counters);
}

static void start(void)
{
    assert_int_equal(virtio_net_init(&net, &model.bus), VIRTIO_NET_OK);
    assert_null(model.violation);
}

/* Makes a device in the place of the one before. */
static void model_begin(enum virtio_model_kind kind)
{
    test_after_each();
    virtio_model_init(&model, kind);
}

static void start_without(enum virtio_model_kind kind, uint64_t features)
{
    model_begin(kind);
    model.offered &= ~features;
    start();
}

static void start_kind(enum virtio_model_kind kind) { start_without(kind, 0); }

/* Fills a frame with bytes that follow from `number`. */
static void frame_fill(uint8_t *at, uint32_t bytes, uint32_t number)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number * 131 + i * 7 + (i >> 8));
}

static void frame_check(const uint8_t *at, uint32_t bytes, uint32_t number)
{
    uint8_t expected[4096];
    frame_fill(expected, bytes, number);
    assert_memory_equal(at, expected, bytes);
}

/* Checks the driver for each frame if the rings are small: the check goes through all of them. */
static void check_often(uint32_t number)
{
    if (net.rx.size <= 1024 || number % 4096 == 0)
        virtio_net_check(&net);
}

static bool send_number(uint32_t bytes, uint32_t number)
{
    check_often(number);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    if (!buffer)
        return false;
    frame_fill(buffer->data, bytes, number);
    bool sent = device->ops->tx_publish(device, buffer, bytes, 0, 0);
    device->ops->tx_release(device, buffer);
    return sent;
}

static bool deliver_number(uint32_t bytes, uint32_t number, uint8_t flags)
{
    check_often(number);
    uint8_t bytes_out[4096];
    frame_fill(bytes_out, bytes, number);
    return virtio_model_receive(&model, bytes_out, bytes, flags);
}

static void expect_number(uint32_t bytes, uint32_t number)
{
    struct frame frame;
    assert_true(device->ops->rx_borrow(device, &frame));
    assert_int_equal(frame.bytes, bytes);
    frame_check(frame.data, bytes, number);
    device->ops->rx_release(device, &frame);
}

static void frame_comes(void)
{
    assert_true(deliver_number(60, 1, 0));
    expect_number(60, 1);
}

/* Expects that the device finds this frame, which it has sent then. */
static void expect_sent(uint32_t bytes, uint32_t number)
{
    struct virtio_model_packet packet;
    assert_true(virtio_model_transmit_take(&model, &packet));
    assert_int_equal(packet.bytes, bytes);
    frame_check(packet.frame, bytes, number);
    virtio_model_transmit_done(&model, &packet);
}

/* Lets the device take a frame and give its buffer back. */
static void packet_leaves(void)
{
    struct virtio_model_packet packet;
    assert_true(virtio_model_transmit_take(&model, &packet));
    virtio_model_transmit_done(&model, &packet);
}

static void expect_none(void)
{
    struct frame frame;
    assert_false(device->ops->rx_borrow(device, &frame));
}

/* ---- start ---- */

TEST(start_resets_and_agrees_on_common_features)
{
    model_begin(VIRTIO_MODEL_MODERN);
    model.reset_read_count = 1000;
    model.offered |= BIT(VIRTIO_F_RING_PACKED) | BIT(19) | BIT(22) | BIT(7) | BIT(11) | BIT(35) | BIT(40);
    uint64_t known = model.offered
                     & ~(BIT(VIRTIO_F_RING_PACKED) | BIT(19) | BIT(22) | BIT(7) | BIT(11) | BIT(35) | BIT(40));
    start();
    assert_true(model.accepted == known);
    assert_int_equal(model.status, 1 | 2 | 4 | 8);
    assert_memory_equal(device->mac, model.mac, 6);
    assert_int_equal(device->mtu_bytes, 1500);
    assert_true(device->tx_checksum);
    assert_true(device->link_up);
    assert_null(virtio_net_broken(device));
}

TEST(errors_of_the_device_are_reported_and_the_device_given_up)
{
    struct {
        enum virtio_net_error expected;
        enum virtio_model_kind kind;
        uint64_t offered_more, offered_less, required;
        uint16_t rx_size, tx_size;
        bool never_resets;
    } cases[] = {
        { VIRTIO_NET_RESET_TIMEOUT, VIRTIO_MODEL_MODERN, 0, 0, 0, 256, 256, true },
        { VIRTIO_NET_NOT_VERSION_1, VIRTIO_MODEL_MODERN, 0, BIT(VIRTIO_F_VERSION_1), 0, 256, 256, false },
        { VIRTIO_NET_NEEDS_PLATFORM, VIRTIO_MODEL_MODERN, BIT(VIRTIO_F_ACCESS_PLATFORM), 0,
          BIT(VIRTIO_F_ACCESS_PLATFORM), 256, 256, false },
        { VIRTIO_NET_FEATURES_REFUSED, VIRTIO_MODEL_MODERN, BIT(7), 0, BIT(7), 256, 256, false },
        { VIRTIO_NET_NO_QUEUE, VIRTIO_MODEL_MODERN, 0, 0, 0, 0, 256, false },
        { VIRTIO_NET_NO_QUEUE, VIRTIO_MODEL_LEGACY_PCI, 0, 0, 0, 256, 0, false },
        { VIRTIO_NET_QUEUE_SIZE, VIRTIO_MODEL_LEGACY_PCI, 0, 0, 0, 100, 256, false },
        { VIRTIO_NET_QUEUE_SIZE, VIRTIO_MODEL_LEGACY_PCI, 0, 0, 0, 256, 65535, false },
        { VIRTIO_NET_QUEUE_SIZE, VIRTIO_MODEL_LEGACY_PCI, 0, BIT(VIRTIO_F_ANY_LAYOUT), 0, 1, 256, false },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        model_begin(cases[i].kind);
        model.bus.behind = "DMAR";
        model.offered = (model.offered | cases[i].offered_more) & ~cases[i].offered_less;
        model.required = cases[i].required;
        model.never_resets = cases[i].never_resets;
        model.queue[0].size_max = cases[i].rx_size;
        model.queue[1].size_max = cases[i].tx_size;
        enum virtio_net_error error = virtio_net_init(&net, &model.bus);
        assert_int_equal(error, cases[i].expected);
        assert_true(strlen(virtio_net_error_text(error)) > 10);
        assert_null(model.violation);
        assert_true(model.status & VIRTIO_STATUS_FAILED);
    }
}

TEST(access_platform_is_accepted_unless_something_translates)
{
    static const char *const behind[] = { NULL, "DMAR", "SEV" };
    for (size_t i = 0; i < ARRAY_COUNT(behind); i++) {
        model_begin(VIRTIO_MODEL_MODERN);
        model.bus.behind = behind[i];
        model.offered |= BIT(VIRTIO_F_ACCESS_PLATFORM) | BIT(VIRTIO_F_ORDER_PLATFORM);
        model.required = behind[i] == NULL ? BIT(VIRTIO_F_ACCESS_PLATFORM) : 0;
        start();
        assert_int_equal(virtio_model_has(&model, VIRTIO_F_ACCESS_PLATFORM), behind[i] == NULL);
        assert_true(virtio_model_has(&model, VIRTIO_F_ORDER_PLATFORM));
    }
}

TEST(fields_behind_the_end_of_the_configuration_are_not_read)
{
    static const struct {
        uint64_t config_bytes;
        bool mac, status, mtu;
    } cases[] = { { 5, false, false, false }, { 6, true, false, false }, { 7, true, false, false },
                  { 8, true, true, false },   { 11, true, true, false }, { 12, true, true, true } };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        model_begin(VIRTIO_MODEL_MODERN);
        model.bus.config_bytes = cases[i].config_bytes;
        start();
        assert_null(model.violation);
        assert_int_equal(virtio_model_has(&model, VIRTIO_NET_F_MAC), cases[i].mac);
        assert_int_equal(virtio_model_has(&model, VIRTIO_NET_F_STATUS), cases[i].status);
        assert_int_equal(virtio_model_has(&model, VIRTIO_NET_F_MTU), cases[i].mtu);
        assert_true(device->link_up);
    }
}

TEST(mtu_is_obeyed_clamped_or_declined)
{
    static const struct {
        uint16_t reported, used;
        bool merges, accepted;
    } cases[] = { { 1460, 1460, true, true }, { 68, 68, false, true },    { 67, 1500, true, false },
                  { 0, 1500, true, false },   { 8896, 1500, true, true }, { 8896, 1500, false, false },
                  { 1500, 1500, false, true } };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        model_begin(VIRTIO_MODEL_MODERN);
        model.mtu_bytes = cases[i].reported;
        model.offered &= ~(cases[i].merges ? 0 : BIT(VIRTIO_NET_F_MRG_RXBUF));
        start();
        assert_int_equal(device->mtu_bytes, cases[i].used);
        assert_int_equal(virtio_model_has(&model, VIRTIO_NET_F_MTU), cases[i].accepted);
    }
}

TEST(missing_mac_is_replaced_by_a_local_one)
{
    model_begin(VIRTIO_MODEL_LEGACY_PCI);
    model.offered = 0;
    start();
    assert_int_equal(device->mac[0], 0x02);
    assert_true(device->link_up); /* §5.1.5: without STATUS the link is taken to be up */
    assert_false(device->tx_checksum);
}

TEST(torn_configuration_is_read_again)
{
    model_begin(VIRTIO_MODEL_MODERN);
    model.generation_changes_left = 5;
    start();
    assert_memory_equal(device->mac, model.mac, 6);
}

TEST(report_is_one_line_with_all_properties)
{
    char text[512];
    start_kind(VIRTIO_MODEL_MODERN);
    size_t bytes = virtio_net_describe(&net, text, sizeof text);
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(
        text,
        "memory, model, features VERSION_1 EVENT_IDX MAC STATUS MTU CSUM GUEST_CSUM MRG_RXBUF CTRL_VQ GUEST_ANNOUNCE "
        "CTRL_RX, queues rx 256 tx 256, mac 52:54:00:12:34:56, mtu 1500, link up");
    char tight[20];
    virtio_net_describe(&net, tight, sizeof tight);
    assert_int_equal(strlen(tight), sizeof tight - 1);
}

/* ---- frames ---- */

TEST(transmit_header_is_written_whole_even_if_data_has_moved)
{
    for (int kind = VIRTIO_MODEL_MODERN; kind <= VIRTIO_MODEL_LEGACY_PCI; kind++) {
        model_begin(kind);
        if (kind == VIRTIO_MODEL_LEGACY_PCI)
            model.offered &= ~BIT(VIRTIO_NET_F_MRG_RXBUF); /* a header of 10 bytes */
        start();
        struct tx_buffer *buffer = device->ops->tx_acquire(device);
        uint8_t *home = buffer->data;
        assert_int_equal((uintptr_t)home % 16, 2);
        memset(home, 0xff, NETDEV_FRAME_BYTES_MAX);
        buffer->data += 1000;
        frame_fill(buffer->data, 100, 1);
        assert_true(device->ops->tx_publish(device, buffer, 100, 34, 16));
        struct virtio_model_packet packet;
        assert_true(virtio_model_transmit_take(&model, &packet));
        assert_null(model.violation);
        assert_int_equal(packet.bytes, 100);
        frame_check(packet.frame, 100, 1);
        assert_int_equal(packet.header.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
        assert_int_equal(packet.header.csum_start, 34);
        assert_int_equal(packet.header.csum_offset, 16);
        virtio_model_transmit_done(&model, &packet);
        device->ops->tx_release(device, buffer);
        device->ops->poll(device);
        assert_ptr_equal(device->ops->tx_acquire(device), buffer); /* the last one back is the first one out */
        assert_ptr_equal(buffer->data, home);
    }
}

TEST(buffer_is_free_only_when_neither_holds_it)
{
    start_kind(VIRTIO_MODEL_MODERN);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    assert_int_equal(buffer->holders, TX_HELD_BY_STACK);
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_int_equal(buffer->holders, TX_HELD_BY_STACK | TX_HELD_BY_DEVICE);

    /* A buffer cannot be sent again while the device holds it. Afterwards the same bytes are sent without a copy. */
    assert_false(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_int_equal(virtio_net_counters.tx_still_held, 1);
    assert_int_equal(buffer->holders, TX_HELD_BY_STACK | TX_HELD_BY_DEVICE);
    packet_leaves();
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0));

    device->ops->tx_release(device, buffer);
    assert_int_equal(buffer->holders, TX_HELD_BY_DEVICE);
    packet_leaves();
    device->ops->poll(device);
    assert_int_equal(buffer->holders, 0);
}

TEST(misuse_of_buffers_is_an_assertion)
{
    start_kind(VIRTIO_MODEL_MODERN);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    expect_assert_failure(device->ops->tx_publish(device, buffer, 13, 0, 0));
    expect_assert_failure(device->ops->tx_publish(device, buffer, NETDEV_FRAME_BYTES_MAX + 1, 0, 0));
    device->ops->tx_release(device, buffer);
    expect_assert_failure(device->ops->tx_release(device, buffer));
    expect_assert_failure(device->ops->tx_publish(device, buffer, 60, 0, 0));

    struct frame frame;
    deliver_number(60, 1, 0);
    assert_true(device->ops->rx_borrow(device, &frame));
    device->ops->rx_release(device, &frame);
    expect_assert_failure(device->ops->rx_release(device, &frame));
    frame.cookie = VIRTIO_NET_RX_BUFFER_COUNT;
    expect_assert_failure(device->ops->rx_release(device, &frame));
}

TEST(full_ring_and_empty_pool_refuse_for_now)
{
    model_begin(VIRTIO_MODEL_MODERN);
    model.queue[VIRTIO_NET_TRANSMITQ].size_max = 4;
    start();
    for (uint32_t i = 0; i < 4; i++)
        assert_true(send_number(60, i));
    assert_false(send_number(60, 4));
    assert_int_equal(virtio_net_counters.tx_ring_full, 1);

    struct tx_buffer *held[NETDEV_TX_BUFFER_COUNT];
    uint32_t count = 0;
    while ((held[count] = device->ops->tx_acquire(device)) != NULL)
        count++;
    assert_int_equal(count, NETDEV_TX_BUFFER_COUNT - 4);
    assert_int_equal(virtio_net_counters.tx_no_buffer, 1);

    /* If they are needed, sent buffers are taken back without poll. */
    for (uint32_t i = 0; i < 4; i++)
        expect_sent(60, i);
    assert_non_null(device->ops->tx_acquire(device));
    assert_null(model.violation);
}

TEST(checksum_is_vouched_for_only_as_negotiated)
{
    static const struct {
        uint8_t flags;
        bool negotiated, good;
    } cases[] = { { 0, true, false },
                  { VIRTIO_NET_HDR_F_NEEDS_CSUM, true, true },
                  { VIRTIO_NET_HDR_F_DATA_VALID, true, true },
                  { 4, true, false },
                  { VIRTIO_NET_HDR_F_NEEDS_CSUM, false, true }, /* kvmtool's device */
                  { VIRTIO_NET_HDR_F_DATA_VALID, false, false } };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct frame frame;
        start_without(VIRTIO_MODEL_MODERN, cases[i].negotiated ? 0 : BIT(VIRTIO_NET_F_GUEST_CSUM));
        assert_true(deliver_number(60, 1, cases[i].flags));
        assert_true(device->ops->rx_borrow(device, &frame));
        assert_int_equal(frame.checksum_good, cases[i].good);
    }
}

TEST(stages_are_stamped_in_order)
{
    start_kind(VIRTIO_MODEL_MODERN);
    trace_stamp(TRACE_FRAME_SEEN); /* the loop does, as its turn begins */
    trace.fine = true;
    frame_comes();
    assert_true(send_number(60, 2));
    assert_true(trace.cycles[TRACE_PUBLISHED] > trace.cycles[TRACE_FRAME_SEEN]);
    assert_true(trace.cycles[TRACE_KICKED] >= trace.cycles[TRACE_PUBLISHED]);
}

/* Borrows 64 frames: the device must go on receiving, even with the smallest rings. */
TEST(borrowed_frames_leave_the_ring_full)
{
    for (uint16_t size = 1; size <= 256; size *= 4) {
        struct frame borrowed[NETDEV_RX_BORROWED_MAX], frame;
        model_begin(VIRTIO_MODEL_MODERN);
        model.queue[VIRTIO_NET_RECEIVEQ].size_max = size;
        start();
        for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++) {
            assert_true(deliver_number(100, i, 0));
            assert_true(device->ops->rx_borrow(device, &borrowed[i]));
            device->ops->poll(device);
        }
        assert_int_equal(virtio_model_available(&model, VIRTIO_NET_RECEIVEQ), size);
        assert_true(deliver_number(100, 1000, 0));
        assert_true(device->ops->rx_borrow(device, &frame));
        for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++) {
            frame_check(borrowed[i].data, 100, i);
            device->ops->rx_release(device, &borrowed[i]);
        }
        device->ops->rx_release(device, &frame);
        device->ops->poll(device);
        assert_true(virtio_model_available(&model, VIRTIO_NET_RECEIVEQ) >= size - (size >= 8 ? size / 8 : 0));
    }
}

TEST(release_alone_keeps_the_ring_from_running_dry)
{
    for (uint16_t size = 1; size <= 256; size *= 4) {
        model_begin(VIRTIO_MODEL_MODERN);
        model.queue[VIRTIO_NET_RECEIVEQ].size_max = size;
        start();
        for (uint32_t i = 0; i < 1000; i++) { /* nobody polls */
            assert_true(deliver_number(100, i, 0));
            expect_number(100, i);
        }
    }
}

TEST(receive_kicks_only_when_asked_and_once_a_refill)
{
    for (int event_index = 0; event_index < 2; event_index++) {
        start_without(VIRTIO_MODEL_MODERN, event_index ? 0 : BIT(VIRTIO_F_EVENT_IDX));
        struct virtio_model_queue *queue = &model.queue[VIRTIO_NET_RECEIVEQ];
        assert_int_equal(queue->kick_count, 1); /* the first buffers; after DRIVER_OK */
        virtio_model_refuse_kicks(&model, VIRTIO_NET_RECEIVEQ);
        for (uint32_t i = 0; i < 1000; i++) {
            assert_true(deliver_number(60, i, 0));
            expect_number(60, i);
            device->ops->poll(device);
            if (i % 100 == 0)
                virtio_model_refuse_kicks(&model, VIRTIO_NET_RECEIVEQ);
        }
        assert_int_equal(queue->kick_count, 1);
        /* Run dry: the device asks, and is kicked once. */
        struct frame frame;
        while (deliver_number(60, 1, 0))
            assert_true(device->ops->rx_borrow(device, &frame));
        virtio_model_want_kick(&model, VIRTIO_NET_RECEIVEQ);
        device->ops->rx_release(device, &frame);
        device->ops->poll(device);
        assert_int_equal(queue->kick_count, 2);
        assert_true(virtio_model_available(&model, VIRTIO_NET_RECEIVEQ) > 1);
    }
}

TEST(transmit_kicks_once_and_only_if_asked)
{
    for (int event_index = 0; event_index < 2; event_index++) {
        start_without(VIRTIO_MODEL_MODERN, event_index ? 0 : BIT(VIRTIO_F_EVENT_IDX));
        struct virtio_model_queue *queue = &model.queue[VIRTIO_NET_TRANSMITQ];
        struct virtio_model_packet packet;
        uint64_t kicks = 0;
        for (uint32_t i = 0; i < 70000; i++) { /* around the number circle */
            bool wants = i % 3 == 0;
            if (wants)
                virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
            else
                virtio_model_refuse_kicks(&model, VIRTIO_NET_TRANSMITQ);
            assert_true(send_number(60, i));
            kicks += wants;
            assert_int_equal(queue->kick_count, kicks);
            assert_true(virtio_model_transmit_take(&model, &packet));
            uint16_t old = queue->used_idx;
            virtio_model_transmit_done(&model, &packet);
            assert_false(virtio_model_would_interrupt(&model, VIRTIO_NET_TRANSMITQ, old));
            device->ops->poll(device);
        }
        assert_int_equal(virtio_net_counters.tx_kicks, kicks);
    }
}

TEST(interrupts_stay_off_for_ever)
{
    start_kind(VIRTIO_MODEL_MODERN);
    for (uint32_t i = 0; i < 140000; i++) {
        uint16_t old = model.queue[VIRTIO_NET_RECEIVEQ].used_idx;
        assert_true(deliver_number(60, 1, 0));
        assert_false(virtio_model_would_interrupt(&model, VIRTIO_NET_RECEIVEQ, old));
        expect_number(60, 1);
        if (i % 32 == 0)
            device->ops->poll(device);
    }
}

/* ---- merged frames ---- */

TEST(frame_in_pieces_is_put_together)
{
    model_begin(VIRTIO_MODEL_MODERN);
    model.split_bytes = 100;
    start();
    static const uint32_t sizes[] = { 14, 99, 100, 101, 200, 201, 1000, 1514 };
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        assert_true(deliver_number(sizes[i], (uint32_t)i, 0));
        expect_number(sizes[i], (uint32_t)i);
        device->ops->poll(device);
    }
    assert_int_equal(virtio_net_counters.rx_merged, 5);
    expect_none();
    model.split_bytes = 6;
    assert_true(deliver_number(13, 1, 0)); /* two pieces, and no Ethernet header in them */
    expect_none();
    assert_int_equal(virtio_net_counters.rx_drop_bad_merge, 1);
    assert_null(virtio_net_broken(device));
    device->ops->poll(device);
    assert_true(virtio_model_available(&model, VIRTIO_NET_RECEIVEQ) >= 224);
}

TEST(jumbo_frame_is_dropped_whole)
{
    start_kind(VIRTIO_MODEL_MODERN);
    assert_true(deliver_number(4000, 1, 0)); /* three buffers, filled as §5.1.6.4 says */
    assert_true(deliver_number(1515, 2, 0));
    assert_true(deliver_number(60, 3, 0));
    expect_number(60, 3);
    expect_none();
    assert_int_equal(virtio_net_counters.rx_drop_bad_merge, 1);
    assert_int_equal(virtio_net_counters.rx_drop_long, 1);
    assert_null(virtio_net_broken(device));
}

/* Sends full frames with VLAN tags, which make a frame longer than any other: up to two, of 4 bytes each. */
TEST(tagged_frames_may_be_longer)
{
    static const uint16_t types[] = { 0x8100, 0x88a8, 0x0800 };
    for (int merges = 0; merges < 2; merges++)
        for (size_t i = 0; i < ARRAY_COUNT(types); i++)
            for (uint32_t bytes = 1510; bytes <= 1530; bytes++) {
                uint8_t sent[1530] = { 1 };
                struct frame frame;
                start_without(VIRTIO_MODEL_MODERN, merges ? 0 : BIT(VIRTIO_NET_F_MRG_RXBUF));
                uint64_t dropped = virtio_net_counters.rx_drop_long;
                store_be16(sent + 12, types[i]);
                assert_true(virtio_model_receive(&model, sent, bytes, 0));
                bool taken = bytes <= (types[i] == 0x0800 ? 1514u : 1522u);
                assert_int_equal(device->ops->rx_borrow(device, &frame), taken);
                assert_int_equal(virtio_net_counters.rx_drop_long - dropped, !taken);
                if (taken) {
                    assert_int_equal(frame.bytes, bytes);
                    assert_memory_equal(frame.data, sent, bytes);
                    device->ops->rx_release(device, &frame);
                }
                assert_null(virtio_net_broken(device));
            }
}

TEST(merge_count_beyond_the_ring_breaks_the_device)
{
    static const uint16_t counts[] = { 0, 2, 3, 256, 0xffff };
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        start_kind(VIRTIO_MODEL_MODERN);
        struct virtio_net_hdr *header = (void *)(uintptr_t)model.queue[0].desc[0].addr;
        assert_true(deliver_number(60, 1, 0));
        header->num_buffers = counts[i];
        expect_none();
        assert_non_null(virtio_net_broken(device));
    }
}

/* ---- a hostile device ---- */

TEST(impossible_lengths_are_dropped_and_counted)
{
    for (int merges = 0; merges < 2; merges++) {
        start_without(VIRTIO_MODEL_MODERN, merges ? 0 : BIT(VIRTIO_NET_F_MRG_RXBUF));
        static const uint32_t lies[] = {
            0, 1, 11, 12, 25, 12 + 1515, 2048, 0x7fffffff, 0x80000000, UINT32_MAX, UINT32_MAX - 11
        }; /* the first five are too short */
        uint64_t expected_short = virtio_net_counters.rx_drop_short, expected_long = virtio_net_counters.rx_drop_long;
        for (size_t i = 0; i < ARRAY_COUNT(lies); i++) {
            struct virtio_net_hdr *header = (void *)(uintptr_t)model.queue[0].desc[i].addr;
            memset(header, 0, sizeof *header);
            header->num_buffers = 1;
            virtio_model_used_push(&model, VIRTIO_NET_RECEIVEQ, (uint32_t)i, lies[i]);
            expect_none();
            i < 5 ? expected_short++ : expected_long++;
            assert_int_equal(virtio_net_counters.rx_drop_short, expected_short);
            assert_int_equal(virtio_net_counters.rx_drop_long, expected_long);
        }
        assert_null(virtio_net_broken(device));
    }
}

TEST(broken_device_is_silent_and_reports_the_reason)
{
    start_kind(VIRTIO_MODEL_MODERN);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    virtio_model_used_push(&model, VIRTIO_NET_RECEIVEQ, 300, 60);
    expect_none();
    expect_none();
    assert_non_null(virtio_net_broken(device));
    device->ops->poll(device);

    virtio_model_used_push(&model, VIRTIO_NET_TRANSMITQ, 0, 0); /* nothing is in flight there */
    device->ops->poll(device);
    device->ops->tx_publish(device, buffer, 60, 0, 0);
    device->ops->tx_release(device, buffer);
    device->ops->poll(device);
    assert_non_null(virtio_net_broken(device));
}

TEST(status_is_read_after_silence_and_not_under_traffic)
{
    start_without(VIRTIO_MODEL_MODERN, BIT(VIRTIO_NET_F_GUEST_ANNOUNCE));
    uint32_t reads = model.register_reads;
    net.last_rx_cycles = cycles_now() - BIT(33);
    for (int i = 0; i < 1000; i++) {
        frame_comes();
        device->ops->poll(device);
    }
    net.last_rx_cycles = cycles_now() - 3 * BIT(30); /* no silence yet */
    device->ops->poll(device);
    assert_int_equal(model.register_reads, reads);

    /* After a long silence: one read, and its result counts. */
    net.last_rx_cycles = cycles_now() - BIT(33);
    model.link_status = 0;
    for (int i = 0; i < 1000; i++)
        device->ops->poll(device);
    assert_true(model.register_reads == reads + 2 && virtio_net_counters.state_exits == 2);
    assert_true(!device->link_up && virtio_net_broken(device) == NULL);

    static const uint8_t ends[] = { VIRTIO_STATUS_GONE, 0, 0x0f | VIRTIO_STATUS_NEEDS_RESET };
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        net.broken = NULL;
        net.last_rx_cycles = cycles_now() - BIT(33);
        model.status = ends[i];
        device->ops->poll(device);
        assert_non_null(virtio_net_broken(device));
    }
}

static void expect_acknowledgement(struct virtio_model_control *control)
{
    static const uint8_t announce_ack[] = { VIRTIO_NET_CTRL_ANNOUNCE, VIRTIO_NET_CTRL_ANNOUNCE_ACK };
    assert_true(virtio_model_control_take(&model, control));
    assert_int_equal(control->bytes, sizeof announce_ack);
    assert_memory_equal(control->command, announce_ack, sizeof announce_ack);
    assert_null(model.violation);
}

static void silence_passes(void)
{
    net.last_rx_cycles = cycles_now() - BIT(33);
    device->ops->poll(device);
    virtio_net_check(&net);
}

TEST(announcement_is_passed_on_and_acknowledged)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct virtio_model_control control;
        start_kind(kind);
        uint64_t before = virtio_net_counters.announcements;
        silence_passes();
        assert_false(device->announce);
        assert_false(virtio_model_control_take(&model, &control));
        for (int round = 1; round <= 300; round++) {
            model.link_status |= VIRTIO_NET_S_ANNOUNCE;
            silence_passes();
            assert_true(device->announce);
            device->announce = false;
            expect_acknowledgement(&control);
            model.link_status &= (uint16_t)~VIRTIO_NET_S_ANNOUNCE;
            virtio_model_control_done(&model, &control);
            silence_passes();
            assert_false(device->announce);
            assert_int_equal(virtio_net_counters.announcements, before + (uint64_t)round);
        }
        assert_null(virtio_net_broken(device));
    }
}

TEST(announcement_is_noticed_under_traffic)
{
    start_kind(VIRTIO_MODEL_MODERN);
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    frame_comes();
    silence_passes();
    assert_true(device->announce);
}

TEST(acknowledgement_that_the_device_leaves_lying_is_kicked_and_not_repeated)
{
    struct virtio_model_control control;
    start_kind(VIRTIO_MODEL_MODERN);
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    silence_passes();
    device->announce = false;
    uint64_t kicks = model.queue[VIRTIO_NET_CONTROLQ].kick_count;
    for (int i = 0; i < 3; i++)
        silence_passes();
    assert_false(device->announce);
    assert_int_equal(model.queue[VIRTIO_NET_CONTROLQ].kick_count, kicks + 3);
    expect_acknowledgement(&control);
    assert_false(virtio_model_control_take(&model, &control));
}

TEST(announcements_take_status_control_queue_and_feature)
{
    static const unsigned missing[] = { VIRTIO_NET_F_STATUS, VIRTIO_NET_F_CTRL_VQ, VIRTIO_NET_F_GUEST_ANNOUNCE };
    for (size_t i = 0; i < ARRAY_COUNT(missing); i++) {
        start_without(VIRTIO_MODEL_MODERN, BIT(missing[i]) | BIT(VIRTIO_NET_F_CTRL_RX));
        assert_false(virtio_model_has(&model, VIRTIO_NET_F_GUEST_ANNOUNCE));
        assert_false(virtio_model_has(&model, VIRTIO_NET_F_CTRL_VQ));
        assert_false(model.queue[VIRTIO_NET_CONTROLQ].enabled);
    }
    model_begin(VIRTIO_MODEL_MODERN); /* a device that promises the queue, and has none */
    model.queue[VIRTIO_NET_CONTROLQ].size_max = 0;
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    start();
    silence_passes();
    assert_false(device->announce);
}

static const uint8_t groups[NETDEV_GROUP_COUNT_MAX][6] = { { 1, 0, 0x5e, 0, 0, 1 }, { 1, 0, 0x5e, 1, 2, 3 } };

/* Checks that a command is the table of the first `count` groups. */
static void expect_table(struct virtio_model_control *control, uint32_t count)
{
    assert_true(virtio_model_control_take(&model, control));
    assert_null(model.violation);
    assert_int_equal(control->bytes, 10 + 6 * count);
    assert_int_equal(control->command[0], VIRTIO_NET_CTRL_MAC);
    assert_int_equal(control->command[1], VIRTIO_NET_CTRL_MAC_TABLE_SET);
    assert_int_equal(load_le32(control->command + 2), 0); /* no unicast address besides the device's own */
    assert_int_equal(load_le32(control->command + 6), count);
    assert_memory_equal(control->command + 10, groups, 6 * count);
}

TEST(groups_become_the_table_of_the_devices_filter)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct virtio_model_control control;
        start_kind(kind);
        uint64_t kicks = model.queue[VIRTIO_NET_CONTROLQ].kick_count;
        silence_passes();
        assert_false(virtio_model_control_take(&model, &control)); /* nobody has joined a group */
        for (uint32_t round = 1; round <= 300; round++) {
            uint32_t count = round % (NETDEV_GROUP_COUNT_MAX + 1);
            device->ops->groups_set(device, groups, count);
            assert_int_equal(model.queue[VIRTIO_NET_CONTROLQ].kick_count, kicks + round);
            expect_table(&control, count);
            virtio_model_control_done(&model, &control);
        }
        virtio_net_check(&net);
        assert_null(virtio_net_broken(device));
    }
}

TEST(table_that_finds_the_queue_busy_follows_under_traffic_too)
{
    struct virtio_model_control control;
    model_begin(VIRTIO_MODEL_MODERN);
    model.offered &= ~BIT(VIRTIO_NET_F_GUEST_ANNOUNCE); /* else the state is read in any case */
    start();
    device->ops->groups_set(device, groups, 1);
    device->ops->groups_set(device, groups, 2);
    expect_table(&control, 1);
    assert_false(virtio_model_control_take(&model, &control));
    virtio_model_control_done(&model, &control);
    for (int i = 0; i < 2; i++) {
        frame_comes();
        silence_passes();
        assert_int_equal(virtio_model_control_take(&model, &control), i == 0);
    }
    uint32_t reads = model.register_reads;
    frame_comes();
    silence_passes();
    assert_int_equal(model.register_reads, reads); /* the table is there: traffic shows that the device lives */
}

TEST(announcement_and_table_share_the_queue)
{
    struct virtio_model_control control;
    start_kind(VIRTIO_MODEL_MODERN);
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    silence_passes();
    device->ops->groups_set(device, groups, 2);
    expect_acknowledgement(&control);
    model.link_status &= (uint16_t)~VIRTIO_NET_S_ANNOUNCE;
    virtio_model_control_done(&model, &control);
    silence_passes();
    expect_table(&control, 2);
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    device->announce = false;
    silence_passes();
    assert_false(device->announce); /* the table is still under way */
    virtio_model_control_done(&model, &control);
    silence_passes();
    assert_true(device->announce);
    expect_acknowledgement(&control);
}

TEST(device_without_a_filter_gets_no_table)
{
    struct {
        enum virtio_model_kind kind;
        unsigned missing;
    } machines[] = {
        { VIRTIO_MODEL_MODERN, VIRTIO_NET_F_CTRL_RX },
        { VIRTIO_MODEL_MODERN, VIRTIO_NET_F_CTRL_VQ },
        { VIRTIO_MODEL_LEGACY_PCI, VIRTIO_F_ANY_LAYOUT }, /* the command's data might have to stand apart */
    };
    for (size_t i = 0; i < ARRAY_COUNT(machines); i++) {
        struct virtio_model_control control;
        start_without(machines[i].kind, BIT(machines[i].missing));
        assert_false(virtio_model_has(&model, VIRTIO_NET_F_CTRL_RX));
        device->ops->groups_set(device, groups, 2);
        silence_passes();
        assert_false(model.queue[VIRTIO_NET_CONTROLQ].enabled && virtio_model_control_take(&model, &control));
        assert_null(virtio_net_broken(device));
    }
}

TEST(impossible_answer_on_the_control_queue_breaks_the_device)
{
    start_kind(VIRTIO_MODEL_MODERN);
    model.link_status |= VIRTIO_NET_S_ANNOUNCE;
    silence_passes();
    virtio_model_used_push(&model, VIRTIO_NET_CONTROLQ, 77, 1);
    silence_passes();
    assert_non_null(virtio_net_broken(device));
}

/* Plays QEMU's TCG: the device asks for a kick and misses the new index, and the driver misses the request. */
TEST(missed_kick_is_repeated_once_after_a_delay)
{
    for (int event_index = 0; event_index < 2; event_index++) {
        start_without(VIRTIO_MODEL_MODERN, event_index ? 0 : BIT(VIRTIO_F_EVENT_IDX));
        const struct virtio_model_queue *queue = &model.queue[VIRTIO_NET_TRANSMITQ];
        device->ops->poll(device);
        virtio_model_refuse_kicks(&model, VIRTIO_NET_TRANSMITQ);
        assert_true(send_number(60, 1));
        assert_true(send_number(60, 2));
        uint64_t kicks = queue->kick_count, rekicks = virtio_net_counters.tx_rekicks;
        net.tx_stall.begin_cycles = cycles_now() - BIT(33);
        device->ops->poll(device);
        assert_int_equal(queue->kick_count, kicks); /* the device is slow, and has not asked */

        virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
        net.tx_stall.begin_cycles = cycles_now();
        device->ops->poll(device);
        assert_int_equal(queue->kick_count, kicks); /* too early: the device may read the index once more */
        net.tx_stall.begin_cycles = cycles_now() - BIT(16);
        device->ops->poll(device);
        assert_int_equal(queue->kick_count, kicks + 1);
        net.tx_stall.begin_cycles = cycles_now() - BIT(33);
        device->ops->poll(device);
        assert_int_equal(queue->kick_count, kicks + 1); /* no second repetition */
        assert_int_equal(virtio_net_counters.tx_rekicks, rekicks + 1);
        assert_int_equal(virtio_net_counters.rx_rekicks, 0);

        virtio_model_refuse_kicks(&model, VIRTIO_NET_TRANSMITQ);
        assert_true(send_number(60, 3));
        virtio_model_want_kick(&model, VIRTIO_NET_TRANSMITQ);
        packet_leaves();
        net.tx_stall.begin_cycles = cycles_now() - BIT(16);
        device->ops->poll(device); /* the device has used a buffer: no stall */
        assert_int_equal(queue->kick_count, kicks + 1);
        assert_null(model.violation);
    }
}

TEST(missed_kick_for_buffers_is_repeated)
{
    start_kind(VIRTIO_MODEL_MODERN);
    const struct virtio_model_queue *queue = &model.queue[VIRTIO_NET_RECEIVEQ];
    virtio_model_refuse_kicks(&model, VIRTIO_NET_RECEIVEQ);
    uint64_t kicks = queue->kick_count;
    net.rx.notified_idx--; /* as if the last buffers had been published without a kick */
    net.rx_stall.begin_cycles = cycles_now() - BIT(33);
    device->ops->poll(device);
    assert_int_equal(queue->kick_count, kicks);

    *(uint16_t *)net.rx.avail_event = (uint16_t)(net.rx.exposed_idx - 1);
    net.rx_stall.begin_cycles = cycles_now() - BIT(16);
    device->ops->poll(device);
    device->ops->poll(device);
    assert_int_equal(queue->kick_count, kicks + 1);
    assert_int_equal(virtio_net_counters.rx_rekicks, 1);
    assert_int_equal(virtio_net_counters.tx_rekicks, 0);
}

/* Google's older machines dictate rings of 8,192 and 16,384 entries. A device in hardware (VDPA) insists on both
 * PLATFORM features. All indices pass 2^16. */
TEST(rings_of_clouds_are_gone_round)
{
    static const struct {
        enum virtio_model_kind kind;
        uint16_t size;
        uint64_t required, offered_less;
    } cases[] = {
        { VIRTIO_MODEL_LEGACY_PCI, 8192, 0, 0 },
        { VIRTIO_MODEL_LEGACY_PCI, 16384, 0, 0 },
        { VIRTIO_MODEL_LEGACY_PCI, 16384, 0, BIT(VIRTIO_F_ANY_LAYOUT) | BIT(VIRTIO_F_EVENT_IDX) },
        { VIRTIO_MODEL_MODERN, 256, BIT(VIRTIO_F_ACCESS_PLATFORM) | BIT(VIRTIO_F_ORDER_PLATFORM), 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        model_begin(cases[i].kind);
        model.required = cases[i].required;
        model.offered = (model.offered | model.required) & ~cases[i].offered_less;
        model.queue[0].size_max = model.queue[1].size_max = cases[i].size;
        start();
        assert_int_equal(model.queue[0].size, cases[i].size);
        assert_true((model.accepted & model.required) == model.required);
        for (uint32_t number = 0; number < 70000; number++) {
            uint32_t bytes = 60 + number % 50;
            assert_true(deliver_number(bytes, number, 0));
            expect_number(bytes, number);
            assert_true(send_number(bytes, number));
            expect_sent(bytes, number);
        }
        assert_null(model.violation);
    }
}

/* ---- random trials ---- */

/* A trial with random features, sizes and kinds, and random traffic, borrowing, completion and refusal. Every byte is
 * checked on both sides. At the end all buffers are back where they began. */
struct trial {
    struct frame borrowed[NETDEV_RX_BORROWED_MAX];
    uint32_t borrowed_number[NETDEV_RX_BORROWED_MAX], borrowed_count;
    struct virtio_model_packet out[NETDEV_TX_BUFFER_COUNT];
    uint32_t out_count;
    uint32_t rx_sent, rx_seen, tx_sent, tx_seen;
    uint32_t rx_bytes[65536], tx_bytes[65536]; /* by number: lengths in order */
};

static void trial_start(void)
{
    model_begin((enum virtio_model_kind)random_below(KINDS));
    uint64_t all = model.offered | BIT(VIRTIO_F_ORDER_PLATFORM);
    model.offered = (random_next() & all & ~BIT(VIRTIO_F_VERSION_1)) | (all & BIT(VIRTIO_F_VERSION_1));
    for (int i = 0; i < VIRTIO_NET_QUEUE_COUNT; i++) {
        uint32_t size = 1u << random_below(random_below(10) == 0 ? 16 : 10);
        if (model.bus.legacy && !(model.offered & BIT(VIRTIO_F_ANY_LAYOUT)) && size < 2)
            size = 2;
        if (!model.bus.queue_size_fixed && random_below(4) == 0 && size > 4)
            size -= random_below(size / 4); /* other sizes than powers of two: an upper bound only */
        model.queue[i].size_max = (uint16_t)size;
    }
    model.reset_read_count = random_below(10);
    model.split_bytes = random_below(3) ? 0 : 60 + random_below(600);
    model.mtu_bytes = (uint16_t)(68 + random_below(9000));
    start();
}

static void trial_step(struct trial *trial)
{
    virtio_net_check(&net);
    struct virtio_model_packet packet;
    struct frame frame;
    switch (random_below(10)) {
    case 0:
    case 1: {
        uint32_t bytes = 14 + random_below(1501);
        if (deliver_number(bytes, trial->rx_sent, 0))
            trial->rx_bytes[trial->rx_sent++ & 0xffff] = bytes;
        break;
    }
    case 2:
    case 3:
        if (trial->borrowed_count < NETDEV_RX_BORROWED_MAX && device->ops->rx_borrow(device, &frame)) {
            assert_int_equal(frame.bytes, trial->rx_bytes[trial->rx_seen & 0xffff]);
            frame_check(frame.data, frame.bytes, trial->rx_seen);
            trial->borrowed_number[trial->borrowed_count] = trial->rx_seen++;
            trial->borrowed[trial->borrowed_count++] = frame;
        }
        break;
    case 4:
    case 5:
        if (trial->borrowed_count > 0) {
            uint32_t i = random_below(trial->borrowed_count);
            frame_check(trial->borrowed[i].data, trial->borrowed[i].bytes, trial->borrowed_number[i]);
            device->ops->rx_release(device, &trial->borrowed[i]);
            trial->borrowed[i] = trial->borrowed[--trial->borrowed_count];
            trial->borrowed_number[i] = trial->borrowed_number[trial->borrowed_count];
        }
        break;
    case 6: {
        uint32_t bytes = 14 + random_below(1501);
        if (send_number(bytes, trial->tx_sent))
            trial->tx_bytes[trial->tx_sent++ & 0xffff] = bytes;
        break;
    }
    case 7:
        if (trial->out_count < ARRAY_COUNT(trial->out) && virtio_model_transmit_take(&model, &packet)) {
            assert_int_equal(packet.bytes, trial->tx_bytes[trial->tx_seen & 0xffff]);
            frame_check(packet.frame, packet.bytes, trial->tx_seen++);
            trial->out[trial->out_count++] = packet;
        }
        break;
    case 8:
        if (trial->out_count > 0) {
            uint32_t i = random_below(2) ? 0 : random_below(trial->out_count);
            virtio_model_transmit_done(&model, &trial->out[i]);
            memmove(&trial->out[i], &trial->out[i + 1], (--trial->out_count - i) * sizeof trial->out[0]);
        }
        break;
    default:
        device->ops->poll(device);
    }
    if (random_below(8) == 0)
        (random_below(2) ? virtio_model_want_kick : virtio_model_refuse_kicks)(&model, (uint16_t)random_below(2));
}

static void trial_end(struct trial *trial)
{
    struct frame frame;
    struct virtio_model_packet packet;
    while (device->ops->rx_borrow(device, &frame)) {
        frame_check(frame.data, frame.bytes, trial->rx_seen++);
        device->ops->rx_release(device, &frame);
    }
    while (trial->borrowed_count > 0)
        device->ops->rx_release(device, &trial->borrowed[--trial->borrowed_count]);
    while (trial->out_count > 0)
        virtio_model_transmit_done(&model, &trial->out[--trial->out_count]);
    while (virtio_model_transmit_take(&model, &packet)) {
        frame_check(packet.frame, packet.bytes, trial->tx_seen++);
        virtio_model_transmit_done(&model, &packet);
    }
    device->ops->poll(device);
    assert_int_equal(trial->rx_seen, trial->rx_sent);
    assert_int_equal(trial->tx_seen, trial->tx_sent);
    assert_int_equal(net.tx_pool.taken_count, 0);
    assert_int_equal(net.rx_free_count + virtqueue_in_flight(&net.rx), VIRTIO_NET_RX_BUFFER_COUNT);
    for (int i = 0; i < NETDEV_TX_BUFFER_COUNT; i++)
        assert_int_equal(net.tx_pool.buffer[i].holders, 0);
    assert_null(virtio_net_broken(device));
    if (model.violation)
        fail_msg("the driver: %s", model.violation);
}

TEST(any_features_any_sizes_any_order_lose_nothing)
{
    static struct trial trial;
    uint64_t frames = 0;
    for (int round = 0; round < 200; round++) {
        memset(&trial, 0, sizeof trial);
        trial_start();
        for (int step = 0; step < 600; step++)
            trial_step(&trial);
        trial_end(&trial);
        frames += trial.rx_seen + trial.tx_seen;
    }
    assert_true(frames > 20000);
}

/* Plays such trials with a device that sometimes writes wrong values. No access leaves the buffers (ASan watches), no
 * assertion fails, and each frame lies within its buffer. */
TEST(any_write_of_a_hostile_device_is_survived)
{
    static struct trial trial;
    int broken_count = 0;
    for (int round = 0; round < 600; round++) {
        memset(&trial, 0, sizeof trial);
        trial_start();
        for (int step = 0; step < 400; step++) {
            uint16_t queue = (uint16_t)random_below(2);
            struct frame frame;
            switch (random_below(12)) {
            case 0:
                virtio_model_used_push(&model, queue, (uint32_t)(random_next() >> random_below(64)),
                                       (uint32_t)(random_next() >> random_below(64)));
                break;
            case 1:
                virtio_model_used_push(&model, queue, random_below(model.queue[queue].size), random_below(3000));
                break;
            case 2:
                if (random_below(20) == 0)
                    virtio_model_used_jump(&model, queue, (uint16_t)random_next());
                break;
            case 3: {
                const struct virtq_desc *desc = &model.queue[0].desc[random_below(model.queue[0].size)];
                if (desc->addr != UINT64_MAX && desc->len >= 12)
                    ((struct virtio_net_hdr *)(uintptr_t)desc->addr)->num_buffers = (uint16_t)random_below(5);
                break;
            }
            case 4:
                send_number(14 + random_below(1501), 0);
                break;
            case 5:
                device->ops->poll(device);
                break;
            case 6:
                if (!net.rx.fault)
                    deliver_number(14 + random_below(3000), 0, (uint8_t)random_next());
                break;
            default:
                if (device->ops->rx_borrow(device, &frame)) {
                    assert_in_range(frame.bytes, 14, NETDEV_FRAME_BYTES_MAX);
                    assert_true(model_memory_contains(frame.data, NETDEV_FRAME_BYTES_MAX));
                    device->ops->rx_release(device, &frame);
                }
            }
        }
        broken_count += virtio_net_broken(device) != NULL;
    }
    assert_true(broken_count > 300);
}

TEST(only_a_device_with_interrupts_can_wake)
{
    start_kind(VIRTIO_MODEL_MODERN);
    assert_false(virtio_net_can_wake(device));
    model.bus.interrupts = true;
    assert_true(virtio_net_can_wake(device));
}

TEST(wake_asks_for_an_interrupt_and_quiet_for_none)
{
    uint8_t frame[60];
    frame_fill(frame, sizeof frame, 1);
    for (int with_index = 0; with_index < 2; with_index++) {
        start_without(VIRTIO_MODEL_MODERN, with_index ? 0 : BIT(VIRTIO_F_EVENT_IDX));
        uint16_t before = model.queue[VIRTIO_NET_RECEIVEQ].used_idx;
        assert_true(virtio_net_wake(device));
        assert_true(virtio_model_receive(&model, frame, sizeof frame, 0));
        assert_true(virtio_model_would_interrupt(&model, VIRTIO_NET_RECEIVEQ, before));
        assert_false(virtio_net_wake(device)); /* that frame waits */

        virtio_net_quiet(device);
        before = model.queue[VIRTIO_NET_RECEIVEQ].used_idx;
        assert_true(virtio_model_receive(&model, frame, sizeof frame, 0));
        assert_false(virtio_model_would_interrupt(&model, VIRTIO_NET_RECEIVEQ, before));
    }
}

TEST(survey_sees_a_waiting_frame_and_may_notify_without_one)
{
    struct frame frame;
    start_kind(VIRTIO_MODEL_MODERN);
    uint64_t kicks = virtio_net_counters.tx_kicks, frames = virtio_net_counters.tx_frames;
    assert_false(virtio_net_frame_waits(device));
    assert_true(deliver_number(60, 1, 0));
    assert_true(virtio_net_frame_waits(device));
    assert_true(virtio_net_frame_waits(device));
    assert_true(device->ops->rx_borrow(device, &frame));
    assert_false(virtio_net_frame_waits(device));
    device->ops->rx_release(device, &frame);
    virtio_net_notify(device);
    assert_int_equal(virtio_net_counters.tx_kicks, kicks + 1);
    assert_int_equal(model.queue[VIRTIO_NET_TRANSMITQ].kick_count, 1);
    assert_int_equal(virtio_net_counters.tx_frames, frames);
    assert_null(virtio_net_broken(device));
    test_after_each();
}

TEST(levels_count_the_free_buffers_and_the_seconds_without_a_sent_frame)
{
    struct buffer_levels levels;
    struct virtio_model_packet first, second;
    start_kind(VIRTIO_MODEL_MODERN);
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    virtio_net_levels(device, &levels);
    assert_int_equal(levels.tx_buffers_free, NETDEV_TX_BUFFER_COUNT - 1);
    assert_int_equal(levels.rx_buffers_free,
                     VIRTIO_NET_RX_BUFFER_COUNT - virtio_model_available(&model, VIRTIO_NET_RECEIVEQ));
    device->ops->tx_release(device, buffer);
    virtio_net_levels(device, &levels);
    assert_int_equal(levels.tx_buffers_free, NETDEV_TX_BUFFER_COUNT);
    assert_int_equal(virtio_net_counters.tx_stalled_seconds, 0); /* nothing is to be sent */
    for (int i = 0; i < 2; i++)
        assert_true(device->ops->tx_publish(device, device->ops->tx_acquire(device), 60, 0, 0));
    virtio_net_levels(device, &levels);
    virtio_net_levels(device, &levels);
    virtio_net_levels(device, &levels);
    assert_int_equal(virtio_net_counters.tx_stalled_seconds, 3);
    assert_true(virtio_model_transmit_take(&model, &first) && virtio_model_transmit_take(&model, &second));
    virtio_model_transmit_done(&model, &first);
    virtio_net_levels(device, &levels);
    assert_int_equal(virtio_net_counters.tx_stalled_seconds, 0); /* slow, and alive */
    virtio_net_levels(device, &levels);
    assert_int_equal(virtio_net_counters.tx_stalled_seconds, 1);
    virtio_model_transmit_done(&model, &second);
    virtio_net_levels(device, &levels);
    virtio_net_levels(device, &levels);
    assert_int_equal(virtio_net_counters.tx_stalled_seconds, 0);
}

/* ---- rehearsals ---- */

/* Plays over a ring and back, so that the twin's indices and the real ones are at different places. */
TEST(rehearsals_change_nothing_and_show_the_device_nothing)
{
    enum { ROUNDS = 70000 }; /* past the end of 16-bit indices */
    static const enum virtio_model_kind kinds[] = { VIRTIO_MODEL_MODERN, VIRTIO_MODEL_LEGACY_PCI };
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
        model_begin(kinds[i / 2]);
        if (i % 2 == 1)
            model.offered &= ~(BIT(VIRTIO_F_EVENT_IDX) | BIT(VIRTIO_F_ANY_LAYOUT));
        start();
        for (uint32_t n = 0; n < 5; n++) {
            assert_true(deliver_number(100, n, 0));
            expect_number(100, n);
            assert_true(send_number(100, n));
        }
        assert_true(deliver_number(200, 7, 0)); /* waits meanwhile */
        static struct virtio_net before;
        const struct virtio_net_counters counters = virtio_net_counters;
        const struct trace stamps = trace;
        const struct virtio_model device_before = model;
        const uint16_t shown = virtio_model_available(&model, VIRTIO_NET_TRANSMITQ);
        memcpy(&before, &net, sizeof net);
        for (uint32_t n = 0; n < ROUNDS; n++)
            device->ops->rehearse(device);
        assert_memory_equal(&net, &before, sizeof net);
        assert_memory_equal(&virtio_net_counters, &counters, sizeof counters);
        assert_memory_equal(&trace, &stamps, sizeof stamps);
        assert_memory_equal(&model, &device_before, sizeof model);
        assert_int_equal(virtio_model_available(&model, VIRTIO_NET_TRANSMITQ), shown);
        expect_number(200, 7);
        assert_true(send_number(100, 8));
        virtio_net_check(&net);
        assert_null(model.violation);
    }
}
