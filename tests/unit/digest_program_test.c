/* app/digest/program.c over a transport that the test plays. */
#include "app/digest/server.h"
#include "app/digest/settings.h"
#include "tests/lib/program_test.h"

#define HEAD "POST /sha256?rounds=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"

static uint64_t now_ns, clock_step_ns, clock_calls;

static uint64_t clock_now(void) { return now_ns + ++clock_calls * clock_step_ns; }

static const struct program_machine machine = { .tsc_khz = 2000000, .now_ns = clock_now };

BEFORE_EACH()
{
    now_ns = NS_PER_S;
    clock_step_ns = 0;
    program_begin("", &machine, now_ns);
    assert_null(program.prepare(&machine));
    assert_null(program.init(&machine, now_ns));
}

static void turns(int count)
{
    for (int i = 0; i < count; i++) {
        program.turn(now_ns += REHEARSAL_SLICE_NS);
        digest_server_check();
    }
}

TEST(simd_scalar_asks_for_a_plain_cpu)
{
    assert_false(program.wants_plain_cpu());
    digest_settings.simd = DIGEST_SIMD_SCALAR;
    assert_true(program.wants_plain_cpu());
}

TEST(a_port_that_cannot_be_had_is_reported)
{
    stats_clear();
    fake.refuse_listen = true;
    assert_non_null(strstr(program.init(&machine, now_ns), "port"));
}

/* A turn takes 64 events, or those of 10 us. */
TEST(a_turn_takes_as_many_events_as_it_has_time_for)
{
    static const struct {
        uint64_t step_ns, events;
    } rows[] = { { 0, 64 }, { NS_PER_US, 10 }, { NS_PER_S, 1 } };
    const int id = fake_accepted(digest_settings.port);
    turns(1);
    for (int i = 0; i < 100; i++)
        fake_data(id, "P", 1);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        clock_calls = 0;
        clock_step_ns = rows[i].step_ns;
        turns(1);
        assert_int_equal(clock_calls, rows[i].events);
    }
}

/* Returns a sum of all counters but the time since the start and those of rehearsals. */
static uint64_t counters_sum(void)
{
    struct counter_group c;
    uint64_t sum = 0;
    for (size_t i = 0; stats_counter(NULL, i, &c); i++)
        if (strcmp(c.counters->name, "uptime_ns") != 0 && strcmp(c.prefix, "rehearsal.") != 0)
            sum = sum * 31 + *c.values;
    return sum;
}

/* Rehearses in the middle of a client's body. */
TEST(rehearsals_send_what_a_client_is_sent_and_change_nothing)
{
    const struct fake_connection *rehearsed = &fake.connections[FAKE_REHEARSED];
    const int id = fake_accepted(digest_settings.port);
    const struct fake_connection *c = &fake.connections[id];
    fake_text(id, HEAD "he");
    turns(10);
    const uint64_t before = counters_sum();
    fake.rehearses = fake.rehearsal_lost = true;
    turns(100);
    fake.rehearsal_lost = false;
    turns(100);
    for (int i = 0; i < 100 && rehearsed->sent_bytes == 0; i++)
        turns(1);
    assert_true(counters_sum() == before && c->sent_bytes == 0);
    fake_text(id, "llo");
    program.turn(now_ns);
    program.turn(now_ns);
    assert_non_null(strstr(c->sent, "\r\n\r\n2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"));
    assert_string_equal(rehearsed->sent, c->sent);
}
