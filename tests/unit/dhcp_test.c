/* net/ip/dhcp.h: the client's exchange, its times, and good and bad options. The test builds the server's messages. */
#include "net/ip/dhcp.h"
#include "tests/lib/test.h"

static const uint64_t second_ns = UINT64_C(1000000000);
static const uint8_t mac[6] = { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 };
enum { OURS = 0x0a00020f, SERVER = 0x0a000202, ROUTER = 0x0a000203, OTHER = 0x0a000266 };
enum { OFFER = 2, ACK = 5, NAK = 6 };

static struct dhcp dhcp;
static struct bytes identity;
static uint32_t sender; /* the source of the server's messages */
static uint64_t now_ns;

static uint64_t counter(const char *name)
{
    for (size_t i = 0; i < dhcp_counter_group.count; i++)
        if (strcmp(dhcp_counter_group.counters[i].name, name) == 0)
            return dhcp_counter_group.values[i];
    fail_msg("no counter %s", name);
    return 0;
}

/* ---- The client's messages ---- */

struct request {
    size_t bytes;
    uint32_t source, destination;
    uint8_t message[DHCP_OUTPUT_BYTES_MAX];
};

static struct request ask(void)
{
    struct request r = { 0 };
    r.bytes = dhcp_output(&dhcp, r.message, &r.source, &r.destination, now_ns);
    dhcp_check(&dhcp);
    return r;
}

/* Returns an option's value; NULL: the option is missing. */
static const uint8_t *option_of(const struct request *r, uint8_t wanted)
{
    for (size_t at = 240; r->message[at] != 255; at += 2u + r->message[at + 1]) {
        assert_true(at + 2 < r->bytes);
        if (r->message[at] == wanted)
            return r->message + at + 2;
    }
    return NULL;
}

static uint8_t kind_of(struct request r)
{
    assert_int_not_equal(r.bytes, 0);
    return *option_of(&r, 53);
}

/* Moves time to the next message's deadline and returns the message. */
static struct request ask_when_due(void)
{
    assert_true(dhcp_next_deadline_ns(&dhcp) != UINT64_MAX);
    if (dhcp_next_deadline_ns(&dhcp) > now_ns)
        now_ns = dhcp_next_deadline_ns(&dhcp);
    return ask();
}

/* ---- The server's messages ---- */

struct answer {
    size_t bytes;
    uint8_t message[1500];
};

static void add(struct answer *a, uint8_t option, size_t count, const void *value)
{
    a->message[a->bytes++] = option;
    a->message[a->bytes++] = (uint8_t)count;
    memcpy(a->message + a->bytes, value, count);
    a->bytes += count;
}

/* An option whose value is a number: of two bytes for the MTU, else of four. A list ends with an option of 0. */
struct option {
    uint8_t code;
    uint32_t value;
};
#define OPTIONS(...) ((const struct option[]){ __VA_ARGS__, { 0, 0 } })
#define NO_OPTIONS   (&(const struct option){ 0, 0 })

static void add_numbers(struct answer *a, const struct option *options)
{
    for (; options->code != 0; options++) {
        uint8_t wire[4], bytes = options->code == 26 ? 2 : 4;
        store_be32(wire, options->value << (32 - 8 * bytes));
        add(a, options->code, bytes, wire);
    }
}

static struct answer answer_with(uint8_t kind, uint32_t address, const struct option *options)
{
    struct answer a = { .bytes = 240 };
    a.message[0] = 2;
    a.message[1] = 1;
    a.message[2] = 6;
    store_be32(a.message + 4, dhcp.xid);
    store_be32(a.message + 16, address);
    memcpy(a.message + 28, mac, 6);
    store_be32(a.message + 236, 0x63825363);
    add(&a, 53, 1, &kind);
    add_numbers(&a, options);
    return a;
}

/* Returns an answer with the options that a lease needs, and no more. */
static struct answer answer_plain(uint8_t kind, uint32_t lease_seconds)
{
    const struct option options[] = {
        { 54, SERVER }, { kind == NAK ? 0 : 51, lease_seconds }, { 1, 0xffffff00 }, { 0 }
    };
    return answer_with(kind, OURS, options);
}

static void deliver(struct answer *a)
{
    /* On the heap, so that the sanitizer sees a read past the end. The message may lack END. */
    uint8_t *exact = malloc(a->bytes != 0 ? a->bytes : 1);
    memcpy(exact, a->message, a->bytes);
    dhcp_input(&dhcp, exact, a->bytes, sender, now_ns);
    dhcp_check(&dhcp);
    free(exact);
}

static void deliver_plain(uint8_t kind, uint32_t lease_seconds)
{
    struct answer a = answer_plain(kind, lease_seconds);
    deliver(&a);
}

static void deliver_with(uint8_t kind, uint32_t address, const struct option *options)
{
    struct answer a = answer_with(kind, address, options);
    deliver(&a);
}

static void start(void)
{
    memset((void *)(uintptr_t)dhcp_counter_group.values, 0, dhcp_counter_group.count * sizeof(uint64_t));
    now_ns = 77 * second_ns;
    identity = (struct bytes){ NULL, 0 };
    sender = SERVER;
    dhcp = (struct dhcp){ 0 };
    dhcp_start(&dhcp, mac, identity, (struct siphash_key){ 1, 2 }, now_ns);
}

BEFORE_EACH() { start(); }

/* Plays DISCOVER and OFFER; a REQUEST is due then. */
static void reach_requesting(void)
{
    assert_int_equal(kind_of(ask()), 1);
    deliver_plain(OFFER, 3600);
    assert_int_equal(dhcp.state, DHCP_REQUESTING);
    assert_int_equal(counter("rx_offer"), 1);
}

/* Starts again and plays DISCOVER, OFFER and REQUEST; an answer to the REQUEST may follow. */
static void reach_requested(void)
{
    start();
    reach_requesting();
    ask();
}

static void reach_bound_plain(uint32_t lease_seconds)
{
    reach_requested();
    deliver_plain(ACK, lease_seconds);
    assert_non_null(dhcp_lease(&dhcp));
}

/* Plays a whole exchange. Returns the lease, which SERVER gives for 1000 s. */
static const struct dhcp_lease *lease_with(uint32_t address, const struct option *options)
{
    reach_requested();
    struct answer a = answer_with(ACK, address, OPTIONS({ 54, SERVER }, { 51, 1000 }));
    add_numbers(&a, options);
    deliver(&a);
    assert_non_null(dhcp_lease(&dhcp));
    return dhcp_lease(&dhcp);
}

/* Expects a lease of our address from SERVER. Its length is `seconds`. */
static void expect_lease(uint32_t mask, uint32_t gateway, uint32_t mtu_bytes, uint64_t seconds)
{
    const struct dhcp_lease *lease = dhcp_lease(&dhcp);
    assert_non_null(lease);
    assert_int_equal(lease->address, OURS);
    assert_int_equal(lease->server, SERVER);
    assert_int_equal(lease->mask, mask);
    assert_int_equal(lease->gateway, gateway);
    assert_int_equal(lease->mtu_bytes, mtu_bytes);
    assert_true(lease->ends_ns == now_ns + seconds * second_ns);
}

/* Expects a lease of 1000 s with the options of answer_plain and a router. */
static void expect_plain_lease(void)
{
    const struct dhcp_lease *lease = dhcp_lease(&dhcp);
    expect_lease(0xffffff00, ROUTER, 0, 1000);
    assert_int_equal(lease->route_count, 0);
    assert_true(lease->renews_ns == now_ns + 500 * second_ns);
    assert_true(lease->rebinds_ns == now_ns + 875 * second_ns);
}

/* ---- The exchange ---- */

TEST(discover_is_whole_and_goes_to_everybody)
{
    struct request r = ask();
    assert_int_equal(r.bytes, 300);
    assert_int_equal(r.source, 0);
    assert_int_equal(r.destination, 0xffffffff);
    assert_memory_equal(r.message, "\1\1\6", 3);
    assert_memory_equal(r.message + 28, mac, 6);
    assert_int_equal(load_be32(r.message + 236), 0x63825363);
    assert_int_equal(kind_of(r), 1);
    assert_null(option_of(&r, 50));
    const uint8_t *parameters = option_of(&r, 55);
    const uint8_t *routes = memchr(parameters, 121, parameters[-1]), *router = memchr(parameters, 3, parameters[-1]);
    assert_true(routes != NULL && router != NULL && routes < router); /* RFC 3442 */
    assert_null(dhcp_lease(&dhcp));
    assert_string_equal(dhcp_waiting_for(&dhcp), "DHCP offer");
}

TEST(offer_is_requested_in_the_same_transaction)
{
    struct request discover = ask();
    deliver_plain(OFFER, 3600);
    assert_int_equal(dhcp_next_deadline_ns(&dhcp), now_ns);
    struct request r = ask();
    assert_int_equal(kind_of(r), 3);
    assert_int_equal(load_be32(r.message + 4), load_be32(discover.message + 4));
    assert_int_equal(load_be32(option_of(&r, 50)), OURS);
    assert_int_equal(load_be32(option_of(&r, 54)), SERVER);
    assert_int_equal(load_be32(r.message + 12), 0); /* ciaddr: RFC 2131, table 4 */
    assert_int_equal(r.destination, 0xffffffff);
    assert_string_equal(dhcp_waiting_for(&dhcp), "DHCP acknowledgement");
}

/* RFC 2131 §3.1, step 3: relay agents decide by `secs`, so a REQUEST has its DISCOVER's. */
TEST(request_has_the_secs_of_its_discover)
{
    ask();
    struct request discover = ask_when_due();
    now_ns += 3 * second_ns;
    deliver_plain(OFFER, 3600);
    struct request first = ask(), second = ask_when_due();
    assert_int_equal(kind_of(first), 3);
    assert_int_equal(load_be16(first.message + 8), load_be16(discover.message + 8));
    assert_memory_equal(second.message, first.message, first.bytes);
}

TEST(acknowledged_lease_holds)
{
    uint32_t serial = dhcp.lease_serial;
    lease_with(OURS, OPTIONS({ 1, 0xffffff00 }, { 3, ROUTER }));
    expect_plain_lease();
    assert_int_not_equal(dhcp.lease_serial, serial);
    assert_true(dhcp_next_deadline_ns(&dhcp) == dhcp_lease(&dhcp)->renews_ns);
    assert_int_equal(ask().bytes, 0);
}

TEST(another_servers_answers_and_a_lease_of_no_time_are_not_taken)
{
    reach_requesting();
    deliver_with(OFFER, OTHER, OPTIONS({ 54, OTHER }, { 51, 100 }));
    struct request r = ask();
    assert_int_equal(load_be32(option_of(&r, 54)), SERVER);
    deliver_with(ACK, OTHER, OPTIONS({ 54, OTHER }, { 51, 100 }));
    assert_int_equal(counter("rx_drop_other_server"), 1);
    deliver_plain(ACK, 0);
    assert_null(dhcp_lease(&dhcp));
    deliver_plain(ACK, 100);
    assert_non_null(dhcp_lease(&dhcp));
    assert_true(counter("rx_ack") == 3 && counter("leases") == 1);
}

TEST(discovers_back_off_to_a_minute)
{
    ask();
    static const unsigned waits[] = { 1, 2, 4, 8, 16, 32, 64, 64, 64 };
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        uint64_t wait_ns = dhcp_next_deadline_ns(&dhcp) - now_ns;
        assert_true(wait_ns >= waits[i] * second_ns * 3 / 4 && wait_ns <= waits[i] * second_ns * 5 / 4);
        assert_int_equal(ask().bytes, 0); /* nothing is asked before its time */
        struct request r = ask_when_due();
        assert_int_equal(kind_of(r), 1);
        assert_int_equal(load_be16(r.message + 8), (uint16_t)((now_ns - 77 * second_ns) / second_ns));
    }
}

TEST(unanswered_request_goes_back_to_discover)
{
    reach_requesting();
    uint32_t xid = dhcp.xid;
    for (int i = 0; i < 4; i++)
        assert_int_equal(kind_of(ask_when_due()), 3);
    struct request r = ask_when_due();
    assert_int_equal(kind_of(r), 1);
    assert_int_not_equal(load_be32(r.message + 4), xid);
    assert_true(counter("tx_request") == 4 && counter("tx_discover") == 2);
}

TEST(refusal_starts_again_a_second_later)
{
    reach_requested();
    deliver_plain(NAK, 0);
    assert_int_equal(dhcp.state, DHCP_INIT);
    assert_int_equal(ask().bytes, 0);
    assert_true(dhcp_next_deadline_ns(&dhcp) == now_ns + second_ns);
    assert_int_equal(kind_of(ask_when_due()), 1);
}

TEST(answers_that_were_not_asked_for_and_a_refusal_in_every_state_are_survived)
{
    deliver_plain(OFFER, 100);
    deliver_plain(ACK, 100);
    deliver_plain(NAK, 0); /* INIT */
    assert_int_equal(dhcp.state, DHCP_INIT);
    ask();
    deliver_plain(ACK, 100);
    deliver_plain(NAK, 0); /* SELECTING */
    assert_int_equal(dhcp.state, DHCP_SELECTING);
    deliver_plain(OFFER, 100);
    ask();
    deliver_plain(ACK, 100);
    deliver_plain(NAK, 0); /* BOUND: nothing was asked */
    assert_int_equal(dhcp.state, DHCP_BOUND);
    ask_when_due();
    assert_int_equal(dhcp.state, DHCP_RENEWING);
    deliver_plain(NAK, 0);
    assert_null(dhcp_lease(&dhcp));
    assert_int_equal(dhcp.state, DHCP_INIT);
    assert_true(counter("rx_nak") == 4 && counter("rx_drop_state") == 6 && counter("leases_ended") == 1);
}

/* ---- The lease's times ---- */

/* Expects a renewal's REQUEST: RFC 2131, table 4. */
static void expect_renewal(const struct request *r)
{
    assert_int_equal(kind_of(*r), 3);
    assert_int_equal(r->source, OURS);
    assert_int_equal(r->destination, SERVER);
    assert_int_equal(load_be32(r->message + 12), OURS);
    assert_null(option_of(r, 50));
    assert_null(option_of(r, 54));
}

TEST(lease_is_renewed_at_half_by_unicast)
{
    reach_bound_plain(1000);
    uint64_t taken_ns = now_ns;
    uint32_t serial = dhcp.lease_serial, xid = dhcp.xid;
    struct request r = ask_when_due();
    assert_true(now_ns == taken_ns + 500 * second_ns);
    expect_renewal(&r);
    assert_int_not_equal(load_be32(r.message + 4), xid);
    assert_non_null(dhcp_lease(&dhcp)); /* the lease holds meanwhile */
    now_ns += second_ns;
    deliver_plain(ACK, 1000);
    assert_int_not_equal(dhcp.lease_serial, serial);
    assert_true(dhcp_lease(&dhcp)->ends_ns == taken_ns + 1500 * second_ns); /* counted from the request */
}

TEST(unanswered_renewal_is_repeated_then_rebound_then_lost)
{
    reach_bound_plain(1000);
    uint64_t taken_ns = now_ns, last_ns = 0;
    unsigned renewals = 0, rebinds = 0;
    for (;;) {
        struct request r = ask_when_due();
        if (dhcp_lease(&dhcp) == NULL) {
            assert_int_equal(kind_of(r), 1);
            break;
        }
        assert_int_equal(kind_of(r), 3);
        bool rebinding = r.destination == 0xffffffff;
        assert_int_equal(rebinding, now_ns >= taken_ns + 875 * second_ns);
        renewals += !rebinding;
        rebinds += rebinding;
        if (last_ns != 0 && !(rebinding && rebinds == 1))
            assert_true(now_ns - last_ns >= 60 * second_ns);
        last_ns = now_ns;
        assert_true(renewals + rebinds < 20);
    }
    assert_true(now_ns == taken_ns + 1000 * second_ns);
    assert_true(renewals == 4 && counter("tx_renew") == 4); /* at 500, 687.5, 781.25, 841.25 s */
    assert_true(rebinds == 3 && counter("tx_rebind") == 3); /* at 875, 937.5 (62.5 of 125 s), 997.5 s */
}

TEST(rebinding_takes_any_server)
{
    reach_bound_plain(1000);
    now_ns = dhcp_lease(&dhcp)->rebinds_ns;
    struct request r = ask();
    assert_int_equal(r.destination, 0xffffffff);
    deliver_with(ACK, OURS, OPTIONS({ 54, OTHER }, { 51, 500 }));
    assert_int_equal(dhcp_lease(&dhcp)->server, OTHER);
}

TEST(times_of_the_server_are_used_if_they_are_in_order)
{
    static const struct {
        uint32_t t1, t2, want_t1, want_t2;
    } cases[] = {
        { 100, 200, 100, 200 }, { 0, 200, 200, 200 },  { 100, 0, 100, 875 },
        { 900, 0, 500, 875 },   { 0, 2000, 500, 875 }, { 0xffffffff, 0xffffffff, 500, 875 },
        { 300, 200, 200, 200 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct dhcp_lease *lease = lease_with(OURS, OPTIONS({ 58, cases[i].t1 }, { 59, cases[i].t2 }));
        assert_int_equal((lease->renews_ns - now_ns) / second_ns, cases[i].want_t1);
        assert_int_equal((lease->rebinds_ns - now_ns) / second_ns, cases[i].want_t2);
    }
}

TEST(lease_for_ever_is_never_renewed)
{
    reach_bound_plain(0xffffffff);
    assert_true(dhcp_next_deadline_ns(&dhcp) == UINT64_MAX);
    now_ns += UINT64_C(10000000000) * second_ns;
    assert_int_equal(ask().bytes, 0);
    assert_non_null(dhcp_lease(&dhcp));
}

/* Leases for the shortest time. The client must not send in every turn. */
TEST(lease_of_a_second_asks_a_few_times_a_second)
{
    reach_bound_plain(1);
    uint64_t begin_ns = now_ns;
    unsigned count = 0;
    while (now_ns < begin_ns + 60 * second_ns) {
        struct request r = ask_when_due();
        if (r.bytes == 0)
            continue;
        assert_true(++count < 1000);
        now_ns += second_ns / 1000;
        deliver_plain(kind_of(r) == 1 ? OFFER : ACK, 1);
    }
    assert_in_range(count, 60, 180);
}

/* Begins with a lease that Linux got. */
static void resume(uint32_t seconds)
{
    const struct dhcp_lease lease = { .address = OURS, .mask = 0xffffff00, .gateway = ROUTER, .server = SERVER };
    dhcp = (struct dhcp){ 0 };
    dhcp_resume(&dhcp, mac, identity, (struct siphash_key){ 1, 2 }, &lease, seconds, now_ns);
}

TEST(lease_that_is_handed_over_is_renewed_as_if_asked_for)
{
    resume(1000);
    uint64_t begin_ns = now_ns;
    assert_int_equal(ask().bytes, 0); /* BOUND: nothing to say */
    const struct dhcp_lease *lease = dhcp_lease(&dhcp);
    assert_non_null(lease);
    assert_int_not_equal(dhcp.lease_serial, 0);
    assert_int_equal(lease->address, OURS);
    assert_int_equal(lease->gateway, ROUTER);
    struct request r = ask_when_due();
    assert_true(now_ns == begin_ns + 500 * second_ns);
    expect_renewal(&r);
    deliver_plain(ACK, 2000);
    assert_true(dhcp_lease(&dhcp)->ends_ns == now_ns + 2000 * second_ns);
}

TEST(lease_that_is_handed_over_ends_like_any_other)
{
    for (int refused = 0; refused < 2; refused++) {
        resume(1000);
        uint64_t begin_ns = now_ns;
        uint32_t serial = dhcp.lease_serial;
        struct request r = ask_when_due();
        if (refused)
            deliver_plain(NAK, 0);
        while (dhcp_lease(&dhcp) != NULL) {
            r = ask_when_due();
            assert_true(now_ns <= begin_ns + 1000 * second_ns);
        }
        assert_int_equal(now_ns == begin_ns + 1000 * second_ns, !refused);
        assert_int_equal(dhcp.lease_serial, serial + 1);
        r = refused ? ask_when_due() : r;
        assert_int_equal(kind_of(r), 1);
        assert_int_equal(r.source, 0);
    }
    resume(UINT32_MAX);
    assert_true(dhcp_next_deadline_ns(&dhcp) == UINT64_MAX);
}

/* Expects the identity in a message, once, before END, and padding to BOOTP's length alone. */
static void expect_identity(struct request r)
{
    size_t end = 240;
    while (r.message[end] != 255)
        end += 2u + r.message[end + 1];
    assert_int_equal(r.bytes, end + 1 > 300 ? end + 1 : 300);
    const uint8_t *at = r.message + end - identity.count;
    assert_memory_equal(at, identity.data, identity.count);
    assert_ptr_equal(option_of(&r, identity.data[0]), at + 2);
}

/* RFC 2131 §4.2: a client that sends an identifier sends the same one in every message. */
TEST(identity_stands_in_every_message)
{
    static const uint8_t both[] = { 61, 7, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56, 12, 3, 'v', 'm', '1' };
    static const uint8_t longest[DHCP_IDENTITY_BYTES_MAX] = { 61, DHCP_IDENTITY_BYTES_MAX - 2 };
    const struct bytes identities[] = { { both, sizeof both }, { longest, sizeof longest } };
    for (size_t i = 0; i < ARRAY_COUNT(identities); i++) {
        start();
        identity = identities[i];
        dhcp_start(&dhcp, mac, identity, (struct siphash_key){ 1, 2 }, now_ns);
        expect_identity(ask()); /* DISCOVER */
        deliver_plain(OFFER, 1000);
        expect_identity(ask()); /* REQUEST, with two options more */
        deliver_plain(ACK, 1000);
        expect_identity(ask_when_due());
        assert_int_equal(dhcp.state, DHCP_RENEWING);
        now_ns = dhcp_lease(&dhcp)->rebinds_ns;
        expect_identity(ask());
        assert_int_equal(dhcp.state, DHCP_REBINDING);
        deliver_plain(NAK, 0);
        expect_identity(ask());
        assert_int_equal(dhcp.state, DHCP_SELECTING);
        resume(1000);
        expect_identity(ask_when_due());
        assert_int_equal(dhcp.state, DHCP_RENEWING);
    }
}

/* ---- Options ---- */

TEST(one_address_with_gateway_route_is_understood)
{
    static const uint8_t routes[] = { 32, 10, 128, 0, 1, 0, 0, 0, 0, 0, 10, 128, 0, 1 };
    reach_requested();
    struct answer a = answer_with(ACK, 0x0a800005, OPTIONS({ 54, SERVER }, { 51, 3600 }, { 1, 0xffffffff }));
    add_numbers(&a, OPTIONS({ 3, OTHER })); /* ignored: RFC 3442 */
    add(&a, 121, sizeof routes, routes);
    add_numbers(&a, OPTIONS({ 26, 1460 }));
    deliver(&a);
    const struct dhcp_lease *lease = dhcp_lease(&dhcp);
    assert_int_equal(lease->mask, 0xffffffff);
    assert_int_equal(lease->gateway, 0x0a800001);
    assert_int_equal(lease->route_count, 1);
    const struct dhcp_route on_link = { 0x0a800001, 0xffffffff, 0 };
    assert_memory_equal(&lease->routes[0], &on_link, sizeof on_link);
    assert_int_equal(lease->mtu_bytes, 1460);
}

static const struct dhcp_lease *lease_with_routes(const void *routes, size_t bytes)
{
    reach_requested();
    struct answer a = answer_plain(ACK, 3600);
    add_numbers(&a, OPTIONS({ 3, ROUTER }));
    add(&a, 121, bytes, routes);
    deliver(&a);
    assert_non_null(dhcp_lease(&dhcp));
    return dhcp_lease(&dhcp);
}

/* RFC 3442, "Local Subnet Routes": a route without a gateway is on the link, the default route, too. */
TEST(routes_of_every_width_are_read)
{
    static const uint32_t gateways[] = { ROUTER, 0 };
    for (unsigned i = 0; i < 2 * 33; i++) {
        unsigned width = i / 2, octets = (width + 7) / 8;
        uint32_t gateway = gateways[i % 2], mask = width == 0 ? 0 : 0xffffffff << (32 - width);
        uint8_t routes[9] = { (uint8_t)width, 0xff, 0xff, 0xff, 0xff }; /* bits beyond the mask set: to be cleared */
        store_be32(routes + 1 + octets, gateway);
        const struct dhcp_lease *lease = lease_with_routes(routes, 1 + octets + 4);
        assert_int_equal(lease->gateway, width == 0 ? gateway : 0);
        assert_int_equal(lease->all_on_link, width == 0 && gateway == 0);
        assert_int_equal(lease->route_count, width != 0);
        assert_int_equal(lease->routes[0].mask, mask);
        assert_int_equal(lease->routes[0].network, mask);
        assert_int_equal(lease->routes[0].gateway, width == 0 ? 0 : gateway);
    }
}

TEST(first_default_route_counts)
{
    static const uint8_t orders[2][10] = { { 0, 0, 0, 0, 0, 0, 10, 0, 2, 9 }, { 0, 10, 0, 2, 9, 0, 0, 0, 0, 0 } };
    for (int by_gateway = 0; by_gateway < 2; by_gateway++) {
        const struct dhcp_lease *lease = lease_with_routes(orders[by_gateway], sizeof orders[by_gateway]);
        assert_int_equal(lease->all_on_link, !by_gateway);
        assert_int_equal(lease->gateway, by_gateway ? 0x0a000209 : 0);
    }
}

TEST(impossible_routes_leave_the_router)
{
    static const uint8_t too_wide[] = { 33, 1, 2, 3, 4, 5, 1, 2, 3, 4 }, cut[] = { 24, 1, 2, 3, 10, 0, 0 };
    assert_int_equal(lease_with_routes(too_wide, sizeof too_wide)->gateway, ROUTER);
    assert_int_equal(lease_with_routes(cut, sizeof cut)->gateway, ROUTER);
    assert_int_equal(counter("rx_ignored_option"), 1);
    assert_int_equal(lease_with_routes("", 0)->gateway, ROUTER);
    static const uint8_t good_then_cut[] = { 0, 10, 0, 2, 9, 24, 1 };
    assert_int_equal(lease_with_routes(good_then_cut, sizeof good_then_cut)->gateway, 0x0a000209);
    static const uint8_t by_loopback[] = { 8, 10, 127, 0, 0, 1 };
    assert_int_equal(lease_with_routes(by_loopback, sizeof by_loopback)->route_count, 0);
    assert_int_equal(counter("rx_ignored_option"), 1);
}

TEST(routes_beyond_the_table_are_counted)
{
    uint8_t routes[40 * 6];
    for (size_t i = 0; i < 40; i++) {
        uint8_t route[6] = { 8, (uint8_t)(10 + i), 10, 0, 2, 3 };
        memcpy(routes + 6 * i, route, 6);
    }
    assert_int_equal(lease_with_routes(routes, sizeof routes)->route_count, DHCP_ROUTE_COUNT_MAX);
    assert_int_equal(counter("rx_routes_left_out"), 40 - DHCP_ROUTE_COUNT_MAX);
}

/* RFC 3396: an option in pieces is one. Then come pieces beyond the memory for routes. The last of them would fit, but
 * follows nothing that does: read there, it is a default route. */
TEST(split_routes_are_joined_as_far_as_they_fit)
{
    reach_requested();
    struct answer a = answer_plain(ACK, 3600);
    static const uint8_t first[] = { 24, 192, 0 }, rest[] = { 2, 10, 0, 2, 3, 16, 9, 9, 10, 0, 2, 3 };
    static const uint8_t pieces[] = { 238, 238, 56, 5 }, zeros[5];
    uint8_t routes[34 * 7];
    for (size_t i = 0; i < sizeof routes; i++)
        routes[i] = i % 7 == 0 ? 16 : 10;
    add(&a, 121, sizeof first, first);
    add_numbers(&a, OPTIONS({ 6, OTHER }));
    add(&a, 121, sizeof rest, rest);
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++)
        add(&a, 121, pieces[i], i < 3 ? routes : zeros);
    deliver(&a);
    assert_int_equal(dhcp_lease(&dhcp)->routes[0].network, 0xc0000200);
    assert_int_equal(dhcp_lease(&dhcp)->routes[1].network, 0x09090000);
    assert_false(dhcp_lease(&dhcp)->all_on_link);
}

/* RFC 2131 §4.1: options may go on in file, then in sname. */
TEST(overloaded_fields_are_read)
{
    reach_requested();
    struct answer a = answer_with(ACK, OURS, NO_OPTIONS);
    uint8_t both = 3, lease[] = { 51, 4, 0, 0, 0x0e, 0x10, 255 }, server[] = { 54, 4, 10, 0, 2, 2, 255 };
    memcpy(a.message + 108, lease, sizeof lease);
    memcpy(a.message + 44, server, sizeof server);
    add(&a, 52, 1, &both);
    deliver(&a);
    assert_non_null(dhcp_lease(&dhcp));
    assert_int_equal(dhcp_lease(&dhcp)->server, SERVER);
}

/* Ignores an overload option inside an overloaded field. */
TEST(overload_within_overload_ends)
{
    reach_requested();
    struct answer a = answer_plain(ACK, 100);
    uint8_t file_only = 1, again[] = { 52, 1, 3, 255 };
    memcpy(a.message + 108, again, sizeof again);
    memset(a.message + 44, 7, 64); /* would be refused if it were read */
    add(&a, 52, 1, &file_only);
    deliver(&a);
    assert_non_null(dhcp_lease(&dhcp));
}

TEST(missing_mask_is_the_class_or_one_address)
{
    static const uint32_t addresses[] = { 0x0a010203, 0xac100203, 0xc0a80103 };
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++)
        assert_int_equal(lease_with(addresses[i], NO_OPTIONS)->mask, 0xffffffff << (24 - 8 * i));
}

TEST(impossible_masks_are_replaced)
{
    static const uint32_t masks[] = { 0, 0x00ffffff, 0xff00ff00, 1, 0x80000001 };
    for (size_t i = 0; i < ARRAY_COUNT(masks); i++) {
        assert_int_equal(lease_with(0xc0a80103, OPTIONS({ 1, masks[i] }))->mask, 0xffffff00);
        assert_int_equal(counter("rx_ignored_option"), masks[i] != 0);
    }
}

TEST(addresses_no_host_has_are_not_taken)
{
    static const uint32_t addresses[] = {
        0, 1, 0x7f000001, 0xe0000001, 0xf0000001, 0xffffffff, OURS | 0xff, OURS & ~0xffu
    }; /* the last two: broadcast addresses of its network */
    reach_requested();
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++) {
        deliver_with(ACK, addresses[i], OPTIONS({ 54, SERVER }, { 51, 100 }, { 1, 0xffffff00 }));
        assert_null(dhcp_lease(&dhcp));
        assert_int_equal(counter("rx_drop_address"), i + 1);
    }
}

/* ---- Malformed ---- */

TEST(each_header_defect_is_counted_by_its_reason)
{
    struct answer a = answer_with(1, OURS, NO_OPTIONS); /* a client's message */
    deliver(&a);
    a.bytes = 239;
    deliver(&a);
    assert_true(counter("rx_drop_type") == 1 && counter("rx_drop_truncated") == 1);
    static const struct {
        const char *counter;
        size_t at;
        uint8_t value;
    } cases[] = {
        { "rx_drop_not_reply", 0, 1 }, { "rx_drop_hardware", 1, 6 }, { "rx_drop_hardware", 2, 16 },
        { "rx_drop_xid", 5, 0xee },    { "rx_drop_mac", 30, 0xee },  { "rx_drop_cookie", 237, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start();
        ask();
        a = answer_plain(OFFER, 100);
        a.message[cases[i].at] ^= cases[i].value | 0x80;
        deliver(&a);
        assert_int_equal(counter(cases[i].counter), 1);
        assert_int_equal(dhcp.state, DHCP_SELECTING);
    }
}

/* Plays an exchange whose ACK has an option of an impossible length before the good options, and again after them. The
 * lease is the same as without it. */
TEST(options_of_impossible_lengths_are_ignored_alone)
{
    static const struct {
        uint8_t option, bytes;
    } cases[] = {
        { 53, 0 }, { 53, 2 }, { 1, 0 },  { 1, 3 },  { 1, 5 },  { 3, 0 },  { 3, 3 },  { 3, 6 },   { 3, 255 }, { 6, 0 },
        { 12, 0 }, { 15, 0 }, { 26, 0 }, { 26, 1 }, { 26, 3 }, { 51, 0 }, { 51, 2 }, { 51, 8 },  { 54, 0 },  { 54, 3 },
        { 58, 0 }, { 58, 3 }, { 59, 0 }, { 59, 5 }, { 52, 0 }, { 52, 2 }, { 61, 0 }, { 119, 0 }, { 121, 0 }, { 224, 0 },
    };
    static uint8_t ones[255];
    memset(ones, 1, sizeof ones);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (int first = 0; first < 2; first++) {
            reach_requested();
            struct answer a = answer_plain(ACK, 1000), rest = a;
            a.bytes = 240;
            if (first)
                add(&a, cases[i].option, cases[i].bytes, ones);
            memcpy(a.message + a.bytes, rest.message + 240, rest.bytes - 240);
            a.bytes += rest.bytes - 240;
            add_numbers(&a, OPTIONS({ 3, ROUTER }));
            if (!first)
                add(&a, cases[i].option, cases[i].bytes, ones);
            deliver(&a);
            expect_plain_lease();
            assert_int_equal(counter("rx_ignored_option"), 1);
        }
}

/* Takes the value from an option that a message cannot do without. */
TEST(needed_option_of_impossible_length_is_missing)
{
    static const struct {
        uint8_t option;
        const char *counter;
    } cases[] = { { 53, "rx_drop_no_type" }, { 54, "rx_drop_no_server" }, { 51, "rx_drop_no_lease" } };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start();
        sender = 0;
        ask();
        struct answer a = answer_plain(OFFER, 100), cut = a;
        cut.bytes = 240;
        for (size_t at = 240; at < a.bytes; at += 2u + a.message[at + 1])
            add(&cut, a.message[at], a.message[at] == cases[i].option ? 0 : a.message[at + 1], a.message + at + 2);
        deliver(&cut);
        assert_int_equal(counter(cases[i].counter), 1);
        assert_int_equal(dhcp.state, DHCP_SELECTING);
    }
}

/* RFC 2131 §4.1: the values of an option that comes twice are put together, and the first stands in front. */
TEST(first_of_two_values_counts)
{
    const uint8_t type = NAK;
    reach_requested();
    struct answer a = answer_plain(ACK, 1000);
    add_numbers(&a, OPTIONS({ 3, ROUTER }, { 58, 100 }, { 59, 200 }, { 26, 1460 }, { 54, OTHER }, { 51, 77 }));
    add_numbers(&a, OPTIONS({ 1, 0xffff0000 }, { 3, OTHER }, { 58, 11 }, { 59, 22 }, { 26, 1280 }));
    add(&a, 53, 1, &type);
    deliver(&a);
    expect_lease(0xffffff00, ROUTER, 1460, 1000);
    assert_true(dhcp_lease(&dhcp)->renews_ns == now_ns + 100 * second_ns);
    assert_true(dhcp_lease(&dhcp)->rebinds_ns == now_ns + 200 * second_ns);
}

/* Acknowledges a renewal without mask, router and MTU: the lease keeps what it had. */
TEST(renewal_keeps_what_its_acknowledgement_leaves_out)
{
    static const uint8_t routes[] = { 8, 10, 10, 0, 2, 7, 0, 10, 0, 2, 3 };
    for (int with_routes = 0; with_routes < 2; with_routes++) {
        reach_requested();
        struct answer a = answer_plain(ACK, 1000);
        add_numbers(&a, OPTIONS({ 3, ROUTER }, { 26, 1460 }));
        if (with_routes)
            add(&a, 121, sizeof routes, routes);
        deliver(&a);
        for (int rebinding = 0; rebinding < 2; rebinding++) {
            const struct dhcp_lease before = *dhcp_lease(&dhcp);
            if (rebinding)
                now_ns = before.rebinds_ns;
            ask_when_due();
            assert_int_equal(dhcp.state, rebinding ? DHCP_REBINDING : DHCP_RENEWING);
            deliver_with(ACK, OURS, OPTIONS({ 54, SERVER }, { 51, 1000 }));
            expect_lease(0xffffff00, ROUTER, 1460, 1000);
            assert_int_equal(dhcp_lease(&dhcp)->route_count, with_routes);
            assert_memory_equal(dhcp_lease(&dhcp)->routes, before.routes, sizeof before.routes);
        }
        ask_when_due();
        /* A router that is named replaces the routes. */
        deliver_with(ACK, OURS, OPTIONS({ 54, SERVER }, { 51, 1000 }, { 1, 0xffffff00 }, { 3, OTHER }));
        assert_int_equal(dhcp_lease(&dhcp)->gateway, OTHER);
        assert_int_equal(dhcp_lease(&dhcp)->route_count, 0);
    }
    now_ns = dhcp_lease(&dhcp)->rebinds_ns;
    ask();
    deliver_with(ACK, 0x0a000299, OPTIONS({ 54, SERVER }, { 51, 1000 })); /* another address keeps nothing */
    assert_int_equal(dhcp_lease(&dhcp)->gateway, 0);
    assert_int_equal(dhcp_lease(&dhcp)->mask, 0xff000000);
}

/* RFC 3396: Splits numbers at any byte, also between the fields of an overloaded message. */
TEST(numbers_in_pieces_are_put_together)
{
    static const struct {
        uint8_t option, bytes;
        uint32_t value;
    } numbers[] = { { 51, 4, 0x01020304 }, { 54, 4, SERVER }, { 1, 4, 0xfffff000 }, { 3, 4, ROUTER }, { 26, 2, 1460 } };
    for (unsigned cut = 1; cut < 4; cut++)
        for (int overloaded = 0; overloaded < 2; overloaded++) {
            reach_requested();
            struct answer a = answer_with(ACK, OURS, NO_OPTIONS), file = { .bytes = 0 };
            uint8_t overload = 1;
            for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
                uint8_t wire[4];
                store_be32(wire, numbers[i].value << (32 - 8 * numbers[i].bytes));
                uint8_t first = numbers[i].bytes == 2 ? 1 : (uint8_t)cut;
                add(&a, numbers[i].option, first, wire);
                add(overloaded ? &file : &a, numbers[i].option, numbers[i].bytes - first, wire + first);
            }
            add(&a, 52, 1, &overload);
            file.message[file.bytes++] = 255;
            memcpy(a.message + 108, file.message, file.bytes);
            deliver(&a);
            expect_lease(0xfffff000, ROUTER, 1460, 0x01020304);
            assert_int_equal(counter("rx_ignored_option"), 0);
        }
}

/* Leaves option 54 out: the sender is the server, else siaddr. A refusal needs the option. */
TEST(server_without_identifier_is_the_sender)
{
    static const struct {
        uint32_t sender, next_server, server;
    } cases[] = { { SERVER, 0, SERVER }, { SERVER, OTHER, SERVER }, { 0, OTHER, OTHER }, { 0, 0, 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        start();
        sender = cases[i].sender;
        ask();
        for (uint8_t kind = OFFER; kind <= ACK; kind = (uint8_t)(kind + 3)) {
            struct answer a = answer_with(kind, OURS, OPTIONS({ 51, 1000 }));
            store_be32(a.message + 20, cases[i].next_server);
            deliver(&a);
            if (kind == OFFER && cases[i].server != 0) {
                struct request r = ask();
                assert_int_equal(load_be32(option_of(&r, 54)), cases[i].server);
            }
        }
        assert_int_equal(dhcp_lease(&dhcp) != NULL, cases[i].server != 0);
        if (cases[i].server == 0)
            continue;
        struct request r = ask_when_due();
        assert_int_equal(r.destination, cases[i].server);
        deliver_with(NAK, 0, NO_OPTIONS);
        assert_non_null(dhcp_lease(&dhcp));
    }
}

/* Cuts a message within an option: such a message has been damaged. */
TEST(option_beyond_the_end_refuses_the_message)
{
    static const uint8_t options[] = { 3, 6, 12, 15, 26, 51, 54, 58, 59, 121, 224 };
    ask();
    for (size_t i = 0; i < ARRAY_COUNT(options); i++)
        for (uint8_t missing = 1; missing <= 5; missing++) { /* 5: the length, too */
            struct answer a = answer_plain(OFFER, 100);
            add(&a, options[i], 4, mac); /* any four bytes */
            a.bytes -= missing;
            deliver(&a);
            assert_int_equal(counter("rx_drop_bad_option"), 5 * i + missing);
            assert_int_equal(dhcp.state, DHCP_SELECTING);
        }
}

TEST(long_lists_of_no_interest_are_skipped)
{
    uint8_t list[252];
    memset(list, 9, sizeof list);
    ask();
    struct answer a = answer_plain(OFFER, 100);
    add(&a, 6, 240, list);  /* 60 name servers */
    add(&a, 12, 252, list); /* a host name */
    add(&a, 15, 252, list);
    add(&a, 255, 0, list); /* END, then junk */
    add(&a, 53, 200, list);
    deliver(&a);
    assert_int_equal(dhcp.state, DHCP_REQUESTING);
}

/* Cuts a good ACK at every length, and sets every byte to extreme values. There is no crash, and no lease with an
 * address that no host has. */
TEST(every_cut_and_every_changed_byte_is_survived)
{
    static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff, 52, 121, 255 };
    static const uint8_t routes[] = { 32, 10, 0, 2, 1, 0, 0, 0, 0, 0, 10, 0, 2, 1 };
    struct answer good;
    for (size_t at = 0; at < 300; at++)
        for (size_t v = 0; v <= ARRAY_COUNT(values); v++) {
            reach_requested();
            good = answer_plain(ACK, 3600);
            add_numbers(&good, OPTIONS({ 3, ROUTER }));
            add(&good, 121, sizeof routes, routes);
            if (at >= good.bytes)
                return;
            if (v == ARRAY_COUNT(values))
                good.bytes = at; /* cut */
            else
                good.message[at] = values[v];
            deliver(&good);
            const struct dhcp_lease *lease = dhcp_lease(&dhcp);
            if (lease != NULL) {
                assert_true(lease->address >> 24 != 0 && lease->address >> 24 != 127 && lease->address >> 28 < 14);
                assert_true(lease->mask != 0 && (~lease->mask & (~lease->mask + 1)) == 0);
                assert_true(lease->ends_ns > now_ns);
            }
            ask_when_due();
        }
}

TEST(transaction_ids_differ_by_key)
{
    uint32_t first = dhcp.xid;
    dhcp_start(&dhcp, mac, identity, (struct siphash_key){ 1, 3 }, now_ns);
    assert_int_not_equal(dhcp.xid, first);
    uint32_t again = dhcp.xid;
    dhcp_start(&dhcp, mac, identity, (struct siphash_key){ 1, 2 }, now_ns);
    assert_int_equal(dhcp.xid, first);
    assert_int_not_equal(dhcp.xid, again);
}
