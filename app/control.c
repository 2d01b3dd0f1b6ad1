#include "app/control.h"

#include <assert.h>
#include <string.h>

#include "app/hmac.h"
#include "app/stats.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

static_assert(sizeof(struct control_header_wire) == 8, "docs/control.md");
static_assert(sizeof(struct control_hello_wire) == 64, "docs/control.md");
static_assert(sizeof(struct control_challenge_wire) == 56, "docs/control.md");
static_assert(sizeof(struct control_command_wire) == 96, "docs/control.md");
static_assert(sizeof(struct control_reply_wire) == 56, "docs/control.md");
static_assert(sizeof(struct control_challenge_wire) <= sizeof(struct control_hello_wire), "no amplification");
static_assert(sizeof(struct control_reply_wire) + CONTROL_REPLY_TEXT_BYTES_MAX + CONTROL_MAC_BYTES
                  <= TRANSPORT_DATAGRAM_BYTES_MAX, "a reply fits a datagram");

enum {
    LINES_PER_TURN = 4,             /* of the statistics: about a microsecond each */
    BUCKET_BITS = 6,
    BUCKET_COUNT = 1 << BUCKET_BITS,
    MS_NS = 1000 * 1000,
};

/* What strangers may cost: each bucket takes CONTROL_RATE_BURST datagrams at once and then one each
 * CONTROL_RATE_PERIOD_MS. An address falls into one by a number that nobody outside knows, so a flood fills its own
 * bucket and no other. */
struct bucket {
    uint64_t full_until_ns;         /* when all that it has taken will have run out */
};

struct used_challenge {
    uint64_t expires_ms;
    uint8_t challenge[CONTROL_CHALLENGE_BYTES];
};

static struct {
    bool on;
    uint16_t port;
    struct hmac_key key;            /* shared with the client */
    struct hmac_key secret;         /* of this run, for the challenges */
    struct used_challenge used[CONTROL_USED_COUNT_MAX];
    struct bucket hellos[BUCKET_COUNT], refusals[BUCKET_COUNT];
    uint32_t bucket_secret;

    /* The reply under way. */
    bool replying, rendered, leaving, left;
    struct control_command_wire command;
    uint8_t result;
    uint32_t address;
    uint16_t peer_port;
    uint64_t leaving_since_ns, pause_until_ns;
    uint64_t heard_ns;                  /* the last command that was obeyed */
    uint32_t repeats_left, part, line;
    uint64_t log_position;
    size_t text_bytes, part_text_bytes;     /* of the whole text, of a part that is not the last */
    char text[STATS_TEXT_BYTES_MAX];
} control;

struct control_counters control_counters;
static const struct counter control_counter_table[] = {
    COUNTER("control.", control_counters, hellos),
    COUNTER("control.", control_counters, commands_status),
    COUNTER("control.", control_counters, commands_gg),
    COUNTER("control.", control_counters, commands_log),
    COUNTER("control.", control_counters, commands_unknown),
    COUNTER("control.", control_counters, drop_length),
    COUNTER("control.", control_counters, drop_magic),
    COUNTER("control.", control_counters, drop_version),
    COUNTER("control.", control_counters, drop_type),
    COUNTER("control.", control_counters, drop_stale),
    COUNTER("control.", control_counters, drop_challenge),
    COUNTER("control.", control_counters, drop_mac),
    COUNTER("control.", control_counters, drop_replayed),
    COUNTER("control.", control_counters, drop_busy),
    COUNTER("control.", control_counters, drop_rate),
    COUNTER("control.", control_counters, drop_unbound),
    COUNTER("control.", control_counters, sent),
    COUNTER("control.", control_counters, send_failed),
};
const struct counter_group control_counter_group = { control_counter_table, ARRAY_COUNT(control_counter_table) };

bool control_init(const uint8_t *key, size_t key_bytes, uint16_t port, const uint8_t secret[32])
{
    static const char label[] = "control challenges";
    struct hmac_key root;
    uint8_t derived[SHA256_BYTES];
    memset(&control, 0, sizeof control);
    memset(&control_counters, 0, sizeof control_counters);
    if (key_bytes == 0)
        return true;
    hmac_key_set(&root, secret, 32);
    hmac(&root, label, sizeof label, derived);
    hmac_key_set(&control.secret, derived, sizeof derived);
    hmac(&root, "buckets", 7, derived);
    control.bucket_secret = load_be32(derived);
    hmac_key_set(&control.key, key, key_bytes);
    control.port = port;
    control.on = transport_udp_bind(port);
    return control.on;
}

static void make_header(struct control_header_wire *header, uint8_t type, size_t bytes)
{
    memcpy(header->magic, "PGRN", 4);
    header->version = CONTROL_VERSION;
    header->type = type;
    store_be16(header->bytes, (uint16_t)bytes);
}

/* What a peer is to prove that it received. */
static void make_challenge(uint32_t address, uint16_t port, const uint8_t nonce[CONTROL_NONCE_BYTES],
                           const uint8_t time_ms[8], uint8_t challenge[CONTROL_CHALLENGE_BYTES])
{
    uint8_t mac[SHA256_BYTES], peer[6];
    struct sha256 message;
    store_be32(peer, address);
    store_be16(peer + 4, port);
    hmac_begin(&control.secret, &message);
    sha256_add(&message, peer, sizeof peer);
    sha256_add(&message, nonce, CONTROL_NONCE_BYTES);
    sha256_add(&message, time_ms, 8);
    hmac_end(&control.secret, &message, mac);
    memcpy(challenge, mac, CONTROL_CHALLENGE_BYTES);
}

static void send_now(const void *data, size_t bytes, uint32_t address, uint16_t port, uint64_t now_ns)
{
    if (transport_udp_send(control.port, address, port, data, bytes, now_ns))
        control_counters.sent++;
    else
        control_counters.send_failed++;
}

static struct bucket *bucket_of(struct bucket buckets[BUCKET_COUNT], uint32_t address)
{
    /* Times 2^64 divided by the golden ratio. */
    uint64_t mixed = (uint64_t)(address ^ control.bucket_secret) * UINT64_C(0x9e3779b97f4a7c15);
    return &buckets[mixed >> (64 - BUCKET_BITS)];
}

static bool bucket_is_full(const struct bucket *bucket, uint64_t now_ns)
{
    return bucket->full_until_ns > now_ns + (uint64_t)(CONTROL_RATE_BURST - 1) * CONTROL_RATE_PERIOD_MS * MS_NS;
}

static void bucket_take(struct bucket *bucket, uint64_t now_ns)
{
    if (bucket->full_until_ns < now_ns)
        bucket->full_until_ns = now_ns;
    bucket->full_until_ns += (uint64_t)CONTROL_RATE_PERIOD_MS * MS_NS;
}

static void take_hello(const struct transport_event *event, uint64_t now_ns)
{
    const struct control_hello_wire *hello = (const struct control_hello_wire *)event->data;
    struct control_challenge_wire out;
    struct bucket *bucket = bucket_of(control.hellos, event->address);
    if (bucket_is_full(bucket, now_ns)) {
        control_counters.drop_rate++;
        return;
    }
    bucket_take(bucket, now_ns);
    control_counters.hellos++;
    make_header(&out.header, CONTROL_CHALLENGE, sizeof out);
    memcpy(out.nonce, hello->nonce, sizeof out.nonce);
    store_be64(out.time_ms, now_ns / MS_NS);
    make_challenge(event->address, event->peer_port, out.nonce, out.time_ms, out.challenge);
    send_now(&out, sizeof out, event->address, event->peer_port, now_ns);
}

/* Remembers a challenge as used. The counter to bump if it was used before, or if too many were. */
static uint64_t *use_challenge(const struct control_command_wire *command, uint64_t now_ms)
{
    struct used_challenge *room = NULL;
    for (size_t i = 0; i < CONTROL_USED_COUNT_MAX; i++) {
        struct used_challenge *used = &control.used[i];
        if (used->expires_ms <= now_ms)
            room = used;
        else if (!memcmp(used->challenge, command->challenge, CONTROL_CHALLENGE_BYTES))
            return &control_counters.drop_replayed;
    }
    if (!room)
        return &control_counters.drop_busy;
    room->expires_ms = load_be64(command->time_ms) + CONTROL_CHALLENGE_MS + 1;
    memcpy(room->challenge, command->challenge, CONTROL_CHALLENGE_BYTES);
    return NULL;
}

/* NULL: the command is genuine, fresh and new. */
static uint64_t *refuse_command(const struct transport_event *event, const struct control_command_wire *command,
                                uint64_t now_ms)
{
    uint8_t expected[SHA256_BYTES];
    uint64_t time_ms = load_be64(command->time_ms);
    if (time_ms > now_ms || now_ms - time_ms > CONTROL_CHALLENGE_MS)
        return &control_counters.drop_stale;
    make_challenge(event->address, event->peer_port, command->nonce, command->time_ms, expected);
    if (!bytes_equal_constant_time(expected, command->challenge, CONTROL_CHALLENGE_BYTES))
        return &control_counters.drop_challenge;
    hmac(&control.key, command, offsetof(struct control_command_wire, mac), expected);
    if (!bytes_equal_constant_time(expected, command->mac, CONTROL_MAC_BYTES))
        return &control_counters.drop_mac;
    if (control.leaving)
        return &control_counters.drop_busy;
    return use_challenge(command, now_ms);
}

/* As much as fits a frame. Every network takes IPV4_BYTES_MIN (RFC 791 §3.1); a smaller MTU is a mistake. */
static size_t part_text_bytes_now(void)
{
    enum { IPV4_BYTES_MIN = 576 };
    const size_t around = TRANSPORT_DATAGRAM_HEAD_BYTES + sizeof(struct control_reply_wire) + CONTROL_MAC_BYTES;
    const size_t frame = max_size(transport_network()->mtu_bytes, IPV4_BYTES_MIN);
    return min_size(CONTROL_REPLY_TEXT_BYTES_MAX, frame - around);
}

static void begin_reply(const struct transport_event *event, const struct control_command_wire *command,
                        uint64_t now_ns)
{
    control.replying = true;
    control.rendered = false;
    control.command = *command;
    control.address = event->address;
    control.peer_port = event->peer_port;
    control.pause_until_ns = now_ns;
    control.repeats_left = control.leaving ? CONTROL_GG_REPEATS : 1;
    control.part = control.line = 0;
    control.text_bytes = 0;
    control.part_text_bytes = part_text_bytes_now();
    if (command->command == CONTROL_LOG) {
        control.text_bytes = CONTROL_LOG_HEAD_BYTES;    /* filled in when it is known how far the text goes */
        control.log_position = 0;
        for (unsigned i = 0; i < sizeof command->argument; i++)
            control.log_position = control.log_position << 8 | command->argument[i];
    }
}

/* A new command's reply replaces one that is still under way. */
static void take_command(const struct transport_event *event, uint64_t now_ns)
{
    const struct control_command_wire *command = (const struct control_command_wire *)event->data;
    struct bucket *bucket = bucket_of(control.refusals, event->address);
    uint64_t *refused = bucket_is_full(bucket, now_ns) ? &control_counters.drop_rate
                                                       : refuse_command(event, command, now_ns / MS_NS);
    if (refused) {
        ++*refused;
        if (refused != &control_counters.drop_rate && refused != &control_counters.drop_stale)
            bucket_take(bucket, now_ns);        /* it has cost an HMAC; what is genuine is not counted */
        return;
    }
    control.heard_ns = now_ns;
    control.result = CONTROL_DONE;
    uint32_t a = event->address;
    if (command->command == CONTROL_STATUS) {
        control_counters.commands_status++;
    } else if (command->command == CONTROL_GG) {
        control_counters.commands_gg++;
        control.leaving = true;
        control.leaving_since_ns = now_ns;
        log_line("control: GG from %u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
    } else if (command->command == CONTROL_LOG) {
        control_counters.commands_log++;
    } else {
        control_counters.commands_unknown++;
        control.result = CONTROL_UNKNOWN_COMMAND;
    }
    begin_reply(event, command, now_ns);
}

/* Cheap checks first; nothing is computed for a datagram that is not of the right form. */
void control_datagram(const struct transport_event *event, uint64_t now_ns)
{
    const struct control_header_wire *header = (const struct control_header_wire *)event->data;
    if (!control.on || event->port != control.port)
        control_counters.drop_unbound++;
    else if (event->bytes < sizeof *header)
        control_counters.drop_length++;
    else if (memcmp(header->magic, "PGRN", 4))
        control_counters.drop_magic++;
    else if (header->version != CONTROL_VERSION)
        control_counters.drop_version++;
    else if (header->type != CONTROL_HELLO && header->type != CONTROL_COMMAND)
        control_counters.drop_type++;
    else if (load_be16(header->bytes) != event->bytes
             || event->bytes != (header->type == CONTROL_HELLO ? sizeof(struct control_hello_wire)
                                                               : sizeof(struct control_command_wire)))
        control_counters.drop_length++;
    else if (header->type == CONTROL_HELLO)
        take_hello(event, now_ns);
    else
        take_command(event, now_ns);
}

/* The next line of what was asked for. 0: there are no more, or no more fit. */
static size_t render_line(char line[LOG_LINE_BYTES_MAX])
{
    if (control.command.command != CONTROL_LOG) {
        size_t bytes = stats_line(control.line++, line, STATS_LINE_BYTES_MAX);
        return bytes <= sizeof control.text - control.text_bytes ? bytes : 0;
    }
    uint64_t position = control.log_position;
    size_t bytes = log_read(&position, line);
    if (bytes == 0 || bytes > CONTROL_LOG_TEXT_BYTES_MAX - control.text_bytes)
        return 0;
    control.log_position = position;
    return bytes;
}

/* Where to ask from next time, in front of the text. */
static void render_log_head(void)
{
    char head[CONTROL_LOG_HEAD_BYTES + 1];
    format(head, sizeof head, "log %019llu\n", (unsigned long long)control.log_position);
    memcpy(control.text, head, CONTROL_LOG_HEAD_BYTES);
}

/* Appends a few lines. */
static void render_some(void)
{
    static_assert((int)STATS_LINE_BYTES_MAX <= (int)LOG_LINE_BYTES_MAX, "one buffer for both");
    char line[LOG_LINE_BYTES_MAX];
    for (unsigned i = 0; i < LINES_PER_TURN && !control.rendered; i++) {
        size_t bytes = control.result == CONTROL_DONE ? render_line(line) : 0;
        memcpy(control.text + control.text_bytes, line, bytes);
        control.text_bytes += bytes;
        control.rendered = bytes == 0;
    }
    if (control.rendered && control.command.command == CONTROL_LOG)
        render_log_head();
}

static uint32_t part_count(void)
{
    size_t parts = (control.text_bytes + control.part_text_bytes - 1) / control.part_text_bytes;
    return parts ? (uint32_t)parts : 1;
}

static bool send_part(uint64_t now_ns)
{
    uint8_t out[TRANSPORT_DATAGRAM_BYTES_MAX];
    struct control_reply_wire *reply = (struct control_reply_wire *)out;
    size_t from = control.part * control.part_text_bytes;
    size_t text_bytes = min_size(control.text_bytes - from, control.part_text_bytes);
    size_t bytes = sizeof *reply + text_bytes + CONTROL_MAC_BYTES;

    make_header(&reply->header, CONTROL_REPLY, bytes);
    memcpy(reply->nonce, control.command.nonce, sizeof reply->nonce);
    memcpy(reply->challenge, control.command.challenge, sizeof reply->challenge);
    reply->command = control.command.command;
    reply->result = control.result;
    store_be16(reply->part, (uint16_t)control.part);
    store_be16(reply->part_count, (uint16_t)part_count());
    store_be16(reply->text_bytes, (uint16_t)text_bytes);
    memcpy(reply->text, control.text + from, text_bytes);
    hmac(&control.key, out, sizeof *reply + text_bytes, reply->text + text_bytes);
    if (!transport_udp_send(control.port, control.address, control.peer_port, out, bytes, now_ns)) {
        control_counters.send_failed++;
        return false;
    }
    control_counters.sent++;
    return true;
}

void control_tend(uint64_t now_ns)
{
    if (!control.replying || now_ns < control.pause_until_ns)
        return;
    if (!control.rendered) {
        render_some();
        return;
    }
    if (control.repeats_left == 0) {
        /* The pause after the last repeat gives the device time to send it. */
        control.replying = false;
        control.left = control.leaving;
        return;
    }
    if (!send_part(now_ns)) {
        /* No route yet, or no buffer: a little later. The time is up only here: a host that was without a processor for
         * so long finds its answer unsent, and sends it. */
        control.pause_until_ns = now_ns + MS_NS;
        control.left = control.leaving && now_ns - control.leaving_since_ns >= (uint64_t)CONTROL_GG_LINGER_MS * MS_NS;
        return;
    }
    if (++control.part < part_count())
        return;
    control.part = 0;
    control.repeats_left--;
    if (control.leaving)
        control.pause_until_ns = now_ns + (uint64_t)CONTROL_GG_PAUSE_MS * MS_NS;
}

uint64_t control_heard_ns(void) { return control.heard_ns; }

bool control_told_to_leave(void) { return control.left; }

uint64_t control_wake_ns(uint64_t now_ns)
{
    if (control.replying)
        return control.pause_until_ns > now_ns ? control.pause_until_ns : now_ns;
    return UINT64_MAX;
}
