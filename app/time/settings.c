#include "app/time/settings.h"

#include "app/time/ntp_spec.h"
#include "base/bytes.h"

struct time_settings time_settings;

#define AT(member) SETTING_AT(struct time_settings, member)
static const struct setting rows[] = {
    { "port", SETTING_NUMBER, AT(port), .min = 1, .max = UINT16_MAX, .initial = "123", .noun = "a UDP port",
      .help = "where the server answers" },
    { "stratum", SETTING_NUMBER, AT(stratum), .min = 1, .max = 15, .initial = "10", .zero = "unsynchronised",
      .noun = "a stratum", .help = "how good the machine's own clock is; with `peer` the peer's stratum decides" },
    { "refid", SETTING_TEXT, AT(reference_id), .min = 1, .max = TIME_REFERENCE_ID_BYTES_MAX, .initial = "LOCL",
      .noun = "text", .help = "the reference identifier at stratum 1; above it is 127.127.1.1, or the peer's address" },
    { "root.delay", SETTING_TIME, AT(root_delay_ns), .max = 16 * NS_PER_S, .initial = "0", .zero = "none",
      .help = "from the machine's own clock to its reference" },
    { "root.dispersion", SETTING_TIME, AT(root_dispersion_ns), .max = 16 * NS_PER_S, .initial = "0", .zero = "none",
      .help = "bound on the error of the machine's own clock, beside what the clock says itself" },
    { "rate", SETTING_NUMBER, AT(rate), .min = 1, .max = 1000000, .initial = "16", .zero = "no limit",
      .noun = "a number", .help = "requests a second that one address may ask for on the average" },
    { "rate.burst", SETTING_NUMBER, AT(rate_burst), .min = 1, .max = 1000, .initial = "32", .noun = "a number",
      .help = "requests that one address may ask for at once" },
    { "refuse.private", SETTING_SWITCH, AT(refuse_private), .initial = "off",
      .help = "answer no source in a private, shared, link-local or loopback range" },
    { "peer", SETTING_ADDRESS, AT(peer), .unset = "none", .noun = "a server's address, like 192.0.2.1",
      .help = "the NTP server that this machine's clock follows" },
    { "peer.port", SETTING_NUMBER, AT(peer_port), .min = 1, .max = UINT16_MAX, .initial = "123", .noun = "a UDP port",
      .help = "the peer's" },
    { "peer.poll", SETTING_TIME, AT(peer_poll_ns), .min = NS_PER_S, .max = 1024 * NS_PER_S, .initial = "64",
      .help = "between two questions to the peer, after a burst of eight" },
};

static const char *finish(void)
{
    const struct time_settings *s = &time_settings;
    return s->peer == 0 && s->peer_port != NTP_PORT ? "peer.port= goes with peer=" : NULL;
}

const struct settings_table time_settings_table = {
    rows, ARRAY_COUNT(rows), &time_settings, sizeof time_settings, finish, NULL,
};
