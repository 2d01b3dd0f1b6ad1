/* A table of words: each names a field, its kind and its bounds. */
#include "host/library/words.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "base/bytes.h"

enum word_kind { WORD_NUMBER, WORD_SWITCH, WORD_ADDRESS, WORD_TEXT, WORD_ACK, WORD_CONGESTION, WORD_SCALE };

struct word {
    const char *key;
    enum word_kind kind;
    size_t offset, bytes; /* the field's place in struct pnet_words */
    uint64_t least, most;
};

#define FIELD(member)  offsetof(struct pnet_words, member), sizeof(((struct pnet_words *)0)->member)
#define POLICY(member) FIELD(config.policy.member)

static const struct word table[] = {
    { "address", WORD_ADDRESS, FIELD(config.address), 0, 0 },
    { "prefix", WORD_NUMBER, FIELD(prefix_bits), 1, 32 },
    { "mtu", WORD_NUMBER, FIELD(mtu_bytes), 576, 65535 },
    { "ack", WORD_ACK, POLICY(ack), 0, 0 },
    { "ack_delay_us", WORD_NUMBER, POLICY(ack_delay_us), 0, 500000 }, /* RFC 9293 MUST-40 */
    { "rto_initial_us", WORD_NUMBER, POLICY(rto_initial_us), 1000, 60000000 },
    { "rto_min_us", WORD_NUMBER, POLICY(rto_min_us), 1000, 60000000 },
    { "rto_max_us", WORD_NUMBER, POLICY(rto_max_us), 1000, 3600000000 },
    { "initial_window", WORD_NUMBER, POLICY(initial_window_segments), 1, 1000 },
    { "slow_start_ack_segments", WORD_NUMBER, POLICY(slow_start_ack_segments), 0, 1000 },
    { "congestion", WORD_CONGESTION, POLICY(congestion), 0, 0 },
    { "rcvbuf", WORD_NUMBER, POLICY(receive_buffer_bytes), 1, 1 << 24 },
    { "sndbuf", WORD_NUMBER, POLICY(send_buffer_bytes), 1, 1 << 24 },
    { "wscale", WORD_SCALE, POLICY(window_scale), 0, 14 },
    { "mss", WORD_NUMBER, POLICY(mss), 0, 65535 },
    { "ttl", WORD_NUMBER, POLICY(ttl), 1, 255 },
    { "tos", WORD_NUMBER, POLICY(tos), 0, 255 },
    { "timestamps", WORD_SWITCH, POLICY(timestamps), 0, 0 },
    { "sack", WORD_SWITCH, POLICY(sack), 0, 0 },
    { "ecn", WORD_SWITCH, POLICY(ecn), 0, 0 },
    { "slow_start_after_idle", WORD_SWITCH, POLICY(slow_start_after_idle), 0, 0 },
    { "nodelay", WORD_SWITCH, POLICY(nodelay), 0, 0 },
    { "syn_soft_errors", WORD_SWITCH, POLICY(syn_soft_errors), 0, 0 },
    { "path_mtu", WORD_SWITCH, POLICY(path_mtu), 0, 0 },
    { "keepalive", WORD_SWITCH, POLICY(keepalive), 0, 0 },
    { "time_wait_us", WORD_NUMBER, POLICY(time_wait_us), 0, 3600000000 },
    { "syn_give_up_us", WORD_NUMBER, POLICY(syn_give_up_us), 1, 3600000000 },
    { "data_give_up_us", WORD_NUMBER, POLICY(data_give_up_us), 1, 3600000000 },
    { "start_us", WORD_NUMBER, FIELD(start_us), 0, UINT64_C(1) << 50 },
    { "secret", WORD_TEXT, FIELD(config.secret), 0, 0 },
};

static _Thread_local char message[256];

static const char *refuse(const char *why, const char *word)
{
    snprintf(message, sizeof message, "%s: \"%.160s\"", why, word);
    return message;
}

static void store_number(void *at, size_t bytes, uint64_t value)
{
    ASSERT(bytes <= sizeof value);
    memcpy(at, &value, bytes); /* little endian: the low bytes come first */
}

static bool read_number(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

/* Returns the index of `text` in `choices`, which ends with NULL; or -1. */
static int choose(const char *text, const char *const *choices)
{
    for (int i = 0; choices[i] != NULL; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    return -1;
}

static const char *read_value(const struct word *entry, const char *value, const char *whole, struct pnet_words *words)
{
    static const char *const acks[] = { "quick", "delayed", "adaptive", NULL };
    static const char *const congestions[] = { "cubic", "newreno", NULL };
    static const char *const switches[] = { "off", "on", NULL };
    ASSERT(entry->offset + entry->bytes <= sizeof *words);
    uint8_t *at = (uint8_t *)words + entry->offset;
    uint64_t number = 0;
    int choice = 0;
    switch (entry->kind) {
    case WORD_SCALE:
        choice = choose(value, (const char *const[]){ "auto", "off", NULL });
        if (choice == 0)
            return NULL; /* the default */
        if (choice == 1) {
            words->config.policy.window_scaling = false;
            return NULL;
        }
        __attribute__((fallthrough));
    case WORD_NUMBER:
        if (!read_number(value, &number) || number < entry->least || number > entry->most)
            return refuse("not a number in range", whole);
        store_number(at, entry->bytes, number);
        return NULL;
    case WORD_ADDRESS: {
        struct in_addr address;
        if (inet_pton(AF_INET, value, &address) != 1 || address.s_addr == 0)
            return refuse("not an IPv4 address", whole);
        store_number(at, entry->bytes, ntohl(address.s_addr));
        return NULL;
    }
    case WORD_TEXT:
        if (strlen(value) == 0 || strlen(value) > entry->bytes)
            return refuse("not 1 to 32 bytes", whole);
        memset(at, 0, entry->bytes);
        memcpy(at, value, strlen(value));
        return NULL;
    case WORD_ACK:
        choice = choose(value, acks);
        break;
    case WORD_CONGESTION:
        choice = choose(value, congestions);
        break;
    case WORD_SWITCH:
        choice = choose(value, switches);
        break;
    }
    if (choice < 0)
        return refuse("not one of its values", whole);
    store_number(at, entry->bytes, (uint64_t)choice);
    return NULL;
}

static const char *read_word(char *word, struct pnet_words *words)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s", word);
    char *equals = strchr(word, '=');
    if (equals == NULL)
        return refuse("not key=value", whole);
    *equals = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (strcmp(word, table[i].key) == 0)
            return read_value(&table[i], equals + 1, whole, words);
    return refuse("no such key", whole);
}

const char *pnet_words_read(const char *text, struct pnet_words *words)
{
    memset(words, 0, sizeof *words);
    tcp_policy_default(&words->config.policy);
    words->config.policy.ecn = false; /* as Linux, which offers none by itself */
    words->mtu_bytes = 1500;
    words->prefix_bits = 32;
    words->config.mask = 0xffffffff;
    /* With a /32 mask every packet goes through the gateway, whose MAC is known: no ARP (host/library/netdev_ip.h). */
    words->config.gateway = 0x01010101;
    words->config.gateway_mac[0] = 2;
    words->config.gateway_mac[5] = 2;
    if (getrandom(words->config.secret, sizeof words->config.secret, 0) != sizeof words->config.secret)
        return "no random numbers to be had";

    char copy[2048];
    if (text == NULL)
        return "no words";
    if (strlen(text) >= sizeof copy)
        return refuse("too long", text);
    strcpy(copy, text);
    char *place = NULL;
    for (char *word = strtok_r(copy, " \t\n", &place); word != NULL; word = strtok_r(NULL, " \t\n", &place)) {
        const char *why = read_word(word, words);
        if (why != NULL)
            return why;
    }
    ASSERT(words->prefix_bits >= 1 && words->prefix_bits <= 32);
    uint32_t host_mask = ~(UINT32_MAX << (32 - words->prefix_bits)), host = words->config.address & host_mask;
    if (words->config.address == 0)
        return "address= is required";
    return host_mask > 1 && (host == 0 || host == host_mask) ? "address= is not a host's, with that prefix=" : NULL;
}
