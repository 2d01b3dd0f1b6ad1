/* app/player/player.c with its input streams and its submit connection, over tests/lib/fake_transport.c, with the real
 * matcher. */
#define _GNU_SOURCE
#include <time.h>

#include "app/player/answer_set.h"
#include "app/player/circuit_breaker.h"
#include "app/player/input_stream.h"
#include "app/player/player.h"
#include "app/player/send_queue.h"
#include "app/player/session.h"
#include "app/player/settings.h"
#include "app/player/stream_merger.h"
#include "app/player/submit.h"
#include "app/service/control.h"
#include "app/service/syslog.h"
#include "base/hmac.h"
#include "base/slowest.h"
#include "base/trace.h"
#include "tests/lib/player_setup.h"
#include "tests/lib/program_test.h"

#define S      UINT64_C(1000000000)
#define MS     UINT64_C(1000000)
#define OK_200 "HTTP/1.1 200 OK\r\n"
#define PLUS_8 OK_200 "Content-Length: 3\r\n\r\n+8\n"

enum { FEED = 10001, SUBMIT = 10002, CONTROL = 18247 };

static uint64_t now;

/* Moves on by a microsecond with each reading. */
static uint64_t clock_that_ticks(void) { return now += 1000; }
static uint64_t clock_that_stands(void) { return 0; }

static void start_with(const char *words)
{
    char all[1024];
    snprintf(all, sizeof all, "feed=10.0.2.2:10001 submit=10.0.2.2:10002 user=swift passwd=a&b simd=scalar %s", words);
    now = 7 * S;
    fake_reset();
    player_setup(all, false, 3000000, now);
}

static enum program_verdict turn(uint64_t later_ns)
{
    now += later_ns;
    enum program_verdict verdict = player_turn(now);
    player_check();
    return verdict;
}

/* Lets time pass in steps of a millisecond. */
static void pass(uint64_t ns)
{
    for (uint64_t end = now + ns; now < end;)
        turn(MS);
}

static int feed_id(void) { return fake_to(FEED); }
static int submit_id(void) { return fake_to(SUBMIT); }
static const char *sent(int id) { return fake.connections[id].sent; }
static void ack_all(int id) { fake.connections[id].acked_bytes = fake.connections[id].sent_bytes; }

/* Takes a text of the peer. */
static void say(int id, const char *text)
{
    fake_text(id, text);
    turn(0);
}

static void up(int id)
{
    assert_int_not_equal(id, -1);
    fake_connected(id);
    turn(0);
}

/* Starts with both connections up. */
static void connect_both(const char *words)
{
    start_with(words);
    turn(0);
    up(feed_id());
    up(submit_id());
}

/* Starts play: both connections are up, the stream has begun. */
static void play(const char *words)
{
    connect_both(words);
    say(feed_id(), OK_200 "\r\n");
}

static void digits(const char *text) { say(feed_id(), text); }

static void play_digits(const char *words, const char *text)
{
    play(words);
    digits(text);
}

/* Plays the digits. The server acknowledges the answers to them, without a response. */
static void play_acked(const char *words, const char *text)
{
    play_digits(words, text);
    ack_all(submit_id());
}

/* Writes random digits from `least` on, and a NUL. */
static void random_digits(char *out, size_t count, char least)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (char)(least + (char)random_below(10u - (unsigned)(least - '0')));
    out[count] = '\0';
}

static const char *post_of(const char *answer)
{
    static char post[2048];
    snprintf(post, sizeof post,
             "POST /submit?user=swift&passwd=a%%26b HTTP/1.1\r\nHost: 10.0.2.2:10002\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             strlen(answer), answer);
    return post;
}

/* Returns the bodies of the POSTs sent on a connection, with a space after each; every POST is checked whole. */
static const char *answers_sent(int id)
{
    static char list[FAKE_STREAM_BYTES];
    const char *at = sent(id);
    size_t used = 0;
    while (*at) {
        const char *body = strstr(at, "\r\n\r\n");
        assert_non_null(body);
        size_t count = (size_t)atoi(strstr(at, "Content-Length: ") + 16);
        char answer[1100];
        snprintf(answer, sizeof answer, "%.*s", (int)count, body + 4);
        const char *expected = post_of(answer);
        assert_memory_equal(at, expected, strlen(expected));
        at += strlen(expected);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s ", answer);
    }
    list[used] = '\0';
    return list;
}

/* Lets the player open its submit connection again. Returns the answers that it sends on it at once. */
static const char *answers_sent_anew(void)
{
    turn(0);
    up(submit_id());
    turn(0);
    return answers_sent(submit_id());
}

/* Returns all that the player's modules have counted, a line each, as far as the matcher's pace does not matter. */
static const char *counted(void)
{
    static char list[4096];
    const char *prefix = "";
    struct counter_group c;
    size_t used = 0, i = 0;
    while (stats_counter(NULL, i, &c) && strcmp(c.prefix, "player.") != 0)
        i++;
    for (; stats_counter(NULL, i, &c) && strcmp(c.prefix, "pool.") != 0; i++) {
        if (*c.values == 0 || !strcmp(c.counters->name, "turns") || !strcmp(c.counters->name, "matcher_rehearsals"))
            continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %s %llu", c.prefix == prefix ? "" : "\n",
                                 c.prefix == prefix ? "" : c.prefix, c.counters->name, (unsigned long long)*c.values);
        prefix = c.prefix;
    }
    return list;
}

/* Returns a histogram, by its name in the statistics. */
static struct histogram way(const char *wanted)
{
    struct histogram histogram = { 0 };
    const char *name;
    for (size_t i = 0; stats_histogram(NULL, i, &name, NULL); i++)
        if (strcmp(name, wanted) == 0)
            stats_histogram(NULL, i, &name, &histogram);
    return histogram;
}

/* The stream. */

TEST(both_connections_are_made_and_the_request_is_sent_at_once)
{
    start_with("n=6 m=823");
    turn(0);
    assert_int_equal(fake.connect_count, 2);
    up(feed_id());
    assert_string_equal(sent(feed_id()), "GET / HTTP/1.1\r\nHost: 10.0.2.2:10001\r\n\r\n");
}

TEST(an_answer_is_posted)
{
    play_digits("n=6 m=823", "1282311");
    assert_string_equal(sent(submit_id()), post_of("823"));
    assert_int_equal(send_queue_unanswered_count(), 1);
}

TEST(the_example_of_the_contest_is_played)
{
    play_digits("n=6 m=823,108", "123456789987654321");
    assert_string_equal(answers_sent(submit_id()), "12345 9876 3456 432 ");
}

TEST(a_response_before_the_request_is_read)
{
    start_with("n=6 m=823");
    turn(0);
    int feed = feed_id();
    fake.connections[feed].no_message = true;
    up(submit_id());
    up(feed);
    say(feed, OK_200 "\r\n823");
    assert_string_equal(sent(submit_id()), post_of("823"));
    assert_string_equal(sent(feed), "");
    fake.connections[feed].no_message = false;
    pass(2 * MS);
    assert_string_equal(sent(feed), "GET / HTTP/1.1\r\nHost: 10.0.2.2:10001\r\n\r\n");
}

TEST(the_stream_may_be_cut_anywhere)
{
    static const char *const streams[] = {
        OK_200 "Server: Most\r\n\r\n55823105582300000551086",
        "HTTP/1.1 100 Continue\r\n\r\n" OK_200 "Transfer-Encoding: chunked\r\n\r\n"
        "3\r\n558\r\nb;x=823108\r\n23105582300\r\n2\r\n00\r\n7\r\n0551086\r\n0\r\n\r\n",
        OK_200 "Content-Length: 31\r\n\r\n558\r\n23105 58\n2\r\n300\t0005510\n86",
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        for (size_t cut = 0; cut <= strlen(streams[i]); cut++) {
            connect_both("n=6 m=823,108");
            fake_data(feed_id(), streams[i], cut);
            turn(0);
            say(feed_id(), streams[i] + cut);
            assert_string_equal(answers_sent(submit_id()), "823 8230 82300 823000 108 ");
            assert_int_equal(input_stream_counters.digits, 23);
        }
        /* Now byte by byte. */
        connect_both("n=6 m=823,108");
        for (size_t k = 0; k < strlen(streams[i]); k++) {
            fake_data(feed_id(), streams[i] + k, 1);
            turn(0);
        }
        assert_string_equal(answers_sent(submit_id()), "823 8230 82300 823000 108 ");
    }
}

TEST(bytes_that_are_no_digits_are_counted_and_skipped)
{
    play("n=6 m=823");
    digits("8\r\n2 x\xff\x30\x2f\x3a"
           "823");
    assert_int_equal(input_stream_counters.bytes_skipped_line_ends, 2);
    assert_int_equal(input_stream_counters.bytes_skipped_other, 5);
    assert_string_equal(answers_sent(submit_id()), "823 ");
}

/* Tries every place and every byte: digits are read by words (app/player/input_stream.c). Digits stand before them. */
TEST(one_byte_that_is_no_digit_is_found_in_a_long_run)
{
    enum { BYTES = 75 };
    char event[200] = "20\r\n77777777777777777777777777777777\r\n4b\r\n", *text = event + strlen(event);
    uint64_t skipped = 0, taken = 0;
    connect_both("n=6 m=1000003");
    say(feed_id(), OK_200 "Transfer-Encoding: chunked\r\n\r\n");
    for (unsigned value = 0; value < 256; value++)
        for (size_t at = 0; at < BYTES; at += 1 + value % 3) {
            memset(text, '0' + (int)(at + value) % 10, BYTES);
            memcpy(text + BYTES, "\r\n", 2);
            text[at] = (char)value;
            fake_data(feed_id(), event, (size_t)(text - event) + BYTES + 2);
            turn(0);
            bool is_digit = value >= '0' && value <= '9';
            skipped += !is_digit;
            taken += 32 + BYTES - !is_digit;
            assert_int_equal(input_stream_counters.bytes_skipped_other + input_stream_counters.bytes_skipped_line_ends,
                             skipped);
            assert_int_equal(input_stream_counters.digits, taken);
        }
}

TEST(an_answer_that_comes_again_is_posted_once)
{
    play_digits("n=3 m=823", "8239823");
    digits("1823");
    assert_string_equal(answers_sent(submit_id()), "823 ");
    assert_int_equal(answer_set_counters.repeated, 2);
}

TEST(the_longest_answer_fits_a_message)
{
    /* The modulus is 128 sevens: 128, 256, ... 1024 sevens are its multiples. The longest head: every byte of the name
     * and the password takes three, and the address is as long as an address can be. */
    char sevens[1025], amps[48], words[256];
    memset(sevens, '7', 1024), sevens[1024] = '\0';
    memset(amps, '&', 47), amps[47] = '\0';
    snprintf(words, sizeof words, "n=1024 m=%.128s", sevens);
    start_with(words);
    strcpy(player_settings.user, amps);
    strcpy(player_settings.passwd, amps);
    player_settings.submit = (struct endpoint){ 0xdfdfdfdf, 65535 };
    submit_init(&player_settings);
    turn(0);
    up(feed_id());
    up(fake_to(65535));
    fake_text(feed_id(), OK_200 "\r\n");
    digits(sevens);
    for (int i = 0; i < 200; i++)
        turn(0); /* a long search goes on in later turns */
    const char *last = strstr(sent(fake_to(65535)), "Content-Length: 1024\r\n\r\n777");
    assert_non_null(last);
    assert_int_equal(strlen(last), strlen("Content-Length: 1024\r\n\r\n") + 1024);
    assert_int_equal(submit_counters.posts, 8);
}

/* Gaps. */

TEST(no_answer_reaches_across_a_lost_feed)
{
    play_digits("n=6 m=823", "1118");
    int old = feed_id();
    fake_closed(old, TRANSPORT_RESET);
    turn(0);
    up(feed_id());
    fake_text(feed_id(), OK_200 "\r\n");
    digits("23");
    assert_string_equal(answers_sent(submit_id()), "");
    digits("823");
    assert_string_equal(answers_sent(submit_id()), "823 ");
    assert_int_equal(stream_merger_counters.gaps, 1);
}

TEST(a_silent_feed_is_left_after_its_timeout)
{
    play_digits("n=6 m=823 feed.timeout=2", "8");
    pass(2 * S - MS);
    assert_int_equal(fake.connect_count, 2);
    pass(MS);
    assert_int_equal(input_stream_counters.silent, 1);
    turn(MS);
    up(feed_id());
    say(feed_id(), OK_200 "\r\n23");
    assert_string_equal(answers_sent(submit_id()), ""); /* digits are missing in between */
}

TEST(several_feeds_make_one_stream)
{
    start_with("n=6 m=823 feeds=2");
    turn(0);
    assert_int_equal(fake.connect_count, 3);
    int one = -1, two = -1;
    for (int id = 0; id < 3; id++)
        if (fake.connections[id].port == FEED)
            *(one < 0 ? &one : &two) = id;
    up(one);
    up(two);
    up(submit_id());
    char stream[201], part[300];
    random_state = 1;
    random_digits(stream, 200, '0');
    memcpy(stream + 150, "823", 3);
    snprintf(part, sizeof part, OK_200 "\r\n%.151s", stream); /* the first feed stops inside the answer */
    say(one, part);
    snprintf(part, sizeof part, OK_200 "\r\n%s", stream + 40); /* the second began later, and goes on */
    say(two, part);
    fake_closed(one, TRANSPORT_RESET);
    turn(0);
    assert_non_null(strstr(answers_sent(submit_id()), "823 "));
    assert_int_equal(stream_merger_counters.gaps, 0);
    assert_int_equal(*stats_find(NULL, "stream_merger.digits"), 200);
}

/* Responses. */

TEST(responses_are_counted_by_result_wherever_they_are_cut)
{
    static const char responses[] = PLUS_8 OK_200
        "Transfer-Encoding: chunked\r\n\r\n1\r\n+\r\n2\r\n4\n\r\n0\r\n\r\n" OK_200
        "Content-Length: 4\r\n\r\ndup\n" OK_200 "Content-Length: 5\r\n\r\nlate\n" OK_200
        "Content-Length: 24\r\n\r\nwrong: no multiple of M\n" OK_200 "Content-Length: 6\r\n\r\nearly\n"
        "HTTP/1.1 204 No Content\r\n\r\n"
        "HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\n+8\n"
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
    for (size_t cut = 0; cut <= strlen(responses); cut++) {
        play_digits("n=2 m=1", "1234"); /* 1 2 12 3 23 4 34: seven answers */
        digits("56");                   /* 5 45 6 56 */
        assert_int_equal(submit_counters.posts, 11);
        fake_data(submit_id(), responses, cut);
        turn(0);
        say(submit_id(), responses + cut);
        assert_non_null(strstr(counted(), " responses_2xx 7 responses_3xx 1 responses_4xx 1 responses_5xx 1 "
                                          "results_points 2 results_early 1 results_dup 1 results_late 1 "
                                          "results_wrong 1 results_other 1 points 12\n"));
        assert_int_equal(send_queue_unanswered_count(), 1);
        assert_int_equal(submit_response_ns.count, 10);
    }
}

/* Plays a phase of the contest that doubles the points: docs/contest.md. */
TEST(points_of_two_digits_are_counted_whole)
{
    static const char responses[] = OK_200 "Content-Length: 4\r\n\r\n+16\n" PLUS_8 OK_200
                                           "Content-Length: 1\r\n\r\n+" OK_200 "Content-Length: 3\r\n\r\n+x\n";
    for (size_t cut = 0; cut <= strlen(responses); cut++) {
        play_digits("n=1 m=1", "1234");
        fake_data(submit_id(), responses, cut);
        turn(0);
        say(submit_id(), responses + cut);
        assert_int_equal(submit_counters.results_points, 2);
        assert_int_equal(submit_counters.results_other, 2);
        assert_int_equal(submit_counters.points, 24);
    }
}

TEST(an_unexpected_response_is_counted)
{
    play("n=6 m=823");
    int old = submit_id();
    say(old, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(submit_counters.responses_unasked, 1);
    assert_int_equal(submit_counters.responses_4xx, 0);
    turn(0);
    up(submit_id());
    digits("823");
    assert_string_equal(answers_sent(submit_id()), "823 ");
}

/* No answer is sent twice, and none is lost that can be kept. */

/* The time after which an answer goes out again that was refused for now. UINT64_MAX: it does not. */
static const struct {
    const char *head;
    uint64_t wait_ns;
} refusals[] = {
    { "429 Too Many Requests\r\n", S },
    { "429 Too Many Requests\r\nRetry-After: 2\r\n", 2 * S },
    { "503 Service Unavailable\r\nretry-after:\t3 \r\n", 3 * S },
    { "425 Too Early\r\nRetry-After: 0\r\n", 100 * MS },
    { "408 Request Timeout\r\n", S },
    { "503 x\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", S },
    { "503 x\r\nRetry-After: -1\r\n", S },
    { "503 x\r\nRetry-After: 1.5\r\n", S },
    { "503 x\r\nRetry-After: 0x2\r\n", S },
    { "503 x\r\nRetry-After: \r\n", S },
    { "503 x\r\nRetry-After: 2\r\nRetry-After: soon\r\n", S },
    { "503 x\r\nRetry-After: 5\r\n", UINT64_MAX },
    { "503 x\r\nRetry-After: 3600\r\n", UINT64_MAX },
    { "503 x\r\nRetry-After: 18446744073709551617\r\n", UINT64_MAX },
    { "500 Internal Server Error\r\n", UINT64_MAX },
    { "502 Bad Gateway\r\n", UINT64_MAX },
    { "504 Gateway Timeout\r\n", UINT64_MAX },
    { "401 Unauthorized\r\n", UINT64_MAX },
};

TEST(a_refusal_for_now_is_answered_by_the_same_post_after_the_time_asked_for)
{
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        play_acked("n=6 m=823", "823");
        char response[200];
        snprintf(response, sizeof response, "HTTP/1.1 %sContent-Length: 2\r\n\r\nno", refusals[i].head);
        turn(MS);
        say(submit_id(), response);
        bool again = refusals[i].wait_ns != UINT64_MAX;
        pass(again ? refusals[i].wait_ns - MS : 3 * S);
        assert_string_equal(answers_sent(submit_id()), "823 ");
        pass(again ? MS : 3 * S);
        assert_string_equal(answers_sent(submit_id()), again ? "823 823 " : "823 ");
        assert_int_equal(submit_counters.posts_again, again);
        assert_int_equal(send_queue_waiting_count(), 0);
        say(submit_id(), PLUS_8);
        assert_int_equal(submit_counters.results_points, again);
    }
}

/* Holds the pause over new answers and a new connection. An answer that is refused again and again ends after five
 * seconds; later ones go on. */
TEST(a_server_that_refuses_for_now_gets_all_answers_again_until_they_expire)
{
    uint64_t from = log_end();
    play_acked("n=6 m=823", "823");
    say(submit_id(), "HTTP/1.1 503 x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    digits("91646");
    assert_string_equal(answers_sent_anew(), "");
    pass(S + 10 * MS);
    assert_string_equal(answers_sent(submit_id()), "823 1646 ");
    for (int i = 0; i < 6; i++) {
        int open = (int)send_queue_unanswered_count();
        for (int k = 0; k < open; k++)
            say(submit_id(), "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n");
        pass(S + 10 * MS);
    }
    assert_int_equal(submit_counters.dropped_expired, 2);
    assert_int_equal(lines_logged(from, "submit: HTTP status "), 5);
    assert_int_equal(send_queue_waiting_count() + send_queue_unanswered_count(), 0);
    digits("92469");
    assert_non_null(strstr(answers_sent(submit_id()), "2469 "));
}

TEST(answers_wait_for_a_connection)
{
    start_with("n=6 m=823");
    turn(0);
    up(feed_id());
    say(feed_id(), OK_200 "\r\n823181646");
    assert_int_equal(send_queue_waiting_count(), 2);
    pass(S);
    assert_string_equal(answers_sent_anew(), "823 1646 ");
    assert_int_equal(submit_counters.waited, 2);
    struct slow_way ways[SLOWEST_COUNT];
    assert_int_equal(slowest_list(ways, now), 2);
    assert_int_equal(ways[1].total_ns, S);
}

TEST(an_answer_not_sent_in_five_seconds_is_dropped)
{
    play("n=6 m=823");
    fake_closed(submit_id(), TRANSPORT_RESET);
    turn(0);
    fake.refuse_connect = true;
    digits("9823");
    pass(3 * S);
    digits("1646");
    assert_int_equal(send_queue_waiting_count(), 2);
    pass(2 * S);
    assert_int_equal(submit_counters.dropped_expired, 0);
    pass(MS);
    assert_int_equal(submit_counters.dropped_expired, 1);
    assert_int_equal(send_queue_waiting_count(), 1);
    fake.refuse_connect = false;
    fake_closed(submit_id(), TRANSPORT_REFUSED);
    pass(2 * S);
    assert_string_equal(answers_sent_anew(), "1646 ");
}

TEST(a_closed_window_makes_answers_wait_in_order)
{
    play("n=2 m=1");
    fake.connections[submit_id()].window_bytes = 250; /* two POSTs */
    digits("12345");
    assert_string_equal(answers_sent(submit_id()), "1 2 ");
    ack_all(submit_id());
    turn(0);
    assert_string_equal(answers_sent(submit_id()), "1 2 12 3 ");
    fake.connections[submit_id()].window_bytes = UINT32_MAX;
    turn(0);
    assert_string_equal(answers_sent(submit_id()), "1 2 12 3 23 4 34 5 45 ");
}

/* Acknowledges the post, or leaves it in flight when the network dies. */
TEST(a_post_that_the_server_may_have_is_not_repeated)
{
    for (int acked = 0; acked < 2; acked++) {
        play_digits("n=6 m=823", "823");
        if (acked)
            ack_all(submit_id());
        fake_closed(submit_id(), acked ? TRANSPORT_RESET : TRANSPORT_TIMED_OUT);
        assert_string_equal(answers_sent_anew(), "");
        assert_int_equal(submit_counters.unanswered, 1);
    }
}

TEST(a_post_that_a_reset_peer_never_had_is_sent_again)
{
    play_acked("n=6 m=823", "823");
    digits("1646");
    fake.connections[submit_id()].acked_bytes += 60; /* a part of the second POST */
    fake_closed(submit_id(), TRANSPORT_RESET);
    assert_string_equal(answers_sent_anew(), "1646 ");
    assert_int_equal(submit_counters.unanswered, 1);
    assert_int_equal(submit_counters.posts_again, 1);
}

/* Ends the submit connection with hundreds of POSTs unanswered. Each turn gives up a part of them, a fresh connection
 * waits for the last one, and the POST that the peer never had goes out again. */
TEST(unanswered_posts_are_given_up_in_slices)
{
    char burst[121];
    play("n=6 m=1 early=off breaker=0");
    random_state = 5;
    random_digits(burst, 120, '1');
    digits(burst);
    for (int i = 0; i < 1000 && send_queue_waiting_count() > 0; i++)
        turn(0);
    uint32_t count = send_queue_unanswered_count();
    assert_in_range(count, 400, 720);
    assert_int_equal(send_queue_waiting_count(), 0);
    ack_all(submit_id());
    fake.connections[submit_id()].acked_bytes -= 1; /* the last POST's end */
    int connects = fake.connect_count;
    fake_closed(submit_id(), TRANSPORT_RESET);
    uint64_t before = 0;
    for (int i = 0; i < 100 && submit_counters.unanswered < count - 1; i++) {
        assert_int_equal(fake.connect_count, connects);
        turn(0);
        assert_true(submit_counters.unanswered == count - 1 || player_next_deadline_ns(now) == now);
        assert_in_range(submit_counters.unanswered - before, 1, 128); /* the event's slice, and the poll's */
        before = submit_counters.unanswered;
    }
    assert_int_equal(submit_counters.unanswered, count - 1);
    assert_int_equal(send_queue_waiting_count(), 1);
    turn(S);
    assert_int_equal(fake.connect_count, connects + 1);
    up(submit_id());
    turn(0);
    assert_int_equal(submit_counters.posts_again, 1);
    assert_int_equal(send_queue_unanswered_count(), 1);
}

TEST(posts_behind_a_closing_response_are_sent_again)
{
    play_acked("n=2 m=1", "123"); /* 1 2 12 3 23 in the matcher's order */
    say(submit_id(), PLUS_8 OK_200 "Connection: close\r\nContent-Length: 3\r\n\r\n+8\n");
    assert_string_equal(answers_sent_anew(), "12 3 23 ");
    assert_int_equal(submit_counters.unanswered, 0);
    assert_int_equal(submit_counters.posts_again, 3);
}

/* Plays with a server that states a length and chunks, which proves nothing about the POSTs that follow. */
TEST(posts_behind_a_response_with_two_framings_are_not_sent_again)
{
    play_acked("n=2 m=1", "123"); /* 1 2 12 3 23 in the matcher's order */
    say(submit_id(), OK_200 "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n+8\n\r\n0\r\n\r\n");
    assert_string_equal(answers_sent_anew(), "");
    assert_int_equal(fake.close_count, 1);
    assert_int_equal(submit_counters.responses_2xx, 1);
    assert_int_equal(submit_counters.unanswered, 4);
}

/* Plays with an HTTP/1.0 server that reads one request a connection and closes with the others unread.
 * The RST overtakes the FIN. */
TEST(posts_behind_a_closing_response_that_was_cut_short_are_sent_again)
{
    for (int how = 0; how < 2; how++) {
        play_acked("n=6 m=823", "82316462469");
        fake_text(submit_id(), how ? "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n+8"
                                   : "HTTP/1.0 200 OK\r\n\r\n+8");
        if (how)
            fake_ended(submit_id());
        else
            fake_closed(submit_id(), TRANSPORT_RESET);
        assert_string_equal(answers_sent_anew(), "1646 2469 ");
        assert_int_equal(submit_counters.unanswered, 1);
    }
}

TEST(the_end_of_the_connection_completes_a_response_without_length)
{
    play_digits("n=6 m=823", "823");
    digits("1646");
    ack_all(submit_id());
    fake_text(submit_id(), OK_200 "\r\n+8\n");
    fake_ended(submit_id());
    turn(0);
    assert_int_equal(submit_counters.results_points, 1);
    assert_string_equal(answers_sent_anew(), "1646 ");
}

TEST(a_peer_that_ended_and_has_all_gets_nothing_again)
{
    play_acked("n=6 m=823", "823");
    fake_ended(submit_id());
    turn(0);
    assert_int_equal(session_counters.left, 1);
    up(submit_id());
    digits("1646");
    assert_string_equal(answers_sent(submit_id()), "1646 ");
    assert_int_equal(submit_counters.unanswered, 1);
}

TEST(a_peer_that_ended_has_time_to_acknowledge)
{
    for (int variant = 0; variant < 3; variant++) {
        play("n=6 m=823");
        int old = submit_id();
        digits("823");
        fake_ended(old);
        turn(0);
        assert_false(fake.connections[old].closed_by_us);
        digits("1646"); /* no answer goes to a connection that ends */
        assert_string_equal(answers_sent(old), "823 ");
        if (variant == 0)
            fake_closed(old, TRANSPORT_RESET); /* the peer has not received the answer */
        else if (variant == 1)
            ack_all(old); /* the peer has received the answer */
        else
            pass(SUBMIT_DOUBT_NS); /* the peer is silent */
        turn(0);
        assert_string_equal(answers_sent_anew(), variant == 0 ? "823 1646 " : "1646 ");
        assert_int_equal(submit_counters.unanswered, variant == 0 ? 0 : 1);
    }
}

TEST(a_server_that_never_responds_is_left_after_five_seconds)
{
    play_acked("n=6 m=823 feed.timeout=0", "823");
    pass(5 * S);
    assert_int_equal(fake.connect_count, 2);
    pass(MS);
    assert_int_equal(fake.close_count, 1);
    turn(MS);
    assert_string_equal(answers_sent_anew(), "");
    assert_int_equal(submit_counters.unanswered, 1);
}

TEST(a_slow_server_is_kept_as_long_as_it_responds)
{
    play_acked("n=2 m=1 feed.timeout=0 server.timeout=0", "12345678");
    for (int i = 0; i < 15; i++) {
        pass(4 * S);
        say(submit_id(), PLUS_8);
    }
    assert_int_equal(fake.connect_count, 2);
    assert_int_equal(submit_counters.responses_2xx, 15);
    assert_int_equal(submit_counters.unanswered, 0);
}

/* Backing off. */

TEST(retries_begin_at_once_and_slow_down_to_one_a_second)
{
    start_with("n=6 m=823 net.timeout=0 server.timeout=0");
    turn(0);
    uint64_t attempts_ns[20];
    size_t count = 0;
    uint64_t last = session_counters.attempts;
    while (count < 20) {
        int feed = feed_id();
        if (feed >= 0 && !fake.connections[feed].connected) {
            attempts_ns[count++] = now;
            fake_closed(feed, TRANSPORT_REFUSED);
        }
        turn(MS);
        assert_true(now < 60 * S);
    }
    assert_true(session_counters.attempts > last);
    /* The second attempt comes at once, the third after 10 ms, then 20, 40, ... up to 1 s. The test's step is 1 ms. */
    uint64_t expected_ms[] = { 1, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000 };
    for (size_t i = 0; i < sizeof expected_ms / sizeof *expected_ms; i++) {
        uint64_t gap_ms = (attempts_ns[i + 1] - attempts_ns[i]) / MS;
        if (gap_ms < expected_ms[i] || gap_ms > expected_ms[i] + 3)
            fail_msg("attempt %zu came %llu ms after the one before", i + 1, (unsigned long long)gap_ms);
    }
    /* After a second the next attempt is a first one again. */
    for (uint64_t up_ns = S - 1; up_ns <= S; up_ns++) {
        pass(2 * S);
        up(feed_id());
        fake_closed(feed_id(), TRANSPORT_RESET);
        turn(up_ns);
        assert_int_equal(feed_id() >= 0, up_ns == S);
    }
}

TEST(a_server_that_accepts_and_closes_is_not_hammered)
{
    uint64_t from = log_end();
    start_with("n=6 m=823 net.timeout=0 server.timeout=0");
    for (int i = 0; i < 10000; i++) {
        turn(MS);
        int feed = feed_id();
        if (feed >= 0 && !fake.connections[feed].connected) {
            fake_connected(feed);
            fake_text(feed, OK_200 "\r\n1");
            fake_closed(feed, TRANSPORT_RESET);
        }
    }
    assert_in_range(input_stream_counters.digits, 100, 1000); /* 10 s: 10 ms apart, a turn or two each */
    assert_int_equal(lines_logged(from, "input stream 1 10.0.2.2:10001: reset, retrying\n"), 1);
    assert_int_equal(lines_logged(from, "10001: reset, retrying (90 times more since this was last said)\n"), 8);
}

/* 10^999 + 1 is a multiple of 10^37 + 1. */
TEST(answer_of_a_thousand_digits_says_its_length)
{
    char burst[1001];
    memset(burst, '0', sizeof burst);
    burst[0] = burst[999] = '1';
    burst[1000] = '\0';
    play_digits("n=1000 m=10000000000000000000000000000000000001", burst);
    assert_int_equal(strlen(sent(submit_id())), strlen(post_of(burst)));
    assert_memory_equal(answers_sent(submit_id()), burst, 1000);
}

TEST(a_connection_request_without_answer_is_given_up_after_three_seconds)
{
    start_with("n=6 m=823");
    turn(0);
    int old = feed_id();
    pass(3 * S - MS);
    assert_int_equal(feed_id(), old);
    assert_false(fake.connections[old].aborted_by_us);
    pass(MS);
    assert_int_equal(session_counters.left, 2);
    turn(MS);
    assert_int_not_equal(feed_id(), -1);
}

/* Silent servers that exhaust connections and buffers. */

/* Counts the connections that have not ended, closed by the player or not. */
static unsigned held(void)
{
    unsigned count = 0;
    for (int id = 0; id < TRANSPORT_CONNECTION_COUNT_MAX; id++)
        count += fake.connections[id].used;
    return count;
}

/* Sends a burst with one answer that has not been given before. */
static void fresh_answer(void)
{
    static unsigned number;
    char burst[32];
    snprintf(burst, sizeof burst, "000%u", 823u * (200003u + number++));
    digits(burst);
}

TEST(connections_that_the_server_never_closes_give_up_their_places)
{
    uint64_t from = log_end();
    play("n=9 m=823 early=off");
    fake.linger = true;
    for (int i = 0; i < 50; i++) {
        fresh_answer();
        turn(MS);
        while (send_queue_unanswered_count() > 0) {
            ack_all(submit_id());
            fake_text(submit_id(), OK_200 "Connection: close\r\nContent-Length: 3\r\n\r\n+8\n");
            pass(20 * MS);
            up(submit_id());
            turn(MS);
            assert_true(held() <= 2 + SESSION_LEFT_COUNT_MAX);
            assert_true(submit_counters.responses_2xx > SESSION_LEFT_COUNT_MAX || session_counters.left_reset == 0);
        }
    }
    assert_true(answer_set_counters.entered > 50);
    assert_int_equal(submit_counters.responses_2xx, answer_set_counters.entered);
    assert_int_equal(lines_logged(from, "submit: the server does not close its side"), 1);
    pass(SESSION_LEFT_PATIENCE_NS + 10 * MS);
    assert_int_equal(session_counters.left_reset, submit_counters.responses_2xx);
    assert_int_equal(held(), 2);
}

TEST(feeds_that_the_server_never_closes_give_up_their_places)
{
    start_with("n=9 m=823 early=off feeds=8");
    turn(0);
    fake.linger = true;
    uint64_t connected = 0, from = log_end();
    for (uint64_t end = now + 60 * S; now < end; turn(10 * MS)) {
        int id = feed_id();
        assert_true(held() <= TRANSPORT_CONNECTION_COUNT_MAX - 4); /* four are the status page's */
        if (id < 0 || fake.connections[id].connected)
            continue;
        fake_connected(id);
        fake_text(id, OK_200 "Content-Length: 3\r\n\r\n111");
        connected++;
    }
    assert_true(connected > 100);
    assert_int_equal(input_stream_counters.digits, 3 * connected);
    assert_in_range(lines_logged(from, "HTTP 200"), 8, 8 * 60); /* one a second for each session */
}

/* Covers bytes that stay unacknowledged: the stack keeps them in its transmit buffers, enough for four connections. */
TEST(a_connection_with_bytes_unacknowledged_is_not_ended_in_order)
{
    play("n=9 m=823 early=off");
    fake.linger = true;
    int first = submit_id();
    fresh_answer();
    fake.connections[first].acked_bytes = fake.connections[first].sent_bytes - 1;
    say(first, OK_200 "Connection: close\r\nContent-Length: 3\r\n\r\n+8\n");
    turn(0);
    assert_int_equal(held(), 2); /* the feed's and a new one; the first has ended */
}

TEST(a_response_that_trickles_is_no_progress)
{
    play("n=9 m=823 early=off");
    fresh_answer();
    int first = submit_id();
    ack_all(first);
    fake_text(first, OK_200 "Content-Length: 1000000000\r\n\r\n+8\n");
    uint64_t posts = submit_counters.posts;
    for (int i = 0; i < 9; i++) {
        pass(500 * MS);
        fake_text(first, "x");
    }
    assert_int_equal(fake.connect_count, 2);
    pass(600 * MS);
    assert_int_equal(fake.connect_count, 3);
    assert_int_equal(submit_counters.unanswered, posts);
    up(submit_id());
    fresh_answer();
    assert_true(submit_counters.posts > posts);
    assert_int_equal(submit_counters.posts_again, 0);
}

TEST(a_connection_that_takes_nothing_is_left)
{
    play("n=9 m=823 early=off");
    int first = submit_id();
    fake.connections[first].window_bytes = 0;
    fresh_answer();
    pass(4900 * MS);
    assert_int_equal(fake.connect_count, 2);
    uint64_t older = answer_set_counters.entered;
    fresh_answer();
    pass(200 * MS);
    assert_int_equal(fake.connect_count, 3);
    up(submit_id());
    turn(0);
    assert_int_equal(submit_counters.dropped_expired, older);
    assert_int_equal(submit_counters.posts, answer_set_counters.entered - older);
    assert_true(submit_counters.posts > 0);
}

/* Sends a response now and then. This is progress, but must not keep the send queue full. */
TEST(a_server_that_is_slow_for_ever_does_not_keep_the_send_queue_full)
{
    play("n=256 m=3 server.timeout=0 submit.timeout=0 feed.timeout=0");
    char burst[21];
    random_state = 3;
    for (int i = 0; i < 100 && fake.connect_count == 2; i++) {
        random_digits(burst, 20, '0');
        digits(burst);
        for (int k = 0; k < 100 && fake.connect_count == 2; k++) { /* the server acknowledges all */
            if (submit_id() >= 0)
                fake.connections[submit_id()].sent_bytes = fake.connections[submit_id()].acked_bytes = 0;
            turn(10 * MS);
        }
        if (i % 4 == 3)
            fake_text(submit_id(), PLUS_8);
    }
    assert_int_equal(fake.connect_count, 3);
    assert_true(submit_counters.responses_2xx >= 1 && submit_counters.lost == 0);
    assert_true(submit_counters.unanswered > 1000);
    assert_true(send_queue_used_bytes() < SEND_QUEUE_BYTES / 2);
}

TEST(a_submit_server_that_takes_no_answer_is_lost)
{
    uint64_t from = log_end();
    play("n=9 m=823 early=off submit.timeout=20 server.timeout=60.5 breaker=0");
    fake.linger = true;
    uint64_t begin = now, lost_ns = 0;
    enum program_verdict verdict = PROGRAM_ON;
    while (verdict == PROGRAM_ON && now - begin < 100 * S) {
        int id = submit_id();
        if (id >= 0 && !fake.connections[id].connected)
            fake_connected(id);
        else if (id >= 0)
            ack_all(id); /* a process that hangs: its kernel acknowledges */
        fresh_answer();
        for (int i = 0; i < 50 && verdict == PROGRAM_ON; i++)
            verdict = turn(10 * MS);
        if (submit_counters.lost && !lost_ns)
            lost_ns = now - begin;
        assert_true(held() <= 2 + SESSION_LEFT_COUNT_MAX + 1);
    }
    assert_in_range(lost_ns, 20 * S, 32 * S); /* the first answer fails after 5 s, others each 5 s */
    assert_int_equal(verdict, PROGRAM_SERVER_LOST);
    assert_int_equal(submit_lost_for_ns(), 60 * S + S / 2);
    assert_int_equal(now - begin, 65 * S + 510 * MS); /* the first answer failed after 5 s */
    assert_int_equal(submit_counters.lost, 1);
    assert_int_equal(lines_logged(from, "the server is lost"), 1);
    assert_true(fake.connect_count >= 10);
}

TEST(a_lost_server_that_responds_again_is_back)
{
    uint64_t from = log_end();
    play("n=9 m=823 early=off submit.timeout=20 server.timeout=60");
    fake_closed(submit_id(), TRANSPORT_REFUSED);
    fake.refuse_connect = true;
    for (int i = 0; i < 80; i++) {
        fresh_answer();
        pass(500 * MS);
    }
    assert_int_equal(submit_counters.lost, 1);
    assert_int_equal(lines_logged(from, "the server is back"), 0);
    fake.refuse_connect = false;
    pass(SESSION_RETRY_MAX_NS);
    up(submit_id());
    fresh_answer();
    say(submit_id(), PLUS_8);
    assert_int_equal(lines_logged(from, "the server is back"), 1);
    uint32_t got = 0;
    for (int i = 0; i < 200; i++) {
        fresh_answer();
        for (const char *at = sent(submit_id()) + got; (at = strstr(at, "POST ")) != NULL; at++)
            fake_text(submit_id(), PLUS_8);
        got = fake.connections[submit_id()].sent_bytes;
        assert_int_equal(turn(250 * MS), PROGRAM_ON);
    }
    assert_int_equal(submit_counters.lost, 1);
}

/* Ends of the game. */

TEST(the_network_may_be_away_for_its_timeout)
{
    start_with("n=6 m=823 net.timeout=3 server.timeout=0");
    fake.network.up = false;
    fake.network.waiting_for = "DHCP offer";
    turn(0);
    assert_int_equal(fake.connect_count, 0);
    for (int i = 0; i < 29; i++)
        assert_int_equal(turn(100 * MS), PROGRAM_ON);
    assert_int_equal(turn(100 * MS), PROGRAM_NETWORK_LOST);
    assert_int_equal(turn(0), PROGRAM_NETWORK_LOST);

    start_with("n=6 m=823 net.timeout=3 server.timeout=0");
    assert_int_equal(turn(2 * S), PROGRAM_ON);
    fake.network.up = false;
    assert_int_equal(turn(2 * S), PROGRAM_ON);
    fake.network.up = true;
    assert_int_equal(turn(S / 2), PROGRAM_ON);
    fake.network.up = false;
    assert_int_equal(turn(S * 29 / 10), PROGRAM_ON);
    assert_int_equal(turn(S / 2), PROGRAM_NETWORK_LOST);
}

/* Plays until a time is over: the deadline, the operator's, the server's, which begins again with a digit. */
TEST(each_time_limit_ends_the_game)
{
    static const struct {
        const char *words, *name;
        enum program_verdict verdict;
    } rows[] = {
        { "n=6 m=823 deadline=2.5", "deadline", PROGRAM_DEADLINE },
        { "n=6 m=823 key=0123456789 idle.timeout=2.5", "nobody asked", PROGRAM_IDLE },
        { "n=6 m=823 server.timeout=2.5 feed.timeout=0", "server lost", PROGRAM_SERVER_LOST },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        play(rows[i].words);
        if (rows[i].verdict == PROGRAM_SERVER_LOST) {
            assert_int_equal(turn(2 * S), PROGRAM_ON);
            digits("1");
        }
        assert_int_equal(turn(2400 * MS), PROGRAM_ON);
        assert_int_equal(turn(100 * MS), rows[i].verdict);
        assert_string_equal(service_verdict_name(rows[i].verdict), rows[i].name);
    }
}

/* Delivers `count` bursts with an answer or more, 100 ms apart; each answer gets the same result. */
static void results(const char *result, int count)
{
    static unsigned number;
    for (int i = 0; i < count; i++) {
        char burst[32], response[128];
        uint32_t before = fake.connections[submit_id()].sent_bytes;
        snprintf(burst, sizeof burst, "0%u0", 823u * (100003u + number++));
        digits(burst);
        ack_all(submit_id());
        snprintf(response, sizeof response, OK_200 "Content-Length: %zu\r\n\r\n%s", strlen(result), result);
        for (const char *at = sent(submit_id()) + before; (at = strstr(at, "POST ")) != NULL; at++)
            fake_text(submit_id(), response);
        turn(100 * MS);
    }
}

TEST(too_many_refused_results_open_the_breaker)
{
    uint64_t from = log_end();
    play("n=9 m=823 early=off breaker=40 breaker.window=5 breaker.linger=3");
    results("wrong\n", 4);
    assert_true(submit_counters.results_wrong > 20 && submit_counters.results_wrong < 40);
    turn(6 * S); /* forgotten */
    results("dup\n", 4);
    assert_int_equal(counter("circuit_breaker.open"), 0);
    results("dup\n", 25);
    assert_int_equal(lines_logged(from, "breaker: open, 40 of the last 40 results were wrong or dup"), 1);
    uint64_t posts = submit_counters.posts, searched = counter("player.matcher_digits");
    uint64_t dropped = counter("player.digits_dropped_breaker");
    assert_true(dropped > 0);
    digits("08230999823");
    pass(2 * MS);
    assert_int_equal(submit_counters.posts, posts);
    assert_int_equal(counter("player.matcher_digits"), searched); /* nothing would come of it */
    assert_int_equal(counter("player.digits_dropped_breaker"), dropped + 11);
    assert_int_equal(turn(circuit_breaker_opened_ns() + 3 * S - MS - now), PROGRAM_ON);
    assert_int_equal(turn(MS), PROGRAM_STOPPED);
    assert_string_equal(service_verdict_name(PROGRAM_STOPPED), "submit breaker");
}

TEST(a_breaker_stays_closed_while_most_is_right)
{
    play("n=9 m=823 early=off breaker=10 breaker.window=60 server.timeout=0");
    results("+8\n", 40);
    results("wrong\n", 20);
    assert_true(submit_counters.results_wrong >= 20);
    assert_int_equal(counter("circuit_breaker.open"), 0);
    play("n=9 m=823 early=off breaker=0 server.timeout=0");
    results("wrong\n", 50);
    assert_int_equal(counter("circuit_breaker.open"), 0);
    play("n=9 m=823 early=off breaker=10 breaker.window=5 server.timeout=0");
    results("+8\n", 40);
    turn(6 * S); /* the right ones are forgotten, too */
    results("wrong\n", 20);
    assert_int_equal(counter("circuit_breaker.open"), 1);
}

/* Sends HELLOs that the rate limit drops. The operator's may be among them, so the game does not end. */
TEST(a_flood_of_hellos_does_not_end_the_game)
{
    enum { STRANGER = 0x0a000299 };
    uint8_t hello[64] = "PGRN\1\1\0\100";
    uint64_t from = log_end();
    play("n=6 m=823 key=0123456789 idle.timeout=2.5");
    for (int i = 0; i < 400; i++) {
        for (int k = 0; k < 2; k++)
            fake_datagram(STRANGER, 4000, CONTROL, hello, sizeof hello);
        assert_int_equal(turn(10 * MS), PROGRAM_ON);
    }
    assert_true(control_counters.drop_rate > 100);
    assert_int_equal(lines_logged(from, "control: more HELLOs come than are answered"), 1);
    assert_int_equal(turn(2400 * MS), PROGRAM_ON);
    assert_int_equal(turn(100 * MS), PROGRAM_IDLE);
}

/* Orders a SET over the control channel, whose key is "0123456789". */
static void set(const char *word)
{
    enum { OPERATOR = 0x0a000203, OPERATOR_PORT = 40000, SIGNED_BYTES = offsetof(struct control_command_wire, mac) };
    uint8_t hello[sizeof(struct control_hello_wire)] = "PGRN\1\1\0\100", message[300] = "PGRN\1\3";
    const size_t word_bytes = strlen(word), bytes = sizeof(struct control_command_wire) + word_bytes;
    struct hmac_key key;
    fake.datagram_count = 0;
    fake_datagram(OPERATOR, OPERATOR_PORT, CONTROL, hello, sizeof hello);
    turn(0);
    assert_int_equal(fake.datagram_count, 1);
    store_be16(message + 6, (uint16_t)bytes);
    memcpy(message + 8, fake.datagrams[0].data + 8, 48); /* nonce, time and challenge */
    message[56] = CONTROL_SET;
    memcpy(message + SIGNED_BYTES, word, word_bytes);
    hmac_key_set(&key, "0123456789", 10);
    hmac(&key, message, SIGNED_BYTES + word_bytes, message + sizeof message - SHA256_BYTES);
    memmove(message + sizeof(struct control_command_wire), message + SIGNED_BYTES, word_bytes);
    memcpy(message + SIGNED_BYTES, message + sizeof message - SHA256_BYTES, SHA256_BYTES);
    fake.datagram_count = 0;
    fake_datagram(OPERATOR, OPERATOR_PORT, CONTROL, message, bytes);
}

/* Returns true if a part of the reply on the control channel holds that text. */
static bool reply_has(const char *text)
{
    for (uint32_t i = 0; i < fake.datagram_count; i++)
        if (memmem(fake.datagrams[i].data, fake.datagrams[i].bytes, text, strlen(text)))
            return true;
    return false;
}

/* Adds a modulus. Its tables take longer than the reply, which is sent within the same millisecond. */
TEST(the_reply_to_a_new_modulus_shows_it_pending)
{
    uint64_t from = log_end();
    play("n=256 m=823 key=0123456789");
    set("m+=104648257118348370704723119");
    for (int i = 0; i < 200; i++)
        turn(0);
    assert_int_equal(lines_logged(from, "player: m+=104648257118348370704723119\n"), 1);
    assert_true(reply_has("control.commands_set 1\n"));
    assert_true(reply_has("player.moduli 1\n") && reply_has("player.moduli_pending 1\n"));
    pass(100 * MS);
    set("m+=823"); /* there already */
    for (int i = 0; i < 200; i++)
        turn(0);
    assert_true(reply_has("player.moduli 2\n") && reply_has("player.moduli_pending 0\n"));
    assert_int_equal(lines_logged(from, "player: 2 moduli are searched for\n"), 1);
    assert_int_equal(lines_logged(from, "moduli are searched for"), 1);
}

/* Tries moduli by which nearly every burst holds thousands of answers, slips most likely, and others out of bounds. */
TEST(a_modulus_of_at_most_n_is_not_added)
{
    static const struct {
        const char *word, *reply;
    } rows[] = {
        { "m+=1", "m+=1: a modulus of at most n=1000 has more than one answer for each digit" },
        { "m+=1000", "m+=1000: a modulus of at most n=1000 has more than one answer for each digit" },
        { "m+=x", "m+=: expected a decimal number" },
        { "n=3", "the setting that can be changed while the player runs is m+=NUMBER" },
        { "m+=%0156d", "m+=: a modulus has at most 512 bits" },
        { "m+=%0155d", "not a number of 1..2^512-1 without leading zeros" },
        { "m+=1001", "player.moduli_pending 1\n" },
    };
    char word[200];
    play("n=1000 m=823 key=0123456789");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        snprintf(word, sizeof word, rows[i].word, 0);
        set(word);
        for (int k = 0; k < 200 && !reply_has(rows[i].reply); k++)
            turn(0);
        assert_true(reply_has(rows[i].reply));
        pass(2 * MS);
    }
    assert_int_equal(control_counters.commands_set, ARRAY_COUNT(rows));
}

/* The time of a turn. */

/* Plays a turn by the clock that ticks. It ends within 50 us, whatever comes. */
static void short_turn(void)
{
    uint64_t began = now;
    assert_int_equal(player_turn(now), PROGRAM_ON);
    player_check();
    assert_in_range(now - began, 0, 50000);
}

static void start_the_clock(void) { player_setup_clock_ns = clock_that_ticks; }

AFTER_EACH() { player_setup_clock_ns = clock_that_stands; }

/* Sends bursts in which every substring is an answer, and asks the control channel and the page meanwhile. The digits
 * wait for each other, and none is lost. */
TEST(a_long_search_keeps_turns_short_and_loses_no_digit)
{
    enum { EVENTS = 4, DIGITS = 600, N = 64, OCCURRENCES = N * EVENTS * DIGITS - N * (N - 1) / 2 };
    uint8_t hello[64] = "PGRN\1\1\0\100";
    char burst[DIGITS + 1];
    start_the_clock();
    play("n=64 m=1 early=off key=0123456789 http.port=8080 breaker=0 feed.timeout=2");
    trace.work = 0;
    int feed = feed_id(), page = fake_accepted(8080);
    random_state = 3;
    for (int i = 0; i < EVENTS; i++) {
        random_digits(burst, DIGITS, '1');
        fake_text(feed, burst);
    }
    fake_datagram(0x0a000203, 40000, CONTROL, hello, sizeof hello);
    fake_text(page, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    short_turn();
    short_turn();
    short_turn();
    assert_int_equal(fake.datagram_count, 1);
    assert_true(fake.connections[feed].held);
    for (int i = 0; i < PLAYER_EVENTS_PER_TURN_MAX; i++)
        fake_datagram(0x0a000203, 40000, CONTROL, "", 1);
    const uint64_t began = now;
    short_turn();
    assert_in_range(now - began, 30000, 50000); /* 20 us for events, 10 us for the search */
    for (int i = 0; i < 1000000 && !player_matcher_rests(); i++) {
        if (i == 100) { /* the machine stands still for longer than the feed may be silent */
            now += 5 * S;
            assert_true(fake.connections[feed].held);
        }
        short_turn();
        if (page >= 0 && fake.connections[page].closed_by_us) {
            assert_true(fake.connections[feed].held);
            page = -1; /* the whole page came while digits waited */
        }
    }
    assert_int_equal(page, -1);
    assert_false(fake.connections[feed].held);
    assert_int_equal(input_stream_counters.silent, 0);
    assert_int_equal(input_stream_counters.digits, EVENTS * DIGITS);
    assert_int_equal(answer_set_counters.entered + answer_set_counters.repeated, OCCURRENCES);
    assert_int_equal(trace.work, BIT(TRACE_WORK_SEARCH) | BIT(TRACE_WORK_TABLES) | BIT(TRACE_WORK_WAITING)
                                     | BIT(TRACE_WORK_TIMERS) | BIT(TRACE_WORK_PAGE));
}

/* Sends one event that is a field, then one that is 1,300 bursts: chunks of one digit. */
TEST(a_chunk_for_each_digit_keeps_turns_short)
{
    enum { CHUNKS = 1300 };
    static char event[8 * CHUNKS];
    char *at = event;
    start_the_clock();
    connect_both("n=64 m=823 early=off");
    sprintf(event, OK_200 "Transfer-Encoding: chunked\r\nX: %07900d\r\n\r\n", 0);
    fake_text(feed_id(), event);
    const uint64_t began = now;
    short_turn();
    assert_in_range(now - began, 4000, 50000); /* framing alone is taken in pieces of 2 KiB */
    for (int i = 0; i < CHUNKS; i++)
        at += sprintf(at, "1\r\n%c\r\n", "823"[i % 3]);
    strcpy(at, "3\r\n823\r\n0\r\n\r\n");
    fake_text(feed_id(), event);
    for (int i = 0; i < 100000 && input_stream_counters.digits < CHUNKS + 3; i++)
        short_turn();
    assert_int_equal(input_stream_counters.digits, CHUNKS + 3);
    short_turn();
    assert_int_equal(input_stream_counters.streams_ended, 1);
    assert_int_equal(input_stream_counters.bytes_dropped_closed, 0); /* all were taken */
    assert_non_null(strstr(sent(submit_id()), post_of("823")));
}

/* Sends more than is searched in two turns, and resets the feed, whose last bytes wait. */
static void reset_held_feed(void)
{
    char burst[601] = { 0 };
    memset(burst, '7', 600);
    fake_text(feed_id(), burst);
    fake_text(feed_id(), "8234567");
    short_turn();
    short_turn();
    assert_true(fake.connections[feed_id()].held);
    fake_closed(feed_id(), TRANSPORT_RESET);
    for (int i = 0; i < 100000 && (feed_id() < 0 || !player_matcher_rests()); i++)
        short_turn();
}

TEST(a_reset_takes_the_bytes_that_wait)
{
    start_the_clock();
    play("n=64 m=1 early=off breaker=0");
    reset_held_feed();
    assert_int_equal(input_stream_counters.bytes_dropped_closed, 7);
    up(feed_id());
    say(feed_id(), OK_200 "\r\n823");
    assert_int_equal(input_stream_counters.digits, 603);
    assert_int_equal(stream_merger_counters.gaps, 1);
}

TEST(a_connection_after_a_held_one_is_held_when_its_bytes_wait)
{
    start_the_clock();
    play("n=64 m=1 early=off breaker=0");
    for (int i = 0; i < 2; i++) {
        reset_held_feed();
        fake_connected(feed_id());
        fake_text(feed_id(), OK_200 "\r\n");
        short_turn();
    }
}

TEST(all_feeds_that_wait_are_taken)
{
    char burst[601] = { 0 };
    start_the_clock();
    start_with("n=64 m=1 early=off breaker=0 feeds=3");
    turn(0);
    memset(burst, '7', 600);
    for (int id = 0; id < (int)fake.connect_count; id++)
        up(id);
    for (int id = 0; id < (int)fake.connect_count; id++)
        if (fake.connections[id].port == FEED) {
            fake_text(id, OK_200 "\r\n");
            fake_text(id, burst);
        }
    for (int i = 0; i < 1000000 && input_stream_counters.digits < 3 * 600; i++)
        short_turn();
    assert_int_equal(input_stream_counters.digits, 3 * 600);
    assert_int_equal(counter("player.matcher_overflows"), 0);
}

/* Waits for the feed's next connection, which begins with this text. */
static void feed_again(const char *text)
{
    pass(2 * S);
    up(feed_id());
    ack_all(feed_id());
    say(feed_id(), text);
}

/* Gives each answer another result, and ends the feed in all ways. */
TEST(all_that_happens_is_counted)
{
    static const char *const bodies[] = { "+8\n", "early", "dup\n", "late\n", "wrong", "?\n" };
    char text[99];
    play_digits("n=6 m=823,108 early=off feed.timeout=10", "8\r\n23x823\n");
    digits("10898231646");
    for (size_t i = 0; i < 3; i++)
        say(submit_id(), "HTTP/1.1 503 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n");
    pass(200 * MS);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        snprintf(text, sizeof text, OK_200 "Content-Length: %zu\r\n\r\n%s", strlen(bodies[i]), bodies[i]);
        say(submit_id(), text);
        snprintf(text, sizeof text, "00000%zu", 823 * (i + 300));
        digits(text);
    }
    ack_all(submit_id());
    say(submit_id(), "HTTP/1.1 abc x\r\n\r\n");
    turn(MS);
    up(submit_id());
    say(submit_id(), "HTTP/1.1 408 x\r\nContent-Length: 0\r\n\r\n");
    for (enum transport_reason reason = TRANSPORT_DONE; reason <= TRANSPORT_UNREACHABLE; reason++) {
        fake_closed(feed_id(), reason);
        feed_again(OK_200 "\r\n1");
    }
    pass(9 * S); /* the feed is silent */
    feed_again(OK_200 "Content-Length: 1\r\n\r\n1");
    feed_again("HTTP/1.1 404 x\r\nContent-Length: 4\r\n\r\n8230");
    feed_again("823823823823823823\r\n823"); /* no HTTP */
    feed_again("");
    fake_ended(feed_id());
    turn(MS);
    assert_string_equal(
        counted(),
        "\nplayer. events 56 answers 16 answers_repeated 2 events_waited 3 moduli 2 matcher_digits 90 matcher_bursts 17"
        "\ninput_stream. requests 11 responses 9 digits 90 bytes_skipped_line_ends 3 bytes_skipped_other 1 bad_http 1 "
        "bad_status 1"
        " streams_ended 1 streams_cut 7 silent 1"
        "\nstream_merger. digits 90 gaps 7"
        "\nanswer_set. entered 16 repeated 2"
        "\nsubmit. posts 19 posts_again 3 refused_for_now 3 unanswered 10 responses_2xx 6 responses_5xx 3"
        " responses_unasked 1 bad_http 1 results_points 1 results_early 1 results_dup 1 results_late 1 results_wrong 1"
        " results_other 1 points 8"
        "\ncircuit_breaker. refused_in_window 2 others_in_window 4"
        "\nsession. attempts 13 connected 13 lost_closed 1 lost_refused 1 lost_reset 1 lost_timed_out 1"
        " lost_unreachable 1 left 7");
    assert_int_equal(fake.close_count, 2); /* the stream ended, and the server closed */
    assert_int_equal(fake.abort_count, 4);
}

TEST(an_answers_way_has_its_stages)
{
    const uint64_t waited = UINT64_C(1) << 40; /* cycles between the match, somewhen, and the frame */
    play("n=9 m=823 early=off");
    for (int i = 0; i <= TRACE_FINE_EACH; i++) {
        trace_stamp(TRACE_FRAME_SEEN);
        trace.cycles[TRACE_PUBLISHED] = trace.cycles[TRACE_FRAME_SEEN] + waited;
        trace.cycles[TRACE_KICKED] = trace.cycles[TRACE_PUBLISHED] + 3000000; /* 1 ms */
        fresh_answer();
    }
    const struct histogram all = way("answer.seen_to_kicked"), kicked = way("answer.published_to_kicked");
    const struct histogram matched = way("answer.seen_to_matched"), published = way("answer.matched_to_published");
    assert_int_equal(all.count, submit_counters.posts);
    assert_int_equal(kicked.count, 1 + (all.count - 1) / TRACE_FINE_EACH);
    assert_in_range(kicked.max, MS - 1, MS);
    assert_in_range(matched.max, 1, waited / 6);
    assert_in_range(published.max, waited / 6, waited / 3);
    assert_in_range(all.sum / all.count, waited / 3 + MS - 100, waited / 3 + MS);
}

/* The page of a machine with a card of each driver. */
TEST(the_costs_of_a_post_are_metrics)
{
#define CARD(X) X(COUNT, tx_kicks), X(COUNT, rx_kicks), X(COUNT, state_exits)
    static const struct {
        uint64_t CARD(COUNTER_MEMBER);
    } virtio = { 1001, 300, 50 }, gve = { 1000, 20, 6 };
    const struct counter_group groups[] = { COUNTER_GROUP("virtio_net.", "", CARD, virtio),
                                            COUNTER_GROUP("gve.", "", CARD, gve) };
    play("n=6 m=823 http.port=8080");
    stats_add_counters(&groups[0]);
    stats_add_counters(&groups[1]);
    for (int posts = 0; posts <= 2; posts += 2) {
        int page = fake_accepted(8080);
        fake_text(page, "GET /metrics HTTP/1.0\r\n\r\n");
        pass(500 * MS);
        assert_non_null(strstr(sent(page), posts ? "kicks_per_answer 1000.500\n" : "kicks_per_answer 0.000\n"));
        assert_non_null(strstr(sent(page), posts ? "exits_per_answer 1188.500\n" : "exits_per_answer 0.000\n"));
        assert_non_null(strstr(sent(page), posts ? "complete\"} 2\n" : "complete\"} 0\n"));
        assert_non_null(strstr(sent(page), "build_info{simd=\"scalar\"} 1\n"));
        digits("823181646");
    }
}

TEST(a_turn_takes_no_more_events_than_its_bounds)
{
    for (int ticks = 0; ticks < 2; ticks++) {
        if (ticks)
            start_the_clock();
        play("n=6 m=823");
        for (int i = 0; i < 3 * PLAYER_EVENTS_PER_TURN_MAX; i++)
            fake_datagram(0x0a000203, 40000, CONTROL, "", 1);
        uint64_t before = counter("player.events");
        turn(0);
        assert_int_equal(counter("player.events") - before, ticks ? 20 : PLAYER_EVENTS_PER_TURN_MAX);
    }
}

static uint64_t clock_past_all_turns(void) { return UINT64_MAX; }

/* Leaves an event in each turn: digits or a response may be among them. After a second nobody waits for that any
 * longer. */
TEST(a_flood_of_events_puts_time_outs_off_for_a_second)
{
    player_setup_clock_ns = clock_past_all_turns;
    play("n=6 m=823 early=off feed.timeout=0.3 server.timeout=0.5");
    turn(MS);
    fake_datagram(0x0a000203, 40000, CONTROL, "", 1);
    for (int i = 1; i <= 1000; i++) {
        fake_datagram(0x0a000203, 40000, CONTROL, "", 1);
        assert_int_equal(turn(MS), i < 1000 ? PROGRAM_ON : PROGRAM_SERVER_LOST);
        assert_int_equal(input_stream_counters.silent, i / 1000);
    }
}

/* Plays a multiple of the modulus that an early answer completes, then its first digits and others; and an answer that
 * the next burst keeps from being checked. */
TEST(the_matchers_statistics_are_counters)
{
    play("n=64 m=104648257118348370704723119");
    for (int wrong = 0; wrong < 2; wrong++) {
        digits("10335630343141208003788538029877680");
        for (int i = 0; i < 100; i++)
            turn(0);
        digits(wrong ? "5555555555" : "2588947199");
    }
    fake_text(feed_id(), "104648257118348370704723119");
    digits("7");
    pass(2 * MS);
    assert_int_equal(counter("player.early_right"), 1);
    assert_int_equal(counter("player.early_wrong"), 1);
    assert_int_equal(counter("player.matcher_unchecked"), 1);
    assert_int_equal(counter("player.answers_early"), 1);
}

/* Opens the breaker in the middle of a search. */
TEST(the_breaker_ends_a_search)
{
    char burst[1001] = { 0 };
    start_the_clock();
    play("n=256 m=1 early=off breaker=3");
    for (int k = 0; k < 1000; k++)
        burst[k] = (char)('1' + k % 9);
    fake.connections[submit_id()].window_bytes = 1000;
    fake_text(feed_id(), burst);
    for (int i = 0; i < 3; i++) {
        short_turn();
        ack_all(submit_id());
        fake_text(submit_id(), OK_200 "Content-Length: 3\r\n\r\ndup");
    }
    assert_false(player_matcher_rests());
    short_turn();
    assert_true(player_matcher_rests());
    uint64_t answers = counter("player.answers");
    for (int i = 0; i < 100; i++)
        short_turn();
    assert_int_equal(counter("player.answers"), answers);
    assert_true(counter("submit.dropped_breaker") > 0 && send_queue_waiting_count() == 0);
    assert_int_equal(counter("submit.dropped_breaker"), answers - submit_counters.posts);
}

/* Floods. */

TEST(a_flood_of_answers_is_bounded_and_counted_and_the_feed_goes_on)
{
    play("n=256 m=3");
    trace.cycles[TRACE_KICKED] = UINT64_MAX; /* only what was sent is a way */
    fake.connections[submit_id()].window_bytes = 10000;
    char burst[1001];
    random_state = 2;
    uint64_t offered = 0;
    for (int i = 0; i < 8; i++) {
        random_digits(burst, 1000, '0');
        digits(burst);
        turn(100 * MS);
        offered = answer_set_counters.entered;
    }
    assert_int_equal(counter("pool.send_queue_bytes_used"), send_queue_used_bytes());
    assert_int_equal(counter("pool.answer_set_answers_used"), answer_set_used_count());
    assert_int_equal(input_stream_counters.digits, 8000);
    assert_true(offered > 200000);
    assert_true(submit_counters.dropped_no_room > 0);
    assert_int_equal(way("answer.seen_to_kicked").count, submit_counters.posts);
    assert_int_equal(offered, submit_counters.posts - submit_counters.posts_again + send_queue_waiting_count()
                                  + submit_counters.dropped_no_room + submit_counters.dropped_expired);
    /* Waiting answers go when the window opens, the oldest five seconds are gone. */
    pass(6 * S);
    assert_int_equal(send_queue_waiting_count(), 0);
}

/* Lets thousands of answers expire at once. A turn drops a few, so that the next digits do not wait. */
TEST(expired_answers_are_dropped_a_few_a_turn)
{
    char burst[501];
    play("n=256 m=3 early=off");
    fake_closed(submit_id(), TRANSPORT_RESET);
    random_state = 4;
    random_digits(burst, 500, '0');
    digits(burst);
    for (int i = 0; i < 2000 && !player_matcher_rests(); i++)
        turn(0);
    const uint64_t waiting = send_queue_waiting_count();
    assert_true(waiting > 10000);
    turn(6 * S);
    assert_in_range(submit_counters.dropped_expired, 1, 64);
    for (uint64_t i = 0; i < waiting && send_queue_waiting_count() > 0; i++)
        turn(0);
    assert_int_equal(submit_counters.dropped_expired, waiting);
}

/* Requests the page when the digits come, while answers wait for the window. The page must wait, too. */
TEST(the_status_page_never_goes_before_an_answer)
{
    play("n=6 m=823 http.port=8080");
    pass(2 * S); /* idle */
    int page = fake_accepted(8080);
    fake.connections[submit_id()].window_bytes = 0;
    fake_text(page, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    digits("1282311");
    pass(100 * MS);
    assert_int_equal(send_queue_waiting_count(), 1);
    assert_int_equal(fake.connections[page].sent_bytes, 0);
    fake.connections[submit_id()].window_bytes = UINT32_MAX;
    pass(500 * MS);
    assert_string_equal(answers_sent(submit_id()), "823 ");
    assert_non_null(strstr(sent(page), "submit.posts 1\n"));
    assert_non_null(strstr(sent(page), "slow.columns at_s total_ns seen_to_matched_ns matched_to_published_ns pub"));
    assert_true(fake.connections[page].closed_by_us);
}

/* Takes the submit server away for 10 s, in which an answer always waits. The log says that the server is gone. */
TEST(page_and_log_go_on_while_no_answer_can_leave)
{
    play("n=9 m=823 early=off http.port=8080 log=10.0.2.2:514");
    fake_closed(submit_id(), TRANSPORT_RESET);
    fresh_answer();
    int page = fake_accepted(8080);
    fake_text(page, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    uint64_t lines_sent = syslog_counters.lines_sent;
    for (int i = 0; i < 20; i++) {
        fresh_answer();
        pass(500 * MS);
        assert_true(send_queue_waiting_count() > 0);
    }
    assert_int_equal(submit_counters.posts, 0);
    assert_true(fake.connections[page].closed_by_us);
    assert_true(syslog_counters.lines_sent > lines_sent);
}

TEST(the_path_is_rehearsed_in_idle_time)
{
    enum { PARTS = TRANSPORT_REHEARSAL_KIND_COUNT + 2, TURNS = 100 }; /* enough for the matcher's idle work */
    play_digits("n=6 m=823,108", "1234");
    uint32_t frames = fake.rehearsal_count, lines = fake.warmed_count;
    for (int i = 0; i < TURNS; i++)
        turn(0);
    assert_int_equal(fake.rehearsal_count, frames); /* no time has passed */
    for (int i = 0; i < PARTS; i++)
        turn(REHEARSAL_SLICE_NS);
    assert_int_equal(fake.rehearsal_count, frames + TRANSPORT_REHEARSAL_KIND_COUNT);
    assert_int_equal(fake.warmed_count, lines + 1);
    assert_true(player_next_deadline_ns(now) > now);
}

/* Plays bursts of 1 to 300 digits each 10 ms, half of which end in an answer, in turns of 4 us. At most one slice in a
 * hundred is refused, and a burst finds no part that is older than a round of slices. */
TEST(a_usual_game_refuses_no_rehearsal)
{
    enum { BURSTS = 60, STEP_NS = 4000, TURNS = 10 * MS / STEP_NS, ROUND = TRANSPORT_REHEARSAL_KIND_COUNT + 2 };
    static char burst[301];
    uint64_t responses = 0;
    play("n=256 m=20220217214410,104648257118348370704723119,99991");
    fake.rehearses = true;
    for (uint32_t k = 0; k < BURSTS; k++) {
        const uint32_t count = 1 + random_below(300);
        random_digits(burst, count, '0');
        if (k % 2 == 0 && count >= 14)
            memcpy(burst + count - 14, "20220217214410", 14);
        digits(burst);
        for (uint32_t i = 0; i < TURNS; i++) {
            turn(STEP_NS);
            ack_all(submit_id());
            for (; i % 100 == 50 && responses < submit_counters.posts; responses++)
                fake_text(submit_id(), PLUS_8);
        }
    }
    const struct rehearsal_counters *c = &rehearsal_counters;
    const uint64_t refused = c->refused_busy + c->refused_sleep + c->refused_stack + c->refused_program;
    assert_in_range(c->done, BURSTS * 90, BURSTS * 100);
    assert_in_range(refused, 0, c->done / 100);
    assert_in_range(rehearsal_age.count, BURSTS / 2, 2 * BURSTS);
    assert_in_range(rehearsal_age.max, 0, (ROUND + 2) * REHEARSAL_SLICE_NS);
    assert_in_range(counter("player.matcher_rehearsals"), c->done / ROUND / 3, c->done);
}

/* Comes to rest at a time. Returns until when the machine would sleep. */
static uint64_t wakes_at(uint64_t rest_ns)
{
    turn(rest_ns - now);
    for (int i = 0; i < 100 && !player_matcher_rests(); i++)
        turn(0);
    return player_next_deadline_ns(now);
}

TEST(the_machine_sleeps_until_the_next_deadline)
{
    start_with("n=6 m=823 feed.timeout=20 early=off");
    turn(0);
    uint64_t since = now;
    up(submit_id());
    assert_int_equal(wakes_at(since + 2990 * MS), since + 3 * S); /* the feed's connection attempt */
    fake.connections[feed_id()].no_message = true;
    since = now;
    up(feed_id());
    assert_int_equal(wakes_at(now), now + MS); /* the request is due */
    fake.connections[feed_id()].no_message = false;
    turn(MS);
    say(feed_id(), OK_200 "\r\n");
    assert_int_equal(wakes_at(since + 19990 * MS), since + 20 * S); /* no digit has come */
    since = now;
    digits("1282311");
    ack_all(submit_id());
    assert_int_equal(wakes_at(since + 4990 * MS), since + 5 * S + 1); /* no response */
    say(submit_id(), PLUS_8);
    assert_int_equal(wakes_at(since + 19990 * MS), since + 20 * S);
    since = now;
    digits("91646");
    say(submit_id(), "HTTP/1.1 503 x\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(wakes_at(now), now + MS);
    assert_int_equal(wakes_at(since + 2 * S - MS / 2), since + 2 * S); /* the answer goes again */
    turn(MS);
    fake_ended(submit_id());
    assert_int_equal(wakes_at(now), now + MS); /* an acknowledgement may come */
    fake.refuse_connect = true;
    fake_closed(submit_id(), TRANSPORT_RESET);
    assert_int_equal(wakes_at(now), now + 10 * MS);                /* the next attempt */
    assert_int_equal(wakes_at(since + 5 * S - MS), since + 5 * S); /* the answer expires */
}

/* Takes the network away before the first connections. The service looks for it each millisecond. */
TEST(the_machine_sleeps_while_the_network_is_down)
{
    start_with("n=6 m=823");
    fake.network.up = false;
    fake.network.waiting_for = "link";
    for (int i = 0; i < 100; i++)
        turn(0);
    assert_int_equal(fake.connect_count, 0);
    assert_int_equal(player_next_deadline_ns(now), now + MS);
    fake.network.up = true;
    turn(MS);
    assert_int_equal(fake.connect_count, 2);
}

/* A server that takes requests, answers some, refuses some for now, and fails in many ways. No answer is judged twice,
 * and every answer is accounted for. The server has received the requests that it acknowledged. */

enum { SIM_ASKED = 1024 }; /* requests of a connection without a response, at most */

static struct {
    uint32_t parsed; /* bytes of the connection's stream taken as requests */
    uint32_t unanswered;
    bool closing;         /* the server has sent `Connection: close`, and obeys no further request */
    int asked[SIM_ASKED]; /* the answers without a response, from the place `responded` on */
    uint32_t responded;
} sim[TRANSPORT_CONNECTION_COUNT_MAX];
static unsigned sim_count[1000000];

static void sim_take_requests(int id)
{
    struct fake_connection *c = &fake.connections[id];
    while (sim[id].parsed < c->acked_bytes && !sim[id].closing) {
        const char *at = c->sent + sim[id].parsed;
        const char *body = strstr(at, "\r\n\r\n");
        if (!body || body + 4 > c->sent + c->acked_bytes)
            return;
        uint32_t count = (uint32_t)atoi(strstr(at, "Content-Length: ") + 16);
        if (body + 4 + count > c->sent + c->acked_bytes)
            return;
        char answer[16];
        snprintf(answer, sizeof answer, "%.*s", (int)count, body + 4);
        if (++sim_count[atoi(answer)] > 1)
            fail_msg("%s was submitted twice", answer);
        sim[id].parsed = (uint32_t)(body + 4 + count - c->sent);
        assert_true(sim[id].unanswered < SIM_ASKED);
        sim[id].asked[(sim[id].responded + sim[id].unanswered++) % SIM_ASKED] = atoi(answer);
    }
}

/* Responds to the oldest request: mostly as judged, at times by a refusal, after which it may come again. */
static void sim_respond(int id)
{
    static const char *const refused[] = {
        "HTTP/1.1 503 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n",
    };
    bool refuses = random_below(30) == 0;
    if (refuses)
        sim_count[sim[id].asked[sim[id].responded % SIM_ASKED]]--;
    fake_text(id, refuses ? refused[random_below(2)] : PLUS_8);
    sim[id].responded++;
    sim[id].unanswered--;
}

static void sim_step(int id)
{
    struct fake_connection *c = &fake.connections[id];
    uint32_t in_flight = c->sent_bytes - c->acked_bytes;
    switch (random_below(40)) {
    case 0:
        fake_closed(id, TRANSPORT_RESET);
        break;
    case 1:
        if (random_below(2)) {
            fake_closed(id, TRANSPORT_TIMED_OUT);
        } else {
            fake_ended(id);
            if (random_below(2))
                fake_closed(id, TRANSPORT_RESET);
        }
        break;
    case 2:
        if (sim[id].unanswered) {
            /* RFC 9112 §9.6: the server obeys no request after the one with this response. */
            while (sim[id].unanswered > 1)
                sim_respond(id);
            sim[id].unanswered--;
            fake_text(id, OK_200 "Connection: close\r\nContent-Length: 3\r\n\r\n+8\n");
            sim[id].closing = true;
        }
        break;
    default:
        c->acked_bytes += in_flight ? random_below(in_flight + 1) : 0;
        if (random_below(3) == 0)
            c->acked_bytes = c->sent_bytes;
        sim_take_requests(id);
        while (sim[id].unanswered && random_below(3) && !sim[id].closing)
            sim_respond(id);
    }
}

TEST(no_answer_is_submitted_twice_by_any_server)
{
    random_seed(20220217);
    memset(sim, 0, sizeof sim);
    memset(sim_count, 0, sizeof sim_count);
    play("n=5 m=7 server.timeout=0");
    ack_all(submit_id());
    for (int step = 0; step < 30000; step++) {
        int id = submit_id();
        if (id >= 0 && !fake.connections[id].connected) {
            memset(&sim[id], 0, sizeof sim[id]);
            if (random_below(3))
                fake_connected(id);
            else
                fake_closed(id, TRANSPORT_REFUSED);
        } else if (id >= 0) {
            fake.connections[id].window_bytes = 200 + random_below(3000);
            sim_step(id);
        }
        if (random_below(20) == 0) {
            char burst[20];
            snprintf(burst, sizeof burst, "%u", (unsigned)random_below(1u << 31));
            fake_text(feed_id(), burst);
        }
        turn(random_below(20) * MS);
        uint64_t gone = submit_counters.unanswered + submit_counters.responses_2xx + submit_counters.dropped_expired;
        assert_int_equal(answer_set_counters.entered,
                         gone + send_queue_waiting_count() + send_queue_unanswered_count());
    }
    assert_true(answer_set_counters.entered > 1000);
    assert_true(submit_counters.posts_again > 10 && submit_counters.unanswered > 10
                && submit_counters.refused_for_now > 10 && submit_counters.results_points > 100);
}
