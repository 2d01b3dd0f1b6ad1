/* docs/tutorial/watch/program.c over a transport that the test plays. */
#include "app/program.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "base/time.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { SERVER = 80 };
static uint64_t now_ns;

BEFORE_EACH()
{
    static const char words[] = "server=10.0.0.2:80 path=/a interval=1 timeout=2 backoff.max=6";
    static struct settings settings;
    const struct program_machine machine = { .tsc_khz = 1000000 };
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "test", words, sizeof words - 1);
    assert_true(settings_finish(&settings));
    fake_reset();
    fake.network.up = true;
    stats_clear();
    now_ns = NS_PER_S;
    assert_null(service_init(machine.secret, false, now_ns));
    assert_null(program.init(&machine, now_ns));
}

static uint64_t counter_value(const char *name)
{
    const uint64_t *value = stats_find(NULL, name);
    assert_non_null(value);
    return *value;
}

/* Waits for the next request, and returns its connection once the request has been sent. */
static int asked(void)
{
    const uint32_t count = fake.connect_count;
    while (fake.connect_count == count)
        program.turn(now_ns = program.next_deadline_ns(now_ns) > now_ns ? program.next_deadline_ns(now_ns)
                                                                        : now_ns + 1);
    const int id = fake_to(SERVER);
    fake_connected(id);
    program.turn(now_ns);
    return id;
}

static void answer(const char *text)
{
    fake_text(asked(), text);
    program.turn(now_ns);
}

TEST(each_outcome_is_counted)
{
    static const char request[] = "GET /a HTTP/1.1\r\nHost: 10.0.0.2:80\r\nConnection: close\r\n\r\n";
    static const struct {
        const char *response, *counter;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "watch.answers" },
        { "HTTP/1.1 204 No Content\r\n\r\n", "watch.answers" },
        { "HTTP/1.1 200 OK\r\n\r\nto the end", "watch.answers" },
        { "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "watch.errors" },
        { "SSH-2.0-OpenSSH\r\n", "watch.wrong" },
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "watch.wrong" }, /* cut short */
        { "", "watch.lost" },
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const uint64_t before = counter_value(cases[i].counter);
        const int id = asked();
        assert_int_equal(fake.connections[id].sent_bytes, sizeof request - 1);
        assert_memory_equal(fake.connections[id].sent, request, sizeof request - 1);
        for (const char *c = cases[i].response; *c; c++)
            fake_data(id, c, 1);
        fake_ended(id);
        for (int turns = 0; turns < 20; turns++)
            program.turn(now_ns);
        assert_int_equal(counter_value(cases[i].counter), before + 1);
        assert_true(fake.connections[id].closed_by_us);
    }
    assert_int_equal(counter_value("watch.requests"), ARRAY_COUNT(cases));
}

TEST(failures_double_the_wait_and_an_answer_ends_that)
{
    static const uint64_t wait_s[] = { 2, 4, 6, 6 }; /* after the timeout; then jitter, a tenth at most */
    answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    uint64_t before_ns = now_ns;
    int id = asked();
    assert_int_equal(now_ns - before_ns, NS_PER_S);
    for (size_t i = 0; i < ARRAY_COUNT(wait_s); i++) {
        before_ns = now_ns + 2 * NS_PER_S;
        const int last = id;
        id = asked();
        assert_in_range(now_ns - before_ns, wait_s[i] * NS_PER_S + 1, wait_s[i] * NS_PER_S * 11 / 10);
        assert_true(fake.connections[last].aborted_by_us || last == id);
    }
    assert_int_equal(counter_value("watch.timeouts"), ARRAY_COUNT(wait_s));
    fake_text(id, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    program.turn(before_ns = now_ns);
    asked();
    assert_int_equal(now_ns - before_ns, NS_PER_S);
}

TEST(a_refusal_is_a_loss)
{
    fake.refuse_connect = true; /* all places are taken */
    program.turn(now_ns);
    assert_int_equal(counter_value("watch.lost"), 1);
    fake.refuse_connect = false;
    fake_closed(asked(), TRANSPORT_RESET);
    program.turn(now_ns);
    assert_int_equal(counter_value("watch.lost"), 2);
}

TEST(nothing_is_asked_before_the_network_is_up)
{
    fake.network.up = false;
    for (int i = 0; i < 100; i++)
        program.turn(now_ns += NS_PER_S / 10);
    assert_int_equal(fake.connect_count, 0);
}

TEST(rehearsals_count_nothing)
{
    fake.network.up = false;
    fake.rehearses = true;
    for (int i = 0; i < 100; i++, now_ns += REHEARSAL_SLICE_NS)
        program.turn(now_ns);
    assert_true(counter_value("rehearsal.done") > 90);
    assert_int_equal(counter_value("rehearsal.refused_program"), 0);
    assert_int_equal(counter_value("watch.requests") + counter_value("watch.answers"), 0);
}
