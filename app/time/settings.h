/* The settings of the time program; docs/settings.md has those of all programs, README.md beside this file these. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"

enum { TIME_REFERENCE_ID_BYTES_MAX = 4 };

struct time_settings {
    uint16_t port;
    uint8_t stratum;                                    /* the machine's own clock's; 0: unsynchronised */
    char reference_id[TIME_REFERENCE_ID_BYTES_MAX + 1]; /* at stratum 1 */
    uint64_t root_delay_ns, root_dispersion_ns;         /* the machine's own clock's */
    uint32_t rate, rate_burst;                          /* requests a second from one address; 0: no limit */
    bool refuse_private;
    uint32_t peer; /* 0: none, the machine's own clock is served */
    uint16_t peer_port;
    uint64_t peer_poll_ns;
};

extern struct time_settings time_settings;
extern const struct settings_table time_settings_table;
