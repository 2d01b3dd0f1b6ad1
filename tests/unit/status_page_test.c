/* The status page: good and bad requests, and the pages byte for byte, over a fake transport. On one CPU, and on two
 * threads (also under ThreadSanitizer). */
#include <pthread.h>
#include <sched.h>

#include "app/service/metrics.h"
#include "app/service/stats.h"
#include "app/service/status_page.h"
#include "base/format.h"
#include "base/log.h"
#include "base/slowest.h"
#include "net/capture/pcapng.h"
#include "tests/lib/fake_capture.h"
#include "tests/lib/fake_transport.h"
#include "tests/lib/test.h"

enum { PORT = 8080 };
#define SECOND UINT64_C(1000000000)

#define TCP(X)                                                                                                         \
    X(LEVEL, uptime_ns), X(DROP_FRAME, rx_drop_short), X(LEVEL, bytes_used), X(DROP, dropped_expired),                 \
        X(COUNT, tx_resends), X(ALERT, lost)
static struct {
    uint64_t TCP(COUNTER_MEMBER);
} tcp;
static const struct counter_group tcp_group = COUNTER_GROUP("lwip.tcp.", "TCP of lwIP", TCP, tcp);

/* Values of two labels, one of which has characters that no metric may have. */
enum { COUNTER_RESULT = COUNTER_LABELLED, COUNTER_BID };
static const struct counter_metric metrics[] = {
    { "results", "Submissions by result", "result", "results_", "", COUNTER_COUNT },
    { "market_bid", "The best prices", "symbol", "", ".bid", COUNTER_LEVEL },
};
static const struct counter odd[] = {
    { "results_points", COUNTER_RESULT }, { "BRK.A.bid", COUNTER_BID },        { "posts", COUNTER_COUNT },
    { "BRK-A.bid", COUNTER_BID },         { "results_wrong", COUNTER_RESULT }, { "A\"\\=.bid", COUNTER_BID },
};
static uint64_t values[ARRAY_COUNT(odd)];
static const struct counter_group odd_group = { "odd.", "Odd ones", odd, values, ARRAY_COUNT(odd), metrics, 2 };
static struct histogram histogram;
static uint64_t now_ns;

BEFORE_EACH()
{
    fake_reset();
    stats_clear();
    memset(&tcp, 0, sizeof tcp);
    memset(values, 0, sizeof values);
    histogram_clear(&histogram);
    stats_add_fact("build", "12ab");
    stats_add_fact("stack", "a \"quoted\\ one");
    stats_add_histogram("answer.seen_to_matched", &histogram);
    stats_add_counters(&tcp_group);
    stats_add_counters(&odd_group);
    now_ns = SECOND;
    assert_true(status_page_init(PORT, false, false));
    assert_int_equal(fake.listening, PORT);
}

/* Turns the loop until no event is left. */
static void turn(void)
{
    struct transport_event event;
    for (int i = 0; i < 20000; i++) {
        while (transport_poll(now_ns, &event))
            status_page_event(&event, now_ns);
        status_page_poll(now_ns);
        status_page_check();
    }
}

static const char *ask(const char *request)
{
    int id = fake_accepted(PORT);
    assert_true(id >= 0);
    fake_text(id, request);
    turn();
    assert_true(fake.connections[id].closed_by_us);
    return fake.connections[id].sent;
}

static size_t body_bytes;

/* Returns the body of a chunked response, body_bytes of it, or NULL if it is framed wrongly. */
static char *body_of(const char *response)
{
    static char body[FAKE_STREAM_BYTES];
    size_t used = 0;
    body_bytes = 0;
    assert_non_null(strstr(response, "\r\nTransfer-Encoding: chunked\r\n"));
    const char *at = strstr(response, "\r\n\r\n") + 4;
    for (;;) {
        char *end;
        size_t bytes = strtoul(at, &end, 16);
        if (end == at || memcmp(end, "\r\n", 2) != 0)
            return NULL;
        at = end + 2;
        memcpy(body + used, at, bytes);
        used += bytes;
        if (memcmp(at + bytes, "\r\n", 2) != 0)
            return NULL;
        at += bytes + 2;
        if (bytes == 0) {
            body[used] = '\0';
            body_bytes = used;
            return *at == '\0' ? body : NULL;
        }
    }
}

#define assert_has(text, part)                                                                                         \
    do {                                                                                                               \
        if (!strstr(text, part))                                                                                       \
            fail_msg("no %s in:\n%s", part, text);                                                                     \
    } while (0)

TEST(plain_page_is_the_statistics)
{
    char expected[8192];
    tcp.lost = 7;
    stats_render(expected, sizeof expected);
    const char *response = ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_memory_equal(response, "HTTP/1.1 200 OK\r\n", 17);
    assert_string_equal(body_of(response), expected);
    assert_int_equal(status_page_counters.responses_200, 1);
}

/* Writes a metric made of two counters, as a program does. */
static size_t write_sum(const struct stats_copy *from, size_t index, char *out)
{
    const uint64_t sum = *stats_find(from, "odd.posts") + *stats_find(from, "lwip.tcp.lost");
    return index < 2 ? format(out, METRICS_TEXT_BYTES_MAX, "# TYPE sum%zu gauge\nsum%zu %llu\n", index, index,
                              (unsigned long long)sum)
                     : 0;
}

TEST(metrics_have_kinds_and_labels)
{
    static const uint64_t seen[] = { 8, 1, 10, 3, 2, 4 };
    memcpy(values, seen, sizeof seen);
    tcp.rx_drop_short = 3, tcp.dropped_expired = 2, tcp.bytes_used = 4096, tcp.uptime_ns = UINT64_C(12345678901);
    tcp.tx_resends = 6, tcp.lost = 5;
    histogram_add(&histogram, 100);
    histogram_add(&histogram, 2000);
    histogram_add(&histogram, UINT64_C(60) * SECOND);
    stats_set_metrics(write_sum);
    stats_add_fact("`az{@AZ[/09:", "\x1f ~\x7f"); /* each range of characters, and what stands beside it */
    char *body = body_of(ask("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_non_null(body);
    assert_has(body, "peregrine_build_info{build=\"12ab\",stack=\"a \\\"quoted\\\\ one\",_az__AZ__09_=\"? ~?\"} 1\n");
    assert_has(body, "} 1\n# TYPE sum0 gauge\nsum0 15\n# TYPE sum1 gauge\nsum1 15\n# HELP ");
    assert_has(body, "# TYPE peregrine_drops_total counter\n"
                     "peregrine_drops_total{module=\"lwip_tcp\",reason=\"rx_drop_short\"} 3\n"
                     "peregrine_drops_total{module=\"lwip_tcp\",reason=\"dropped_expired\"} 2\n");
    assert_has(body, "# TYPE peregrine_lwip_tcp_bytes_used gauge\nperegrine_lwip_tcp_bytes_used 4096\n");
    assert_has(body,
               "# TYPE peregrine_lwip_tcp_uptime_seconds gauge\nperegrine_lwip_tcp_uptime_seconds 12.345678901\n");
    assert_has(body, "# HELP peregrine_lwip_tcp_tx_resends_total TCP of lwIP: tx_resends.\n"
                     "# TYPE peregrine_lwip_tcp_tx_resends_total counter\nperegrine_lwip_tcp_tx_resends_total 6\n");
    assert_has(body, "# TYPE peregrine_lwip_tcp_lost_total counter\nperegrine_lwip_tcp_lost_total 5\n");
    assert_has(body, "# TYPE peregrine_odd_posts_total counter\nperegrine_odd_posts_total 10\n");
    assert_has(body, "# HELP peregrine_results_total Submissions by result.\n"
                     "# TYPE peregrine_results_total counter\nperegrine_results_total{result=\"points\"} 8\n"
                     "peregrine_results_total{result=\"wrong\"} 2\n"
                     "# HELP peregrine_market_bid The best prices.\n"
                     "# TYPE peregrine_market_bid gauge\nperegrine_market_bid{symbol=\"BRK.A\"} 1\n"
                     "peregrine_market_bid{symbol=\"BRK-A\"} 3\nperegrine_market_bid{symbol=\"A\\\"\\\\=\"} 4\n");
    assert_has(body, "\"answer.seen_to_matched\",le=\"0.000000127\"} 1\n");
    assert_has(body, "\"answer.seen_to_matched\",le=\"0.000001023\"} 1\n");
    assert_has(body, "\"answer.seen_to_matched\",le=\"0.000002047\"} 2\n");
    assert_has(body, "\"answer.seen_to_matched\",le=\"17.179869183\"} 2\n");
    assert_has(body, "\"answer.seen_to_matched\",le=\"+Inf\"} 3\n"
                     "peregrine_latency_seconds_sum{stage=\"answer.seen_to_matched\"} 60.000002100\n"
                     "peregrine_latency_seconds_count{stage=\"answer.seen_to_matched\"} 3\n");
}

/* Checks that every sample comes after its own metric's type line, and that each type line comes once. */
TEST(metrics_are_grouped)
{
    char *body = body_of(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")), type[128] = "";
    unsigned types = 0;
    for (char *line = strtok(body, "\n"); line; line = strtok(NULL, "\n"))
        if (sscanf(line, "# TYPE %127s", type) == 1)
            types++;
        else if (line[0] != '#' && strncmp(line, type, strlen(type)) != 0)
            fail_msg("%s stands behind the type of %s", line, type);
    assert_int_equal(types, 1 + 1 + 1 + 2 + 3 + 2); /* build, latency, drops, levels, counts, labels */
}

/* Moves the texts of the first piece byte by byte. The piece ends when a text of the longest might not fit any more. */
TEST(piece_is_as_long_as_any_text_fits)
{
    enum { CHUNK_FRAME_BYTES = 6 + 2 + 5, FULL_BYTES = TRANSPORT_MESSAGE_BYTES_MAX - CHUNK_FRAME_BYTES };
    static char facts[2][60];
    size_t least = SIZE_MAX;
    stats_add_fact("one", facts[0]);
    stats_add_fact("two", facts[1]);
    for (size_t i = 0; i < 2 * (sizeof facts[0] - 1); i++) {
        facts[i % 2][i / 2] = 'x';
        const char *response = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
                   *body = strstr(response, "\r\n\r\n") + 4;
        least = min_size(least, (size_t)(body - response) + strtoul(body, NULL, 16));
    }
    assert_int_equal(least, FULL_BYTES - METRICS_TEXT_BYTES_MAX + 1);
}

TEST(http_1_0_gets_no_chunks)
{
    const char *response = ask("GET / HTTP/1.0\r\n\r\n");
    assert_null(strstr(response, "chunked"));
    assert_has(response, "\r\n\r\nbuild 12ab\n");
}

TEST(head_has_no_body)
{
    const char *response = ask("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_memory_equal(response, "HTTP/1.1 200 OK\r\n", 17);
    assert_string_equal(strstr(response, "\r\n\r\n"), "\r\n\r\n");
    response = ask("HEAD / HTTP/1.1\r\n\r\n");
    assert_memory_equal(response, "HTTP/1.1 400 ", 13);
    assert_string_equal(strstr(response, "\r\n\r\n"), "\r\n\r\n");
}

TEST(an_empty_line_before_the_request_is_skipped)
{
    assert_memory_equal(ask("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 OK\r\n", 17);
}

TEST(a_bad_request_gets_a_status_with_the_reason)
{
    static const struct {
        const char *request, *status;
    } rows[] = {
        { "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found" },
        { "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab", "405 Method Not Allowed" },
        { "get / HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed" },
        { "GET / HTTP/2.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported" },
        { "GET / HTTP/1.1\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1\r\nHost: x\r\nX[y]: z\r\n\r\n", "400 Bad Request" },
        { "GET /\r\n\r\n", "400 Bad Request" },
        { "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/1.1 x\r\nHost: x\r\n\r\n", "400 Bad Request" },
        { "GET / HTTP/11\r\nHost: x\r\n\r\n", "400 Bad Request" },
        { "\r\n\r\n", "400 Bad Request" },
        { "\x16\x03\x01 / HTTP/1.1\n\n", "400 Bad Request" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *response = ask(rows[i].request);
        if (strncmp(response + strlen("HTTP/1.1 "), rows[i].status, strlen(rows[i].status)) != 0)
            fail_msg("%s\n: %s", rows[i].request, response);
    }
    assert_int_equal(status_page_counters.responses_refused, sizeof rows / sizeof *rows);
    assert_has(ask("POST / HTTP/1.1\r\nHost: x\r\n\r\n"), "\r\nAllow: GET, HEAD\r\n");
    assert_has(ask("GET http://a.b:80/metrics HTTP/1.1\r\nhOsT:x\r\n\r\n"), "peregrine_build_info");
    assert_has(ask("GET HTTP://a.b:80/metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "peregrine_build_info");
    assert_has(ask("GET http://a.b HTTP/1.1\nHost: x\n\n"), "build 12ab");
}

TEST(request_may_come_in_bytes)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int id = fake_accepted(PORT);
    for (size_t i = 0; i < sizeof request - 1; i++) {
        assert_int_equal(fake.connections[id].sent_bytes, 0);
        fake_data(id, request + i, 1);
        turn();
    }
    assert_has(fake.connections[id].sent, "build 12ab");
}

TEST(peer_that_ends_within_its_request_is_reset)
{
    int id = fake_accepted(PORT);
    fake_text(id, "GET / HTTP/1.1\r\n");
    fake_ended(id);
    turn();
    assert_true(fake.connections[id].aborted_by_us);
}

TEST(head_that_never_ends_is_refused)
{
    static char request[STATUS_PAGE_REQUEST_BYTES_MAX + 1] = "GET / HTTP/1.1\r\nX: ";
    memset(request + strlen(request), 'a', sizeof request - 1 - strlen(request));
    assert_has(ask(request), "HTTP/1.1 431 ");
}

TEST(fifth_connection_is_reset_and_a_place_comes_free)
{
    int ids[STATUS_PAGE_CONNECTION_COUNT_MAX + 1];
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX + 1; i++) {
        ids[i] = fake_accepted(PORT);
        turn();
    }
    assert_true(fake.connections[ids[STATUS_PAGE_CONNECTION_COUNT_MAX]].aborted_by_us);
    assert_false(fake.connections[ids[0]].aborted_by_us);
    assert_int_equal(status_page_counters.refused_busy, 1);
    fake_closed(ids[0], TRANSPORT_RESET);
    turn();
    ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(status_page_counters.responses_200, 1);
    assert_int_equal(status_page_counters.requests, 1);
    assert_int_equal(status_page_counters.accepted, STATUS_PAGE_CONNECTION_COUNT_MAX + 1);
}

TEST(fifth_connection_takes_the_place_of_one_that_stands_still)
{
    int ids[STATUS_PAGE_CONNECTION_COUNT_MAX];
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++) {
        ids[i] = fake_accepted(PORT);
        turn();
        now_ns += NS_PER_S / 8;
    }
    now_ns += NS_PER_S / 2;
    const char *text = ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_non_null(strstr(text, "200 OK"));
    assert_true(fake.connections[ids[0]].aborted_by_us);
    assert_false(fake.connections[ids[1]].aborted_by_us);
    assert_int_equal(status_page_counters.evicted, 1);
}

TEST(peer_that_asks_nothing_is_reset_in_time)
{
    int id = fake_accepted(PORT);
    turn();
    assert_int_equal(status_page_next_deadline_ns(now_ns), now_ns + STATUS_PAGE_PATIENCE_NS + 1);
    now_ns += STATUS_PAGE_PATIENCE_NS;
    turn();
    assert_false(fake.connections[id].aborted_by_us);
    now_ns++;
    turn();
    assert_true(fake.connections[id].aborted_by_us);
    assert_int_equal(status_page_next_deadline_ns(now_ns), UINT64_MAX);
}

TEST(peer_that_takes_nothing_is_waited_for_then_reset)
{
    int id = fake_accepted(PORT);
    struct fake_connection *c = &fake.connections[id];
    turn();
    for (int step = 0; step < 3; step++, now_ns += STATUS_PAGE_PATIENCE_NS) { /* connected, asked, took a piece */
        c->window_bytes = step < 2 ? 0 : TRANSPORT_MESSAGE_BYTES_MAX;
        if (step == 1)
            fake_text(id, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        turn();
        assert_int_equal(c->sent_bytes > 0, step == 2);
        assert_false(c->aborted_by_us);
    }
    c->window_bytes = UINT32_MAX;
    turn();
    assert_true(c->closed_by_us);
    assert_non_null(body_of(c->sent));

    id = fake_accepted(PORT);
    c = &fake.connections[id];
    c->no_message = true;
    fake_text(id, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    turn();
    now_ns += STATUS_PAGE_PATIENCE_NS + 1;
    turn();
    assert_true(c->aborted_by_us);
    assert_int_equal(status_page_counters.given_up, 1);
}

/* Stalls a reader after its first piece while the counters move and another reader asks. */
TEST(page_keeps_its_moment_when_another_reader_asks)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    values[2] = tcp.tx_resends = 7;
    int first = fake_accepted(PORT);
    fake.connections[first].window_bytes = 0;
    fake_text(first, request);
    turn();
    values[2] = tcp.tx_resends = 8;
    assert_has(body_of(ask(request)), "peregrine_lwip_tcp_tx_resends_total 8\n");
    fake.connections[first].window_bytes = UINT32_MAX;
    turn();
    const char *body = body_of(fake.connections[first].sent);
    assert_has(body, "peregrine_odd_posts_total 7\n");
    assert_has(body, "peregrine_lwip_tcp_tx_resends_total 7\n");
}

TEST(place_is_not_free_while_its_page_is_rendered)
{
    assert_true(status_page_init(PORT, true, false));
    int gone = fake_accepted(PORT), ids[STATUS_PAGE_CONNECTION_COUNT_MAX];
    fake_text(gone, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    turn();
    fake_closed(gone, TRANSPORT_RESET);
    turn();
    assert_int_equal(status_page_next_deadline_ns(now_ns), now_ns);
    for (size_t i = 0; i < STATUS_PAGE_CONNECTION_COUNT_MAX; i++)
        ids[i] = fake_accepted(PORT);
    turn();
    assert_true(fake.connections[ids[STATUS_PAGE_CONNECTION_COUNT_MAX - 1]].aborted_by_us);
    while (status_page_render())
        continue;
    int id = fake_accepted(PORT);
    turn();
    assert_false(fake.connections[id].aborted_by_us);
}

static bool serving;

static void *second_cpu(void *unused)
{
    (void)unused;
    while (__atomic_load_n(&serving, __ATOMIC_ACQUIRE))
        if (!status_page_render())
            sched_yield();
    return NULL;
}

static uint64_t value_in(const char *body, const char *name)
{
    const char *at = body ? strstr(body, name) : NULL;
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

/* Renders on the second CPU while the first one counts and peers come and go. Every page is whole, and of one
 * moment. */
TEST(two_cpus_make_whole_pages)
{
    enum { ROUNDS = 60 };
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    static const char *const names[][2] = {
        { "odd.results_points ", "odd.results_wrong " }, /* the slowest ways are in this page's copy, too */
        { "_total{result=\"points\"} ", "_total{result=\"wrong\"} " },
    };
    pthread_t thread;
    struct transport_event event;
    assert_true(status_page_init(PORT, true, false));
    slowest_clear();
    stats_set_ways("a b c");
    serving = true;
    assert_int_equal(pthread_create(&thread, NULL, second_cpu, NULL), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned count = round % 3 == 0 ? 1 : STATUS_PAGE_CONNECTION_COUNT_MAX;
        int ids[STATUS_PAGE_CONNECTION_COUNT_MAX];
        for (unsigned i = 0; i < count; i++) {
            do { /* a place is not free while its last page is rendered */
                status_page_poll(now_ns);
                ids[i] = fake_accepted(PORT);
                while (transport_poll(now_ns, &event))
                    status_page_event(&event, now_ns);
            } while (fake.connections[ids[i]].aborted_by_us);
            fake_text(ids[i], requests[(round + i) % 2]);
        }
        bool all = false;
        for (unsigned turns = 0; !all; turns++) {
            values[0] = ++values[4];
            slowest_note(
                &(struct slow_way){ .at_ns = log_clock_ns, .total_ns = values[0], .turn_ns = (uint32_t)values[0] });
            while (transport_poll(now_ns, &event))
                status_page_event(&event, now_ns);
            status_page_poll(now_ns);
            if (count > 1 && turns == 40 + round && !fake.connections[ids[0]].closed_by_us)
                fake_closed(ids[0], TRANSPORT_RESET);
            all = true;
            for (unsigned i = 0; i < count; i++)
                all = all && (fake.connections[ids[i]].closed_by_us || (i == 0 && count > 1 && turns > 40 + round));
        }
        for (unsigned i = count > 1; i < count; i++) {
            unsigned page = (round + i) % 2;
            const char *body = body_of(fake.connections[ids[i]].sent);
            uint64_t points = value_in(body, names[page][0]), responses = value_in(body, names[page][1]);
            assert_int_equal(points, responses);
            assert_true(points <= values[0]);
            const char *way = page == 0 ? strstr(body, "\nslow.01 ") : NULL;
            unsigned long long total, turn;
            if (way != NULL) {
                assert_int_equal(sscanf(way, "\nslow.01 %*s %llu 0 0 0 %llu", &total, &turn), 2);
                assert_true(total == points && turn == points); /* the latest is the slowest */
            }
        }
    }
    __atomic_store_n(&serving, false, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* ---- the capture ---- */

static void capture_begin(uint32_t bytes, bool elsewhere)
{
    fake_capture_begin(bytes);
    assert_true(status_page_init(PORT, elsewhere, true));
}

static void capture_frame(uint8_t fill)
{
    uint8_t data[CAPTURE_BYTES_MAX];
    memset(data, fill, sizeof data);
    fake_capture_frame(data, capture_bytes());
}

/* A visitor that acknowledges nothing gets 32 KiB of it, and keeps no more transmit buffers. */
TEST(capture_is_served_as_a_file)
{
    static uint8_t expected[FAKE_STREAM_BYTES];
    size_t bytes, expected_bytes = 0;
    uint64_t position = 0;
    capture_begin(1400, false);
    for (uint8_t i = 0; i < 25; i++)
        capture_frame(i);
    while ((bytes = pcapng_next(&position, 25, expected + expected_bytes)) != 0)
        expected_bytes += bytes;
    int id = fake_accepted(PORT);
    fake_text(id, "GET /capture HTTP/1.1\r\nHost: x\r\n\r\n");
    turn();
    assert_in_range(fake.connections[id].sent_bytes, 32 * 1024, 34 * 1024);
    fake.connections[id].acked_bytes = fake.connections[id].sent_bytes;
    turn();
    assert_has(fake.connections[id].sent, "\r\nContent-Type: application/x-pcapng\r\n");
    const char *body = body_of(fake.connections[id].sent);
    assert_non_null(body);
    assert_int_equal(body_bytes, expected_bytes);
    assert_memory_equal(body, expected, expected_bytes);
    assert_has(ask("HEAD /capture HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 OK\r\n");
}

TEST(capture_is_hidden_unless_it_is_to_be_served)
{
    capture_begin(1, false);
    assert_true(status_page_init(PORT, false, false));
    assert_has(ask("GET /capture HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 404 Not Found\r\n");
}

/* Overwrites the ring, again and again, while the second CPU renders it. Each frame in the file is whole. While the
 * second CPU is busy elsewhere a file may hold no frame: then there are more rounds. */
TEST(two_cpus_make_whole_captures)
{
    enum { CAPTURED_BYTES = 100, ROUNDS_MIN = 40, ROUNDS_MAX = 10000, PACKETS_MIN = 100 };
    pthread_t thread;
    struct transport_event event;
    size_t packets = 0;
    capture_begin(CAPTURED_BYTES, true);
    for (uint8_t i = 0; i < FAKE_CAPTURE_FRAMES; i++)
        capture_frame(i);
    serving = true;
    assert_int_equal(pthread_create(&thread, NULL, second_cpu, NULL), 0);
    for (unsigned round = 0; round < ROUNDS_MIN || (packets < PACKETS_MIN && round < ROUNDS_MAX); round++) {
        int id = fake_accepted(PORT);
        fake_text(id, "GET /capture HTTP/1.1\r\nHost: x\r\n\r\n");
        for (uint8_t i = 0; !fake.connections[id].closed_by_us; i++) {
            while (transport_poll(now_ns, &event))
                status_page_event(&event, now_ns);
            status_page_poll(now_ns);
            if (i % 32 == 0)
                capture_frame((uint8_t)(i + round));
            sched_yield();
        }
        const uint8_t *at = (const uint8_t *)body_of(fake.connections[id].sent), *end = at + body_bytes;
        assert_non_null(at);
        for (; at < end; at += load_le32(at + 4)) {
            if (load_le32(at) != 6) /* Enhanced Packet Block */
                continue;
            packets++;
            for (size_t i = 0; i < CAPTURED_BYTES; i++)
                assert_int_equal(at[28 + i], at[28]);
        }
        while (status_page_render())
            continue;
    }
    __atomic_store_n(&serving, false, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(packets >= PACKETS_MIN);
}

TEST(without_a_port_there_is_no_listener)
{
    fake.listening = 0;
    assert_true(status_page_init(0, false, false));
    assert_false(status_page_render());
    assert_int_equal(fake.listening, 0);
    fake.refuse_listen = true;
    assert_false(status_page_init(PORT, false, false));
}
