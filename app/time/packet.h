/* The NTP packet: RFC 5905 §6 (formats of time) and §7.3 (header). Pure: bytes in, host order out, and back. */
#pragma once

#include <stdint.h>

#include "app/time/ntp_spec.h"

/* Stamps are NTP's 64 bits: seconds since 1900 modulo 2^32, and fractions of 2^-32 s. */
struct ntp_packet {
    uint8_t leap, version, mode, stratum;
    int8_t poll, precision; /* log2 of seconds */
    uint64_t root_delay_ns, root_dispersion_ns;
    uint32_t reference_id;
    uint64_t reference, origin, receive, transmit;
};

/* Reads a header. Accepts any bytes: each field has a meaning for each value. */
void ntp_packet_read(struct ntp_packet *packet, const uint8_t wire[NTP_PACKET_BYTES]);

/* Writes a header. Delay and dispersion are rounded up, and end at the field's 65535 s. */
void ntp_packet_write(const struct ntp_packet *packet, uint8_t wire[NTP_PACKET_BYTES]);

/* Writes the transmit stamp alone: the last field to be known. */
void ntp_packet_set_transmit(uint8_t wire[NTP_PACKET_BYTES], uint64_t transmit);

/* Converts nanoseconds since 1970 (negative: before) to a stamp. */
uint64_t ntp_stamp(int64_t ns);

/* Converts a stamp to nanoseconds since 1970. A stamp names its era by its first bit: from 1968 to 2036 it is set, then
 * to 2104 clear (RFC 4330 §3). */
int64_t ntp_stamp_ns(uint64_t stamp);
