#include "app/settings_keys.h"

#include <assert.h>
#include <string.h>

#include "kernel/base/bytes.h"

static const struct settings_refusal ACCEPTED = { NULL, { NULL, 0 } };
static struct settings_refusal refuse(const char *reason)
{
    return (struct settings_refusal){ reason, { NULL, 0 } };
}

/* An address one can talk to: not 0/8, not loopback on the wire (the Linux player may), not multicast or above. */
static bool address_is_unicast(uint32_t address) { return address >> 24 != 0 && address >> 28 < 0xe; }

static bool parse_endpoint(struct span s, struct settings_endpoint *endpoint)
{
    struct span address, port;
    uint64_t number;
    if (!span_split(&s, ':', &address) || !span_split(&s, ':', &port) || s.at)
        return false;
    if (!span_address(address, &endpoint->address) || !address_is_unicast(endpoint->address))
        return false;
    if (!span_number(port, 1, UINT16_MAX, &number))
        return false;
    endpoint->port = (uint16_t)number;
    return true;
}

/* The setters, one per key. */

static struct settings_refusal set_feed(struct settings *s, struct span value)
{
    struct span part;
    while (span_split(&value, ',', &part)) {
        if (s->feed_count == SETTINGS_FEED_COUNT_MAX)
            return refuse("at most 8 feeds");
        if (!parse_endpoint(part, &s->feeds[s->feed_count]))
            return (struct settings_refusal){ "expected IP:PORT, or several with commas (no host names)", part };
        s->feed_count++;
    }
    return ACCEPTED;
}

static struct settings_refusal set_feeds(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 1, SETTINGS_FEED_COUNT_MAX, &v))
        return refuse("expected the number of input connections, 1 to 8");
    s->feeds_wanted = (uint32_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_submit(struct settings *s, struct span value)
{
    return parse_endpoint(value, &s->submit) ? ACCEPTED : refuse("expected IP:PORT (no host names)");
}

static struct settings_refusal copy_name(char *out, struct span value, const char *reason)
{
    if (value.bytes > SETTINGS_USER_BYTES_MAX)
        return refuse(reason);
    memcpy(out, value.at, value.bytes);
    out[value.bytes] = '\0';
    return ACCEPTED;
}

static struct settings_refusal set_user(struct settings *s, struct span value)
{
    static const char reason[] = "expected a name of 1 to 47 bytes";
    return value.bytes ? copy_name(s->user, value, reason) : refuse(reason);
}

static struct settings_refusal set_passwd(struct settings *s, struct span value)
{
    return copy_name(s->passwd, value, "expected at most 47 bytes");
}

static struct settings_refusal set_n(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 1, MATCHER_N_DIGITS_MAX, &v))
        return refuse("expected the longest answer in digits, 1 to 1024");
    s->n_digits_max = (uint32_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_m(struct settings *s, struct span value)
{
    static const char most[] = "13407807929942597099574024998205846127479365820592393377723561443721764030073546976801"
                               "874298166903427690031858186486050853753882811946569946433649006084095";  /* 2^512 - 1 */
    static_assert(sizeof most - 1 == MATCHER_CONSTANT_DIGITS_MAX, "2^512 - 1 has 155 digits");
    struct span part;
    while (span_split(&value, ',', &part)) {
        for (size_t i = 0; i < part.bytes; i++)
            if (!span_digit_is(part.at[i]))
                return (struct settings_refusal){ "expected decimal numbers with commas between them", part };
        if (part.bytes == 0)
            return refuse("an empty number in the list");
        if (part.at[0] == '0')
            return (struct settings_refusal){ "a constant is at least 1 and has no leading zero", part };
        if (part.bytes > MATCHER_CONSTANT_DIGITS_MAX
            || (part.bytes == MATCHER_CONSTANT_DIGITS_MAX && memcmp(part.at, most, part.bytes) > 0))
            return (struct settings_refusal){ "a constant has at most 512 bits", part };
        if (s->constant_count == MATCHER_CONSTANT_COUNT_MAX)
            return refuse("at most 8 constants");
        char *constant = s->constants[s->constant_count++];
        memcpy(constant, part.at, part.bytes);
        constant[part.bytes] = '\0';
    }
    return ACCEPTED;
}

static struct settings_refusal set_simd(struct settings *s, struct span value)
{
    if (span_is(value, "auto"))
        s->simd = MATCHER_SIMD_AUTO;
    else if (span_is(value, "scalar"))
        s->simd = MATCHER_SIMD_SCALAR;
    else if (span_is(value, "avx2"))
        s->simd = MATCHER_SIMD_AVX2;
    else if (span_is(value, "avx512"))
        s->simd = MATCHER_SIMD_AVX512;
    else
        return refuse("expected auto, scalar, avx2 or avx512");
    return ACCEPTED;
}

static struct settings_refusal set_early(struct settings *s, struct span value)
{
    if (!span_is(value, "on") && !span_is(value, "off"))
        return refuse("expected on or off");
    s->early = span_is(value, "on");
    return ACCEPTED;
}

static struct settings_refusal set_early_risk(struct settings *s, struct span value)
{
    return span_chance(value, &s->early_risk) ? ACCEPTED : refuse("expected a chance, 1e-30 to 0.1");
}

static struct settings_refusal set_ip(struct settings *s, struct span value)
{
    static const char reason[] = "expected dhcp or ADDRESS/LENGTH, like 10.0.2.15/24";
    struct span address, length;
    uint64_t bits;
    if (span_is(value, "dhcp"))
        return ACCEPTED;
    if (!span_split(&value, '/', &address) || !span_split(&value, '/', &length) || value.at)
        return refuse(reason);
    if (!span_address(address, &s->address) || !address_is_unicast(s->address) || !span_number(length, 1, 32, &bits))
        return refuse(reason);
    s->mask = UINT32_MAX << (32 - bits);
    uint32_t host = s->address & ~s->mask;
    if (bits < 31 && (host == 0 || host == ~s->mask))           /* RFC 1122 §3.2.1.3; RFC 3021 has /31 */
        return refuse("the subnet's own address and its broadcast address are no machine's");
    return ACCEPTED;
}

static struct settings_refusal set_gw(struct settings *s, struct span value)
{
    if (!span_address(value, &s->gateway) || !address_is_unicast(s->gateway))
        return refuse("expected the gateway's address, like 10.0.2.2");
    return ACCEPTED;
}

static struct settings_refusal set_gwmac(struct settings *s, struct span value)
{
    static const char reason[] = "expected the gateway's hardware address, like 52:55:0a:00:02:02";
    struct span part;
    unsigned i = 0;
    for (; span_split(&value, ':', &part); i++) {
        if (i == NETDEV_MAC_BYTES || part.bytes != 2 || span_hex_digit(part.at[0]) < 0
            || span_hex_digit(part.at[1]) < 0)
            return refuse(reason);
        s->gateway_mac[i] = (uint8_t)(span_hex_digit(part.at[0]) << 4 | span_hex_digit(part.at[1]));
    }
    if (i != NETDEV_MAC_BYTES || s->gateway_mac[0] & 1)     /* a group address is nobody's own: IEEE 802 §8.2 */
        return refuse(reason);
    for (i = 0; i < NETDEV_MAC_BYTES && s->gateway_mac[i] == 0; i++)
        ;
    return i < NETDEV_MAC_BYTES ? ACCEPTED : refuse(reason);
}

static struct settings_refusal set_mtu(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 576, 1500, &v))        /* RFC 791 §3.1: every host takes 576 */
        return refuse("expected bytes, 576 to 1500");
    s->mtu_bytes = (uint16_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_rto_min(struct settings *s, struct span value)
{
    uint64_t ns;
    if (!span_duration(value, &ns) || ns < 1000000 || ns > UINT64_C(60) * 1000000000)
        return refuse("expected a time, 1ms to 60s");
    s->rto_min_us = (uint32_t)(ns / 1000);
    return ACCEPTED;
}

static struct settings_refusal set_duration(uint64_t *ns, struct span value)
{
    return span_duration(value, ns) ? ACCEPTED : refuse("expected a time, like 30 (seconds), 0.5 or 200ms; 0 is never");
}

static struct settings_refusal set_net_timeout(struct settings *s, struct span value)
{
    return set_duration(&s->net_timeout_ns, value);
}

static struct settings_refusal set_server_timeout(struct settings *s, struct span value)
{
    return set_duration(&s->server_timeout_ns, value);
}

static struct settings_refusal set_feed_timeout(struct settings *s, struct span value)
{
    return set_duration(&s->feed_timeout_ns, value);
}

static struct settings_refusal set_deadline(struct settings *s, struct span value)
{
    return set_duration(&s->deadline_ns, value);
}

static struct settings_refusal set_idle_timeout(struct settings *s, struct span value)
{
    return set_duration(&s->idle_timeout_ns, value);
}

static struct settings_refusal set_breaker_linger(struct settings *s, struct span value)
{
    return set_duration(&s->breaker_linger_ns, value);
}

static struct settings_refusal set_breaker(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 0, 1000000, &v))
        return refuse("expected a number of results, up to 1000000; 0 is never");
    s->breaker_count = (uint32_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_breaker_window(struct settings *s, struct span value)
{
    if (!span_duration(value, &s->breaker_window_ns) || s->breaker_window_ns < 1000000)
        return refuse("expected a time of at least 1ms, like 60 (seconds)");
    return ACCEPTED;
}

/* The bytes as they stand, or 0x and hexadecimal. tools/peregrine_control.py reads its --key alike. */
static struct settings_refusal set_key(struct settings *s, struct span value)
{
    static const char reason[] = "expected 8 to 64 bytes, as text or as 0x and hexadecimal digits";
    bool hex = value.bytes >= 2 && value.at[0] == '0' && value.at[1] == 'x';
    s->key_bytes = hex ? (value.bytes - 2) / 2 : value.bytes;
    if (s->key_bytes < SETTINGS_KEY_BYTES_MIN || s->key_bytes > SETTINGS_KEY_BYTES_MAX || (hex && value.bytes % 2))
        return refuse(reason);
    for (size_t i = 0; i < s->key_bytes; i++) {
        if (!hex) {
            s->key[i] = (uint8_t)value.at[i];
            continue;
        }
        int high = span_hex_digit(value.at[2 + 2 * i]), low = span_hex_digit(value.at[3 + 2 * i]);
        if (high < 0 || low < 0)
            return refuse(reason);
        s->key[i] = (uint8_t)(high << 4 | low);
    }
    return ACCEPTED;
}

static struct settings_refusal set_control_port(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 1, UINT16_MAX, &v))
        return refuse("expected a UDP port, 1 to 65535");
    s->control_port = (uint16_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_http_port(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 0, UINT16_MAX, &v))
        return refuse("expected a TCP port, 1 to 65535, or 0 for none");
    s->http_port = (uint16_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_wait(struct settings *s, struct span value)
{
    if (!span_is(value, "spin") && !span_is(value, "sleep"))
        return refuse("expected spin or sleep");
    s->wait = span_is(value, "spin") ? SETTINGS_WAIT_SPIN : SETTINGS_WAIT_SLEEP;
    return ACCEPTED;
}

static struct settings_refusal set_cpus(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 1, 2, &v))
        return refuse("expected 1 or 2");
    s->cpus = (uint32_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_log(struct settings *s, struct span value)
{
    return parse_endpoint(value, &s->log) ? ACCEPTED : refuse("expected IP:PORT (no host names)");
}

static struct settings_refusal set_tsc_khz(struct settings *s, struct span value)
{
    uint64_t v;
    if (!span_number(value, 100000, 10000000, &v))      /* 100 MHz to 10 GHz: no x86-64 lies outside */
        return refuse("expected the TSC's frequency in kHz, 100000 to 10000000");
    s->tsc_khz = (uint32_t)v;
    return ACCEPTED;
}

static struct settings_refusal set_watchdog(struct settings *s, struct span value)
{
    static const char reason[] = "expected a time, 1 to 3600 (seconds), or 0 for none";
    if (!span_duration(value, &s->watchdog_ns))
        return refuse(reason);
    bool fits = s->watchdog_ns >= 1000000000 && s->watchdog_ns <= UINT64_C(3600) * 1000000000;
    return s->watchdog_ns == 0 || fits ? ACCEPTED : refuse(reason);
}

static bool parse_page_address(struct span s, uint64_t *address)
{
    if (s.bytes < 3 || s.bytes > 15 || s.at[0] != '0' || s.at[1] != 'x')    /* 52 bits: SDM vol. 3, MAXPHYADDR */
        return false;
    *address = 0;
    for (size_t i = 2; i < s.bytes; i++) {
        if (span_hex_digit(s.at[i]) < 0)
            return false;
        *address = *address << 4 | (uint64_t)span_hex_digit(s.at[i]);
    }
    return *address != 0 && *address % SETTINGS_BLACKBOX_PAGE_BYTES == 0;
}

static struct settings_refusal set_blackbox(struct settings *s, struct span value)
{
    static const char reason[] = "expected 0xADDRESS,BYTES, at most 4 such pairs; whole pages, at most 1 MiB each";
    struct span address, bytes;
    while (span_split(&value, ',', &address)) {
        uint64_t number;
        struct settings_region *region = &s->blackbox[s->blackbox_count];
        if (s->blackbox_count == SETTINGS_BLACKBOX_COUNT_MAX || !span_split(&value, ',', &bytes)
            || !parse_page_address(address, &region->address)
            || !span_number(bytes, SETTINGS_BLACKBOX_PAGE_BYTES, SETTINGS_BLACKBOX_BYTES_MAX, &number)
            || number % SETTINGS_BLACKBOX_PAGE_BYTES != 0)
            return refuse(reason);
        region->bytes = (uint32_t)number;
        s->blackbox_count++;
    }
    return ACCEPTED;
}

static struct settings_refusal set_test_trap(struct settings *s, struct span value)
{
    if (value.bytes == 0 || value.bytes > SETTINGS_WORD_BYTES_MAX)
        return refuse("expected the name of a trap");
    memcpy(s->test_trap, value.at, value.bytes);
    s->test_trap[value.bytes] = '\0';
    return ACCEPTED;
}

static struct settings_refusal set_test_after(struct settings *s, struct span value)
{
    return set_duration(&s->test_after_ns, value);
}

static struct settings_refusal set_test_rungs(struct settings *s, struct span value)
{
    static const char *const names[] = { "acpi", "cf9", "8042", "triple" };     /* kernel/reset.h, enum reset_rung */
    struct span part;
    s->test_rungs = 0;
    if (span_is(value, "none"))
        return ACCEPTED;
    while (span_split(&value, ',', &part)) {
        size_t i = 0;
        while (i < ARRAY_COUNT(names) && !span_is(part, names[i]))
            i++;
        if (i == ARRAY_COUNT(names))
            return (struct settings_refusal){ "expected some of acpi,cf9,8042,triple, or none", part };
        s->test_rungs |= (uint32_t)BIT(i);
    }
    return ACCEPTED;
}

const struct settings_key settings_keys[] = {
    { "feed", set_feed, true, false },
    { "feeds", set_feeds, false, false },
    { "submit", set_submit, true, false },
    { "user", set_user, true, false },
    { "passwd", set_passwd, true, true },
    { "n", set_n, true, false },
    { "m", set_m, true, false },
    { "simd", set_simd, false, false },
    { "early", set_early, false, false },
    { "early.risk", set_early_risk, false, false },
    { "ip", set_ip, false, false },
    { "gw", set_gw, false, false },
    { "gwmac", set_gwmac, false, false },
    { "mtu", set_mtu, false, false },
    { "rto.min", set_rto_min, false, false },
    { "net.timeout", set_net_timeout, false, false },
    { "server.timeout", set_server_timeout, false, false },
    { "feed.timeout", set_feed_timeout, false, false },
    { "deadline", set_deadline, false, false },
    { "idle.timeout", set_idle_timeout, false, false },
    { "breaker", set_breaker, false, false },
    { "breaker.window", set_breaker_window, false, false },
    { "breaker.linger", set_breaker_linger, false, false },
    { "key", set_key, false, true },
    { "control.port", set_control_port, false, false },
    { "http.port", set_http_port, false, false },
    { "wait", set_wait, false, false },
    { "cpus", set_cpus, false, false },
    { "log", set_log, false, false },
    { "watchdog", set_watchdog, false, false },
    { "tsc.khz", set_tsc_khz, false, false },
    { "blackbox", set_blackbox, false, false },
    { "test.trap", set_test_trap, false, false },
    { "test.after", set_test_after, false, false },
    { "test.rungs", set_test_rungs, false, false },
};
const size_t settings_key_count = ARRAY_COUNT(settings_keys);
static_assert(ARRAY_COUNT(settings_keys) <= 64, "keys_seen has a bit for each");
