/* net/capture/ over a device in memory, and its file, read back by a reader written from draft-ietf-opsawg-pcapng. */
#include "base/log.h"
#include "net/capture/pcapng.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/test.h"

enum { BYTES = 70, FRAMES = 16 };
static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
static struct netdev_memory wire;
static struct netdev *const device = &wire.device;
static _Alignas(8) uint8_t memory[FRAMES * 2048];
static uint64_t now_ns, refreshed;
#define COUNTERS(X)                                                                                                    \
    X(DROP_FRAME, rx_drop_short), X(COUNT, rx_datagrams), X(DROP, tx_drop_no_route), X(ALERT, lost), X(LEVEL, free),   \
        X(LABELLED, tx_bytes), X(DROP_FRAME, drop)
static struct {
    uint64_t COUNTERS(COUNTER_MEMBER);
} counted;
static const struct counter_group group = COUNTER_GROUP("ipv4.", "", COUNTERS, counted);

static uint64_t clock_ns(void) { return now_ns += 10; }
static void refresh(void) { refreshed++; }

static void begin(uint32_t bytes, bool early)
{
    memset(memory, 0, sizeof memory);
    assert_true(capture_memory_bytes(bytes, FRAMES) <= sizeof memory);
    netdev_memory_init(&wire, mac, false);
    wire.pool.rx_stays = false; /* these tests play a stack that changes frames */
    capture_init(&(struct capture_config){ bytes, FRAMES, memory, clock_ns, refresh, early });
    capture_attach(device);
    capture_watch(&group);
}

BEFORE_EACH()
{
    now_ns = 1000, refreshed = 0;
    log_wall_origin_ns = 0;
    begin(BYTES, false);
}

AFTER_EACH() { capture_check(); }

/* Makes a frame of bytes that `seed` tells from others. */
static void make(uint8_t *data, uint32_t bytes, uint8_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(seed + i);
}

static void borrow(struct frame *frame, uint32_t bytes, uint8_t seed)
{
    uint8_t data[NETDEV_FRAME_BYTES_MAX];
    make(data, bytes, seed);
    assert_true(netdev_memory_feed(&wire, data, bytes, true));
    assert_true(device->ops->rx_borrow(device, frame));
}

static void receive(uint32_t bytes, uint8_t seed)
{
    struct frame frame;
    borrow(&frame, bytes, seed);
    device->ops->rx_release(device, &frame);
    assert_false(device->ops->rx_borrow(device, &frame)); /* no other one has come */
}

static void publish(struct tx_buffer *buffer, uint32_t bytes, uint8_t seed)
{
    uint8_t out[NETDEV_FRAME_BYTES_MAX];
    make(buffer->data, bytes, seed);
    assert_true(device->ops->tx_publish(device, buffer, bytes, 0, 0));
    netdev_memory_take(&wire, out);
}

static struct tx_buffer *send_held(uint32_t bytes, uint8_t seed)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    assert_non_null(buffer);
    publish(buffer, bytes, seed);
    return buffer;
}

static void assert_frame(uint64_t number, bool sent, uint32_t bytes, uint8_t seed, const char *dropped)
{
    struct capture_frame frame;
    uint8_t data[NETDEV_FRAME_BYTES_MAX];
    make(data, bytes, seed);
    assert_true(capture_read(number, &frame));
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.sent, sent);
    assert_int_equal(frame.frame_bytes, bytes);
    assert_int_equal(frame.kept_bytes, min_size(bytes, capture_bytes()));
    assert_memory_equal(capture_data(&frame), data, frame.kept_bytes);
    assert_string_equal(frame.dropped, dropped);
}

static uint64_t stamp_of(uint64_t number)
{
    struct capture_frame frame;
    assert_true(capture_read(number, &frame));
    return frame.stamp_ns;
}

TEST(frames_of_both_directions_stand_in_the_order_of_the_wire)
{
    struct frame first, second;
    borrow(&first, 60, 1);
    struct tx_buffer *buffer = send_held(61, 2);
    borrow(&second, 62, 3);
    device->ops->rx_release(device, &second);
    device->ops->rx_release(device, &first);
    device->ops->poll(device);
    device->ops->tx_release(device, buffer);
    assert_int_equal(capture_newest(), 3);
    assert_int_equal(capture_oldest(), 1);
    assert_frame(1, false, 60, 1, "");
    assert_frame(2, true, 61, 2, "");
    assert_frame(3, false, 62, 3, "");
    assert_int_equal(stamp_of(1), 1010);
    assert_int_equal(stamp_of(2), 1020);
    assert_int_equal(stamp_of(3), 1030);
}

TEST(frames_are_kept_whole_or_cut)
{
    static const uint32_t kept[] = { BYTES, CAPTURE_BYTES_MAX, 1 };
    for (size_t i = 0; i < ARRAY_COUNT(kept); i++) {
        begin(kept[i], false);
        receive(NETDEV_FRAME_BYTES_MAX, 5);
        assert_frame(1, false, NETDEV_FRAME_BYTES_MAX, 5, "");
        receive(1, 6);
        assert_frame(2, false, 1, 6, "");
        assert_int_equal(wire.pool.rx_out_count, 0); /* each frame is the device's again */
    }
    assert_int_equal(capture_memory_bytes(8, FRAMES), capture_memory_bytes(1, FRAMES)); /* whole words */
}

TEST(a_dropped_frame_has_the_name_of_the_counter)
{
    struct frame frame;
    borrow(&frame, 60, 1);
    counted.rx_drop_short++, counted.drop++; /* the first one is named */
    device->ops->rx_release(device, &frame);
    receive(60, 2);
    borrow(&frame, 60, 3);
    counted.drop += 2;
    device->ops->rx_release(device, &frame);
    borrow(&frame, 60, 4);
    counted.rx_datagrams++, counted.tx_drop_no_route++, counted.lost++; /* none is a drop of this frame */
    counted.free++, counted.tx_bytes++;
    device->ops->rx_release(device, &frame);
    assert_frame(1, false, 60, 1, "ipv4.rx_drop_short");
    assert_frame(2, false, 60, 2, "");
    assert_frame(3, false, 60, 3, "ipv4.drop");
    assert_frame(4, false, 60, 4, "");
    assert_int_equal(refreshed, 4);
}

TEST(the_ring_keeps_the_last_frames)
{
    struct capture_frame frame;
    begin(64, false); /* whole words: one too many would be in the next record */
    for (uint8_t i = 1; i <= 40; i++)
        receive(64, i);
    assert_int_equal(capture_newest(), 40);
    assert_int_equal(capture_oldest(), 40 - FRAMES + 1);
    for (uint8_t i = 1; i <= 40; i++)
        if (i < capture_oldest())
            assert_false(capture_read(i, &frame));
        else
            assert_frame(i, false, 64, i, "");
    assert_false(capture_read(41, &frame));
}

TEST(a_buffer_that_is_sent_again_is_kept_twice)
{
    struct tx_buffer *buffer = send_held(60, 1);
    uint8_t out[NETDEV_FRAME_BYTES_MAX];
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0)); /* before a poll, with the same bytes */
    netdev_memory_take(&wire, out);
    device->ops->poll(device);
    publish(buffer, 60, 2);
    device->ops->poll(device);
    assert_frame(1, true, 60, 1, "");
    assert_frame(2, true, 60, 1, "");
    assert_frame(3, true, 60, 2, "");
    device->ops->tx_release(device, buffer);
}

TEST(a_buffer_that_is_used_again_is_copied_before)
{
    struct capture_frame frame;
    struct tx_buffer *buffer = send_held(60, 1), *again;
    device->ops->tx_release(device, buffer);
    assert_false(capture_read(1, &frame)); /* no poll since */
    while ((again = device->ops->tx_acquire(device)) != buffer)
        assert_non_null(again);
    memset(buffer->data, 0xff, 60);
    assert_frame(1, true, 60, 1, "");
}

TEST(a_poll_copies_a_bounded_number)
{
    struct capture_frame frame;
    struct tx_buffer *buffers[FRAMES + 4];
    for (uint8_t i = 0; i < ARRAY_COUNT(buffers); i++)
        buffers[i] = send_held(60, i);
    int copied[2] = { 0, 0 };
    for (int round = 0; round < 2; round++) {
        device->ops->poll(device);
        for (uint64_t i = capture_oldest(); i <= capture_newest(); i++)
            copied[round] += capture_read(i, &frame);
    }
    assert_true(copied[0] >= FRAMES - 4 && copied[0] <= FRAMES); /* four of the first sixteen are overwritten already */
    assert_int_equal(copied[1], FRAMES);
    for (uint8_t i = 4; i < ARRAY_COUNT(buffers); i++)
        assert_frame(i + 1u, true, 60, i, "");
}

static bool large_publish(struct netdev *large, struct tx_buffer *buffer, uint32_t bytes, uint16_t start,
                          uint16_t offset)
{
    (void)large, (void)buffer, (void)bytes, (void)start, (void)offset;
    return true;
}
static void large_poll(struct netdev *large) { (void)large; }

/* A device with as many buffers as a machine's: they fill several words of the set of those that wait. */
TEST(the_bound_of_a_poll_holds_for_all_buffers_together)
{
    enum { FIRST_WORD = 20, FURTHER = 8, FURTHER_AT = 200 };
    static const struct netdev_ops ops = { .tx_publish = large_publish, .poll = large_poll };
    struct netdev large = { .ops = &ops };
    struct capture_frame frame;
    uint8_t data[60] = { 0 };
    capture_attach(&large);
    for (uint16_t i = 0; i < FIRST_WORD + FURTHER; i++) {
        struct tx_buffer buffer = { .data = data, .index = (uint16_t)(i < FIRST_WORD ? i : FURTHER_AT + i) };
        assert_true(large.ops->tx_publish(&large, &buffer, sizeof data, 0, 0));
    }
    large.ops->poll(&large);
    for (uint64_t i = FIRST_WORD + 1; i <= capture_newest(); i++)
        assert_false(capture_read(i, &frame));
    large.ops->poll(&large);
    for (uint64_t i = FIRST_WORD + 1; i <= capture_newest(); i++)
        assert_true(capture_read(i, &frame));
}

TEST(a_frame_held_for_long_overwrites_no_younger_one)
{
    struct frame frame;
    borrow(&frame, 60, 1);
    for (uint8_t i = 2; i < 2 + FRAMES; i++)
        receive(60, i);
    device->ops->rx_release(device, &frame);
    for (uint8_t i = 2; i < 2 + FRAMES; i++)
        assert_frame(i, false, 60, i, "");
}

TEST(a_flush_shows_frames_that_the_stack_still_has)
{
    struct frame frame;
    borrow(&frame, 60, 1);
    struct tx_buffer *buffer = send_held(60, 2);
    capture_flush();
    assert_frame(1, false, 60, 1, "");
    assert_frame(2, true, 60, 2, "");
    counted.rx_drop_short++;
    frame.data[0] = 0xff; /* read once, the bytes stay */
    device->ops->rx_release(device, &frame);
    assert_frame(1, false, 60, 1, "ipv4.rx_drop_short");
    device->ops->tx_release(device, buffer);
}

TEST(a_stack_that_changes_frames_and_a_tag_that_is_taken_off_are_copied_at_once)
{
    struct frame frame;
    uint8_t tagged[60];
    make(tagged, sizeof tagged, 7);
    store_be16(tagged + 12, 0x8100);
    assert_true(netdev_memory_feed(&wire, tagged, sizeof tagged, true));
    assert_true(device->ops->rx_borrow(device, &frame));
    memset(frame.data, 0xff, sizeof tagged);
    device->ops->rx_release(device, &frame);
    struct capture_frame kept;
    assert_true(capture_read(1, &kept));
    assert_memory_equal(capture_data(&kept), tagged, sizeof tagged);

    begin(BYTES, true);
    borrow(&frame, 60, 1);
    memset(frame.data, 0xff, 60);
    counted.rx_drop_short++;
    device->ops->rx_release(device, &frame);
    assert_frame(1, false, 60, 1, "ipv4.rx_drop_short");
}

TEST(a_mute_reader_leaves_no_frames)
{
    capture_mute(true);
    struct tx_buffer *buffer = send_held(60, 1);
    receive(60, 2);
    capture_mute(false);
    publish(buffer, 60, 3);
    device->ops->poll(device);
    assert_int_equal(capture_newest(), 2);
    assert_frame(1, false, 60, 2, "");
    assert_frame(2, true, 60, 3, "");
    device->ops->tx_release(device, buffer);
}

TEST(a_frame_that_the_device_refuses_is_none)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    assert_non_null(buffer);
    wire.sent_max = 0;
    assert_false(device->ops->tx_publish(device, buffer, 60, 0, 0));
    assert_int_equal(capture_newest(), 0);
    device->ops->tx_release(device, buffer);
}

static uint32_t groups_given;
static void large_groups_set(struct netdev *large, const uint8_t (*groups)[NETDEV_MAC_BYTES], uint32_t count)
{
    (void)large, (void)groups;
    groups_given += count;
}

TEST(groups_go_on_to_the_device_that_has_a_filter)
{
    static const struct netdev_ops ops = { .groups_set = large_groups_set };
    static const uint8_t groups[2][NETDEV_MAC_BYTES];
    struct netdev large = { .ops = &ops };
    device->ops->groups_set(device, groups, 2); /* this one has none */
    capture_attach(&large);
    large.ops->groups_set(&large, groups, 2);
    assert_int_equal(groups_given, 2);
}

TEST(without_a_capture_a_device_keeps_its_operations)
{
    netdev_memory_init(&wire, mac, false);
    wire.pool.rx_stays = false; /* these tests play a stack that changes frames */
    const struct netdev_ops *ops = device->ops;
    capture_init(&(struct capture_config){ .bytes = 0 });
    capture_attach(device);
    capture_watch(&group);
    assert_ptr_equal(device->ops, ops);
    assert_int_equal(capture_bytes(), 0);
    capture_flush();
    assert_int_equal(capture_newest(), 0);
}

/* ---- the file ---- */

static uint8_t file[FRAMES * 256];
static size_t file_bytes;

static void write_file(void)
{
    uint64_t position = 0, end = capture_newest();
    uint8_t block[PCAPNG_BLOCK_BYTES_MAX];
    size_t bytes;
    file_bytes = 0;
    while (memset(block, 0xee, sizeof block) && (bytes = pcapng_next(&position, end, block)) != 0) {
        assert_true(bytes <= sizeof block && file_bytes + bytes <= sizeof file);
        memcpy(file + file_bytes, block, bytes);
        file_bytes += bytes;
    }
}

/* Returns block `index`, whose lengths are right, or NULL past the last. */
static const uint8_t *block_of(size_t index)
{
    size_t at = 0;
    for (size_t i = 0; at < file_bytes; i++) {
        uint32_t bytes = load_le32(file + at + 4);
        assert_true(bytes % 4 == 0 && bytes >= 12 && bytes <= file_bytes - at);
        assert_int_equal(load_le32(file + at + bytes - 4), bytes);
        if (i == index)
            return file + at;
        at += bytes;
    }
    return NULL;
}

/* Returns the value of an option; NULL: the options, which begin at `at`, end without it. */
static const uint8_t *option_of(const uint8_t *block, size_t at, uint16_t code, uint16_t *bytes)
{
    for (;;) {
        assert_true(at + 8 <= load_le32(block + 4));
        uint16_t found = load_le16(block + at);
        *bytes = load_le16(block + at + 2);
        if (found == code)
            return block + at + 4;
        if (found == 0)
            return NULL;
        at += 4 + ((*bytes + 3u) & ~3u);
    }
}

static void assert_packet(size_t index, uint8_t seed, uint32_t bytes, uint64_t time_ns, uint32_t flags,
                          const char *comment)
{
    uint8_t data[NETDEV_FRAME_BYTES_MAX];
    uint16_t option_bytes;
    const uint8_t *block = block_of(index);
    assert_non_null(block);
    uint32_t kept = load_le32(block + 20);
    make(data, bytes, seed);
    assert_int_equal(load_le32(block), 6);
    assert_int_equal(load_le32(block + 8), 0);
    assert_int_equal((uint64_t)load_le32(block + 12) << 32 | load_le32(block + 16), time_ns);
    assert_int_equal(kept, min_size(bytes, BYTES));
    assert_int_equal(load_le32(block + 24), bytes);
    assert_memory_equal(block + 28, data, kept);
    size_t options = 28 + ((kept + 3u) & ~3u);
    for (size_t i = 28 + kept; i < options; i++)
        assert_int_equal(block[i], 0);
    const uint8_t *option = option_of(block, options, 2, &option_bytes);
    assert_non_null(option);
    assert_int_equal(option_bytes, 4);
    assert_int_equal(load_le32(option), flags);
    option = option_of(block, options, 1, &option_bytes);
    assert_int_equal(option != NULL, comment != NULL);
    if (comment) {
        assert_int_equal(option_bytes, strlen(comment));
        assert_memory_equal(option, comment, option_bytes);
    }
}

TEST(a_file_has_its_head_and_a_packet_for_each_frame)
{
    struct frame frame;
    uint16_t bytes;
    log_wall_origin_ns = UINT64_C(1800000000) * 1000000000;
    borrow(&frame, 61, 1);
    counted.rx_drop_short++;
    device->ops->rx_release(device, &frame);
    struct tx_buffer *buffer = send_held(1000, 2);
    device->ops->poll(device);
    device->ops->tx_release(device, buffer);
    write_file();
    const uint8_t *section = block_of(0), *interface = block_of(1);
    assert_int_equal(load_le32(section), 0x0a0d0d0a);
    assert_int_equal(load_le32(section + 8), 0x1a2b3c4d);
    assert_int_equal(load_le32(section + 12), 1); /* version 1.0 */
    assert_memory_equal(option_of(section, 24, 4, &bytes), "peregrine", 9);
    assert_int_equal(load_le64(section + 16), UINT64_MAX);
    assert_int_equal(load_le32(interface), 1);
    assert_int_equal(load_le16(interface + 8), 1);
    assert_int_equal(load_le32(interface + 12), BYTES);
    assert_memory_equal(option_of(interface, 16, 6, &bytes), mac, 6);
    assert_int_equal(bytes, 6);
    assert_int_equal(*option_of(interface, 16, 9, &bytes), 9);
    assert_int_equal(bytes, 1);
    assert_packet(2, 1, 61, log_wall_origin_ns + 1010, 1, "ipv4.rx_drop_short");
    assert_packet(3, 2, 1000, log_wall_origin_ns + 1020, 2, NULL);
    assert_null(block_of(4));
}

TEST(the_longest_block_fills_its_bound)
{
    static const struct counter longest = { "a_name_of_32_bytes_without_a_nul", COUNTER_DROP_FRAME };
    static uint64_t value;
    static const struct counter_group path_of_63 = {
        "a.prefix.of.31.bytes.with.a.dot", "", &longest, &value, 1, NULL, 0
    };
    uint8_t block[PCAPNG_BLOCK_BYTES_MAX];
    struct frame frame;
    uint64_t position = 1;
    begin(CAPTURE_BYTES_MAX, false);
    capture_watch(&path_of_63);
    borrow(&frame, NETDEV_FRAME_BYTES_MAX, 1);
    value++;
    device->ops->rx_release(device, &frame);
    assert_int_equal(pcapng_next(&position, 1, block), PCAPNG_BLOCK_BYTES_MAX);
}

TEST(a_file_that_is_read_while_frames_come_leaves_out_the_overwritten)
{
    uint8_t block[PCAPNG_BLOCK_BYTES_MAX];
    uint64_t position = 0;
    for (uint8_t i = 1; i <= FRAMES; i++)
        receive(60, i);
    uint64_t end = capture_newest();
    assert_true(pcapng_next(&position, end, file) > 0);
    for (uint8_t i = 0; i < 5; i++)
        receive(60, (uint8_t)(100 + i));
    for (uint8_t i = 6; i <= FRAMES; i++) {
        file_bytes = pcapng_next(&position, end, file);
        assert_packet(0, i, 60, 1000 + 10u * i, 1, NULL);
    }
    assert_int_equal(pcapng_next(&position, end, block), 0);
    for (uint8_t i = 0; i < FRAMES; i++) /* all that the reader wanted */
        receive(60, i);
    position = 1;
    assert_int_equal(pcapng_next(&position, end, block), 0);
}

/* Returns the frame's bytes in a record. The frame goes to or comes from 10.0.2.2; `ports` are its first four bytes
 * after IPv4. `tagged`: with a VLAN tag. */
static uint32_t recorded_bytes(bool sent, bool tagged, uint8_t protocol, uint16_t fragment, uint32_t ports)
{
    uint8_t frame[200] = { 0 };
    uint8_t *ip = frame + (tagged ? 18 : 14), *l4 = ip + 24;
    struct tx_buffer *buffer = NULL;
    struct frame received;
    store_be16(frame + 12, 0x8100);
    store_be16(ip - 2, 0x0800);
    ip[0] = 0x46;
    store_be16(ip + 6, fragment);
    ip[9] = protocol;
    store_be32(ip + (sent ? 16 : 12), 0x0a000202);
    store_be32(l4, ports);
    l4[12] = 0x80;          /* TCP's head has 32 bytes */
    l4[8 + 9] = l4[1] + 6u; /* the protocol that ICMP quotes: TCP if its code is 0 */
    if (sent) {
        buffer = device->ops->tx_acquire(device);
        memcpy(buffer->data, frame, sizeof frame);
        assert_true(device->ops->tx_publish(device, buffer, sizeof frame, 0, 0));
    } else {
        assert_true(netdev_memory_feed(&wire, frame, sizeof frame, true));
        assert_true(device->ops->rx_borrow(device, &received));
        device->ops->rx_release(device, &received);
    }
    file_bytes = pcapng_record(0, (char *)file, sizeof file);
    file_bytes += pcapng_record(1, (char *)file + file_bytes, sizeof file - file_bytes);
    assert_non_null(block_of(2));
    uint32_t kept = load_le32(block_of(2) + 20);
    if (sent) {
        uint8_t out[NETDEV_FRAME_BYTES_MAX];
        netdev_memory_take(&wire, out);
        device->ops->tx_release(device, buffer);
    }
    return kept;
}

TEST(a_record_has_no_payload_of_a_connection_with_a_login)
{
    enum { TCP = 6, UDP = 17, ICMP = 1, IP_END = 14 + 24 };
    begin(200, false);
    assert_int_equal(recorded_bytes(true, false, TCP, 0, 1000 << 16 | 10002), 200);
    capture_note_login(0x0a000202, 10002);
    capture_note_login(0x0a000202, 10002);
    assert_int_equal(recorded_bytes(true, false, TCP, 0, 1000 << 16 | 10002), IP_END + 32);
    assert_int_equal(recorded_bytes(false, false, TCP, 0, 10002 << 16 | 1000), IP_END + 32);
    assert_int_equal(recorded_bytes(false, true, TCP, 0, 10002 << 16 | 1000), IP_END + 4 + 32);
    assert_int_equal(recorded_bytes(true, false, TCP, 0x2000, 1000 << 16 | 10002), IP_END + 32); /* a first fragment */
    assert_int_equal(recorded_bytes(true, false, TCP, 185, 0), IP_END);                          /* a later one */
    assert_int_equal(recorded_bytes(true, false, TCP, 0, 10002 << 16 | 10001), 200);
    assert_int_equal(recorded_bytes(true, false, UDP, 0, 1000 << 16 | 10002), 200);
    assert_int_equal(recorded_bytes(false, false, ICMP, 0, 3 << 24 | 11 << 16), 200); /* an error that quotes UDP */
    assert_int_equal(recorded_bytes(false, false, ICMP, 0, 3 << 24), IP_END + 36); /* an error that quotes a segment */
    begin(IP_END + 12, false); /* the length of TCP's head is not kept */
    assert_int_equal(recorded_bytes(true, false, TCP, 0, 1000 << 16 | 10002), IP_END + 12);
}

TEST(a_record_has_the_newest_first_as_far_as_there_is_room)
{
    struct frame frame;
    for (uint8_t i = 1; i < 30; i++)
        receive(60, i);
    borrow(&frame, 60, 30); /* the stack crashes here */
    size_t room = 500, bytes, index = 0;
    for (file_bytes = 0; (bytes = pcapng_record(index++, (char *)file + file_bytes, room - file_bytes)) != 0;)
        file_bytes += bytes;
    assert_int_equal(load_le32(block_of(0)), 0x0a0d0d0a);
    assert_packet(2, 30, 60, 1300, 1, NULL);
    assert_packet(3, 29, 60, 1290, 1, NULL);
    assert_true(file_bytes > room - 108 && file_bytes <= room); /* a packet of 60 bytes takes 108 with its options */
    file_bytes = pcapng_record(0, (char *)file, pcapng_record(0, (char *)file, sizeof file)); /* just enough room */
    for (index = 1; (bytes = pcapng_record(index, (char *)file + file_bytes, sizeof file - file_bytes)) != 0; index++)
        file_bytes += bytes;
    assert_int_equal(index, FRAMES + 1);
    device->ops->rx_release(device, &frame);
}
