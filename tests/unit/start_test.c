/* app/service/start.c: the start of a small program on a fake platform with several cards, over a fake transport. */
#include "app/service/start.h"

#include "app/service/agent.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "net/capture/capture.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/test.h"

enum {
    READING_NS = NS_PER_MS,     /* the time from one reading of the clock to the next */
    SLACK_NS = 20 * READING_NS, /* more than the readings in a turn */
    CONNECTION_BYTES = 1000,
    FRAME_BYTES = 64,
    FRAME_COUNT = 16,
};
static const uint8_t mac[NETDEV_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };

/* Names the linked program, which is constant to the product, for tests to change. */
extern struct program played __asm__("program");
struct program played;

static struct netdev_memory wire;
static uint64_t now_ns, beat_ns, silence_ns_max; /* the longest time between two beats */
static char steps[64];
static const char *failing; /* the step that fails; NULL: none */
static uint8_t prepare_secret[32], init_secret[32];
static struct transport_config given;
static struct {
    size_t bytes, align, count;
    const char *who;
} taken;
static _Alignas(64) uint8_t memory[(TRANSPORT_CONNECTION_COUNT_LIMIT + 1) * CONNECTION_BYTES];

/* The card in use, by its number from 0. A card with a network is up after a second. */
static size_t card, card_count, card_with_network;
static uint64_t began_ns[3];
static bool unplugged;     /* the stack has seen the link go */
static bool reads_link_up; /* the device's next poll does */

/* The stack copies its counters when they are asked for, as lwIP's port does. */
static uint64_t machine_drops, program_drops, stack_drops, stack_drops_copy;
#define MACHINE(X) X(DROP_FRAME, rx_drop_long)
#define PROGRAM(X) X(DROP_FRAME, drop_old)
#define STACK(X)   X(DROP_FRAME, rx_drop_short)
static const struct counter_group machine_group = COUNTER_GROUP("virtio.", "", MACHINE, machine_drops);
static const struct counter_group program_group = COUNTER_GROUP("none.", "", PROGRAM, program_drops);
static const struct counter_group stack_group = COUNTER_GROUP("fake.", "", STACK, stack_drops_copy);

static const char *step(const char *name)
{
    strcat(strcat(steps, name), " ");
    return failing != NULL && strcmp(name, failing) == 0 ? failing : NULL;
}

/* ---- the transport, besides tests/lib/fake_transport.c ---- */

size_t transport_memory_bytes(uint32_t count)
{
    return count > TRANSPORT_CONNECTION_COUNT_MAX ? count * CONNECTION_BYTES : 0;
}

bool transport_init(const struct transport_config *config, uint64_t at_ns)
{
    (void)at_ns;
    given = *config;
    return step("network") == NULL;
}

const char *transport_name(void) { return "fake"; }
bool transport_alters_frames(void) { return true; }

bool transport_counter_group(size_t index, struct counter_group *group)
{
    *group = stack_group;
    stack_drops_copy = stack_drops;
    return index == 0;
}

void transport_idle(uint64_t at_ns)
{
    if (!wire.device.link_up && reads_link_up) { /* the device's poll comes before the stack's look at the link */
        wire.device.link_up = true;
        reads_link_up = false;
    }
    unplugged |= !wire.device.link_up;
    fake.network.up = wire.device.link_up && card >= card_with_network && at_ns - began_ns[card] >= NS_PER_S;
}

/* ---- the platform ---- */

static uint64_t clock_ns(void) { return now_ns += READING_NS; }

static void beat(void)
{
    silence_ns_max = now_ns - beat_ns > silence_ns_max ? now_ns - beat_ns : silence_ns_max;
    beat_ns = now_ns;
}

static void random_bytes(void *out, size_t bytes)
{
    static uint8_t calls;
    memset(out, ++calls, bytes);
}

static void *memory_take(size_t bytes, size_t align, const char *who)
{
    assert_true(bytes <= sizeof memory);
    taken.bytes = bytes, taken.align = align, taken.who = who;
    taken.count++;
    return memory;
}

static size_t cards_left(void) { return card_count - 1 - card; }

static void card_next(void)
{
    assert_true(unplugged);
    unplugged = false;
    began_ns[++card] = now_ns;
    netdev_memory_init(&wire, mac, false);
    wire.pool.rx_stays = false; /* these tests play a stack that changes frames */
}

static struct start_platform platform;

/* ---- the program ---- */

static const char *prepare(const struct program_machine *machine)
{
    memcpy(prepare_secret, machine->secret, sizeof prepare_secret);
    return step("prepare");
}

static const char *init(const struct program_machine *machine, uint64_t at_ns)
{
    (void)at_ns;
    memcpy(init_secret, machine->secret, sizeof init_secret);
    stats_add_counters(&program_group);
    return step("init");
}

static uint32_t free_percent(void) { return 100; }

BEFORE_EACH()
{
    fake_reset();
    fake.network.up = false;
    stats_clear();
    stats_add_counters(&machine_group);
    capture_init(&(struct capture_config){ 0 });
    netdev_memory_init(&wire, mac, false);
    wire.pool.rx_stays = false; /* these tests play a stack that changes frames */
    memset(memory, 0, sizeof memory);
    memset(&taken, 0, sizeof taken);
    service_settings = (struct service_settings){ .control_port = 18247, .key = "12345678", .key_bytes = 8 };
    played = (struct program){ .name = "none", .prepare = prepare, .init = init };
    platform = (struct start_platform){ .device = &wire.device,
                                        .cards_left = cards_left,
                                        .card_next = card_next,
                                        .tsc_khz = 1,
                                        .now_ns = clock_ns,
                                        .random = random_bytes,
                                        .memory_take = memory_take,
                                        .beat = beat };
    now_ns = beat_ns = began_ns[0] = 7 * NS_PER_S;
    silence_ns_max = card = card_with_network = 0;
    card_count = 1;
    unplugged = reads_link_up = false;
    failing = NULL;
    steps[0] = '\0';
}

TEST(capacity_that_is_too_large_is_refused_by_its_name)
{
    const struct {
        uint32_t *wanted, most;
        const char *message;
    } rows[] = {
        { &played.connection_count, TRANSPORT_CONNECTION_COUNT_LIMIT - SERVICE_CONNECTION_COUNT,
          "the program none asks for a connection_count of 1021: 1020 is the most (net/transport.h)" },
        { &played.listener_count, TRANSPORT_LISTENER_COUNT_MAX - SERVICE_LISTENER_COUNT,
          "the program none asks for a listener_count of 3: 2 is the most (net/transport.h)" },
        { &played.udp_port_count, TRANSPORT_UDP_PORT_COUNT_MAX - SERVICE_UDP_PORT_COUNT,
          "the program none asks for a udp_port_count of 4: 3 is the most (net/transport.h)" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        *rows[i].wanted = rows[i].most + 1;
        assert_string_equal(program_start(&platform), rows[i].message);
        *rows[i].wanted = rows[i].most;
    }
    played.free_percent = free_percent; /* app/service/agent.h takes connections, too */
    assert_string_equal(program_start(&platform),
                        "the program none asks for a connection_count of 1020: 1016 is the most (net/transport.h)");
    assert_string_equal(steps, "");
    played.connection_count -= AGENT_CONNECTION_COUNT_MAX;
    assert_null(program_start(&platform));
    assert_int_equal(given.connection_count, TRANSPORT_CONNECTION_COUNT_LIMIT);
}

TEST(capture_without_a_device_is_refused)
{
    service_settings.capture_bytes = FRAME_BYTES;
    platform.device = NULL;
    assert_string_equal(program_start(&platform), "capture= is for the kernel: over Linux sockets there are no frames; "
                                                  "tcpdump captures those of Linux");
    assert_string_equal(steps, "");
}

TEST(step_that_fails_is_the_last)
{
    static const struct {
        const char *failing, *message, *steps;
    } rows[] = {
        { "prepare", "prepare", "prepare " },
        { "network", "the network cannot be used as it is set", "prepare network " },
        { "service", "the control channel's port cannot be had", "prepare network " },
        { "init", "init", "prepare network init " },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        test_before_each();
        failing = rows[i].failing;
        fake.refuse_udp_bind = strcmp(failing, "service") == 0;
        assert_string_equal(program_start(&platform), rows[i].message);
        assert_string_equal(steps, rows[i].steps);
    }
}

TEST(stack_of_many_connections_lies_in_memory_of_the_platform)
{
    assert_null(program_start(&platform));
    assert_int_equal(given.connection_count, TRANSPORT_CONNECTION_COUNT_MAX);
    assert_int_equal(taken.count, 0);
    test_before_each();
    played.connection_count = 100;
    assert_null(program_start(&platform));
    assert_int_equal(taken.count, 1);
    assert_string_equal(taken.who, "connection_count of the program");
    assert_int_equal(taken.bytes, (100 + SERVICE_CONNECTION_COUNT) * CONNECTION_BYTES);
    assert_int_equal(taken.align, 64);
    assert_ptr_equal(given.memory, memory);
    assert_int_equal(given.memory_bytes, taken.bytes);
}

TEST(secrets_of_prepare_network_and_init_differ)
{
    assert_null(program_start(&platform));
    assert_memory_not_equal(prepare_secret, given.secret, sizeof prepare_secret);
    assert_memory_not_equal(given.secret, init_secret, sizeof init_secret);
    assert_memory_not_equal(init_secret, prepare_secret, sizeof init_secret);
}

/* ---- the cards ---- */

/* Expects that the card was given up after this time. */
static void expect_patience(size_t index, uint64_t patience_ns)
{
    assert_true(index < card);
    assert_in_range(began_ns[index + 1] - began_ns[index], patience_ns, patience_ns + SLACK_NS);
}

TEST(card_that_comes_up_ends_the_search)
{
    card_count = 3;
    card_with_network = 1;
    service_settings.net_timeout_ns = 10 * NS_PER_S;
    assert_null(program_start(&platform));
    assert_int_equal(card, 1);
    expect_patience(0, 5 * NS_PER_S);
    assert_in_range(now_ns - began_ns[1], NS_PER_S, NS_PER_S + SLACK_NS);
    assert_in_range(silence_ns_max, READING_NS, SLACK_NS);
}

TEST(last_card_is_not_waited_for)
{
    card_count = card_with_network = 3;
    service_settings.net_timeout_ns = 10 * NS_PER_S;
    platform.beat = NULL;
    assert_null(program_start(&platform));
    assert_int_equal(card, 2);
    expect_patience(0, 5 * NS_PER_S);
    expect_patience(1, 5 * NS_PER_S);
    assert_in_range(now_ns - began_ns[2], 0, SLACK_NS);
}

TEST(card_has_30_s_if_net_timeout_is_never)
{
    card_count = 2;
    card_with_network = 1;
    assert_null(program_start(&platform));
    expect_patience(0, 30 * NS_PER_S);
}

TEST(stack_sees_the_link_go_though_the_device_reads_it_as_up)
{
    card_count = 2;
    card_with_network = 1;
    reads_link_up = true;
    assert_null(program_start(&platform)); /* card_next asserts it */
    assert_int_equal(card, 1);
}

/* Plays a frame while a counter rises, or while the service drops a datagram. Returns the capture's reason. */
static const char *captured_drop(uint64_t *drops)
{
    static const uint8_t data[FRAME_BYTES] = { 1, 2, 3 };
    static struct capture_frame captured;
    struct frame frame;
    assert_true(netdev_memory_feed(&wire, data, sizeof data, false));
    assert_true(wire.device.ops->rx_borrow(&wire.device, &frame));
    if (drops != NULL)
        ++*drops;
    else
        service_event(&(struct transport_event){ .kind = TRANSPORT_DATAGRAM }, now_ns);
    frame.data[0] = 0xff; /* transport_alters_frames */
    wire.device.ops->rx_release(&wire.device, &frame);
    assert_true(capture_read(capture_newest(), &captured));
    assert_memory_equal(capture_data(&captured), data, sizeof data);
    return captured.dropped;
}

TEST(capture_goes_on_with_the_next_card_and_knows_the_drops_but_the_machines)
{
    service_settings.capture_bytes = FRAME_BYTES;
    service_settings.capture_frames = FRAME_COUNT;
    card_count = 2;
    card_with_network = 1;
    assert_null(program_start(&platform));
    assert_int_equal(card, 1);
    assert_int_equal(taken.count, 1);
    assert_string_equal(taken.who, "capture=");
    assert_int_equal(taken.bytes, capture_memory_bytes(FRAME_BYTES, FRAME_COUNT));
    assert_int_equal(taken.align, 64);
    assert_string_equal(captured_drop(&machine_drops), "");
    assert_string_equal(captured_drop(&stack_drops), "fake.rx_drop_short");
    assert_string_equal(captured_drop(&program_drops), "none.drop_old");
    assert_string_equal(captured_drop(NULL), "control.drop_unbound");
}
