/* app/time/packet.c and reference.c against bytes written out by hand from RFC 5905 figure 8. */
#include "app/time/packet.h"
#include "app/time/reference.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define S INT64_C(1000000000)

static const uint8_t wire[NTP_PACKET_BYTES] = {
    0x64, 2,  6,    0xe9, /* leap 1, version 4, mode 4; stratum, poll, precision -23 */
    0,    0,  0x80, 0,    /* root delay 0.5 s */
    0,    1,  0x40, 0,    /* root dispersion 1.25 s */
    192,  0,  2,    1,    /* reference identifier */
    0xe9, 1,  2,    3,    0x80, 0,  0,  0,  1,  2,  3,  4,  5,  6,  7,  8,
    9,    10, 11,   12,   13,   14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
};

TEST(packet_is_read_field_by_field_and_written_so)
{
    struct ntp_packet p;
    uint8_t again[NTP_PACKET_BYTES];
    ntp_packet_read(&p, wire);
    assert_true(p.leap == 1 && p.version == 4 && p.mode == 4 && p.stratum == 2);
    assert_true(p.poll == 6 && p.precision == -23);
    assert_true(p.root_delay_ns == S / 2 && p.root_dispersion_ns == S * 5 / 4);
    assert_int_equal(p.reference_id, 0xc0000201);
    assert_true(p.reference == UINT64_C(0xe901020380000000) && p.origin == UINT64_C(0x0102030405060708));
    assert_true(p.receive == UINT64_C(0x090a0b0c0d0e0f10) && p.transmit == UINT64_C(0x1112131415161718));
    p.transmit = 0;
    ntp_packet_write(&p, again);
    ntp_packet_set_transmit(again, UINT64_C(0x1112131415161718));
    assert_memory_equal(again, wire, sizeof wire);
}

TEST(dispersion_is_rounded_up_and_ends_at_the_field)
{
    struct ntp_packet p = { .root_dispersion_ns = 1, .root_delay_ns = UINT64_MAX }, again;
    uint8_t bytes[NTP_PACKET_BYTES];
    ntp_packet_write(&p, bytes);
    ntp_packet_read(&again, bytes);
    assert_int_equal(again.root_dispersion_ns, 15259); /* 2^-16 s */
    assert_int_equal(again.root_delay_ns, 65535 * S);
}

TEST(stamp_of_1970_and_of_the_next_era)
{
    assert_true(ntp_stamp(0) == UINT64_C(2208988800) << 32);
    assert_true(ntp_stamp(-S / 2) == (UINT64_C(2208988799) << 32 | UINT64_C(1) << 31));
    assert_true(ntp_stamp(S / 2) == (UINT64_C(2208988800) << 32 | UINT64_C(1) << 31));
    int64_t era_1_ns = (INT64_C(4294967296) - 2208988800) * S; /* 2036-02-07 06:28:16 */
    assert_true(ntp_stamp(era_1_ns) == 0);
    assert_true(ntp_stamp_ns(0) == era_1_ns);
    assert_true(ntp_stamp_ns(UINT64_C(1) << 63) == (INT64_C(2147483648) - 2208988800) * S);
    assert_true(ntp_stamp_ns(ntp_stamp(era_1_ns - 1)) == era_1_ns - 1);
}

TEST(stamp_converts_back_to_the_same_nanosecond)
{
    random_state = 7;
    for (int i = 0; i < 100000; i++) {
        int64_t ns = (int64_t)random_below(UINT64_C(4200000000) * S); /* 1970 to 2103 */
        assert_true(ntp_stamp_ns(ntp_stamp(ns)) == ns);
    }
    assert_true(ntp_stamp_ns(ntp_stamp(S - 1)) == S - 1);
}

TEST(dispersion_grows_by_phi_until_the_clock_counts_as_unset)
{
    struct ntp_reference reference = {
        .stratum = 3, .id = 0xc0000201, .root_dispersion_ns = 1000, .updated_ns = 7 * (uint64_t)S
    };
    struct ntp_packet p = { 0 };
    ntp_reference_fill(&reference, &p, 107 * (uint64_t)S);
    assert_int_equal(p.stratum, 3);
    assert_int_equal(p.leap, NTP_LEAP_NONE);
    assert_int_equal(p.root_dispersion_ns, 1000 + 100 * 15000);
    assert_int_equal(p.reference_id, 0xc0000201);
    ntp_reference_fill(&reference, &p, 1100000 * (uint64_t)S);
    assert_int_equal(p.stratum, 0);
    assert_int_equal(p.leap, NTP_LEAP_UNKNOWN);
    assert_int_equal(p.reference_id, NTP_KISS_INIT); /* at stratum 0 an address would be read as a kiss code */
}
