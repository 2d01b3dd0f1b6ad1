/* app/digest/ with two workers: the tests of digest_server_test.c, and those of work that is out. */
#include <pthread.h>
#include <sched.h>

/* Shows which jobs are out. */
#include "app/service/work.c"
#include "tests/lib/random.h"
#include "tests/unit/digest_server_test.c"

enum { WORKERS = 2, LONG_BYTES = 1 << 15, MERCHA_BYTES_MAX = 1 << 21 };

static uint32_t stopped; /* the workers that do nothing, a bit each */
enum { NONE = 0, FIRST = 1 << 1, BOTH = FIRST | 1 << 2 };

static void *worker(void *number)
{
    const uint32_t me = (uint32_t)(uintptr_t)number;
    for (;;)
        if ((__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) >> me & 1) != 0 || !work_poll(me))
            sched_yield();
    return NULL;
}

BEFORE_ALL()
{
    pthread_t thread;
    for (uintptr_t i = 1; i <= WORKERS; i++)
        assert_int_equal(pthread_create(&thread, NULL, worker, (void *)i), 0);
    work_set_workers(WORKERS);
    work_init(2000000);
}

static void workers_stop(uint32_t which) { __atomic_store_n(&stopped, which, __ATOMIC_RELEASE); }

/* Takes back the jobs that are out: the next test begins with another server. */
AFTER_EACH()
{
    workers_stop(NONE);
    while (lanes[1].out + lanes[2].out > 0)
        work_take();
}

/* Lets each run be worth a hand-over, however long that takes on this machine. */
static void give_all(void)
{
    for (size_t i = 0; i < METHOD_COUNT; i++)
        digest_variants.given_bytes_min[i] = 1;
}

/* Goes on, whatever is out. Fetches meanwhile what no worker writes. */
static void steps(int count)
{
    struct transport_event event;
    for (int i = 0; i < count; i++) {
        while (transport_poll(now_ns, &event))
            digest_server_event(&event, now_ns);
        digest_server_work(now_ns);
        digest_server_warm();
        digest_server_check();
    }
}

static uint64_t jobs_of_workers(void) { return counters[1].jobs + counters[2].jobs; }

/* Sends the head and a body of LONG_BYTES zeros, in as many pieces as the server takes. */
static void send_long(int id, const char *path)
{
    static uint8_t zeros[TRANSPORT_DATA_BYTES_MAX];
    char head[200];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, LONG_BYTES);
    fake_text(id, head);
    for (size_t i = 0; i < LONG_BYTES / sizeof zeros; i++)
        fake_data(id, zeros, sizeof zeros);
}

static void long_digest(char hex[2 * SHA256_BYTES + 1])
{
    static uint8_t zeros[LONG_BYTES];
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    sha256_begin(&hash);
    sha256_add(&hash, zeros, sizeof zeros);
    sha256_finish(&hash, digest);
    *digest_method_hex_write((uint8_t *)hex, digest, sizeof digest) = '\0';
}

TEST(long_bodies_are_taken_by_workers)
{
    char hex[2 * SHA256_BYTES + 1];
    uint64_t before = jobs_of_workers();
    int ids[8];
    give_all();
    long_digest(hex);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        send_long(ids[i] = opened(), "/sha256");
    turn();
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        assert_non_null(strstr(answer(ids[i]), hex));
    assert_true(jobs_of_workers() > before);
}

#define MERCHA                                                                                                         \
    "/mercha?key=e95d23c24b2674d7547b81cabdd108ce6bf0230ecbb8460f5a7b94b0fc1f74c4&nonce=218772b801af290067947a6c"

TEST(place_of_a_piece_that_is_out_is_not_given_again)
{
    const struct {
        const char *path;
        uint32_t out;
    } rows[] = { { "/sha256", 1 }, { MERCHA, WORKERS * WORK_DEPTH } };
    give_all();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int id = opened(), other;
        workers_stop(BOTH);
        send_long(id, rows[i].path);
        steps(10);
        assert_int_equal(lanes[1].out + lanes[2].out, rows[i].out);
        fake_closed(id, TRANSPORT_RESET);
        other = fake_accepted(PORT);
        steps(1);
        assert_int_equal(lanes[1].out + lanes[2].out, rows[i].out);
        workers_stop(NONE);
        assert_non_null(
            strstr(ask(other, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"), "ba7816bf8f01cfea"));
    }
}

/* ---- Bodies in parts ---- */

static uint8_t mercha_body[MERCHA_BYTES_MAX];

/* Returns the result of one CPU. */
static const char *mercha_of(size_t bytes)
{
    static char text[METHOD_RESULT_BYTES_MAX + 1];
    static union method_job job;
    struct method_result result = { .bytes = 0 };
    struct method_request asked = { .query = text_of(strchr(MERCHA, '?') + 1) };
    assert_null(digest_method_mercha.begin(&job, &asked));
    digest_method_mercha.take(&job, mercha_body, bytes, NULL);
    assert_int_equal(digest_method_mercha.end(&job, &result), METHOD_ENDED);
    memcpy(text, result.text, result.bytes);
    text[result.bytes] = '\0';
    return text;
}

/* Sends the head and a body in random events, and goes on now and then. */
static void mercha_send(int id, size_t bytes)
{
    char head[300];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", MERCHA, bytes);
    fake_text(id, head);
    for (size_t at = 0, part; at < bytes; at += part) {
        part = min_size(bytes - at, 1 + random_below(TRANSPORT_DATA_BYTES_MAX));
        fake_data(id, mercha_body + at, part);
        steps((int)random_below(3));
    }
}

TEST(mercha_of_all_cpus_is_that_of_one_at_each_length)
{
    random_seed(26);
    random_fill(mercha_body, sizeof mercha_body);
    int id = opened();
    for (int scalar = 0; scalar < 2; scalar++) {
        digest_variants_choose(scalar, 2000000);
        give_all();
        for (size_t bytes = 128; bytes <= MERCHA_BYTES_MAX; bytes *= 2) {
            const char *new = answer(id) + fake.connections[id].sent_bytes;
            mercha_send(id, bytes);
            turn();
            fake.connections[id].acked_bytes = fake.connections[id].sent_bytes;
            assert_non_null(strstr(new, mercha_of(bytes)));
        }
    }
    assert_true(digest_connection_counters.given_bytes > 0);
}

TEST(parts_of_a_worker_that_stands_still_are_awaited_by_their_body_alone)
{
    static const char small[] = "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    random_seed(27);
    random_fill(mercha_body, sizeof mercha_body);
    give_all();
    int id = opened(), other = opened();
    workers_stop(FIRST);
    mercha_send(id, sizeof mercha_body);
    while (digest_pieces_have_room(&(struct pieces){ .count = 0 }))
        steps(1);
    assert_int_equal(lanes[1].out, WORK_DEPTH);
    assert_true(counters[0].jobs > 0 && counters[2].jobs > 0);
    assert_string_equal(answer(id), "");
    fake_text(other, small);
    send_long(other, "/sha256");
    steps(1000);
    assert_non_null(strstr(answer(other), "ba7816bf8f01cfea"));
    assert_non_null(strstr(strstr(answer(other), "ba7816bf8f01cfea"), "200 OK"));
    workers_stop(NONE);
    turn();
    assert_non_null(strstr(answer(id), mercha_of(sizeof mercha_body)));
}

TEST(half_closed_client_gets_its_result_when_the_parts_are_joined)
{
    random_seed(28);
    random_fill(mercha_body, sizeof mercha_body);
    give_all();
    int id = opened();
    workers_stop(BOTH);
    mercha_send(id, 4 * MERCHA_GROUP_BYTES);
    steps(10);
    fake_ended(id);
    steps(10);
    assert_string_equal(answer(id), "");
    workers_stop(NONE);
    turn();
    assert_non_null(strstr(answer(id), mercha_of(4 * MERCHA_GROUP_BYTES)));
}

TEST(second_job_of_a_worker_waits_for_bodies_without_parts)
{
    int ids[WORKERS + 3];
    give_all();
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        ids[i] = opened();
    workers_stop(BOTH);
    for (int i = 0; i < WORKERS + 1; i++) /* the last one finds no worker free */
        send_long(ids[i], "/sha256");
    steps(10);
    assert_true(lanes[1].out == 1 && lanes[2].out == 1);
    send_long(ids[WORKERS + 1], MERCHA);
    for (int i = WORKERS; i < WORKERS + 2; i++)
        while (strstr(answer(ids[i]), "200 OK") == NULL)
            steps(1);
    assert_true(lanes[1].out == 1 && lanes[2].out == 1);
    now_ns += NS_PER_MS;
    send_long(ids[WORKERS + 2], MERCHA);
    steps(10);
    assert_true(lanes[1].out == WORK_DEPTH && lanes[2].out == WORK_DEPTH);
    workers_stop(NONE);
    turn();
}

/* ---- Chains ---- */

TEST(chains_end_right_on_all_cpus_and_one_may_go_away)
{
    enum { CHAINS = 40 };
    uint64_t before = jobs_of_workers();
    int ids[CHAINS];
    fake.many = true;
    for (size_t i = 0; i < CHAINS; i++)
        ids[i] = opened();
    workers_stop(BOTH);
    for (size_t i = 0; i < CHAINS; i++)
        fake_text(ids[i], "POST /sha256?rounds=2000 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    steps(100);
    assert_true(lanes[1].out > 0 && lanes[2].out > 0);
    for (size_t i = 0; i < CHAINS; i += 2)
        fake_closed(ids[i], TRANSPORT_RESET);
    workers_stop(NONE);
    turn();
    int alone = opened();
    const char *expected = ask(alone, "POST /sha256?rounds=2000 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    for (size_t i = 1; i < CHAINS; i += 2)
        assert_string_equal(answer(ids[i]), expected);
    assert_true(jobs_of_workers() > before);
}
