/* app/digest/ with two workers: the tests of digest_server_test.c, and those of work that is out. */
#include <pthread.h>
#include <sched.h>

/* Shows which jobs are out. */
#include "app/service/work.c"
#include "base/sha256.h"
#include "tests/unit/digest_server_test.c"

enum { WORKERS = 2, LONG_BYTES = 40000 };

static bool is_stopped; /* the workers do nothing */

static void *worker(void *number)
{
    for (;;)
        if (__atomic_load_n(&is_stopped, __ATOMIC_ACQUIRE) || !work_poll((uint32_t)(uintptr_t)number))
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

static void workers_stop(bool stop) { __atomic_store_n(&is_stopped, stop, __ATOMIC_RELEASE); }

/* Takes back the jobs that are out: the next test begins with another server. */
AFTER_EACH()
{
    workers_stop(false);
    while (lanes[1].out + lanes[2].out > 0)
        work_take();
}

static uint64_t jobs_of_workers(void) { return counters[1].jobs + counters[2].jobs; }

/* Sends the head and a body of LONG_BYTES zeros, in as many pieces as the server takes. */
static void send_long(int id, const char *path)
{
    static uint8_t zeros[8000];
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
    long_digest(hex);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        send_long(ids[i] = opened(), "/sha256");
    turn();
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++)
        assert_non_null(strstr(answer(ids[i]), hex));
    assert_true(jobs_of_workers() > before);
}

TEST(place_of_a_piece_that_is_out_is_not_given_again)
{
    struct transport_event event;
    int id = opened(), other;
    workers_stop(true);
    send_long(id, "/sha256");
    while (transport_poll(now_ns, &event))
        digest_server_event(&event, now_ns);
    for (int steps = 0; steps < 10; steps++)
        digest_server_work(now_ns);
    assert_int_equal(lanes[1].out + lanes[2].out, 1);
    fake_closed(id, TRANSPORT_RESET);
    other = fake_accepted(PORT);
    while (transport_poll(now_ns, &event))
        digest_server_event(&event, now_ns);
    digest_server_check();
    workers_stop(false);
    assert_non_null(
        strstr(ask(other, "POST /sha256 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"), "ba7816bf8f01cfea"));
}

TEST(chains_end_right_on_all_cpus_and_one_may_go_away)
{
    enum { CHAINS = 40 };
    struct transport_event event;
    uint64_t before = jobs_of_workers();
    int ids[CHAINS];
    fake.many = true;
    for (size_t i = 0; i < CHAINS; i++)
        ids[i] = opened();
    workers_stop(true);
    for (size_t i = 0; i < CHAINS; i++)
        fake_text(ids[i], "POST /sha256?rounds=2000 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    for (int steps = 0; steps < 100; steps++) {
        while (transport_poll(now_ns, &event))
            digest_server_event(&event, now_ns);
        digest_server_work(now_ns);
    }
    assert_true(lanes[1].out > 0 && lanes[2].out > 0);
    for (size_t i = 0; i < CHAINS; i += 2)
        fake_closed(ids[i], TRANSPORT_RESET);
    workers_stop(false);
    turn();
    int alone = opened();
    const char *expected = ask(alone, "POST /sha256?rounds=2000 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    for (size_t i = 1; i < CHAINS; i += 2)
        assert_string_equal(answer(ids[i]), expected);
    assert_true(jobs_of_workers() > before);
}
