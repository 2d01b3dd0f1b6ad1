#include "app/digest/settings.h"

#include "base/bytes.h"
#include "base/time.h"

struct digest_settings digest_settings;

static const char *const simd_choices[] = { "auto", "scalar", NULL };
static const struct setting rows[] = {
    { "port", SETTING_NUMBER, SETTING_AT(struct digest_settings, port), .min = 1, .max = UINT16_MAX, .initial = "8080",
      .noun = "a TCP port", .help = "of the HTTP service" },
    { "rounds.max", SETTING_NUMBER, SETTING_AT(struct digest_settings, rounds_max), .min = 1,
      .max = UINT64_C(1000000000000000), .initial = "100000000", .help = "the most rounds= of a request to /sha256" },
    { "rounds.full", SETTING_NUMBER, SETTING_AT(struct digest_settings, rounds_full), .min = 1000,
      .max = UINT64_C(1000000000000), .initial = "50000000", .noun = "rounds a second",
      .help = "the free capacity that `agent.port` calls 100 %: the same for all machines behind a balancer" },
    { "body.max", SETTING_NUMBER, SETTING_AT(struct digest_settings, body_max), .min = 1, .max = INT64_MAX,
      .initial = "0", .zero = "no limit", .noun = "a number of bytes", .help = "the longest body of a request" },
    { "client.timeout", SETTING_TIME, SETTING_AT(struct digest_settings, client_timeout_ns), .min = NS_PER_S,
      .max = 3600 * NS_PER_S, .initial = "10",
      .help =
          "a connection that moves no byte for so long is closed, or whose body brings less than 500 bytes a second" },
    { "simd", SETTING_CHOICE, SETTING_AT(struct digest_settings, simd), .choices = simd_choices, .initial = "auto",
      .help = "the variants: the fastest ones by timing at the start, or no vector instructions" },
};

const struct settings_table digest_settings_table = {
    rows, ARRAY_COUNT(rows), &digest_settings, sizeof digest_settings, NULL, NULL
};
