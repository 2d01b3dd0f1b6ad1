/* docs/tutorial/store/program.c over a transport that the test plays. */
#include "app/program.h"
#include "app/service/rehearsal.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/stats.h"
#include "base/format.h"
#include "base/time.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PORT = 6379, CONNECTION_COUNT = 32 };
static uint64_t now_ns;

BEFORE_EACH()
{
    static const char words[] = "silent=5";
    static struct settings settings;
    const struct program_machine machine = { .tsc_khz = 1000000 };
    service_settings_begin(&settings, program.name, program.settings, NULL);
    settings_add(&settings, "test", words, sizeof words - 1);
    assert_true(settings_finish(&settings));
    fake_reset();
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

static int opened(void)
{
    int id = fake_accepted(PORT);
    assert_true(id >= 0);
    program.turn(now_ns);
    return id;
}

/* Sends a text in pieces of `piece_bytes`. Returns all that has been sent back since. */
static const char *say(int id, const char *text, size_t piece_bytes)
{
    struct fake_connection *c = &fake.connections[id];
    const uint32_t before = c->sent_bytes;
    for (size_t at = 0, bytes = strlen(text); at < bytes; at += piece_bytes) {
        fake_data(id, text + at, min_size(piece_bytes, bytes - at));
        program.turn(now_ns);
    }
    for (int i = 0; i == 0 || (i < 1000 && program.next_deadline_ns(now_ns) <= now_ns); i++)
        program.turn(now_ns);
    return c->sent + before;
}

#define PING "*1\r\n$4\r\nping\r\n"
#define GET  "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
#define SET  "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n"
#define DEL  "*3\r\n$3\r\ndel\r\n$1\r\nk\r\n$1\r\nx\r\n"

TEST(requests_are_answered_in_order_however_they_are_cut)
{
    static const char requests[] = PING GET SET GET DEL DEL GET "*1\r\n$4\r\nQUIT\r\n";
    static const char replies[] = "+PONG\r\n$-1\r\n+OK\r\n$4\r\na\r\nb\r\n:1\r\n:0\r\n$-1\r\n-ERR PING, GET key, "
                                  "SET key value and DEL key... are known here\r\n";
    const int id = opened();
    for (size_t piece = 1; piece <= sizeof requests; piece++)
        assert_string_equal(say(id, requests, piece), replies);
    assert_int_equal(counter_value("store.keys"), 0);
    fake_ended(id);
    program.turn(now_ns);
    assert_true(fake.connections[id].closed_by_us);
}

TEST(an_end_waits_for_all_replies)
{
    enum { COUNT = 100 }; /* more than fit into a message */
    static char requests[sizeof PING * COUNT];
    const int id = opened();
    for (int i = 0; i < COUNT; i++)
        memcpy(requests + strlen(requests), PING, sizeof PING);
    fake_text(id, requests);
    fake_ended(id);
    assert_int_equal(strlen(say(id, "", 1)), COUNT * strlen("+PONG\r\n"));
    assert_true(fake.connections[id].closed_by_us);
}

TEST(what_is_no_request_ends_the_connection)
{
    static const char *const texts[] = { "PING\r\n",
                                         "*0\r\n",
                                         "*9\r\n",
                                         "*\r\n",
                                         "*1\n$",
                                         "*1\r\n:1\r\n",
                                         "*1\r\n$-1\r\n",
                                         "*1\r\n$4\r\nPINGxx",
                                         "*1\r\n$4096\r\n",
                                         "*0000000001\r\n",
                                         "*1x"
                                         "\r\n" };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        const int id = opened();
        assert_string_equal(say(id, texts[i], 100), "-ERR Protocol error\r\n");
        assert_true(fake.connections[id].closed_by_us);
    }
    assert_int_equal(counter_value("store.wrong"), ARRAY_COUNT(texts));
}

TEST(memory_is_bounded)
{
    static char request[8192];
    const int id = opened();
    uint32_t stored = 0;
    for (int i = 0; i < 8192; i++) {
        format(request, sizeof request, "*3\r\n$3\r\nSET\r\n$4\r\n%04x\r\n$1\r\nv\r\n", i);
        fake.connections[id].sent_bytes = 0;
        memset(fake.connections[id].sent, 0, 100);
        stored += strcmp(say(id, request, 100), "+OK\r\n") == 0;
    }
    assert_in_range(stored, 2048, 4096);
    assert_int_equal(counter_value("store.keys"), stored);
    assert_int_equal(counter_value("store.full"), 8192 - stored);
    const size_t head = format(request, sizeof request, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1025\r\n");
    memset(request + head, 'v', 1025);
    memcpy(request + head + 1025, "\r\n", 3);
    assert_string_equal(say(id, request, 700), "-ERR a key has 64 bytes at most, a value 1024\r\n");
}

TEST(who_does_not_read_is_held_and_then_reset)
{
    static char requests[sizeof PING * 500];
    const int id = opened();
    struct fake_connection *c = &fake.connections[id];
    for (int i = 0; i < 500; i++)
        memcpy(requests + strlen(requests), PING, sizeof PING);
    c->window_bytes = 0;
    for (int i = 0; i < 10; i++) {
        fake_text(id, requests);
        program.turn(now_ns);
    }
    assert_true(c->held);
    assert_int_equal(c->sent_bytes, 0);
    now_ns += 5 * NS_PER_S;
    program.turn(now_ns);
    assert_true(c->aborted_by_us);
    assert_int_equal(counter_value("store.silent"), 1);
}

TEST(a_client_beyond_the_last_place_is_refused)
{
    int id = -1;
    for (int i = 0; i <= CONNECTION_COUNT; i++) {
        fake.many = true;
        id = opened();
    }
    assert_true(fake.connections[id].aborted_by_us);
    assert_int_equal(counter_value("store.refused"), 1);
    now_ns += 5 * NS_PER_S;
    program.turn(now_ns);
    program.turn(now_ns);
    assert_string_equal(say(opened(), PING, 1), "+PONG\r\n");
}

TEST(rehearsals_answer_and_count_nothing)
{
    fake.rehearses = true;
    for (int i = 0; i < 100; i++, now_ns += REHEARSAL_SLICE_NS)
        program.turn(now_ns);
    assert_true(fake.rehearsed_bytes > 100);
    assert_int_equal(counter_value("rehearsal.refused_program"), 0);
    assert_int_equal(counter_value("store.requests"), 0);
}
