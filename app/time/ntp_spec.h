/* Numbers of RFC 5905, with its names. Section and figure stand beside each group. */
#pragma once

#include "base/time.h"

enum {
    NTP_PORT = 123,
    NTP_PACKET_BYTES = 48, /* figure 8, without extension fields and MAC */

    /* §7.3, version: those that are answered. RFC 1059 and RFC 1119 are 1 and 2, RFC 1305 is 3. */
    NTP_VERSION = 4,
    NTP_VERSION_MIN = 1,

    /* figure 9, leap indicator */
    NTP_LEAP_NONE = 0,
    NTP_LEAP_UNKNOWN = 3, /* the clock is not synchronised */

    /* figure 10, association modes */
    NTP_MODE_RESERVED = 0,
    NTP_MODE_CLIENT = 3,
    NTP_MODE_SERVER = 4,

    /* figure 11, stratum; on the wire 0 means both a kiss-o'-death and 16 */
    NTP_STRATUM_PRIMARY = 1,
    NTP_STRATUM_UNSYNCHRONISED = 16,

    /* §7.2, figure 6 */
    NTP_PHI_PPM = 15,          /* the assumed drift of a clock */
    NTP_FREQUENCY_PPM = 500,   /* MAXFREQ: the fastest that a clock is slewed */
    NTP_POLL_MIN = 0,          /* log2 of seconds; MINPOLL is 4, for servers of others */
    NTP_POLL_MAX = 10,         /* as clients have it; MAXPOLL is 17 */
    NTP_FILTER_COUNT = 8,      /* NSTAGE: samples in the clock filter */
    NTP_FREQUENCY_AVERAGE = 4, /* AVG */
    NTP_BURST_COUNT = 8        /* BCOUNT: packets in a burst */
};

#define NTP_DISPERSION_MAX_NS (16 * NS_PER_S)   /* MAXDISP */
#define NTP_STEP_NS           (128 * NS_PER_MS) /* STEPT: a larger offset is not slewed */
#define NTP_STEP_OUT_NS       (300 * NS_PER_S)  /* WATCH: if it lasts for so long, the clock is stepped */
#define NTP_BURST_NS          (2 * NS_PER_S)    /* BTIME: between the first requests */

/* §7.4, figure 13: kiss codes, and reference identifiers in ASCII */
#define NTP_CODE(a, b, c, d)  ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#define NTP_KISS_DENY         NTP_CODE('D', 'E', 'N', 'Y')
#define NTP_KISS_INIT         NTP_CODE('I', 'N', 'I', 'T')
#define NTP_KISS_RATE         NTP_CODE('R', 'A', 'T', 'E')
#define NTP_KISS_RESTRICT     NTP_CODE('R', 'S', 'T', 'R')
