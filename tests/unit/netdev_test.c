/* The hosted network devices of host/: frame accounting, seeded faults, the capture file. */
#include "tests/lib/netdev_faults.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/netdev_pcap.h"
#include "tests/lib/test.h"

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };
static struct netdev_memory a, b;
static struct netdev_faults faulty;

BEFORE_EACH()
{
    netdev_memory_init(&a, mac, false);
    netdev_memory_init(&b, mac, false);
}

static void send_number(struct netdev *device, uint32_t number)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    assert_non_null(buffer);
    memset(buffer->data, 0, 60);
    memcpy(buffer->data + 14, &number, sizeof number);
    assert_true(device->ops->tx_publish(device, buffer, 60, 0, 0));
    device->ops->tx_release(device, buffer);
}

static bool receive_number(struct netdev *device, uint32_t *number)
{
    struct frame frame;
    if (!device->ops->rx_borrow(device, &frame))
        return false;
    assert_int_equal(frame.bytes, 60);
    memcpy(number, frame.data + 14, sizeof *number);
    device->ops->rx_release(device, &frame);
    return true;
}

TEST(memory_carries_frames_in_order)
{
    uint32_t number;
    for (uint32_t i = 0; i < 1000; i++) {
        send_number(&a.device, i);
        send_number(&a.device, i + 5000);
        assert_int_equal(netdev_memory_exchange(&a, &b), 2);
        assert_true(receive_number(&b.device, &number));
        assert_int_equal(number, i);
        assert_true(receive_number(&b.device, &number));
        assert_int_equal(number, i + 5000);
        assert_false(receive_number(&b.device, &number));
    }
    assert_int_equal(b.pool.rx_out_count, 0);
    assert_int_equal(frame_pool_tx_held_count(&a.pool), 0);
}

TEST(frames_come_back_in_any_order)
{
    struct frame frames[NETDEV_RX_BORROWED_MAX];
    for (int round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++) {
            send_number(&a.device, i);
            netdev_memory_exchange(&a, &b);
            assert_true(b.device.ops->rx_borrow(&b.device, &frames[i]));
        }
        assert_int_equal(b.pool.rx_out_count, NETDEV_RX_BORROWED_MAX);
        for (uint32_t i = 0; i < NETDEV_RX_BORROWED_MAX; i++)
            b.device.ops->rx_release(&b.device, &frames[(i * 29 + 7) % NETDEV_RX_BORROWED_MAX]);
        assert_int_equal(b.pool.rx_out_count, 0);
    }
}

TEST(misuse_is_caught)
{
    struct frame frame;
    send_number(&a.device, 1);
    netdev_memory_exchange(&a, &b);
    assert_true(b.device.ops->rx_borrow(&b.device, &frame));
    b.device.ops->rx_release(&b.device, &frame);
    expect_assert_failure(b.device.ops->rx_release(&b.device, &frame)); /* twice */

    struct tx_buffer *buffer = a.device.ops->tx_acquire(&a.device);
    expect_assert_failure(a.device.ops->tx_publish(&a.device, buffer, 13, 0, 0));
    expect_assert_failure(a.device.ops->tx_publish(&a.device, buffer, 1515, 0, 0));
    expect_assert_failure(a.device.ops->tx_publish(&a.device, buffer, 60, 34, 16)); /* no offload here */
    a.device.ops->tx_release(&a.device, buffer);
    expect_assert_failure(a.device.ops->tx_publish(&a.device, buffer, 60, 0, 0)); /* nobody holds the buffer */
}

TEST(full_ring_is_reported)
{
    struct tx_buffer *buffer = a.device.ops->tx_acquire(&a.device);
    a.sent_max = 0;
    assert_false(a.device.ops->tx_publish(&a.device, buffer, 60, 0, 0));
    assert_int_equal(buffer->holders, TX_HELD_BY_STACK);
    a.device.ops->tx_release(&a.device, buffer);
}

/* ---- Faults ---- */

static void run_numbers(uint64_t seed, struct faults faults, uint32_t count, uint32_t *seen, uint32_t *seen_count,
                        uint32_t *swaps)
{
    uint32_t number, last = 0;
    *seen_count = *swaps = 0;
    netdev_memory_init(&a, mac, false);
    netdev_memory_init(&b, mac, false);
    netdev_faults_init(&faulty, &b.device, faults, seed);
    memset(seen, 0, count * sizeof *seen);
    for (uint32_t i = 0; i < count; i++) {
        send_number(&a.device, i);
        netdev_memory_exchange(&a, &b);
        if (i % 3 != 0 && i + 1 < count)
            continue; /* a few at a time, so that one can overtake another */
        while (receive_number(&faulty.device, &number)) {
            if (number >= count)
                continue; /* corrupted */
            seen[number]++;
            *swaps += number < last;
            last = number;
            (*seen_count)++;
        }
    }
    assert_int_equal(faulty.pool.rx_out_count, 0);
    assert_int_equal(b.pool.rx_out_count, 0);
}

TEST(faults_of_zero_change_nothing)
{
    uint32_t seen[500], count, swaps;
    run_numbers(1, (struct faults){ 0 }, 500, seen, &count, &swaps);
    assert_int_equal(count, 500);
    assert_int_equal(swaps, 0);
}

TEST(faults_happen_about_as_often_as_configured)
{
    static uint32_t seen[10000];
    uint32_t count, swaps;
    run_numbers(7, (struct faults){ .lose = 1000 }, 10000, seen, &count, &swaps);
    assert_in_range(faulty.counters.lost, 900, 1100);
    assert_int_equal(count, 10000 - faulty.counters.lost);
    run_numbers(7, (struct faults){ .duplicate = 1000 }, 10000, seen, &count, &swaps);
    assert_in_range(faulty.counters.duplicated, 900, 1100);
    assert_int_equal(count, 10000 + faulty.counters.duplicated);
    run_numbers(7, (struct faults){ .swap = 1000 }, 10000, seen, &count, &swaps);
    assert_in_range(faulty.counters.swapped, 800, 1100);
    assert_int_equal(count, 10000);
    assert_in_range(swaps, 400, 1100);
    run_numbers(7, (struct faults){ .corrupt = 10000 }, 100, seen, &count, &swaps);
    assert_int_equal(faulty.counters.corrupted, 100);
}

TEST(same_seed_same_faults)
{
    static uint32_t first[2000], second[2000];
    uint32_t count, swaps, again, swaps_again;
    const struct faults faults = { .lose = 500, .duplicate = 500, .swap = 500 };
    run_numbers(3, faults, 2000, first, &count, &swaps);
    run_numbers(3, faults, 2000, second, &again, &swaps_again);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(count, again);
    assert_int_equal(swaps, swaps_again);
    run_numbers(4, faults, 2000, second, &again, &swaps_again);
    assert_memory_not_equal(first, second, sizeof first);
}

TEST(sent_frames_are_lost_too)
{
    uint32_t number, got = 0;
    netdev_faults_init(&faulty, &a.device, (struct faults){ .lose = 2500, .swap = 1000 }, 9);
    for (uint32_t i = 0; i < 4000; i++) {
        send_number(&faulty.device, i);
        faulty.device.ops->poll(&faulty.device);
        netdev_memory_exchange(&a, &b);
        while (receive_number(&b.device, &number))
            got++;
    }
    assert_in_range(got, 2850, 3150);
    assert_int_equal(got, 4000 - faulty.counters.lost);
}

/* ---- Capture ---- */

static uint64_t fixed_clock(void) { return UINT64_C(5000000123); }

TEST(capture_file_has_both_directions)
{
    char *text = NULL;
    size_t bytes = 0;
    uint32_t number;
    FILE *file = open_memstream(&text, &bytes);
    struct netdev_pcap pcap;
    netdev_pcap_init(&pcap, &b.device, file, fixed_clock);
    send_number(&a.device, 77);
    netdev_memory_exchange(&a, &b);
    assert_true(receive_number(&pcap.device, &number));
    assert_int_equal(number, 77);
    send_number(&pcap.device, 78);
    fclose(file);
    const uint32_t header[6] = { 0xa1b23c4d, 0x00040002, 0, 0, 1514, 1 }, record[4] = { 5, 123, 60, 60 };
    assert_int_equal(bytes, 24 + 2 * (16 + 60));
    assert_memory_equal(text, header, sizeof header);
    assert_memory_equal(text + 24, record, sizeof record);
    assert_int_equal(text[24 + 16 + 14], 77);
    assert_memory_equal(text + 24 + 76, record, sizeof record);
    assert_int_equal(text[24 + 76 + 16 + 14], 78);
    free(text);
}
