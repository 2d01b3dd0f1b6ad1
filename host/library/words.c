/* The words of pnet_open as a table of settings (base/settings.h). */
#include "host/library/words.h"

#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/settings.h"
#include "net/tcp/wire.h"

enum { SECRET_BYTES = sizeof(((struct pnet_words *)NULL)->config.secret) };

static struct settings_refusal set_wscale(void *member, struct bytes value)
{
    struct tcp_policy *policy = member;
    uint64_t shift = TCP_WINDOW_SCALE_AUTO;
    const bool is_off = text_is(value, "off");
    if (!is_off && !text_is(value, "auto") && !text_number(value, 0, TCP_WINDOW_SCALE_MAX, &shift))
        return settings_refuse(SETTINGS_EXPECTED);
    policy->window_scaling = !is_off;
    policy->window_scale = (uint8_t)shift;
    return settings_accept();
}

static struct settings_refusal set_secret(void *member, struct bytes value)
{
    uint8_t *secret = member;
    if (value.count < 1 || value.count > SECRET_BYTES)
        return settings_refuse(SETTINGS_EXPECTED);
    memset(secret, 0, SECRET_BYTES);
    memcpy(secret, value.data, value.count);
    return settings_accept();
}

static const char *const acks[] = { "quick", "delayed", "adaptive", NULL };
static const char *const congestions[] = { "cubic", "newreno", NULL };

/* The header of the library describes the keys. The last of several words with one key holds. */
#define ROW(key, member, of_kind, ...)                                                                                 \
    {                                                                                                                  \
        .name = key, .kind = of_kind, SETTING_AT(struct pnet_words, member), .repeats = true, .unset = "", .help = "", \
        __VA_ARGS__                                                                                                    \
    }
#define NUMBER(key, member, least, most) ROW(key, member, SETTING_NUMBER, .min = least, .max = most)
#define POLICY(key, member, least, most) NUMBER(key, config.policy.member, least, most)
#define SWITCH(key)                      ROW(#key, config.policy.key, SETTING_SWITCH, .min = 0)
#define CHOICE(key, names)               ROW(#key, config.policy.key, SETTING_CHOICE, .choices = names)

static const struct setting rows[] = {
    ROW("address", config.address, SETTING_ADDRESS, .required = true, .noun = "an IPv4 address"),
    NUMBER("prefix", prefix_bits, 1, 32),
    NUMBER("mtu", mtu_bytes, 576, 65535),
    CHOICE(ack, acks),
    POLICY("ack_delay_us", ack_delay_us, 0, 500000), /* RFC 9293 MUST-40 */
    POLICY("rto_initial_us", rto_initial_us, 1000, 60000000),
    POLICY("rto_min_us", rto_min_us, 1000, 60000000),
    POLICY("rto_max_us", rto_max_us, 1000, 3600000000),
    POLICY("initial_window", initial_window_segments, 1, 1000),
    POLICY("slow_start_ack_segments", slow_start_ack_segments, 0, 1000),
    CHOICE(congestion, congestions),
    POLICY("rcvbuf", receive_buffer_bytes, 1, 1 << 24),
    POLICY("sndbuf", send_buffer_bytes, 1, 1 << 24),
    ROW("wscale", config.policy, SETTING_CUSTOM, .set = set_wscale, .noun = "auto, off, or 0 to 14"),
    POLICY("mss", mss, 0, 65535),
    POLICY("ttl", ttl, 1, 255),
    POLICY("tos", tos, 0, 255),
    SWITCH(timestamps),
    SWITCH(sack),
    SWITCH(ecn),
    SWITCH(slow_start_after_idle),
    SWITCH(nodelay),
    SWITCH(syn_soft_errors),
    SWITCH(path_mtu),
    SWITCH(keepalive),
    POLICY("time_wait_us", time_wait_us, 0, 3600000000),
    POLICY("syn_give_up_us", syn_give_up_us, 1, 3600000000),
    POLICY("data_give_up_us", data_give_up_us, 1, 3600000000),
    NUMBER("start_us", start_us, 0, UINT64_C(1) << 50),
    ROW("secret", config.secret, SETTING_CUSTOM, .set = set_secret, .noun = "a text of 1 to 32 bytes"),
};

/* Sets the defaults. Returns false if there are no random numbers. */
static bool defaults_set(struct pnet_words *words)
{
    tcp_policy_default(&words->config.policy);
    words->config.policy.ecn = false; /* as Linux, which offers none by itself */
    words->mtu_bytes = 1500;
    words->prefix_bits = 32;
    words->config.mask = 0xffffffff;
    /* With a /32 mask every packet goes through the gateway, whose MAC is known: no ARP (host/library/netdev_ip.h). */
    words->config.gateway = 0x01010101;
    words->config.gateway_mac[0] = 2;
    words->config.gateway_mac[5] = 2;
    return getrandom(words->config.secret, sizeof words->config.secret, 0) == sizeof words->config.secret;
}

const char *pnet_words_read(const char *text, struct pnet_words *words)
{
    static _Thread_local struct settings settings; /* holds the message */
    const struct settings_table table = { rows, ARRAY_COUNT(rows), words, sizeof *words, NULL, NULL };
    settings_begin(&settings, (const struct settings_table *const[]){ &table }, 1);
    if (!defaults_set(words))
        return "no random numbers to be had";
    if (text == NULL)
        return "no words";
    settings_add(&settings, "pnet_open", text, strlen(text));
    if (!settings_finish(&settings))
        return settings.error;
    ASSERT(words->prefix_bits >= 1 && words->prefix_bits <= 32);
    uint32_t host_mask = ~(UINT32_MAX << (32 - words->prefix_bits)), host = words->config.address & host_mask;
    return host_mask > 1 && (host == 0 || host == host_mask) ? "address= is not a host's, with that prefix=" : NULL;
}
