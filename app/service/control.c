#include "app/service/control.h"

#include <assert.h>
#include <string.h>

#include "app/service/control_text.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/hmac.h"
#include "base/log.h"
#include "base/secrets.h"
#include "base/siphash.h"
#include "base/time.h"
#include "base/trace.h"
#include "net/capture/capture.h"

static_assert(sizeof(struct control_header_wire) == 8, "docs/control.md");
static_assert(sizeof(struct control_hello_wire) == 64, "docs/control.md");
static_assert(sizeof(struct control_challenge_wire) == 56, "docs/control.md");
static_assert(sizeof(struct control_command_wire) == 96, "docs/control.md");
static_assert(sizeof(struct control_reply_wire) == 56, "docs/control.md");
static_assert(sizeof(struct control_challenge_wire) <= sizeof(struct control_hello_wire), "no amplification");
static_assert(sizeof(struct control_reply_wire) + CONTROL_REPLY_TEXT_BYTES_MAX + CONTROL_MAC_BYTES
                  <= TRANSPORT_DATAGRAM_BYTES_MAX,
              "a reply fits a datagram");

enum {
    BUCKET_BITS = 8,
    BUCKET_COUNT = 1 << BUCKET_BITS,
};

/* A bound on the work that strangers cause: a bucket takes CONTROL_RATE_BURST datagrams at once and then one each
 * CONTROL_RATE_PERIOD_MS. A secret of this run decides in which bucket an address and port fall. A stranger who forges
 * a client's address does not know the client's port, so the flood fills another bucket. */
struct bucket {
    uint64_t full_until_ns; /* when all that it has taken will have run out */
};

struct used_challenge {
    uint64_t expires_ms;
    uint8_t challenge[CONTROL_CHALLENGE_BYTES];
};

static struct {
    bool on;
    uint16_t port;
    const char *(*set)(struct bytes word); /* the program's */
    struct hmac_key key;                   /* shared with the client */
    struct siphash_key secret[3];          /* this run's, one for each 8 bytes of a challenge */
    struct used_challenge used[CONTROL_USED_COUNT_MAX];
    struct siphash_key hello_key; /* makes the tag of a client's HELLO */
    struct bucket hellos[BUCKET_COUNT], keyed_hellos[BUCKET_COUNT], refusals[BUCKET_COUNT];
    struct siphash_key bucket_secret;
    uint64_t last_command_ns; /* the last command that was obeyed */
    uint64_t last_refused_ns; /* the last HELLO that a full bucket refused */

    bool leaving; /* GG was obeyed: no further command is */
    bool left;    /* the answer to GG has been sent, or could not be */
    uint64_t leaving_since_ns;

    /* The command obeyed last, and where its reply goes. */
    struct control_command_wire command;
    uint8_t result;
    uint32_t address;
    uint16_t peer_port;

    /* The reply under way: its text is rendered as a whole, then sent in parts. */
    bool replying;
    size_t part_text_bytes;      /* bytes of a part, the last one aside */
    uint32_t part, repeats_left; /* sent next */
    uint64_t pause_until_ns;
} control;

struct control_counters control_counters;
const struct counter_group control_counter_group = COUNTER_GROUP("control.", "Control channel", CONTROL_COUNTERS,
                                                                 control_counters);

static uint32_t part_count(void)
{
    size_t parts = (control_text.bytes + control.part_text_bytes - 1) / control.part_text_bytes;
    return parts ? (uint32_t)parts : 1;
}

bool control_init(const uint8_t *key, size_t key_bytes, uint16_t port, const uint8_t secret[32])
{
    ASSERT(key_bytes <= SHA256_BLOCK_BYTES);
    struct hmac_key root;
    uint8_t derived[2 * SHA256_BYTES];
    memset(&control, 0, sizeof control);
    memset(&control_counters, 0, sizeof control_counters);
    if (key_bytes == 0)
        return true;
    hmac_key_set(&root, secret, 32);
    hmac(&root, "control 1", 9, derived);
    hmac(&root, "control 2", 9, derived + SHA256_BYTES);
    for (size_t i = 0; i < ARRAY_COUNT(control.secret); i++)
        control.secret[i] = siphash_key_from(derived + 16 * i);
    control.bucket_secret = siphash_key_from(derived + 16 * ARRAY_COUNT(control.secret));
    hmac_key_set(&control.key, key, key_bytes);
    secrets_hold(&control, sizeof control);
    hmac(&control.key, "hello", 5, derived);
    control.hello_key = siphash_key_from(derived);
    control.port = port;
    control.on = transport_udp_bind(port);
    return control.on;
}

void control_on_set(const char *(*set)(struct bytes word)) { control.set = set; }

void control_check(void)
{
    ASSERT(control.on || !control.replying);
    ASSERT(!control.left || control.leaving);
    ASSERT(control_text.bytes <= sizeof control_text.text);
    ASSERT(control.repeats_left <= CONTROL_GG_REPEATS);
    ASSERT(!control.replying || control.part_text_bytes > 0);
    ASSERT(!control.replying || !control_text.rendered || control.repeats_left == 0 || control.part < part_count());
}

static void make_header(struct control_header_wire *header, uint8_t type, size_t bytes)
{
    ASSERT(bytes >= sizeof *header && bytes <= TRANSPORT_DATAGRAM_BYTES_MAX);
    memcpy(header->magic, "PGRN", 4);
    header->version = CONTROL_VERSION;
    header->type = type;
    store_be16(header->bytes, (uint16_t)bytes);
}

/* Makes the challenge that a peer must send back to prove that its address is its own. SipHash makes it: a HELLO costs
 * no more than the datagram that answers it. */
static void make_challenge(uint32_t address, uint16_t port, const uint8_t nonce[CONTROL_NONCE_BYTES],
                           const uint8_t time_ms[8], uint8_t challenge[CONTROL_CHALLENGE_BYTES])
{
    static_assert(sizeof control.secret / sizeof *control.secret * 8 == CONTROL_CHALLENGE_BYTES, "8 bytes for each");
    uint8_t message[6 + CONTROL_NONCE_BYTES + 8];
    store_be32(message, address);
    store_be16(message + 4, port);
    memcpy(message + 6, nonce, CONTROL_NONCE_BYTES);
    memcpy(message + 6 + CONTROL_NONCE_BYTES, time_ms, 8);
    for (size_t i = 0; i < ARRAY_COUNT(control.secret); i++)
        store_be64(challenge + 8 * i, siphash(control.secret[i], message, sizeof message));
}

static void send_now(const void *data, size_t bytes, uint32_t address, uint16_t port, uint64_t now_ns)
{
    if (transport_udp_send(control.port, address, port, data, bytes, now_ns))
        control_counters.sent++;
    else
        control_counters.send_failed++;
}

static struct bucket *bucket_of(struct bucket buckets[BUCKET_COUNT], const struct transport_event *event)
{
    uint8_t peer[6];
    store_be32(peer, event->address);
    store_be16(peer + 4, event->peer_port);
    return &buckets[siphash(control.bucket_secret, peer, sizeof peer) % BUCKET_COUNT];
}

static bool bucket_is_full(const struct bucket *bucket, uint64_t now_ns)
{
    return bucket->full_until_ns > now_ns + (uint64_t)(CONTROL_RATE_BURST - 1) * CONTROL_RATE_PERIOD_MS * NS_PER_MS;
}

static void bucket_take(struct bucket *bucket, uint64_t now_ns)
{
    if (bucket->full_until_ns < now_ns)
        bucket->full_until_ns = now_ns;
    bucket->full_until_ns += CONTROL_RATE_PERIOD_MS * NS_PER_MS;
}

/* Returns true if a HELLO is from a client that has the key. A SipHash costs less than taking the datagram, so a flood
 * cannot make the answer dear. */
static bool hello_is_keyed(const struct control_hello_wire *hello)
{
    uint8_t tag[sizeof hello->tag];
    store_be64(tag, siphash(control.hello_key, hello->nonce, sizeof hello->nonce));
    return bytes_equal_constant_time(tag, hello->tag, sizeof tag);
}

static void take_hello(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->payload.count == sizeof(struct control_hello_wire));
    const struct control_hello_wire *hello = (const struct control_hello_wire *)event->payload.data;
    struct control_challenge_wire out;
    bool keyed = hello_is_keyed(hello);
    struct bucket *bucket = bucket_of(keyed ? control.keyed_hellos : control.hellos, event);
    if (bucket_is_full(bucket, now_ns)) {
        control_counters.drop_rate++;
        control_counters.drop_rate_keyed += keyed;
        control.last_refused_ns = now_ns;
        return;
    }
    bucket_take(bucket, now_ns);
    control_counters.hellos++;
    make_header(&out.header, CONTROL_CHALLENGE, sizeof out);
    memcpy(out.nonce, hello->nonce, sizeof out.nonce);
    store_be64(out.time_ms, now_ns / NS_PER_MS);
    make_challenge(event->address, event->peer_port, out.nonce, out.time_ms, out.challenge);
    send_now(&out, sizeof out, event->address, event->peer_port, now_ns);
}

/* Remembers a challenge as used. Returns the counter to raise if it was used before, or if too many were. */
static uint64_t *use_challenge(const struct control_command_wire *command, uint64_t age_ms, uint64_t now_ms)
{
    ASSERT(age_ms <= CONTROL_CHALLENGE_MS);
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
    room->expires_ms = now_ms - age_ms + CONTROL_CHALLENGE_MS + 1;
    memcpy(room->challenge, command->challenge, CONTROL_CHALLENGE_BYTES);
    return NULL;
}

/* Makes the HMAC that a command should have. */
static void make_command_mac(const struct control_command_wire *command, size_t word_bytes, uint8_t mac[SHA256_BYTES])
{
    enum { SIGNED_BYTES = offsetof(struct control_command_wire, mac) };
    uint8_t message[SIGNED_BYTES + CONTROL_WORD_BYTES_MAX];
    ASSERT(word_bytes <= CONTROL_WORD_BYTES_MAX);
    memcpy(message, command, SIGNED_BYTES);
    if (word_bytes != 0) /* C11 7.24.1: memcpy needs an object even for 0 bytes */
        memcpy(message + SIGNED_BYTES, command + 1, word_bytes);
    hmac(&control.key, message, SIGNED_BYTES + word_bytes, mac);
}

/* Returns the counter of the reason to refuse a command; NULL: it is genuine, fresh and new. A bucket bounds only the
 * HMAC. It is the sender's own: the challenge has proved the address and the port, so no forger can fill it. */
static uint64_t *refuse_command(const struct transport_event *event, const struct control_command_wire *command,
                                uint64_t now_ns)
{
    uint8_t expected[SHA256_BYTES];
    uint64_t time_ms = load_be64(command->time_ms), now_ms = now_ns / NS_PER_MS, age_ms = now_ms - time_ms;
    static_assert(sizeof expected >= CONTROL_CHALLENGE_BYTES, "room for both");
    if (time_ms > now_ms || age_ms > CONTROL_CHALLENGE_MS)
        return &control_counters.drop_stale;
    make_challenge(event->address, event->peer_port, command->nonce, command->time_ms, expected);
    if (!bytes_equal_constant_time(expected, command->challenge, CONTROL_CHALLENGE_BYTES))
        return &control_counters.drop_challenge;
    struct bucket *bucket = bucket_of(control.refusals, event);
    if (bucket_is_full(bucket, now_ns))
        return &control_counters.drop_rate;
    make_command_mac(command, event->payload.count - sizeof *command, expected);
    if (!bytes_equal_constant_time(expected, command->mac, CONTROL_MAC_BYTES)) {
        bucket_take(bucket, now_ns);
        return &control_counters.drop_mac;
    }
    if (control.leaving)
        return &control_counters.drop_busy;
    return use_challenge(command, age_ms, now_ms);
}

/* Returns how much text fits a frame. Every network takes IPV4_BYTES_MIN (RFC 791 §3.1); a smaller MTU is a mistake. */
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
    ASSERT(control.on && control.part_text_bytes <= CONTROL_REPLY_TEXT_BYTES_MAX);
    control.replying = true;
    control.command = *command;
    control.address = event->address;
    control.peer_port = event->peer_port;
    control.pause_until_ns = now_ns;
    control.repeats_left = 1;
    control.part = 0;
    control.part_text_bytes = part_text_bytes_now();
    uint64_t position = 0;
    for (unsigned i = 0; i < sizeof command->argument; i++)
        position = position << 8 | command->argument[i];
    control_text_begin(command->command, position);
    control_check();
}

static void refuse(const char *message)
{
    ASSERT(message[0] != '\0');
    control.result = CONTROL_REFUSED;
    control_text_refuse(message);
}

/* Lets the program change a setting. A message of the program's is the reply. */
static void take_set(struct bytes word)
{
    control_counters.commands_set++;
    const char *refused = control.set ? control.set(word)
                                      : "this program has no setting that can be changed while it runs";
    if (refused)
        refuse(refused);
}

static void take_capture(void)
{
    control_counters.commands_capture++;
    if (capture_bytes() == 0)
        refuse("no frames are kept: capture= is not set");
}

/* Obeys or refuses a command. Its reply replaces one that is still under way. */
static void take_command(const struct transport_event *event, uint64_t now_ns)
{
    ASSERT(event->payload.count >= sizeof(struct control_command_wire));
    const struct control_command_wire *command = (const struct control_command_wire *)event->payload.data;
    uint64_t *refused = refuse_command(event, command, now_ns);
    if (refused) {
        ++*refused;
        return;
    }
    control.last_command_ns = now_ns;
    control.result = CONTROL_DONE;
    begin_reply(event, command, now_ns);
    if (command->command == CONTROL_STATUS) {
        control_counters.commands_status++;
    } else if (command->command == CONTROL_GG) {
        control_counters.commands_gg++;
        control.leaving = true;
        control.leaving_since_ns = now_ns;
        control.repeats_left = CONTROL_GG_REPEATS;
        log_line("control: GG from %pI4h", &event->address);
    } else if (command->command == CONTROL_LOG) {
        control_counters.commands_log++;
    } else if (command->command == CONTROL_SET) {
        take_set((struct bytes){ event->payload.data + sizeof *command, event->payload.count - sizeof *command });
    } else if (command->command == CONTROL_CAPTURE) {
        take_capture();
    } else {
        control_counters.commands_unknown++;
        control.result = CONTROL_UNKNOWN_COMMAND;
        control_text_refuse("");
    }
    control_check();
}

/* Returns true if a datagram of this type may have `bytes`. */
static bool length_is_right(const struct control_header_wire *header, size_t bytes)
{
    const struct control_command_wire *command = (const struct control_command_wire *)header;
    ASSERT(bytes >= sizeof *header);
    if (load_be16(header->bytes) != bytes)
        return false;
    if (header->type == CONTROL_HELLO)
        return bytes == sizeof(struct control_hello_wire);
    if (bytes < sizeof *command)
        return false;
    const size_t word_bytes = bytes - sizeof *command;
    if (command->command == CONTROL_SET)
        return word_bytes >= 1 && word_bytes <= CONTROL_WORD_BYTES_MAX;
    return word_bytes == 0;
}

/* Checks the cheap conditions first; nothing is computed for a datagram that is not of the right form. */
void control_datagram(const struct transport_event *event, uint64_t now_ns)
{
    const struct control_header_wire *header = (const struct control_header_wire *)event->payload.data;
    if (!control.on || event->port != control.port)
        control_counters.drop_unbound++;
    else if (event->payload.count < sizeof *header)
        control_counters.drop_length++;
    else if (memcmp(header->magic, "PGRN", 4))
        control_counters.drop_magic++;
    else if (header->version != CONTROL_VERSION)
        control_counters.drop_version++;
    else if (header->type != CONTROL_HELLO && header->type != CONTROL_COMMAND)
        control_counters.drop_type++;
    else if (!length_is_right(header, event->payload.count))
        control_counters.drop_length++;
    else if (header->type == CONTROL_HELLO)
        take_hello(event, now_ns);
    else
        take_command(event, now_ns);
}

static bool send_part(uint64_t now_ns)
{
    ASSERT(control_text.rendered && control.part < part_count());
    uint8_t out[TRANSPORT_DATAGRAM_BYTES_MAX];
    struct control_reply_wire *reply = (struct control_reply_wire *)out;
    size_t from = control.part * control.part_text_bytes;
    size_t text_bytes = min_size(control_text.bytes - from, control.part_text_bytes);
    size_t bytes = sizeof *reply + text_bytes + CONTROL_MAC_BYTES;

    make_header(&reply->header, CONTROL_REPLY, bytes);
    memcpy(reply->nonce, control.command.nonce, sizeof reply->nonce);
    memcpy(reply->challenge, control.command.challenge, sizeof reply->challenge);
    reply->command = control.command.command;
    reply->result = control.result;
    store_be16(reply->part, (uint16_t)control.part);
    store_be16(reply->part_count, (uint16_t)part_count());
    store_be16(reply->text_bytes, (uint16_t)text_bytes);
    memcpy(out + sizeof *reply, control_text.text + from, text_bytes);
    hmac(&control.key, out, sizeof *reply + text_bytes, out + sizeof *reply + text_bytes);
    capture_mute(reply->command == CONTROL_CAPTURE);
    bool sent = transport_udp_send(control.port, control.address, control.peer_port, out, bytes, now_ns);
    capture_mute(false);
    if (!sent) {
        control_counters.send_failed++;
        return false;
    }
    control_counters.sent++;
    return true;
}

void control_poll(uint64_t now_ns)
{
    if (!control.replying || now_ns < control.pause_until_ns)
        return;
    trace_work(TRACE_WORK_CONTROL);
    if (!control_text.rendered) {
        control_text_render();
        control_check();
        return;
    }
    if (control.repeats_left == 0) {
        /* The pause after the last repeat gives the device time to send it. */
        control.replying = false;
        control.left = control.leaving;
        return;
    }
    if (!send_part(now_ns)) {
        /* No route yet, or no buffer: a little later. The time is checked only when sending fails, so a machine that
         * stood still for so long sends its answer first. */
        control.pause_until_ns = now_ns + NS_PER_MS;
        control.left = control.leaving && now_ns - control.leaving_since_ns >= CONTROL_GG_LINGER_MS * NS_PER_MS;
        return;
    }
    if (++control.part < part_count())
        return;
    control.part = 0;
    control.repeats_left--;
    if (control.leaving)
        control.pause_until_ns = now_ns + CONTROL_GG_PAUSE_MS * NS_PER_MS;
}

uint64_t control_last_command_ns(void) { return control.last_command_ns; }

uint64_t control_last_refused_ns(void) { return control.last_refused_ns; }

bool control_gg_done(void) { return control.left; }

uint64_t control_next_deadline_ns(uint64_t now_ns)
{
    if (control.replying)
        return control.pause_until_ns > now_ns ? control.pause_until_ns : now_ns;
    return UINT64_MAX;
}
