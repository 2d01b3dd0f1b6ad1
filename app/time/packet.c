#include "app/time/packet.h"

#include <assert.h>

#include "base/assert.h"
#include "base/bytes.h"

/* RFC 5905 figure 8. */
struct ntp_wire {
    uint8_t leap_version_mode, stratum;
    int8_t poll, precision;
    uint8_t root_delay[4], root_dispersion[4], reference_id[4];
    uint8_t reference[8], origin[8], receive[8], transmit[8];
};
static_assert(sizeof(struct ntp_wire) == NTP_PACKET_BYTES, "RFC 5905 figure 8");

enum {
    SECONDS_1900_TO_1970_HIGH = 2208988800 >> 8, /* an enumerator is an int */
    SECONDS_1900_TO_1970_LOW = 2208988800 & 0xff,
};
#define SECONDS_1900_TO_1970 ((int64_t)SECONDS_1900_TO_1970_HIGH << 8 | SECONDS_1900_TO_1970_LOW)

/* Converts NTP's short format, 16.16 bits of seconds (RFC 5905 §6). */
static uint64_t short_ns(const uint8_t wire[4]) { return (load_be32(wire) * NS_PER_S + (1 << 15)) >> 16; }

static void short_write(uint8_t wire[4], uint64_t ns)
{
    const uint64_t ns_max = 65535 * NS_PER_S;
    uint64_t value = ((ns < ns_max ? ns : ns_max) * 65536 + NS_PER_S - 1) / NS_PER_S;
    ASSERT(value <= UINT32_MAX);
    store_be32(wire, (uint32_t)value);
}

void ntp_packet_read(struct ntp_packet *packet, const uint8_t wire[NTP_PACKET_BYTES])
{
    const struct ntp_wire *from = (const struct ntp_wire *)wire;
    *packet = (struct ntp_packet){
        .leap = from->leap_version_mode >> 6,
        .version = from->leap_version_mode >> 3 & 7,
        .mode = from->leap_version_mode & 7,
        .stratum = from->stratum,
        .poll = from->poll,
        .precision = from->precision,
        .root_delay_ns = short_ns(from->root_delay),
        .root_dispersion_ns = short_ns(from->root_dispersion),
        .reference_id = load_be32(from->reference_id),
        .reference = load_be64(from->reference),
        .origin = load_be64(from->origin),
        .receive = load_be64(from->receive),
        .transmit = load_be64(from->transmit),
    };
}

void ntp_packet_write(const struct ntp_packet *packet, uint8_t wire[NTP_PACKET_BYTES])
{
    struct ntp_wire *to = (struct ntp_wire *)wire;
    ASSERT(packet->leap <= 3 && packet->version <= 7 && packet->mode <= 7);
    to->leap_version_mode = (uint8_t)(packet->leap << 6 | packet->version << 3 | packet->mode);
    to->stratum = packet->stratum;
    to->poll = packet->poll;
    to->precision = packet->precision;
    short_write(to->root_delay, packet->root_delay_ns);
    short_write(to->root_dispersion, packet->root_dispersion_ns);
    store_be32(to->reference_id, packet->reference_id);
    store_be64(to->reference, packet->reference);
    store_be64(to->origin, packet->origin);
    store_be64(to->receive, packet->receive);
    store_be64(to->transmit, packet->transmit);
}

void ntp_packet_set_transmit(uint8_t wire[NTP_PACKET_BYTES], uint64_t transmit)
{
    store_be64(wire + offsetof(struct ntp_wire, transmit), transmit);
}

uint64_t ntp_stamp(int64_t ns)
{
    const int64_t ns_per_s = (int64_t)NS_PER_S;
    int64_t seconds = ns / ns_per_s, rest = ns % ns_per_s;
    if (rest < 0) {
        seconds--;
        rest += ns_per_s;
    }
    uint64_t fraction = ((uint64_t)rest << 32) / NS_PER_S;
    return (uint64_t)(seconds + SECONDS_1900_TO_1970) << 32 | fraction;
}

int64_t ntp_stamp_ns(uint64_t stamp)
{
    int64_t seconds = (int64_t)(stamp >> 32);
    if (seconds < INT64_C(1) << 31)
        seconds += INT64_C(1) << 32;
    uint64_t rest = ((stamp & UINT32_MAX) * NS_PER_S + (UINT64_C(1) << 31)) >> 32;
    return (seconds - SECONDS_1900_TO_1970) * (int64_t)NS_PER_S + (int64_t)rest;
}
