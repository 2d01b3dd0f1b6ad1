/* net/ip/checksum.h against the plain reference: add 16-bit words, wrap the carry, complement. */
#define _GNU_SOURCE
#include "net/ip/checksum.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

BEFORE_ALL() { random_seed(20220217); }

static uint16_t reference(const uint8_t *data, size_t bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)~sum;
}

TEST(example_of_rfc_1071_section_3_is_met)
{
    const uint8_t data[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
    assert_int_equal(checksum_fold(checksum_sum(0, data, sizeof data)), 0xddf2);
    assert_int_equal(checksum_finish(checksum_sum(0, data, sizeof data)), 0x220d);
}

TEST(no_bytes_sum_to_zero) { assert_int_equal(checksum_finish(checksum_sum(0, NULL, 0)), 0xffff); }

TEST(every_length_and_alignment_equals_the_reference)
{
    uint8_t buffer[1600 + 64];
    for (size_t i = 0; i < sizeof buffer; i++)
        buffer[i] = (uint8_t)random_next();
    for (size_t bytes = 0; bytes <= 1600; bytes += bytes < 200 ? 1 : 1 + random_next() % 9)
        for (size_t offset = 0; offset < 33; offset++)
            assert_int_equal(checksum_finish(checksum_sum(0, buffer + offset, bytes)),
                             reference(buffer + offset, bytes));
}

/* Tests all ones, which make most carries, and all zeros, which distinguish the two zeros. */
TEST(extremes_equal_the_reference)
{
    static uint8_t buffer[65535];
    for (int value = 0; value <= 0xff; value += 0xff) {
        memset(buffer, value, sizeof buffer);
        for (size_t bytes = 0; bytes <= sizeof buffer; bytes += bytes < 70 ? 1 : 4999)
            assert_int_equal(checksum_finish(checksum_sum(0, buffer, bytes)), reference(buffer, bytes));
        assert_int_equal(checksum_finish(checksum_sum(0, buffer, sizeof buffer)), reference(buffer, sizeof buffer));
    }
}

TEST(parts_sum_as_the_whole)
{
    uint8_t buffer[600];
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof buffer; i++)
            buffer[i] = (uint8_t)random_next();
        size_t bytes = random_next() % sizeof buffer, done = 0;
        uint32_t sum = 0;
        while (done < bytes) {
            size_t part = min_size(bytes - done, 2 * (1 + random_next() % 40));
            sum = checksum_sum(sum, buffer + done, part);
            done += part;
        }
        assert_int_equal(checksum_finish(sum), reference(buffer, bytes));
    }
}

TEST(pseudo_header_equals_its_bytes)
{
    for (int round = 0; round < 2000; round++) {
        uint32_t source = (uint32_t)random_next(), destination = (uint32_t)random_next();
        uint8_t protocol = (uint8_t)random_next();
        uint16_t l4_bytes = (uint16_t)random_next();
        uint8_t header[12] = { 0 };
        store_be32(header, source);
        store_be32(header + 4, destination);
        header[9] = protocol;
        store_be16(header + 10, l4_bytes);
        assert_int_equal(checksum_finish(checksum_pseudo_ipv4(source, destination, protocol, l4_bytes)),
                         reference(header, sizeof header));
    }
}
