/* app/service/agent.c: HAProxy's agent check over a fake transport. */
#include "app/service/agent.h"

#include "app/program.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PORT = 9000, BALANCER = 0x0a4d0001, STRANGER = 0x0a4d0063 };

/* A program without a measure, for the service. */
const struct program program = { .name = "none" };

static uint64_t now_ns;
static uint32_t percent;

static uint32_t free_percent(void) { return percent; }

BEFORE_EACH()
{
    fake_reset();
    now_ns = NS_PER_S;
    percent = 75;
    assert_true(agent_init(PORT, free_percent));
    assert_int_equal(fake.listening, PORT);
}

static void turn(void)
{
    struct transport_event event;
    while (transport_poll(now_ns, &event))
        agent_event(&event, now_ns);
    agent_poll(now_ns);
    agent_check();
}

static int opened(uint32_t address)
{
    int id = fake_accepted_from(address, PORT);
    assert_true(id >= 0);
    turn();
    return id;
}

static uint64_t counted(const char *name)
{
    size_t i = 0;
    while (i < agent_counter_group.count && strcmp(agent_counter_group.counters[i].name, name) != 0)
        i++;
    assert_true(i < agent_counter_group.count);
    return agent_counter_group.values[i];
}

TEST(a_connection_gets_a_line_and_the_end)
{
    int id = opened(BALANCER);
    assert_string_equal(fake.connections[id].sent, "up ready 75%\n");
    assert_true(fake.connections[id].closed_by_us && !fake.connections[id].aborted_by_us);
    assert_false(fake.connections[id].used);
    percent = 130;
    assert_string_equal(fake.connections[opened(BALANCER)].sent, "up ready 130%\n");
    assert_int_equal(counted("answers"), 2);
    assert_int_equal(counted("free_percent"), 130);
}

TEST(a_machine_without_free_capacity_is_not_drained)
{
    percent = 0;
    assert_string_equal(fake.connections[opened(BALANCER)].sent, "up ready 1%\n");
}

TEST(bytes_of_agent_send_change_nothing)
{
    fake.linger = true;
    int id = opened(BALANCER);
    fake_text(id, "backend machines\n");
    fake_ended(id);
    turn();
    assert_string_equal(fake.connections[id].sent, "up ready 75%\n");
    assert_false(fake.connections[id].aborted_by_us);
}

TEST(connections_of_other_ports_are_left_alone)
{
    int id = fake_accepted_from(BALANCER, PORT + 1);
    turn();
    fake_text(id, "GET / HTTP/1.1\r\n\r\n");
    turn();
    fake_closed(id, TRANSPORT_DONE);
    turn();
    assert_int_equal(fake.connections[id].sent_bytes, 0);
    assert_false(fake.connections[id].closed_by_us || fake.connections[id].aborted_by_us);
}

TEST(without_a_port_nothing_is_answered)
{
    fake_reset();
    assert_true(agent_init(0, NULL));
    assert_int_equal(fake.listening, 0);
    assert_int_equal(fake.connections[opened(BALANCER)].sent_bytes, 0);
    fake.refuse_listen = true;
    assert_false(agent_init(PORT, free_percent));
}

TEST(a_peer_that_does_not_close_keeps_a_place_for_a_second)
{
    fake.linger = true;
    int id = opened(BALANCER);
    now_ns += AGENT_PATIENCE_NS - 1;
    turn();
    assert_false(fake.connections[id].aborted_by_us);
    now_ns++;
    turn();
    assert_true(fake.connections[id].aborted_by_us);
    agent_poll(now_ns); /* the event of the end has not come yet */
    assert_int_equal(counted("given_up"), 1);
    turn();
    assert_false(fake.connections[id].used);
}

/* The stranger's oldest connection gives way, and never that of the balancer. */
TEST(newcomers_evict_the_address_with_the_most_places)
{
    int strangers[AGENT_CONNECTION_COUNT_MAX];
    fake.linger = true;
    int balancer = opened(BALANCER);
    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        now_ns++;
        strangers[i] = opened(STRANGER);
        assert_string_equal(fake.connections[strangers[i]].sent, "up ready 75%\n");
    }
    assert_true(fake.connections[strangers[0]].aborted_by_us);
    assert_int_equal(counted("evicted"), 1);
    int again = opened(BALANCER);
    assert_true(fake.connections[strangers[1]].aborted_by_us);
    assert_false(fake.connections[strangers[2]].aborted_by_us || fake.connections[strangers[3]].aborted_by_us);
    assert_false(fake.connections[balancer].aborted_by_us || fake.connections[again].aborted_by_us);
}

/* All transmit buffers are out, or the peer's window is closed: HAProxy keeps the weight it has, and asks again. */
TEST(without_room_for_the_line_the_connection_is_reset)
{
    int id = fake_accepted_from(BALANCER, PORT);
    fake.connections[id].no_message = true;
    turn();
    assert_true(fake.connections[id].aborted_by_us);
    id = fake_accepted_from(BALANCER, PORT);
    fake.connections[id].window_bytes = 2;
    turn();
    assert_true(fake.connections[id].aborted_by_us);
    assert_int_equal(counted("refused"), 2);
    assert_int_equal(counted("answers"), 0);
}

TEST(a_program_without_a_measure_refuses_agent_port)
{
    static const uint8_t secret[32];
    stats_clear();
    service_settings = (struct service_settings){ .control_port = 1, .agent_port = PORT };
    const char *message = service_init(secret, false, now_ns);
    assert_non_null(message);
    assert_non_null(strstr(message, "agent.port= is for programs that measure"));
    stats_clear();
    service_settings.agent_port = 0;
    assert_null(service_init(secret, false, now_ns));
}
