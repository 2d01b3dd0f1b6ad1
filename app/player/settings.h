/* The player's settings: the servers, the problem, and when to stop. docs/settings.md lists the keys. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "app/matcher/matcher.h"
#include "base/settings.h"

enum {
    PLAYER_INPUT_COUNT_MAX = ENDPOINT_COUNT_MAX,
    /* A POST's head is at most 376 bytes (net/transport.h), 91 of them fixed text, address and length. Each byte of the
     * name and the password may take three when percent-encoded: 47 * 3 * 2 = 282. */
    PLAYER_USER_BYTES_MAX = 47,
};

struct player_settings {
    struct endpoints inputs; /* one for each connection: feed= repeated to feeds= */
    uint32_t inputs_wanted;  /* feeds=; 0: one for each address */
    struct endpoint submit;
    char user[PLAYER_USER_BYTES_MAX + 1];
    char passwd[PLAYER_USER_BYTES_MAX + 1];
    uint32_t n_digits_max;
    uint32_t modulus_count;
    char moduli[MATCHER_MODULUS_COUNT_MAX][MATCHER_MODULUS_DIGITS_MAX + 1];
    enum matcher_simd simd;
    bool early;
    uint64_t early_risk; /* units of 2^-40 */

    /* Each 0: never. Without digits, or with every answer failed, the game ends after server_timeout_ns. With every
     * answer failed, the submit server counts as lost after submit_timeout_ns. An input connection is made again after
     * input_timeout_ns without digits. The breaker opens at breaker_count refused results in a window, and the game
     * ends breaker_linger_ns later. */
    uint64_t server_timeout_ns;
    uint64_t submit_timeout_ns;
    uint64_t input_timeout_ns;
    uint64_t breaker_linger_ns;
    uint32_t breaker_count;

    uint64_t breaker_window_ns;
};

extern struct player_settings player_settings;
extern const struct settings_table player_settings_table;

/* Fills in the configuration of the matcher; the moduli are borrowed. */
void player_settings_matcher(struct matcher_config *config);
