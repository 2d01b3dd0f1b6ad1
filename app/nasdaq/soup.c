#include "app/nasdaq/soup.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/secrets.h"
#include "base/text.h"

struct soup_counters soup_counters;
const struct counter_group soup_counter_group = COUNTER_GROUP("soup.", "Exchange sessions (SoupBinTCP)", SOUP_COUNTERS,
                                                              soup_counters);

static const char blank_session[] = "          "; /* §2.1.4: asks for the current one */
static_assert(sizeof blank_session == SOUP_SESSION_BYTES + 1, "a session's name");

void soup_init(struct soup *soup, const char *user, const char *password)
{
    memset(soup, 0, sizeof *soup);
    soup->user = user;
    soup->password = password;
    soup_forget(soup);
}

void soup_forget(struct soup *soup)
{
    memcpy(soup->session, blank_session, SOUP_SESSION_BYTES);
    soup->next_sequence = 1;
}

void soup_connected(struct soup *soup, uint64_t now_ns)
{
    ASSERT(soup->state == SOUP_DOWN);
    soup->state = SOUP_CONNECTED;
    soup->received_ns = soup->sent_ns = now_ns;
    soup->packet_bytes = 0;
}

void soup_closed(struct soup *soup)
{
    soup->state = SOUP_DOWN;
    soup->input = (struct bytes){ NULL, 0 };
}

void soup_data(struct soup *soup, struct bytes data, uint64_t now_ns)
{
    ASSERT(soup->state != SOUP_DOWN && soup->input.count == 0);
    soup->input = data;
    soup->received_ns = now_ns;
}

void soup_check(const struct soup *soup)
{
    ASSERT(soup->packet_bytes <= sizeof soup->packet);
    ASSERT(soup->state != SOUP_DOWN || soup->input.count == 0);
}

/* Moves bytes of the input to the packet until it has `bytes`. Returns true if it has them. */
static bool gather(struct soup *soup, size_t bytes)
{
    ASSERT(bytes <= sizeof soup->packet);
    if (soup->packet_bytes < bytes && soup->input.count > 0) {
        size_t more = min_size(bytes - soup->packet_bytes, soup->input.count);
        memcpy(soup->packet.bytes + soup->packet_bytes, soup->input.data, more);
        soup->packet_bytes += (uint32_t)more;
        soup->input = (struct bytes){ soup->input.data + more, soup->input.count - more };
    }
    return soup->packet_bytes >= bytes;
}

/* Returns the rest of the next whole packet, after its head. NULL: it has not come yet. False: its length makes no
 * sense. */
static bool next_packet(struct soup *soup, struct bytes *body)
{
    const struct soup_head_wire *head = &soup->packet.head;
    *body = (struct bytes){ NULL, 0 };
    if (soup->packet_bytes > sizeof head->bytes && soup->packet_bytes == sizeof head->bytes + load_be16(&head->bytes))
        soup->packet_bytes = 0; /* the one before, which is taken */
    if (!gather(soup, sizeof head->bytes))
        return true;
    size_t bytes = load_be16(&head->bytes);
    if (bytes == 0 || bytes > SOUP_PACKET_BYTES_MAX)
        return false;
    if (gather(soup, sizeof head->bytes + bytes))
        *body = (struct bytes){ soup->packet.bytes + sizeof *head, bytes - sizeof head->type };
    return true;
}

bool soup_read_number(struct bytes text, uint64_t *number)
{
    while (text.count > 0 && (text.data[0] == ' ' || text.data[0] == '0'))
        text = (struct bytes){ text.data + 1, text.count - 1 };
    while (text.count > 0 && text.data[text.count - 1] == ' ')
        text.count--;
    return text_number(text, 1, SOUP_SEQUENCE_MAX, number);
}

static enum soup_event take_accepted(struct soup *soup, struct bytes body)
{
    const struct soup_accepted_wire *accepted = (const void *)body.data;
    uint64_t sequence;
    if (soup->state == SOUP_UP || body.count != sizeof *accepted
        || !soup_read_number((struct bytes){ accepted->sequence, sizeof accepted->sequence }, &sequence))
        return SOUP_MALFORMED;
    bool other = memcmp(soup->session, blank_session, SOUP_SESSION_BYTES) != 0
                 && memcmp(soup->session, accepted->session, SOUP_SESSION_BYTES) != 0;
    other |= soup->lost_session || sequence != soup->next_sequence;
    soup->lost_session = soup->idle = false;
    memcpy(soup->session, accepted->session, SOUP_SESSION_BYTES);
    soup->next_sequence = sequence;
    soup->state = SOUP_UP;
    soup_counters.logins++;
    soup_counters.new_sessions += other;
    return other ? SOUP_NEW_SESSION : SOUP_LOGGED_IN;
}

/* Takes a refusal of the login. If the server does not have the session any more, the next login asks for any; not if
 * it never had it. */
static enum soup_event take_rejected(struct soup *soup, struct bytes body)
{
    ASSERT(soup->state != SOUP_DOWN);
    bool session = body.count == 1 && body.data[0] == 'S';
    ++*(session ? &soup_counters.refused_session : &soup_counters.refused_user);
    if (session && !soup->keeps_session) {
        soup_forget(soup);
        soup->lost_session = true;
    }
    return SOUP_REFUSED;
}

/* Takes a packet by the rest after its head. Returns SOUP_NOTHING if it concerns nobody else. */
static enum soup_event take_packet(struct soup *soup, struct bytes body, struct bytes *message)
{
    ASSERT(body.data != NULL);
    switch (soup->packet.head.type) {
    case 'S':
        if (soup->state != SOUP_UP)
            return SOUP_MALFORMED;
        soup->next_sequence++;
        soup->idle = false;
        soup_counters.messages++;
        *message = body;
        return SOUP_MESSAGE;
    case 'H':
        soup_counters.heartbeats++;
        soup->idle = true; /* §2.2: sent after a second without a packet */
        return SOUP_NOTHING;
    case '+':
        soup_counters.debug++;
        return SOUP_NOTHING;
    case 'U': /* §2.2.4: a message without a number; no protocol here has any */
        soup_counters.unsequenced++;
        return SOUP_NOTHING;
    case 'A':
        return take_accepted(soup, body);
    case 'J':
        return take_rejected(soup, body);
    case 'Z':
        soup_counters.ended++;
        return SOUP_ENDED;
    default:
        soup_counters.drop_type++;
        return SOUP_MALFORMED;
    }
}

enum soup_event soup_next(struct soup *soup, struct bytes *message)
{
    struct bytes body;
    ASSERT(soup->state != SOUP_DOWN);
    while (next_packet(soup, &body)) {
        if (body.data == NULL)
            return SOUP_NOTHING;
        enum soup_event event = take_packet(soup, body, message);
        if (event != SOUP_NOTHING)
            return event;
    }
    soup_counters.drop_length++;
    return SOUP_MALFORMED;
}

uint32_t soup_due(const struct soup *soup, uint64_t now_ns, uint8_t packet[SOUP_LOGIN_BYTES])
{
    struct soup_head_wire *head = (struct soup_head_wire *)packet;
    ASSERT(soup->sent_ns <= now_ns);
    if (soup->state == SOUP_CONNECTED) {
        store_be16(&head->bytes, SOUP_LOGIN_BYTES - sizeof head->bytes);
        head->type = 'L';
        char text[SOUP_LOGIN_BYTES - SOUP_HEAD_BYTES + 1];
        format(text, sizeof text, "%-6.6s%-10.10s%-10.10s%20llu", soup->user, soup->password, soup->session,
               (unsigned long long)soup->next_sequence);
        secrets_note(text, SOUP_USER_BYTES + SOUP_PASSWORD_BYTES); /* as it is sent: the password may be short */
        memcpy(packet + SOUP_HEAD_BYTES, text, sizeof text - 1);
        return SOUP_LOGIN_BYTES;
    }
    if (soup->state != SOUP_UP || now_ns - soup->sent_ns < SOUP_HEARTBEAT_NS)
        return 0;
    store_be16(&head->bytes, sizeof head->type);
    head->type = 'R';
    return SOUP_HEAD_BYTES;
}

void soup_sent(struct soup *soup, uint64_t now_ns)
{
    ASSERT(soup->state != SOUP_DOWN);
    if (soup->state == SOUP_CONNECTED)
        soup->state = SOUP_LOGIN;
    soup->sent_ns = now_ns;
}

bool soup_is_silent(const struct soup *soup, uint64_t now_ns)
{
    return soup->state != SOUP_DOWN && now_ns - soup->received_ns >= SOUP_SILENCE_NS;
}
