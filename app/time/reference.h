/* The system variables of RFC 5905 §11: how far this clock is from a primary one, as each reply says. */
#pragma once

#include <stdint.h>

#include "app/time/packet.h"

struct ntp_reference {
    uint8_t leap, stratum; /* NTP_STRATUM_UNSYNCHRONISED: the values below mean nothing yet */
    uint32_t id;
    uint64_t root_delay_ns;
    uint64_t root_dispersion_ns; /* at updated_ns; grows by PHI from then on */
    uint64_t updated_ns;         /* the machine's clock when ours was last set */
    uint64_t stamp;              /* ours then */
};

/* Returns a clock that nobody has set yet. */
struct ntp_reference ntp_reference_none(void);

/* Returns the dispersion at `now_ns`. */
uint64_t ntp_reference_dispersion_ns(const struct ntp_reference *reference, uint64_t now_ns);

/* Fills in a packet's fields: leap, stratum, root delay, root dispersion, reference identifier and stamp. A clock that
 * has no stratum, or whose dispersion has grown to 16 s, is unsynchronised. The packet then has leap 3, stratum 0 and
 * the code INIT: RFC 5905 figures 9 and 11, §7.3. */
void ntp_reference_fill(const struct ntp_reference *reference, struct ntp_packet *packet, uint64_t now_ns);
