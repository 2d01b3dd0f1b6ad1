#include "app/player/settings.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"

struct player_settings player_settings;

/* ---- values of no plain kind ---- */

static struct settings_refusal set_m(void *values, struct bytes value)
{
    static const char largest[] =
        "13407807929942597099574024998205846127479365820592393377723561443721764030073546976801"
        "874298166903427690031858186486050853753882811946569946433649006084095"; /* 2^512 - 1 */
    static_assert(sizeof largest - 1 == MATCHER_MODULUS_DIGITS_MAX, "2^512 - 1 has 155 digits");
    struct player_settings *s = values;
    struct bytes part;
    while (text_split(&value, ',', &part)) {
        for (size_t i = 0; i < part.count; i++)
            if (!text_digit_is(part.data[i]))
                return settings_refuse_part("expected decimal numbers with commas between them", part);
        if (part.count == 0)
            return settings_refuse("an empty number in the list");
        if (part.data[0] == '0')
            return settings_refuse_part("a modulus is at least 1 and has no leading zero", part);
        if (part.count > MATCHER_MODULUS_DIGITS_MAX
            || (part.count == MATCHER_MODULUS_DIGITS_MAX && memcmp(part.data, largest, part.count) > 0))
            return settings_refuse_part("a modulus has at most 512 bits", part);
        if (s->modulus_count == MATCHER_MODULUS_COUNT_MAX)
            return settings_refuse("at most 8 moduli");
        text_to_string(s->moduli[s->modulus_count++], part);
    }
    return settings_accept();
}

static struct settings_refusal set_early_risk(void *values, struct bytes value)
{
    struct player_settings *s = values;
    return text_chance(value, &s->early_risk) ? settings_accept() : settings_refuse(SETTINGS_EXPECTED);
}

/* ---- the table ---- */

/* In the order of enum matcher_simd. */
static const char *const simd_names[] = { "auto", "scalar", "avx2", "avx512", NULL };

#define AT(member) SETTING_AT(struct player_settings, member)
static const struct setting rows[] = {
    { "feed", SETTING_ENDPOINTS, AT(inputs), .required = true,
      .help = "the digits; several addresses serve copies of one stream" },
    { "feeds", SETTING_NUMBER, AT(inputs_wanted), .min = 1, .max = PLAYER_INPUT_COUNT_MAX, .unset = "one per address",
      .noun = "the number of input connections", .help = "spread over the addresses of `feed` in turn" },
    { "submit", SETTING_ENDPOINT, AT(submit), .required = true, .help = "where answers go" },
    { "user", SETTING_TEXT, AT(user), .min = 1, .max = PLAYER_USER_BYTES_MAX, .noun = "a name", .required = true,
      .help = "sent percent-encoded" },
    { "passwd", SETTING_TEXT, AT(passwd), .max = PLAYER_USER_BYTES_MAX, .noun = "a word", .required = true,
      .secret = true, .help = "sent percent-encoded; `passwd=` may be empty" },
    { "n", SETTING_NUMBER, AT(n_digits_max), .min = 1, .max = MATCHER_N_DIGITS_MAX, .required = true,
      .noun = "the longest answer in digits", .help = "the contest calls it N" },
    { "m", SETTING_CUSTOM, .set = set_m, .required = true, .noun = "up to 8 moduli with commas, each 1 to 2^512 - 1",
      .help = "an answer is a multiple of one of them" },
    { "simd", SETTING_CHOICE, AT(simd), .choices = simd_names, .initial = "auto",
      .help = "the instructions that the search uses; with `scalar` the whole machine uses general registers alone" },
    { "early", SETTING_SWITCH, AT(early), .initial = "on",
      .help = "submit an answer before its last digits have come, if they are nearly certain" },
    { "early.risk", SETTING_CUSTOM, .set = set_early_risk, .initial = "1e-5",
      .noun = "a chance, 1e-12 to 0.1, at most 7 digits", .help = "accepted chance of a wrong early answer a burst" },
    { "server.timeout", SETTING_TIME, AT(server_timeout_ns), .initial = "300", .zero = "never",
      .help = "give the machine back after so long without a digit, or when every answer has failed for so long "
              "(see `submit.timeout`)" },
    { "submit.timeout", SETTING_TIME, AT(submit_timeout_ns), .initial = "60", .zero = "never",
      .help = "call the submit server lost when every answer has failed for so long: it expired, found no room, or got "
              "no response; the log says so once, and `server.timeout` then counts from the first failure" },
    { "feed.timeout", SETTING_TIME, AT(input_timeout_ns), .initial = "10", .zero = "never",
      .help = "try a new connection after so long without a digit on one" },
    { "breaker", SETTING_NUMBER, AT(breaker_count), .min = 1, .max = 1000000, .initial = "200", .zero = "never",
      .noun = "a number of results",
      .help =
          "submit nothing more after so many results `wrong` or `dup` within `breaker.window`, if they are at least "
          "half of all" },
    { "breaker.window", SETTING_TIME, AT(breaker_window_ns), .min = NS_PER_MS, .initial = "60",
      .help = "see `breaker`" },
    { "breaker.linger", SETTING_TIME, AT(breaker_linger_ns), .initial = "60", .zero = "never",
      .help = "give the machine back so long after the breaker opened; until then the control channel tells why" },
};

/* Makes one endpoint for each connection: the addresses in turn. */
static const char *finish(void)
{
    struct endpoints *inputs = &player_settings.inputs;
    uint32_t given = inputs->count;
    if (player_settings.inputs_wanted && player_settings.inputs_wanted < given)
        return "feeds= is less than the number of addresses in feed=";
    for (; inputs->count < player_settings.inputs_wanted; inputs->count++)
        inputs->at[inputs->count] = inputs->at[inputs->count % given];
    return NULL;
}

const struct settings_table player_settings_table = {
    rows, ARRAY_COUNT(rows), &player_settings, sizeof player_settings, finish, NULL,
};

void player_settings_matcher(struct matcher_config *config)
{
    const struct player_settings *s = &player_settings;
    ASSERT(s->modulus_count >= 1 && s->modulus_count <= MATCHER_MODULUS_COUNT_MAX);
    *config = (struct matcher_config){
        .n_digits_max = s->n_digits_max,
        .modulus_count = s->modulus_count,
        .simd = s->simd,
        .early = s->early,
        .early_risk = s->early_risk,
    };
    for (uint32_t i = 0; i < s->modulus_count; i++)
        config->moduli[i] = s->moduli[i];
}
