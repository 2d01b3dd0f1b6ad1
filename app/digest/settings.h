/* The program's settings. */
#pragma once

#include <stdint.h>

#include "base/settings.h"

enum digest_simd { DIGEST_SIMD_AUTO, DIGEST_SIMD_SCALAR };

struct digest_settings {
    uint16_t port;
    uint64_t rounds_max;
    uint64_t rounds_full; /* a second: free capacity of 100 % */
    uint64_t body_max;    /* 0: any */
    uint64_t client_timeout_ns;
    enum digest_simd simd;
};

extern struct digest_settings digest_settings;
extern const struct settings_table digest_settings_table;
