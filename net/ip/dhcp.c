/* DHCP client. The state machine is RFC 2131 §4.4, figure 5; messages and options are parsed whole before anything of
 * them is believed. */
#include "net/ip/dhcp.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/time.h"

enum {
    ROUTES_BYTES_MAX = 512,   /* option 121, pieced together: more than 50 routes */
    ROUTE_BYTES_MIN = 5,      /* a width and a router: the default route */
    MESSAGE_BYTES_MAX = 1472, /* one frame carries no more; option 57 says so, headers included */
};

/* RFC 2131 §4.1 begins at 4 s. A switch port or a server that is still starting may lose the first message. That should
 * not cost a booting machine 4 s, so this client begins at 1 s. Doubling and the limit of 64 s are the RFC's. */
static const uint32_t retry_seconds_first = 1, retry_seconds_max = 64;
static const uint32_t request_tries_max = 4;  /* 1 + 2 + 4 + 8 s without an answer: ask anybody again */
static const uint32_t renew_seconds_min = 60; /* RFC 2131 §4.4.5 */

#define DHCP_COUNTERS(X)                                                                                               \
    X(COUNT, tx_discover), X(COUNT, tx_request), X(COUNT, tx_renew), X(COUNT, tx_rebind), X(COUNT, rx_offer),          \
        X(COUNT, rx_ack), X(COUNT, rx_nak), X(COUNT, leases), X(COUNT, leases_ended),                                  \
        X(DROP_FRAME, rx_drop_truncated), X(DROP_FRAME, rx_drop_not_reply), X(DROP_FRAME, rx_drop_hardware),           \
        X(DROP_FRAME, rx_drop_xid), X(DROP_FRAME, rx_drop_mac), X(DROP_FRAME, rx_drop_cookie),                         \
        X(DROP_FRAME, rx_drop_bad_option), X(DROP_FRAME, rx_drop_no_type), X(DROP_FRAME, rx_drop_type),                \
        X(DROP_FRAME, rx_drop_state), X(DROP_FRAME, rx_drop_no_server), X(DROP_FRAME, rx_drop_other_server),           \
        X(DROP_FRAME, rx_drop_address), X(DROP_FRAME, rx_drop_no_lease), X(COUNT, rx_ignored_option),                  \
        X(COUNT, rx_routes_left_out)
static struct dhcp_counters {
    uint64_t DHCP_COUNTERS(COUNTER_MEMBER);
} dhcp_counters;
const struct counter_group dhcp_counter_group = COUNTER_GROUP("dhcp.", "DHCP client", DHCP_COUNTERS, dhcp_counters);

/* The options that hold a number. Each may come in pieces, which are put together: RFC 3396. The server sends one if
 * message_write asks for it in `parameters`. */
enum number {
    NUMBER_TYPE,
    NUMBER_OVERLOAD,
    NUMBER_MASK,
    NUMBER_SERVER,
    NUMBER_ROUTER,
    NUMBER_LEASE,
    NUMBER_T1,
    NUMBER_T2,
    NUMBER_MTU,
    NUMBER_COUNT,
};
static const struct {
    uint8_t option, bytes;
} numbers[NUMBER_COUNT] = {
    [NUMBER_TYPE] = { DHCP_OPTION_TYPE, 1 },     [NUMBER_OVERLOAD] = { DHCP_OPTION_OVERLOAD, 1 },
    [NUMBER_MASK] = { DHCP_OPTION_MASK, 4 },     [NUMBER_SERVER] = { DHCP_OPTION_SERVER, 4 },
    [NUMBER_ROUTER] = { DHCP_OPTION_ROUTER, 4 }, [NUMBER_LEASE] = { DHCP_OPTION_LEASE, 4 },
    [NUMBER_T1] = { DHCP_OPTION_T1, 4 },         [NUMBER_T2] = { DHCP_OPTION_T2, 4 },
    [NUMBER_MTU] = { DHCP_OPTION_MTU, 2 },
};

/* The contents of a message, before they are believed. */
struct reply {
    uint32_t address, next_server; /* yiaddr, siaddr */
    uint32_t sender;
    struct {
        uint32_t value;
        uint8_t bytes; /* so far */
    } numbers[NUMBER_COUNT];
    size_t routes_bytes;
    uint8_t routes[ROUTES_BYTES_MAX];
};

static bool reply_parse(struct reply *reply, const struct dhcp_wire *wire, size_t option_bytes);
static void lease_from_reply(struct dhcp_lease *lease, const struct reply *reply, uint64_t sent_ns);
static uint32_t reply_number(const struct reply *reply, enum number number);
static uint32_t reply_server(const struct reply *reply);
static void lease_times_set(struct dhcp_lease *lease, uint32_t seconds, uint32_t t1_seconds, uint32_t t2_seconds,
                            uint64_t sent_ns);

/* ---- State machine ---- */

static uint64_t random_draw(struct dhcp *dhcp)
{
    dhcp->drawn++;
    return siphash(dhcp->key, &dhcp->drawn, sizeof dhcp->drawn);
}

static void state_enter(struct dhcp *dhcp, enum dhcp_state state, uint64_t due_ns)
{
    dhcp->state = state;
    dhcp->tries = 0;
    dhcp->due_ns = due_ns;
}

/* Begins an exchange with a new transaction id: answers to the old one no longer match. */
static void exchange_begin(struct dhcp *dhcp, enum dhcp_state state, uint64_t now_ns)
{
    dhcp->xid = (uint32_t)random_draw(dhcp);
    dhcp->began_ns = now_ns;
    state_enter(dhcp, state, now_ns);
}

void dhcp_start(struct dhcp *dhcp, const uint8_t mac[6], struct bytes identity, struct siphash_key key, uint64_t now_ns)
{
    uint32_t serial = dhcp->lease_serial;
    ASSERT(identity.count <= DHCP_IDENTITY_BYTES_MAX);
    *dhcp = (struct dhcp){ .identity = identity, .key = key, .lease_serial = serial + 1 };
    memcpy(dhcp->mac, mac, sizeof dhcp->mac);
    exchange_begin(dhcp, DHCP_INIT, now_ns);
}

void dhcp_resume(struct dhcp *dhcp, const uint8_t mac[6], struct bytes identity, struct siphash_key key,
                 const struct dhcp_lease *lease, uint32_t seconds, uint64_t now_ns)
{
    ASSERT(seconds != 0);
    dhcp_start(dhcp, mac, identity, key, now_ns);
    dhcp->lease = *lease;
    lease_times_set(&dhcp->lease, seconds, 0, 0, now_ns);
    dhcp_counters.leases++;
    state_enter(dhcp, DHCP_BOUND, dhcp->lease.renews_ns);
    dhcp_check(dhcp);
}

static bool has_lease(const struct dhcp *dhcp) { return dhcp->state >= DHCP_BOUND; }

static void lease_take(struct dhcp *dhcp, const struct reply *reply)
{
    if (!has_lease(dhcp) || dhcp->lease.address != reply->address)
        dhcp->lease = (struct dhcp_lease){ 0 };
    lease_from_reply(&dhcp->lease, reply, dhcp->asked_ns);
    dhcp->lease_serial++;
    dhcp_counters.leases++;
    state_enter(dhcp, DHCP_BOUND, dhcp->lease.renews_ns);
}

static void lease_end(struct dhcp *dhcp, uint64_t now_ns)
{
    dhcp->lease_serial++;
    dhcp_counters.leases_ended++;
    exchange_begin(dhcp, DHCP_INIT, now_ns);
}

const struct dhcp_lease *dhcp_lease(const struct dhcp *dhcp) { return has_lease(dhcp) ? &dhcp->lease : NULL; }

uint64_t dhcp_next_deadline_ns(const struct dhcp *dhcp) { return dhcp->due_ns; }

const char *dhcp_waiting_for(const struct dhcp *dhcp)
{
    return has_lease(dhcp) ? "" : dhcp->state == DHCP_REQUESTING ? "DHCP acknowledgement" : "DHCP offer";
}

/* Returns true if a host can have the address: not 0/8, loopback, multicast, reserved. RFC 1122 §3.2.1.3 */
static bool is_host_address(uint32_t address)
{
    return address >> 24 != 0 && address >> 24 != 127 && address >> 28 < 14;
}

/* Returns true if the mask makes the address a network, or everyone on it. RFC 1122 §3.2.1.3 */
static bool is_broadcast_of(uint32_t address, uint32_t mask)
{
    uint32_t host = ~mask;
    bool senseless = mask == 0 || (host & (host + 1)) != 0; /* mask_choose ignores it */
    return !senseless && host > 1 && ((address & host) == 0 || (address & host) == host);
}

/* Returns true if an OFFER or ACK names all that a lease needs, sanely. */
static bool reply_is_usable(const struct reply *reply)
{
    if (!is_host_address(reply->address) || is_broadcast_of(reply->address, reply_number(reply, NUMBER_MASK))) {
        dhcp_counters.rx_drop_address++;
        return false;
    }
    if (!is_host_address(reply_server(reply))) {
        dhcp_counters.rx_drop_no_server++;
        return false;
    }
    if (reply_number(reply, NUMBER_LEASE) == 0) {
        dhcp_counters.rx_drop_no_lease++;
        return false;
    }
    return true;
}

static void offer_received(struct dhcp *dhcp, const struct reply *reply, uint64_t now_ns)
{
    dhcp_counters.rx_offer++;
    if (dhcp->state != DHCP_SELECTING) { /* the first offer was taken */
        dhcp_counters.rx_drop_state++;
        return;
    }
    if (!reply_is_usable(reply))
        return;
    dhcp->offer.address = reply->address;
    dhcp->offer.server = reply_server(reply);
    state_enter(dhcp, DHCP_REQUESTING, now_ns); /* RFC 2131 §4.4.1: the transaction (xid) is kept */
}

/* Returns true if a reply comes from the server that we asked. In REBINDING any server may answer. */
static bool server_is_ours(const struct dhcp *dhcp, const struct reply *reply)
{
    if (dhcp->state == DHCP_REBINDING)
        return true;
    return reply_server(reply) == (dhcp->state == DHCP_REQUESTING ? dhcp->offer.server : dhcp->lease.server);
}

static bool is_asking(const struct dhcp *dhcp)
{
    return dhcp->state == DHCP_REQUESTING || dhcp->state == DHCP_RENEWING || dhcp->state == DHCP_REBINDING;
}

static void answer_received(struct dhcp *dhcp, const struct reply *reply, uint64_t now_ns)
{
    bool refused = reply_number(reply, NUMBER_TYPE) == DHCP_NAK;
    if (!is_asking(dhcp)) {
        dhcp_counters.rx_drop_state++;
        return;
    }
    /* RFC 2131 §4.3.1, table 3: a MUST in both. A refusal without it is not obeyed: the lease would be lost. */
    if (!is_host_address(refused ? reply_number(reply, NUMBER_SERVER) : reply_server(reply))) {
        dhcp_counters.rx_drop_no_server++;
        return;
    }
    if (!server_is_ours(dhcp, reply)) {
        dhcp_counters.rx_drop_other_server++;
        return;
    }
    if (!refused) {
        if (reply_is_usable(reply))
            lease_take(dhcp, reply);
    } else if (has_lease(dhcp)) {
        lease_end(dhcp, now_ns); /* RFC 2131 §4.4.5: stop using the address at once */
    } else {
        exchange_begin(dhcp, DHCP_INIT, now_ns);
        dhcp->due_ns = now_ns + NS_PER_S; /* a server that offers and refuses must not be hammered */
    }
}

void dhcp_input(struct dhcp *dhcp, const uint8_t *message, size_t bytes, uint32_t sender, uint64_t now_ns)
{
    const struct dhcp_wire *wire = (const struct dhcp_wire *)message;
    struct reply reply = { .sender = sender };
    uint64_t *drop = NULL;
    if (bytes < sizeof *wire)
        drop = &dhcp_counters.rx_drop_truncated;
    else if (wire->op != DHCP_BOOTREPLY)
        drop = &dhcp_counters.rx_drop_not_reply;
    else if (wire->htype != DHCP_HARDWARE_ETHERNET || wire->hlen != sizeof dhcp->mac)
        drop = &dhcp_counters.rx_drop_hardware;
    else if (load_be32(&wire->xid) != dhcp->xid)
        drop = &dhcp_counters.rx_drop_xid;
    else if (memcmp(wire->chaddr, dhcp->mac, sizeof dhcp->mac) != 0)
        drop = &dhcp_counters.rx_drop_mac;
    else if (load_be32(&wire->cookie) != DHCP_COOKIE)
        drop = &dhcp_counters.rx_drop_cookie;
    else if (!reply_parse(&reply, wire, bytes - sizeof *wire))
        drop = &dhcp_counters.rx_drop_bad_option;
    else if (reply_number(&reply, NUMBER_TYPE) == 0)
        drop = &dhcp_counters.rx_drop_no_type;
    if (drop != NULL) {
        (*drop)++;
        return;
    }

    switch (reply_number(&reply, NUMBER_TYPE)) {
    case DHCP_OFFER:
        offer_received(dhcp, &reply, now_ns);
        break;
    case DHCP_ACK:
        dhcp_counters.rx_ack++;
        answer_received(dhcp, &reply, now_ns);
        break;
    case DHCP_NAK:
        dhcp_counters.rx_nak++;
        answer_received(dhcp, &reply, now_ns);
        break;
    default:
        dhcp_counters.rx_drop_type++;
    }
}

/* ---- Messages out ---- */

static uint8_t *put_option(uint8_t *at, uint8_t option, const void *value, uint8_t bytes)
{
    struct dhcp_option_wire *head = (struct dhcp_option_wire *)at;
    *head = (struct dhcp_option_wire){ option, bytes };
    memcpy(head + 1, value, bytes);
    return at + sizeof *head + bytes;
}

static uint8_t *put_option_be32(uint8_t *at, uint8_t option, uint32_t value)
{
    uint8_t wire[4];
    store_be32(wire, value);
    return put_option(at, option, wire, sizeof wire);
}

/* RFC 2131 §4.3.6, table 4, says which of ciaddr, 50 and 54 a REQUEST carries in which state. */
static size_t message_write(const struct dhcp *dhcp, uint8_t *message, uint8_t type)
{
    static const uint8_t parameters[] = {
        DHCP_OPTION_MASK,  DHCP_OPTION_ROUTES, DHCP_OPTION_ROUTER, DHCP_OPTION_MTU,
        DHCP_OPTION_LEASE, DHCP_OPTION_SERVER, DHCP_OPTION_T1,     DHCP_OPTION_T2
    }; /* 121 before 3: RFC 3442 */
    struct dhcp_wire *wire = (struct dhcp_wire *)message;
    memset(message, 0, DHCP_OUTPUT_BYTES_MAX);
    wire->op = DHCP_BOOTREQUEST;
    wire->htype = DHCP_HARDWARE_ETHERNET;
    wire->hlen = sizeof dhcp->mac;
    store_be32(&wire->xid, dhcp->xid);
    store_be16(&wire->secs, dhcp->secs);
    /* The broadcast flag stays clear: net/ and lwIP take a unicast to an address that they do not have yet. */
    if (has_lease(dhcp))
        store_be32(&wire->ciaddr, dhcp->lease.address);
    memcpy(wire->chaddr, dhcp->mac, sizeof dhcp->mac);
    store_be32(&wire->cookie, DHCP_COOKIE);

    uint8_t *at = put_option((uint8_t *)(wire + 1), DHCP_OPTION_TYPE, &type, 1);
    if (dhcp->state == DHCP_REQUESTING) {
        at = put_option_be32(at, DHCP_OPTION_ADDRESS, dhcp->offer.address);
        at = put_option_be32(at, DHCP_OPTION_SERVER, dhcp->offer.server);
    }
    uint8_t size[2];
    store_be16(size, MESSAGE_BYTES_MAX + 28); /* the IP and UDP headers count */
    at = put_option(at, DHCP_OPTION_SIZE, size, sizeof size);
    at = put_option(at, DHCP_OPTION_PARAMETERS, parameters, sizeof parameters);
    if (dhcp->identity.count != 0)
        memcpy(at, dhcp->identity.data, dhcp->identity.count);
    at += dhcp->identity.count;
    *at++ = DHCP_OPTION_END;
    ASSERT(at <= message + DHCP_OUTPUT_BYTES_MAX);
    return max_size((size_t)(at - message), DHCP_OUTPUT_BYTES_MIN);
}

/* Returns the time of the next repetition: after 1, 2, 4, ... 64 s, each up to a quarter less or more (RFC 2131 §4.1:
 * randomised by 1 s in 4). */
static uint64_t retry_ns(struct dhcp *dhcp, uint64_t now_ns)
{
    uint32_t seconds = retry_seconds_first;
    for (uint32_t i = 1; i < dhcp->tries && seconds < retry_seconds_max; i++)
        seconds *= 2;
    uint64_t half_ns = seconds * NS_PER_S / 2;
    return now_ns + seconds * NS_PER_S - half_ns / 2 + random_draw(dhcp) % half_ns;
}

/* RFC 2131 §4.4.5: Returns the time of the next request, after half of the time left to the deadline and at least a
 * minute. Returns the deadline if less time is left: the state then sends no further request. */
static uint64_t renew_retry_ns(uint64_t deadline_ns, uint64_t now_ns)
{
    if (deadline_ns <= now_ns)
        return now_ns;
    uint64_t half_ns = (deadline_ns - now_ns) / 2;
    uint64_t wait_ns = half_ns > renew_seconds_min * NS_PER_S ? half_ns : renew_seconds_min * NS_PER_S;
    return deadline_ns - now_ns < wait_ns ? deadline_ns : now_ns + wait_ns;
}

static void lease_age(struct dhcp *dhcp, uint64_t now_ns)
{
    if (!has_lease(dhcp))
        return;
    if (now_ns >= dhcp->lease.ends_ns)
        lease_end(dhcp, now_ns);
    else if (now_ns >= dhcp->lease.rebinds_ns && dhcp->state != DHCP_REBINDING)
        exchange_begin(dhcp, DHCP_REBINDING, now_ns);
    else if (now_ns >= dhcp->lease.renews_ns && dhcp->state == DHCP_BOUND)
        exchange_begin(dhcp, DHCP_RENEWING, now_ns);
}

size_t dhcp_output(struct dhcp *dhcp, uint8_t message[DHCP_OUTPUT_BYTES_MAX], uint32_t *source, uint32_t *destination,
                   uint64_t now_ns)
{
    if (now_ns < dhcp->due_ns)
        return 0;
    lease_age(dhcp, now_ns);
    if (dhcp->state == DHCP_REQUESTING && dhcp->tries == request_tries_max)
        exchange_begin(dhcp, DHCP_INIT, now_ns);
    if (dhcp->state == DHCP_INIT)
        state_enter(dhcp, DHCP_SELECTING, now_ns);

    *source = has_lease(dhcp) ? dhcp->lease.address : 0;
    *destination = 0xffffffff;
    if (dhcp->tries++ == 0)
        dhcp->asked_ns = now_ns;
    if (dhcp->state != DHCP_REQUESTING) /* RFC 2131 §3.1, step 3: there MUST be the DISCOVER's */
        dhcp->secs = (uint16_t)min_size((now_ns - dhcp->began_ns) / NS_PER_S, UINT16_MAX);
    switch (dhcp->state) {
    case DHCP_SELECTING:
        dhcp_counters.tx_discover++;
        dhcp->due_ns = retry_ns(dhcp, now_ns);
        return message_write(dhcp, message, DHCP_DISCOVER);
    case DHCP_REQUESTING:
        dhcp_counters.tx_request++;
        dhcp->due_ns = retry_ns(dhcp, now_ns);
        break;
    case DHCP_RENEWING:
        dhcp_counters.tx_renew++;
        *destination = dhcp->lease.server;
        dhcp->due_ns = renew_retry_ns(dhcp->lease.rebinds_ns, now_ns);
        break;
    case DHCP_REBINDING:
        dhcp_counters.tx_rebind++;
        dhcp->due_ns = renew_retry_ns(dhcp->lease.ends_ns, now_ns);
        break;
    case DHCP_INIT:
    case DHCP_BOUND:
        dhcp->tries = 0; /* woken before its time: nothing to say */
        dhcp->due_ns = dhcp->lease.renews_ns;
        return 0;
    }
    return message_write(dhcp, message, DHCP_REQUEST);
}

/* ---- Messages in ---- */

/* Appends a piece of the routes, as far as it fits: none that follows can then stand in the place of the rest. Returns
 * false if they are more than fit. */
static bool routes_take(struct reply *reply, const uint8_t *field, size_t from, size_t to)
{
    size_t i = from;
    for (; i < to && reply->routes_bytes < ROUTES_BYTES_MAX; i++)
        reply->routes[reply->routes_bytes++] = field[i];
    return i == to;
}

/* Returns an option's number; 0: not said, or not whole. */
static uint32_t reply_number(const struct reply *reply, enum number number)
{
    ASSERT(number < NUMBER_COUNT);
    return reply->numbers[number].bytes == numbers[number].bytes ? reply->numbers[number].value : 0;
}

/* Returns the address of the server. A server that leaves option 54 out (seen in a cloud) is the sender. */
static uint32_t reply_server(const struct reply *reply)
{
    if (reply->numbers[NUMBER_SERVER].bytes == numbers[NUMBER_SERVER].bytes)
        return reply_number(reply, NUMBER_SERVER);
    return is_host_address(reply->sender) ? reply->sender : reply->next_server;
}

/* Takes a number, or a piece of one, unless an earlier option of its kind gave it. RFC 2131 §4.1: the values of one
 * option are put together, and the first one then stands in front. Returns false if the value has an impossible length,
 * or makes an earlier piece one that belongs to nothing. */
static bool number_take(struct reply *reply, enum number number, const uint8_t *field, size_t from, size_t to)
{
    size_t bytes = to - from, whole = numbers[number].bytes, before = reply->numbers[number].bytes;
    ASSERT(before <= whole);
    if (bytes == 0 || bytes > whole || before == whole)
        return bytes == whole;
    if (before + bytes > whole && bytes < whole)
        return false;
    bool begins = before == 0 || bytes == whole;
    uint32_t value = begins ? 0 : reply->numbers[number].value;
    for (size_t i = from; i < to; i++)
        value = value << 8 | field[i];
    reply->numbers[number].value = value;
    reply->numbers[number].bytes = (uint8_t)(begins ? bytes : before + bytes);
    return begins == (before == 0);
}

/* Takes the value of one option, which lies in `field` at `from` up to `to`. Returns false if the value has a length
 * that it cannot have. */
static bool option_take(struct reply *reply, uint8_t option, const uint8_t *field, size_t from, size_t to)
{
    if (from == to)
        return false;
    if (option == DHCP_OPTION_ROUTES) /* may come in pieces: RFC 3442, RFC 3396 */
        return routes_take(reply, field, from, to);
    if (option == DHCP_OPTION_ROUTER && (to - from) % 4 == 0)
        to = from + 4; /* in order of preference: RFC 2132 §3.5 */
    for (unsigned number = 0; number < NUMBER_COUNT; number++)
        if (numbers[number].option == option)
            return number_take(reply, number, field, from, to);
    return true; /* an option that we do not use */
}

/* Parses one field of options, which ends at END or with its last byte. An option whose length is impossible is ignored
 * alone, as other clients do. Returns false if an option does not end within the field. */
static bool options_parse(struct reply *reply, const uint8_t *field, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && field[i] != DHCP_OPTION_END) {
        if (field[i] == DHCP_OPTION_PAD) {
            i++;
            continue;
        }
        const struct dhcp_option_wire *head = (const struct dhcp_option_wire *)(field + i);
        size_t value = i + sizeof *head;
        if (value > bytes || value + head->bytes > bytes)
            return false;
        if (!option_take(reply, head->code, field, value, value + head->bytes))
            dhcp_counters.rx_ignored_option++;
        i = value + head->bytes;
    }
    return true;
}

/* Parses a message. RFC 2131 §4.1: options, then file, then sname if overloaded. An overload option inside file or
 * sname is ignored: no field is read twice. */
static bool reply_parse(struct reply *reply, const struct dhcp_wire *wire, size_t option_bytes)
{
    reply->address = load_be32(&wire->yiaddr);
    reply->next_server = load_be32(&wire->siaddr);
    if (!options_parse(reply, (const uint8_t *)(wire + 1), option_bytes))
        return false;
    uint32_t overload = reply_number(reply, NUMBER_OVERLOAD);
    if ((overload & DHCP_OVERLOAD_FILE) && !options_parse(reply, wire->file, sizeof wire->file))
        return false;
    if ((overload & DHCP_OVERLOAD_SNAME) && !options_parse(reply, wire->sname, sizeof wire->sname))
        return false;
    for (unsigned number = 0; number < NUMBER_COUNT; number++)
        if (reply->numbers[number].bytes % numbers[number].bytes != 0)
            dhcp_counters.rx_ignored_option++; /* a piece without the rest */
    return true;
}

static uint32_t mask_of(unsigned bits) { return bits == 0 ? 0 : UINT32_MAX << (32 - bits); }

/* Takes a default route; of several, the first. RFC 3442, "Local Subnet Routes": without a gateway, every address is on
 * the link. */
static void default_route_take(struct dhcp_lease *lease, uint32_t gateway)
{
    if (lease->gateway != 0 || lease->all_on_link)
        return;
    lease->gateway = gateway;
    lease->all_on_link = gateway == 0;
}

/* RFC 3442: destinations are a width and as many octets of the network as it has, each followed by a router. Routes
 * without sense end the list; what came before holds. False: there was none. */
static bool routes_parse(struct dhcp_lease *lease, const struct reply *reply)
{
    bool any = false;
    size_t i = 0;
    while (i + ROUTE_BYTES_MIN <= reply->routes_bytes) {
        uint8_t network[4] = { 0 };
        unsigned bits = reply->routes[i];
        if (bits > 32)
            break;
        size_t octets = (bits + 7) / 8, router = i + 1 + octets, end = router + sizeof(uint32_t);
        if (end > reply->routes_bytes)
            break;
        memcpy(network, &reply->routes[i + 1], octets);
        struct dhcp_route route = { .mask = mask_of(bits), .gateway = load_be32(&reply->routes[router]) };
        route.network = load_be32(network) & route.mask; /* RFC 3442: clear the bits outside the mask */
        i = end;
        any = true;
        if (route.gateway != 0 && !is_host_address(route.gateway))
            dhcp_counters.rx_ignored_option++;
        else if (bits == 0)
            default_route_take(lease, route.gateway);
        else if (lease->route_count >= DHCP_ROUTE_COUNT_MAX)
            dhcp_counters.rx_routes_left_out++;
        else
            lease->routes[lease->route_count++] = route;
    }
    if (i < reply->routes_bytes)
        dhcp_counters.rx_ignored_option++;
    return any;
}

/* Chooses the mask. Without a possible one the present mask stays, if there is any. Else the class decides (RFC 950
 * §2.1), or with routes, /32. */
static uint32_t mask_choose(const struct reply *reply, uint32_t present)
{
    uint32_t mask = reply_number(reply, NUMBER_MASK), host = ~mask;
    if (mask != 0 && (host & (host + 1)) == 0)
        return mask;
    if (mask != 0)
        dhcp_counters.rx_ignored_option++;
    if (present != 0)
        return present;
    if (reply->routes_bytes != 0)
        return mask_of(32);
    return mask_of(reply->address >> 31 == 0 ? 8 : reply->address >> 30 == 2 ? 16 : 24);
}

/* Takes a lease over from an ACK. `lease` holds the present lease of the address, or zeros: a renewal that leaves out
 * mask, router or MTU changes none of them. Times count from when the request was sent: RFC 2131 §4.4.1; of several,
 * the first. */
static void lease_from_reply(struct dhcp_lease *lease, const struct reply *reply, uint64_t sent_ns)
{
    const struct dhcp_lease present = *lease;
    uint32_t router = reply_number(reply, NUMBER_ROUTER);
    *lease = (struct dhcp_lease){
        .address = reply->address,
        .server = reply_server(reply),
        .mask = mask_choose(reply, present.mask),
        .mtu_bytes = (uint16_t)reply_number(reply, NUMBER_MTU),
    };
    if (lease->mtu_bytes == 0)
        lease->mtu_bytes = present.mtu_bytes;
    if (!routes_parse(lease, reply)) { /* RFC 3442: with routes, the router option is ignored */
        if (is_host_address(router)) {
            lease->gateway = router;
        } else {
            lease->gateway = present.gateway;
            lease->all_on_link = present.all_on_link;
            memcpy(lease->routes, present.routes, sizeof lease->routes);
            lease->route_count = present.route_count;
        }
    }
    lease_times_set(lease, reply_number(reply, NUMBER_LEASE), reply_number(reply, NUMBER_T1),
                    reply_number(reply, NUMBER_T2), sent_ns);
}

/* Sets T1, T2 and the end of a lease that counts from `sent_ns`. T1 and T2 of 0 are not said. */
static void lease_times_set(struct dhcp_lease *lease, uint32_t seconds, uint32_t t1_seconds, uint32_t t2_seconds,
                            uint64_t sent_ns)
{
    lease->renews_ns = lease->rebinds_ns = lease->ends_ns = UINT64_MAX;
    if (seconds == UINT32_MAX)
        return; /* RFC 2131 §3.3: the lease never ends */
    uint64_t lease_ns = seconds * NS_PER_S, t2_ns = t2_seconds * NS_PER_S, t1_ns = t1_seconds * NS_PER_S;
    if (t2_ns == 0 || t2_ns >= lease_ns)
        t2_ns = lease_ns / 8 * 7; /* RFC 2131 §4.4.5 */
    if (t1_ns == 0 || t1_ns >= t2_ns)
        t1_ns = lease_ns / 2 < t2_ns ? lease_ns / 2 : t2_ns;
    lease->renews_ns = sent_ns + t1_ns;
    lease->rebinds_ns = sent_ns + t2_ns;
    lease->ends_ns = sent_ns + lease_ns;
}

/* ---- What must hold ---- */

void dhcp_check(const struct dhcp *dhcp)
{
    ASSERT(dhcp->state <= DHCP_REBINDING);
    ASSERT(dhcp->identity.count <= DHCP_IDENTITY_BYTES_MAX);
    if (dhcp->state == DHCP_REQUESTING) {
        ASSERT(dhcp->tries <= request_tries_max);
        ASSERT(is_host_address(dhcp->offer.address));
        ASSERT(is_host_address(dhcp->offer.server));
    }
    if (!has_lease(dhcp))
        return;
    ASSERT(is_host_address(dhcp->lease.address));
    ASSERT(is_host_address(dhcp->lease.server));
    ASSERT(dhcp->lease.mask != 0);
    ASSERT(dhcp->lease.route_count <= DHCP_ROUTE_COUNT_MAX);
    ASSERT(dhcp->lease.renews_ns <= dhcp->lease.rebinds_ns);
    ASSERT(dhcp->lease.rebinds_ns <= dhcp->lease.ends_ns);
}
