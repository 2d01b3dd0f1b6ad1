/* app/digest/: requests over a fake transport. */
#include "app/digest/connection.h"
#include "app/digest/server.h"
#include "app/digest/settings.h"
#include "app/digest/variants.h"
#include "tests/lib/program_test.h"

enum { PORT = 8080 };
static uint64_t now_ns;

BEFORE_EACH()
{
    fake_reset();
    stats_clear();
    digest_variants_choose(false, 2000000);
    digest_settings = (struct digest_settings){ .rounds_max = 1000000, .client_timeout_ns = 10 * NS_PER_S };
    now_ns = NS_PER_S;
    assert_true(digest_server_init(PORT));
    assert_int_equal(fake.listening, PORT);
}

/* Takes the events that are queued, and works for one turn: chains are not awaited. */
static void one_turn(void)
{
    struct transport_event event;
    now_ns += NS_PER_US;
    while (transport_poll(now_ns, &event))
        digest_server_event(&event, now_ns);
    digest_server_work(now_ns);
    digest_server_check();
}

/* Takes the events that are queued, and works until nothing is left to do. */
static void turn(void)
{
    do {
        one_turn();
        digest_server_warm();
        digest_server_check();
    } while (digest_server_next_deadline_ns(now_ns) <= now_ns);
}

/* Lets time pass, in steps. */
static void wait(uint64_t ns)
{
    for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += 50 * NS_PER_MS)
        turn();
}

static int opened(void)
{
    int id = fake_accepted(PORT);
    assert_true(id >= 0);
    turn();
    return id;
}

static const char request[] = "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";

static const char *answer(int id) { return fake.connections[id].sent; }

static const char *ask(int id, const char *text)
{
    fake_text(id, text);
    turn();
    return answer(id);
}

TEST(a_request_is_answered_and_the_next_one_too)
{
    int id = opened();
    uint64_t before = digest_connection_counters.responses_200;
    const char *text = ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_string_equal(text, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 65\r\n\r\n"
                              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n");
    ask(id,
        "POST /nabhash HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\xde\xad\xbe\xef\r\n0\r\n\r\n");
    assert_non_null(strstr(text, "\n9041d0d440fe93f69515b771619aa54c\n"));
    assert_false(fake.connections[id].closed_by_us);
    ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(text, "Connection: close\r\n\r\ne3b0c442"));
    assert_int_equal(digest_connection_counters.responses_200 - before, 3);
    assert_true(fake.connections[id].closed_by_us);
}

TEST(requests_in_one_piece_are_answered_in_order)
{
    char text[400] = "";
    for (int i = 0; i < 3; i++)
        strcat(text, "POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nfoobar");
    static const char one[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "008\r\nZm9vYmFy\r\n0\r\n\r\n";
    int id = opened();
    const char *all = ask(id, text);
    assert_int_equal(strlen(all), 3 * strlen(one));
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(all + i * strlen(one), one, strlen(one));
}

TEST(a_request_byte_by_byte_is_answered)
{
    static const char text[] = "POST /base64 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "3;x\r\nfoo\r\n3\r\nbar\r\n0\r\nT: 1\r\n\r\n";
    int id = opened();
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        fake_data(id, text + i, 1);
        turn();
    }
    assert_non_null(strstr(answer(id), "\r\n\r\n004\r\nZm9v\r\n004\r\nYmFy\r\n0\r\n\r\n"));
}

TEST(an_old_client_gets_its_stream_up_to_the_end)
{
    int id = opened();
    ask(id, "POST /base64 HTTP/1.0\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\nfoobarf");
    assert_non_null(strstr(answer(id), "Connection: close\r\n\r\nZm9vYmFyZg=="));
    assert_true(fake.connections[id].closed_by_us);
}

TEST(a_response_waits_for_a_buffer)
{
    int id = opened();
    fake.connections[id].no_message = true;
    assert_string_equal(ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"), "");
    fake.connections[id].no_message = false;
    wait(100 * NS_PER_MS);
    assert_non_null(strstr(answer(id), "200 OK"));
}

TEST(a_client_that_expects_100_continue_gets_100)
{
    int id = opened();
    ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(answer(id), "HTTP/1.1 100 Continue\r\n\r\n");
    ask(id, "abc");
    assert_non_null(strstr(answer(id), "200 OK"));
    /* RFC 9110 §10.1.1: none to an old client, nor if no body follows. */
    ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n");
    ask(id, "POST /sha256 HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc");
    assert_null(strstr(answer(id) + 1, "HTTP/1.1 100"));
    assert_true(fake.connections[id].closed_by_us);
}

#define ZEROS_16    "0000000000000000"
#define MERCHA_ZERO "/mercha?nonce=" ZEROS_16 "00000000&key=" ZEROS_16 ZEROS_16 ZEROS_16 ZEROS_16

TEST(bad_requests_get_an_error_message_and_an_end)
{
    static const struct {
        const char *request, *status, *words;
    } rows[] = {
        { "GARBAGE\r\n\r\n", "400 Bad Request", "malformed" },
        { "POST /sha256 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "400", "malformed" },
        { "POST /sha256 HTTP/2.0\r\nHost: x\r\n\r\n", "505", "1.0 or 1.1" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501", "chunked" },
        { "POST /md5 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "404 Not Found", "/nabhash /mercha?key=&" },
        { "GET /sha256 HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed", "Allow: POST\r\n" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\n\r\n", "411 Length Required", "Content-Length" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", "413", "body.max=" },
        { "POST /sha256?rounds=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "400", "rounds.max=" },
        { "POST /sha256?rounds=1000000000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "400", "rounds.max=" },
        { "POST /mercha?key=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 128\r\n\r\n", "400", "key=" },
        { "POST " MERCHA_ZERO " HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", "400", "64 * 2^k" },
        { "POST " MERCHA_ZERO " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "400",
          "64 * 2^k" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx", "400", "chunks" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3 5\r\nabc", "400", "chunks" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nX: a\x7f\r\nContent-Length: 0\r\n\r\n", "400", "malformed" },
        { "POST /sha256 HTTP/1.1\r\nHost: x\r\nTrans fer: chunked\r\nContent-Length: 0\r\n\r\n", "400", "malformed" },
    };
    digest_settings.body_max = 1000;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int id = opened();
        const char *text = ask(id, rows[i].request);
        assert_memory_equal(text, "HTTP/1.1 ", 9);
        assert_memory_equal(text + 9, rows[i].status, strlen(rows[i].status));
        assert_non_null(strstr(text, rows[i].words));
        assert_non_null(strstr(text, "Connection: close\r\n"));
        assert_true(fake.connections[id].closed_by_us);
    }
}

/* RFC 9110 §9.3.2: a client would read a body as the next response. */
TEST(a_head_request_gets_no_body)
{
    static const char *const requests[] = {
        "HEAD /sha256 HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\nHEAD /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
        "HEAD /sha256 HTTP/1.1\r\n\r\n",
        "\nHEAD /nothing HTTP/1.1\nHost: x\n\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        int id = opened();
        const char *text = ask(id, requests[i]), *end = strstr(text, "\r\n\r\n");
        assert_non_null(end);
        assert_string_equal(end, "\r\n\r\n");
        assert_null(strstr(text, "Content-Length: 0"));
        assert_true(fake.connections[id].closed_by_us);
    }
}

TEST(a_body_that_ends_early_is_refused)
{
    int id = opened();
    fake_text(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabc");
    fake_ended(id);
    turn();
    assert_true(strstr(answer(id), "400 Bad Request") && strstr(answer(id), "ends before its length"));
}

TEST(a_chunked_body_above_the_limit_is_refused)
{
    digest_settings.body_max = 5;
    assert_non_null(
        strstr(ask(opened(), "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"), "200 OK"));
    const int id = opened();
    ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n");
    assert_non_null(strstr(answer(id), "413 "));
}

TEST(a_head_without_end_is_refused)
{
    int id = opened();
    fake_text(id, "POST /sha256 HTTP/1.1\r\n");
    for (int i = 0; i < 300 && answer(id)[0] == '\0'; i++)
        ask(id, "X: 0123456789\r\n");
    assert_non_null(strstr(answer(id), "431 "));
    static char head[CONNECTION_HEAD_BYTES_MAX];
    const int begun = snprintf(head, sizeof head, "POST /sha256 HTTP/1.1\r\nX: ");
    memset(head + begun, 'a', sizeof head - 1 - (size_t)begun);
    id = opened();
    assert_string_equal(ask(id, head), "");
    assert_non_null(strstr(ask(id, "a"), "431 ")); /* the 4096th byte */
}

TEST(a_head_of_more_than_4096_bytes_is_refused)
{
    static const char form[] = "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nX: %0*d\r\n\r\n";
    char text[CONNECTION_HEAD_BYTES_MAX + 2];
    const int id = opened(), least = snprintf(text, sizeof text, form, 1, 0);
    for (int more = 0; more < 2; more++) {
        snprintf(text, sizeof text, form, CONNECTION_HEAD_BYTES_MAX - least + 1 + more, 0);
        assert_non_null(strstr(ask(id, text), more == 0 ? "200 OK" : "431 "));
    }
}

TEST(a_stream_that_turns_bad_breaks_off)
{
    int id = opened();
    ask(id, "POST /base64 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nfoo\r\nx");
    assert_true(fake.connections[id].aborted_by_us && !strstr(answer(id), "400"));
}

TEST(rounds_are_worked_on_side_by_side)
{
    int ids[8];
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        char text[128];
        snprintf(text, sizeof text, "POST /sha256?rounds=%zu HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
                 i + 1);
        ids[i] = fake_accepted(PORT);
        fake_text(ids[i], text);
    }
    turn();
    assert_non_null(
        strstr(answer(ids[0]), "\r\n\r\nba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"));
    for (size_t i = 1; i < ARRAY_COUNT(ids); i++) {
        assert_non_null(strstr(answer(ids[i]), "200 OK"));
        assert_string_not_equal(strstr(answer(ids[i]), "\r\n\r\n"), strstr(answer(ids[i - 1]), "\r\n\r\n"));
    }
}

TEST(a_chain_ends_with_its_client)
{
    int id = opened();
    fake_text(id, "POST /sha256?rounds=1000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    for (int i = 0; i < 8; i++)
        one_turn();
    assert_int_equal(digest_server_next_deadline_ns(now_ns), now_ns);
    fake_closed(id, TRANSPORT_RESET);
    turn();
    assert_true(digest_server_next_deadline_ns(now_ns) == UINT64_MAX);
}

TEST(a_slow_reader_holds_back_its_own_stream_alone)
{
    static uint8_t half[16384 / 2];
    int slow = opened(), other = opened();
    struct fake_connection *c = &fake.connections[slow];
    c->window_bytes = 3000;
    fake_text(slow, "POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 16384\r\n\r\n");
    fake_data(slow, half, sizeof half);
    wait(NS_PER_S);
    assert_true(c->held && c->sent_bytes <= 3000 && c->sent_bytes > 1000);
    ask(other, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_non_null(strstr(answer(other), "200 OK"));
    for (int part = 0; part < 3; part++) {
        for (int i = 0; i < 100 && (c->held || part == 2); i++) {
            c->acked_bytes = c->sent_bytes;
            wait(10 * NS_PER_MS);
        }
        assert_false(c->held);
        if (part == 0)
            fake_data(slow, half, sizeof half);
    }
    assert_string_equal(answer(slow) + c->sent_bytes - 7, "\r\n0\r\n\r\n");
}

TEST(a_reader_that_reads_nothing_is_cut_off)
{
    int id = opened();
    fake.connections[id].window_bytes = 0;
    ask(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    wait(9 * NS_PER_S);
    assert_false(fake.connections[id].aborted_by_us);
    wait(2 * NS_PER_S);
    assert_true(fake.connections[id].aborted_by_us);
}

TEST(slow_senders_get_408)
{
    int head = opened(), body = opened(), silent = opened(), deaf = opened();
    fake.connections[deaf].window_bytes = 0; /* cannot get the 408 */
    fake_text(deaf, "POST ");
    fake_text(head, "POST /sha256 HTTP/1.1\r\nX: ");
    fake_text(body, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabc");
    for (int i = 0; i < 11; i++) { /* a byte a second does not extend the time of a head */
        fake_text(head, "x");
        wait(NS_PER_S);
    }
    assert_non_null(strstr(answer(head), "408 Request Timeout"));
    assert_non_null(strstr(answer(body), "408 Request Timeout"));
    assert_string_equal(answer(silent), "");
    assert_true(fake.connections[silent].closed_by_us);
    assert_false(fake.connections[deaf].aborted_by_us);
    wait(NS_PER_S);
    assert_true(fake.connections[deaf].aborted_by_us);
}

TEST(unexpected_bytes_keep_no_connection)
{
    fake.linger = true;
    int refused = opened(), reader = opened(), stream = opened();
    fake.connections[reader].window_bytes = fake.connections[stream].window_bytes = 0;
    ask(refused, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    ask(reader, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    ask(stream, "POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 32768\r\n\r\n");
    for (int i = 0; i < 12; i++) {
        for (int id = 0; id < 3; id++)
            if (!fake.connections[id].aborted_by_us)
                fake_data(id, "x", 1);
        wait(NS_PER_S);
    }
    for (int id = 0; id < 3; id++)
        assert_true(fake.connections[id].aborted_by_us);
    assert_non_null(strstr(answer(refused), "404 Not Found"));
}

/* Sends bodies that last for three times client.timeout=. */
TEST(a_body_that_keeps_coming_has_all_the_time)
{
    enum { SECONDS = 32, RATE = CONNECTION_BODY_RATE_MIN + 12 };
    static const uint8_t part[RATE];
    char head[256];
    int id = opened(), parts = opened(), eager = opened(); /* sends the body before it has read 100 */
    fake.connections[eager].window_bytes = 0;
    snprintf(head, sizeof head, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", SECONDS * RATE);
    ask(id, head);
    snprintf(head, sizeof head, "POST /mercha?key=%064d&nonce=%024d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
             0, 0, SECONDS * RATE);
    ask(parts, head);
    snprintf(head, sizeof head,
             "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", SECONDS * RATE);
    ask(eager, head);
    for (int i = 0; i < SECONDS; i++) {
        fake_data(id, part, sizeof part);
        fake_data(parts, part, sizeof part);
        fake_data(eager, part, sizeof part);
        wait(NS_PER_S);
    }
    fake.connections[eager].window_bytes = UINT32_MAX;
    wait(NS_PER_S);
    assert_non_null(strstr(answer(id), "200 OK"));
    assert_non_null(strstr(answer(parts), "200 OK"));
    assert_non_null(strstr(answer(eager), "200 OK"));
}

/* Sends a byte of a body each second, of a stream too. The place is free as soon as the client has the 408. */
TEST(a_body_that_trickles_gets_408_and_gives_up_its_place)
{
    fake.linger = true; /* the clients never close */
    int hash = opened(), stream = opened();
    ask(hash, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    ask(stream, "POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    for (int i = 0; i < 21 && (!fake.connections[hash].closed_by_us || !fake.connections[stream].aborted_by_us); i++) {
        if (!fake.connections[hash].closed_by_us)
            fake_data(hash, "x", 1);
        if (!fake.connections[stream].aborted_by_us)
            fake_data(stream, "x", 1);
        fake.connections[stream].acked_bytes = fake.connections[stream].sent_bytes;
        wait(NS_PER_S);
    }
    assert_non_null(strstr(answer(hash), "408 Request Timeout"));
    assert_true(fake.connections[stream].aborted_by_us); /* a response has begun, and cannot be taken back */
    fake.connections[hash].acked_bytes = fake.connections[hash].sent_bytes;
    wait(300 * NS_PER_MS);
    assert_true(fake.connections[hash].aborted_by_us);
}

/* Lets the machine stand still for longer than client.timeout=: nobody is late, and the time-out goes on from there. */
TEST(a_pause_of_the_machine_ends_nobody)
{
    fake.linger = true;
    int head = opened(), body = opened(), silent = opened(), reader = opened();
    fake.connections[reader].window_bytes = 0;
    ask(head, "POST /sha256 HTTP/1.1\r\nHost: ");
    ask(body, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na");
    ask(reader, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    wait(5 * NS_PER_S);
    now_ns += 100 * NS_PER_S;
    wait(4 * NS_PER_S);
    fake.connections[reader].window_bytes = UINT32_MAX;
    assert_non_null(strstr(ask(head, "x\r\nContent-Length: 3\r\n\r\nabc"), "200 OK"));
    assert_non_null(strstr(ask(body, "bc"), "200 OK"));
    assert_non_null(strstr(answer(reader), "200 OK"));
    assert_false(fake.connections[silent].closed_by_us);
    wait(3 * NS_PER_S);
    assert_true(fake.connections[silent].closed_by_us);
}

/* ---- Shares ---- */

enum { GREEDY = 0x0a000301, MODEST = 0x0a000302 };

static int opened_from(uint32_t address)
{
    int id = fake_accepted_from(address, PORT);
    assert_true(id >= 0);
    one_turn();
    return id;
}

/* Takes all places with requests of many rounds, whose clients then end if `ended`. */
static void take_all_places(bool ended)
{
    fake.many = fake.linger = true;
    for (int i = 0; i < SERVER_CONNECTION_COUNT; i++) {
        int id = opened_from(GREEDY);
        fake_text(id, "POST /sha256?rounds=1000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
        if (ended)
            fake_ended(id);
        one_turn();
    }
    for (int i = 0; i < 20; i++)
        one_turn();
}

static const char *ask_shortly(int id)
{
    fake_text(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    for (int i = 0; i < 10; i++)
        one_turn();
    return answer(id);
}

TEST(an_address_with_all_places_gives_one_to_another_address)
{
    take_all_places(false);
    for (int i = 1; i <= 5; i++)
        assert_non_null(strstr(ask_shortly(opened_from(MODEST)), "200 OK"));
    assert_int_equal(counter("digest.dropped_share"), 5);
    assert_non_null(strstr(ask_shortly(opened_from(GREEDY)), "503 "));
    assert_int_equal(counter("digest.dropped_share"), 5);
    const int two[] = { fake_accepted_from(MODEST, PORT), fake_accepted_from(MODEST, PORT) }; /* in one turn */
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(ask_shortly(two[i]), "200 OK"));
    assert_int_equal(counter("digest.dropped_share"), 7);
}

TEST(an_address_with_one_place_fewer_takes_none)
{
    fake.many = fake.linger = true;
    for (uint32_t i = 0; i < SERVER_CONNECTION_COUNT; i++)
        opened_from(GREEDY + i % 3); /* 86, 85 and 85 places */
    assert_non_null(strstr(answer(opened_from(GREEDY + 2)), "503 "));
    assert_int_equal(counter("digest.dropped_share"), 0);
}

/* Refuses clients that then stay. A client that has its refusal gives up its place; at last there is none. */
TEST(a_refused_client_that_stays_gives_up_its_place)
{
    take_all_places(false);
    int refused = opened_from(GREEDY);
    assert_non_null(strstr(answer(opened_from(GREEDY)), "503 "));
    fake.connections[refused].acked_bytes = fake.connections[refused].sent_bytes;
    const int served = opened_from(GREEDY);
    assert_non_null(strstr(ask_shortly(served), "200 OK"));
    fake_text(served, "POST /sha256?rounds=1000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
    assert_int_equal(counter("digest.dropped_spare"), 1);
    for (int places = SERVER_REFUSAL_COUNT - 2; places > 0; places--)
        assert_non_null(strstr(answer(opened_from(GREEDY)), "503 "));
    assert_int_equal(digest_chains_count(), SERVER_CONNECTION_COUNT + 1);
    refused = opened_from(GREEDY);
    assert_true(fake.connections[refused].aborted_by_us && answer(refused)[0] == '\0');
    assert_non_null(strstr(ask_shortly(opened_from(MODEST)), "200 OK")); /* the claim frees a place at once */
}

TEST(two_addresses_come_to_equal_shares)
{
    fake.many = fake.linger = true;
    int asks = opened_from(GREEDY); /* keeps its place: the others are idle */
    fake_text(asks, "POST ");
    for (int i = 1; i < SERVER_CONNECTION_COUNT; i++)
        opened_from(GREEDY);
    for (int i = 0; i < SERVER_CONNECTION_COUNT / 2; i++)
        assert_null(strstr(answer(opened_from(MODEST)), "503 "));
    assert_int_equal(counter("digest.dropped_share"), SERVER_CONNECTION_COUNT / 2);
    assert_non_null(strstr(answer(opened_from(MODEST)), "503 "));
    assert_int_equal(fake.connections[asks].address, GREEDY);
}

/* Takes all places, each for another address: by clients that never ask, that have been answered and stay, or that have
 * long chains. */
TEST(equal_addresses_do_not_shut_out_a_newcomer)
{
    enum { FIRST = 0x0b000000, SILENT = 0, ANSWERED, CHAIN };
    static const int tenths[] = { 5, 10, 50 }; /* for so long each has its place */
    for (int kind = SILENT; kind <= CHAIN; kind++) {
        fake_reset();
        stats_clear();
        assert_true(digest_server_init(PORT));
        digest_settings.rounds_max = UINT64_MAX;
        fake.many = fake.linger = true;
        int ids[SERVER_CONNECTION_COUNT];
        for (uint32_t i = 0; i < SERVER_CONNECTION_COUNT; i++) {
            ids[i] = opened_from(FIRST + i);
            if (kind == CHAIN)
                fake_text(ids[i], "POST /sha256?rounds=100000000 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
            else if (kind == ANSWERED)
                assert_non_null(strstr(ask_shortly(ids[i]), "200 OK"));
            fake.connections[ids[i]].acked_bytes = fake.connections[ids[i]].sent_bytes;
            one_turn();
        }
        now_ns += 100 * NS_PER_S; /* the machine stands still */
        for (int i = 0; i < tenths[kind]; i++, now_ns += 100 * NS_PER_MS)
            if (i == 0 || i == tenths[kind] - 2)
                assert_non_null(strstr(ask_shortly(opened_from(MODEST + 2 + (uint32_t)i)), "503 "));
            else
                one_turn();
        const int newcomer = opened_from(MODEST + 1);
        assert_non_null(strstr(ask_shortly(newcomer), "200 OK"));
        assert_true(fake.connections[ids[0]].aborted_by_us); /* the oldest */
        assert_int_equal(counter(kind == CHAIN ? "digest.dropped_old" : "digest.dropped_idle"), 1);
        if (kind != CHAIN)
            continue;
        fake_text(newcomer, "POST "); /* is not idle */
        one_turn();
        /* An address with a place takes no other's. */
        assert_non_null(strstr(ask_shortly(opened_from(FIRST + 1)), "503 "));
    }
}

TEST(a_chain_whose_client_has_ended_gives_up_its_place)
{
    take_all_places(true);
    for (int i = 1; i <= 5; i++)
        assert_non_null(strstr(ask_shortly(opened_from(GREEDY)), "200 OK"));
    assert_int_equal(counter("digest.dropped_spare"), 5);
    const int two[] = { fake_accepted_from(GREEDY, PORT), fake_accepted_from(GREEDY, PORT) }; /* in one turn */
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(ask_shortly(two[i]), "200 OK"));
    assert_int_equal(counter("digest.dropped_spare"), 7);
    for (int i = 0; i < 12; i++, now_ns += NS_PER_S) /* client.timeout= is 10 */
        one_turn();
    assert_int_equal(counter("digest.expired"), SERVER_CONNECTION_COUNT); /* the seven are idle */
    assert_true(digest_chains_count() == 0);
}

/* Ends as `printf ... | nc -N` does, and waits for the answer. */
TEST(a_client_that_ended_gets_its_answer_in_time)
{
    int id = opened();
    fake_text(id, "POST /sha256?rounds=1000 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    fake_ended(id);
    turn();
    assert_non_null(strstr(answer(id), "200 OK"));
}

TEST(a_body_has_its_own_time_after_a_slow_head)
{
    int id = opened();
    fake_text(id, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n");
    wait(8 * NS_PER_S);
    fake_text(id, "\r\n");
    wait(4 * NS_PER_S);
    assert_string_equal(answer(id), "");
    ask(id, "abc");
    assert_non_null(strstr(answer(id), "200 OK"));
}

TEST(a_slow_head_behind_a_stream_gets_408)
{
    int id = opened();
    ask(id, "POST /base64 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nfoo");
    assert_non_null(strstr(answer(id), "Zm9v"));
    fake_text(id, "POST /base64 HTTP/1.1\r\nX: ");
    wait(11 * NS_PER_S);
    assert_non_null(strstr(answer(id), "408 Request Timeout"));
}

/* Plays with clients of which each message keeps one of the machine's 256 transmit buffers. */
TEST(clients_that_acknowledge_nothing_do_not_take_all_buffers)
{
    int other = opened(), silent[12];
    uint32_t reply_bytes = 0, messages = 0;
    for (int i = 0; i < 12; i++) {
        silent[i] = opened();
        for (int k = 0; k < 25; k++)
            fake_text(silent[i], request);
        turn();
        reply_bytes = reply_bytes ? reply_bytes : fake.connections[silent[0]].sent_bytes / 25;
    }
    for (int i = 0; i < 12; i++)
        messages += fake.connections[silent[i]].sent_bytes / reply_bytes;
    assert_in_range(messages, 100, 200);
    ask(other, request);
    wait(1200 * NS_PER_MS);
    assert_non_null(strstr(answer(other), "200 OK"));
    fake.connections[other].acked_bytes = fake.connections[other].sent_bytes;
    wait(20 * NS_PER_S);
    for (int i = 0; i < 12; i++)
        assert_true(fake.connections[silent[i]].aborted_by_us || fake.connections[silent[i]].closed_by_us);
}

/* When all messages are out, the only reader that waits for one may be the one that is cut off. */
TEST(the_only_reader_that_stalls_may_be_cut_off)
{
    int slow = opened();
    fake.connections[slow].window_bytes = 0;
    ask(slow, request);
    wait(2 * NS_PER_S);
    for (int i = 0; i < 8; i++) {
        int id = opened();
        for (int k = 0; k < 24; k++)
            fake_text(id, request);
        turn();
    }
    wait(100 * NS_PER_MS);
    assert_true(fake.connections[slow].aborted_by_us);
    assert_int_equal(counter("digest.evicted"), 1);
}

TEST(without_a_buffer_the_slowest_reader_is_cut_off)
{
    int slow = opened(), other = opened();
    fake.connections[slow].window_bytes = 0;
    fake.connections[other].no_message = true; /* the readers that wait keep the last ones */
    ask(slow, request);
    wait(2 * NS_PER_S);
    ask(other, request);
    wait(100 * NS_PER_MS);
    assert_true(fake.connections[slow].aborted_by_us && !fake.connections[other].aborted_by_us);
}

/* Above 100 readers that take nothing, the one that has stalled the longest goes. */
TEST(a_hundred_readers_may_stall)
{
    int ids[101];
    fake.many = true;
    for (int i = 0; i < 101; i++) {
        ids[i] = opened();
        fake.connections[ids[i]].window_bytes = 0;
        fake_text(ids[i], request);
        if (i >= 99)
            wait(2 * NS_PER_S);
        assert_int_equal(counter("digest.evicted"), i / 100);
    }
    assert_true(fake.connections[ids[0]].aborted_by_us);
}

TEST(a_client_that_acknowledges_late_gets_all_responses)
{
    int id = opened();
    struct fake_connection *c = &fake.connections[id];
    uint32_t reply_bytes = (uint32_t)strlen(ask(id, request));
    for (int k = 0; k < 70; k++)
        fake_text(id, request);
    turn();
    assert_int_equal(c->sent_bytes, CONNECTION_MESSAGES_MAX * reply_bytes);
    c->acked_bytes = 36 * reply_bytes;
    wait(NS_PER_S);
    assert_int_equal(c->sent_bytes, 71 * reply_bytes);
    assert_false(c->aborted_by_us);
}

TEST(a_chain_does_not_expire)
{
    int id = opened();
    fake_text(id, "POST /sha256?rounds=1000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    for (int i = 0; i < 8; i++, now_ns += 5 * NS_PER_S)
        one_turn();
    assert_false(fake.connections[id].aborted_by_us);
    assert_int_equal(counter("digest.expired"), 0);
}

TEST(a_rehearsal_is_answered_and_not_counted)
{
    static const char text[] = "POST /sha256?rounds=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    const struct transport_rehearsal rehearsal = { TRANSPORT_REHEARSAL_SEGMENT,
                                                   PORT,
                                                   { (const uint8_t *)text, sizeof text - 1 } };
    struct transport_event event;
    int id = opened();
    ask(id, text);
    const struct digest_connection_counters before = digest_connection_counters;
    fake.rehearses = true;
    for (int i = 0; i < 3; i++) {
        assert_true(transport_rehearsal_begin(&rehearsal, now_ns));
        assert_true(transport_poll(now_ns, &event));
        digest_connection_rehearse(&event, now_ns);
        transport_rehearsal_end(now_ns);
        assert_string_equal(fake.connections[FAKE_REHEARSED].sent, answer(id));
        digest_server_check();
    }
    event.kind = TRANSPORT_ENDED;
    digest_connection_rehearse(&event, now_ns);
    assert_false(fake.connections[FAKE_REHEARSED].closed_by_us);
    assert_memory_equal(&digest_connection_counters, &before, sizeof before);
    assert_int_equal(digest_chains_count(), 0);
}
