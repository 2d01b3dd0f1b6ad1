/* app/nasdaq/mold.c: two lines of datagrams become one stream, over loss, reorder, repetition and nonsense. */
#include "app/nasdaq/mold.h"

#include "tests/lib/random.h"
#include "tests/lib/test.h"
#include "tests/lib/trade_messages.h"

enum { WAIT_NS = 500000, MESSAGES_MAX = 100000 };
#define TIMEOUT_NS (3 * NS_PER_S)
static uint64_t now_ns, taken; /* taken: messages, which are their own numbers */
static uint8_t datagram[MOLD_DATAGRAM_BYTES_MAX];

BEFORE_EACH()
{
    mold_init(WAIT_NS, TIMEOUT_NS, NULL);
    now_ns = NS_PER_S;
    taken = 0;
}

/* Takes the messages that are due; each holds its own sequence number. Each but the first of a datagram is seen ahead,
 * once and in order. */
static void drain(bool due)
{
    struct bytes message;
    for (; due; due = mold_advance()) {
        uint64_t ahead = taken + 1;
        while (mold_next(&message)) {
            assert_int_equal(message.count, 8);
            assert_int_equal(load_be64(message.data), ++taken);
            assert_true(taken <= ahead);
            while (mold_ahead(&message))
                assert_int_equal(load_be64(message.data), ++ahead);
            assert_true(ahead <= taken + MOLD_AHEAD_COUNT);
        }
        assert_int_equal(ahead, taken);
    }
    mold_check();
}

static uint32_t build(uint64_t sequence, uint32_t count)
{
    uint32_t bytes = mold_head(datagram, MOLD_TEST_SESSION, sequence, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t number[8];
        store_be64(number, sequence + i);
        bytes += mold_block(datagram + bytes, number, sizeof number);
    }
    return bytes;
}

static void deliver(enum mold_line line, uint32_t bytes)
{
    uint8_t *exact = test_malloc(bytes ? bytes : 1);
    memcpy(exact, datagram, bytes);
    drain(mold_take(line, (struct bytes){ exact, bytes }, now_ns));
    test_free(exact);
}

/* Returns how many messages have been taken in all. */
static uint64_t send(enum mold_line line, uint64_t sequence, uint32_t count)
{
    deliver(line, build(sequence, count));
    return taken;
}

/* Returns the count of messages that are requested from `*sequence` on; 0: none are. */
static uint32_t requested(uint64_t *sequence)
{
    uint8_t request[MOLD_HEADER_BYTES];
    if (mold_request(now_ns, request) == 0)
        return 0;
    assert_memory_equal(request, MOLD_TEST_SESSION, 10);
    *sequence = load_be64(request + 10);
    return load_be16(request + 18);
}

static void expect_request(uint64_t sequence, uint32_t count)
{
    uint64_t from = 0;
    assert_int_equal(requested(&from), count);
    assert_int_equal(from, sequence);
}

static void expect_no_request(void) { expect_request(0, 0); }

/* Goes on at a message, as after a snapshot. Returns how many messages have been taken in all. */
static uint64_t resume(uint64_t sequence)
{
    taken = sequence - 1;
    mold_resume(sequence, now_ns);
    drain(mold_advance());
    return taken;
}

TEST(first_copy_wins_and_the_second_is_a_duplicate)
{
    send(MOLD_A, 1, 3);
    send(MOLD_B, 1, 3);
    send(MOLD_B, 4, 2);
    assert_int_equal(send(MOLD_A, 4, 2), 5);
    assert_true(mold_counters.duplicates == 2 && mold_counters.first_a == 1);
    assert_int_equal(mold_counters.first_b, 1);
    assert_true(mold_is_current());
}

TEST(datagram_that_overlaps_brings_its_new_messages)
{
    send(MOLD_A, 1, 3);
    assert_int_equal(send(MOLD_B, 2, 5), 6);
}

TEST(other_line_fills_a_gap_and_nothing_is_requested)
{
    send(MOLD_A, 1, 2);
    send(MOLD_A, 5, 2); /* 3 and 4 are lost on A */
    assert_false(mold_is_current());
    now_ns += WAIT_NS - 1;
    expect_no_request();
    assert_int_equal(send(MOLD_B, 3, 2), 6);
    assert_true(mold_is_current());
    now_ns += NS_PER_S;
    expect_no_request();
    assert_int_equal(mold_next_deadline_ns(), UINT64_MAX);
}

TEST(gap_of_both_lines_is_requested_and_filled_part_by_part)
{
    send(MOLD_A, 1, 2);
    send(MOLD_A, 9, 2);
    send(MOLD_B, 9, 2);
    assert_int_equal(mold_next_deadline_ns(), now_ns + WAIT_NS);
    now_ns += WAIT_NS;
    expect_request(3, 6);
    expect_no_request(); /* once */
    assert_int_equal(send(MOLD_REREQUEST, 3, 4), 6);
    expect_request(7, 2); /* the rest, at once */
    assert_int_equal(send(MOLD_REREQUEST, 7, 2), 10);
    assert_true(mold_is_current());
    assert_true(mold_counters.gaps == 1 && mold_counters.requests == 2);
}

/* Sixty-four requests are under way. One that is overtaken is sent again at once, all others after some time. */
TEST(long_gap_is_filled_by_requests_that_run_in_parallel)
{
    uint64_t sequence, first = 2;
    uint32_t count;
    send(MOLD_A, 1, 1);
    send(MOLD_A, 100000, 1);
    now_ns += WAIT_NS;
    for (; (count = requested(&sequence)) > 0; first += count)
        assert_true(count == MOLD_ASK_COUNT && sequence == first);
    assert_int_equal(first, 2 + MOLD_WINDOW);
    send(MOLD_REREQUEST, 2 + MOLD_ASK_COUNT, MOLD_ASK_COUNT);
    assert_true(requested(&sequence) == MOLD_ASK_COUNT && sequence == 2);
    expect_no_request();
    assert_int_equal(send(MOLD_REREQUEST, 2, MOLD_ASK_COUNT), 1 + 2 * MOLD_ASK_COUNT);
    for (uint32_t i = 0; i < 2; i++) /* room for two more */
        assert_true(requested(&sequence) == MOLD_ASK_COUNT && sequence == first + i * MOLD_ASK_COUNT);
    expect_no_request();
    now_ns += MOLD_RETRY_NS;
    assert_true(requested(&sequence) == MOLD_ASK_COUNT && sequence == taken + 1);
    assert_int_equal(mold_counters.missed_a, 99998);
}

TEST(each_hole_waits_for_the_other_line_again)
{
    send(MOLD_A, 1, 1);
    send(MOLD_A, 3, 1);
    send(MOLD_A, 5, 1);
    now_ns += WAIT_NS / 2;
    assert_int_equal(send(MOLD_B, 2, 1), 3);
    now_ns += WAIT_NS / 2 + 1;
    expect_no_request();
    now_ns += WAIT_NS;
    expect_request(4, 1);
}

TEST(heartbeat_tells_of_a_lost_tail)
{
    send(MOLD_A, 1, 2);
    send(MOLD_A, 4, 0);
    assert_false(mold_is_current());
    now_ns += WAIT_NS;
    expect_request(3, 1);
    assert_int_equal(mold_heard_ns(), NS_PER_S);
}

/* A number far ahead is an earlier run's, unless the latest datagram of a line says so as well. */
TEST(gap_that_no_line_knows_ends)
{
    uint64_t sequence;
    for (enum mold_line line = MOLD_A; line <= MOLD_B + 1; line++) {
        mold_init(WAIT_NS, 20 * MOLD_STRAY_NS, NULL);
        taken = 0;
        send(MOLD_A, 9, 1);
        for (uint64_t at = 1; at <= 8; at++, now_ns += MOLD_STRAY_NS / 4) {
            if (line <= MOLD_B)
                send(line, 10, 0);
            while (requested(&sequence) != 0)
                continue;
            if (line != MOLD_A)
                send(MOLD_A, 1, 1);
        }
        assert_int_equal(mold_counters.strays, line > MOLD_B);
        assert_int_equal(mold_is_current(), line > MOLD_B);
    }
}

TEST(gap_is_lost_although_both_lines_are_silent_then)
{
    uint64_t sequence;
    mold_init(WAIT_NS, 2 * MOLD_STRAY_NS, NULL);
    send(MOLD_A, 1, 2);
    send(MOLD_A, 4, 2);
    now_ns += WAIT_NS;
    for (int i = 0; i <= MOLD_RETRIES_MAX; i++, now_ns += MOLD_RETRY_NS)
        requested(&sequence);
    assert_true(mold_is_lost());
    assert_int_equal(mold_counters.strays, 0);
}

TEST(gap_without_an_answer_is_lost_and_a_snapshot_goes_on)
{
    uint64_t sequence;
    send(MOLD_A, 1, 2);
    send(MOLD_A, 4, 2);
    send(MOLD_A, 6, 2);
    send(MOLD_A, 9, 1);
    now_ns += WAIT_NS;
    for (int i = 0; i < MOLD_RETRIES_MAX; i++) {
        assert_int_equal(requested(&sequence), 1);
        now_ns += MOLD_RETRY_NS;
    }
    assert_false(mold_is_lost());
    expect_no_request();
    assert_true(mold_is_lost());
    assert_int_equal(send(MOLD_A, 3, 1), 2); /* too late: the snapshot decides */
    send(MOLD_A, 10, 2);
    assert_int_equal(resume(5), 7);
    assert_false(mold_is_lost() || mold_is_current());
    assert_int_equal(send(MOLD_B, 8, 1), 11);
    assert_true(mold_is_current());
}

TEST(snapshot_of_the_future_makes_stored_messages_void)
{
    send(MOLD_A, 1000000, 1);
    assert_false(mold_is_lost());
    send(MOLD_A, MOLD_GAP_MAX + 100, 1);
    send(MOLD_A, MOLD_GAP_MAX + 101, 1);
    assert_int_equal(mold_is_lost(), false); /* the gap had begun; it is requested first */
    mold_init(WAIT_NS, TIMEOUT_NS, NULL);
    send(MOLD_A, MOLD_GAP_MAX + 100, 1);
    assert_true(mold_is_lost());
    resume(MOLD_GAP_MAX + 200);
    assert_true(mold_is_current());
    assert_int_equal(send(MOLD_A, MOLD_GAP_MAX + 200, 1), MOLD_GAP_MAX + 200);
    mold_init(WAIT_NS, TIMEOUT_NS, NULL);
    send(MOLD_A, MOLD_GAP_MAX + 110, 5);
    send(MOLD_A, MOLD_GAP_MAX + 100, 20); /* begins before that one and ends after it */
    send(MOLD_A, MOLD_GAP_MAX + 102, 0);  /* the line goes back */
    assert_int_equal(resume(MOLD_GAP_MAX + 104), MOLD_GAP_MAX + 119);
}

TEST(wrong_number_is_forgotten_after_a_snapshot)
{
    enum { FAR = 1 << 30 };
    send(MOLD_A, 1, 2);
    send(MOLD_B, 1, 2);
    send(MOLD_B, FAR, 1);
    assert_true(mold_is_lost());
    send(MOLD_A, 3, 1);
    send(MOLD_A, 4, 2);
    resume(4);
    assert_false(mold_is_current()); /* the line still speaks of them */
    assert_true(mold_is_lost());
    send(MOLD_B, FAR, 1);
    send(MOLD_A, 6, 1);
    send(MOLD_A, 7, 1);
    send(MOLD_B, 7, 1);
    assert_int_equal(resume(7), 7);
    assert_true(mold_is_current());
    assert_int_equal(mold_counters.drop_sequence, 1);
    assert_int_equal(send(MOLD_B, 8, 1), 8);
    assert_true(mold_is_current());
}

TEST(end_of_session_comes_after_its_last_message)
{
    send(MOLD_A, 1, 2);
    deliver(MOLD_A, mold_head(datagram, MOLD_TEST_SESSION, 4, 0xffff));
    assert_false(mold_has_ended());
    send(MOLD_B, 3, 1);
    assert_true(mold_has_ended());
    assert_false(mold_is_current());
    assert_int_equal(send(MOLD_A, 4, 1), 3); /* beyond the end */
    assert_int_equal(mold_counters.drop_sequence, 1);
}

/* Sends a datagram of another session. Returns true if it is joined. */
static bool joins(const char *session, uint16_t count)
{
    uint64_t before = mold_counters.sessions;
    uint32_t bytes = build(1, count == 0xffff ? 0 : count);
    mold_head(datagram, session, 1, count);
    deliver(MOLD_A, bytes);
    mold_request(now_ns, datagram);
    return mold_counters.sessions > before;
}

/* A session of yesterday, and any stray datagram, is left for one that flows; ours is not left while it lives. */
TEST(session_that_ends_is_silent_or_brings_nothing_is_left)
{
    assert_false(joins("YESTERDAY ", 0xffff) || joins("YESTERDAY ", 0)); /* the first one that is joined */
    assert_memory_equal(mold_session(), "YESTERDAY ", 10);
    assert_int_equal(mold_counters.drop_session, 1);
    now_ns += TIMEOUT_NS - 1;
    joins("YESTERDAY ", 0);
    assert_false(joins("TODAY     ", 2)); /* yesterday's has brought nothing, but not for long enough */
    now_ns++;
    assert_false(joins("TODAY     ", 0) || joins("TODAY     ", 0xffff));
    assert_true(joins("TODAY     ", 2) && mold_is_lost()); /* until somebody has emptied the books */
    assert_int_equal(resume(1), 2);
    now_ns += TIMEOUT_NS - 1;
    assert_false(joins("STRAY     ", 0));
    now_ns++;
    assert_true(joins("STRAY     ", 0)); /* ours is silent */
    mold_resume(1, now_ns);
    deliver(MOLD_A, mold_head(datagram, "STRAY     ", 1, 0xffff));
    assert_true(mold_has_ended() && !joins("STRAY     ", 0) && !joins("TODAY     ", 0xffff));
    assert_true(joins("TODAY     ", 0));
}

TEST(pinned_session_is_the_only_one)
{
    mold_init(WAIT_NS, TIMEOUT_NS, (const uint8_t *)MOLD_TEST_SESSION);
    assert_false(joins("STRAY     ", 0));
    now_ns += 2 * TIMEOUT_NS;
    assert_false(joins("STRAY     ", 2));
    assert_int_equal(mold_heard_ns(), 0);
    send(MOLD_A, 1, 2);
    assert_true(taken == 2 && mold_is_current());
}

TEST(end_that_contradicts_what_came_ends_nothing)
{
    send(MOLD_A, 1, 3);
    deliver(MOLD_A, mold_head(datagram, MOLD_TEST_SESSION, 2, 0xffff));
    send(MOLD_A, 4, 1);
    assert_true(taken == 4 && mold_is_current());
}

TEST(datagram_of_a_whole_frame_is_taken_and_a_longer_one_dropped)
{
    static uint8_t longest[MOLD_DATAGRAM_BYTES_MAX + 1];
    const size_t head_bytes = mold_head(longest, MOLD_TEST_SESSION, 1, 1) + MOLD_LENGTH_BYTES;
    for (size_t bytes = sizeof longest; bytes >= MOLD_DATAGRAM_BYTES_MAX; bytes--) {
        store_be16(longest + MOLD_HEADER_BYTES, (uint16_t)(bytes - head_bytes));
        assert_int_equal(mold_take(MOLD_A, (struct bytes){ longest, bytes }, now_ns), bytes < sizeof longest);
    }
}

TEST(nonsense_is_dropped_and_counted)
{
    send(MOLD_A, 1, 1);
    deliver(MOLD_A, build(2, 1) - 1); /* a block that is cut off */
    deliver(MOLD_A, MOLD_HEADER_BYTES - 1);
    datagram[build(2, 1)] = 0;
    deliver(MOLD_A, build(2, 1) + 1); /* a byte too many */
    assert_int_equal(mold_counters.drop_length, 3);
    deliver(MOLD_A, mold_head(datagram, "YESTERDAY ", 2, 0));
    assert_int_equal(mold_counters.drop_session, 1);
    send(MOLD_A, 0, 1);
    send(MOLD_A, UINT64_MAX, 1);
    assert_int_equal(mold_counters.drop_sequence, 2);
    send(MOLD_B, 2, 2);
    send(MOLD_B, 1, 1);
    assert_int_equal(mold_counters.backwards, 1);
    assert_int_equal(taken, 3);
    assert_true(mold_is_current());
}

TEST(full_store_drops_and_the_rest_is_requested)
{
    send(MOLD_A, 1, 1);
    for (uint64_t i = 3; i < 3 + MOLD_STORE_COUNT + 5; i++)
        send(MOLD_A, i, 1);
    assert_int_equal(mold_counters.drop_store_full, 5);
    assert_int_equal(send(MOLD_B, 2, 1), 2 + MOLD_STORE_COUNT);
    now_ns += WAIT_NS;
    expect_request(3 + MOLD_STORE_COUNT, 5);
}

/* Stores what comes while the book waits for a snapshot: the oldest gives way, and none older is taken. */
TEST(full_store_keeps_the_newest_while_a_snapshot_is_awaited)
{
    send(MOLD_A, 1, 1);
    mold_hold();
    for (uint64_t i = 2; i <= 2 + MOLD_STORE_COUNT; i++)
        send(MOLD_A, i, 1);
    assert_int_equal(mold_counters.drop_store_full, 1);
    send(MOLD_B, 2, 1);
    send(MOLD_B, 3, 1);
    assert_true(mold_counters.drop_store_full == 2 && mold_counters.duplicates == 1);
    assert_int_equal(mold_counters.stored, 1 + MOLD_STORE_COUNT);
    assert_int_equal(resume(3), 2 + MOLD_STORE_COUNT);
    assert_true(mold_is_current());
}

TEST(numbers_and_gaps_are_taken_up_to_their_bounds)
{
    const uint64_t most = UINT64_C(1) << 62;
    for (uint64_t more = 0; more < 2; more++) {
        mold_init(WAIT_NS, TIMEOUT_NS, NULL);
        send(MOLD_A, 1, 0);
        send(MOLD_A, 1 + MOLD_GAP_MAX + more, 0);
        assert_int_equal(mold_is_lost(), more);
        assert_int_equal(mold_missing(), MOLD_GAP_MAX + more);
        send(MOLD_A, most + more, 0);
        assert_int_equal(mold_counters.drop_sequence, more);
        assert_int_equal(mold_counters.heartbeats, 3 - more);
        assert_int_equal(mold_missing(), more ? MOLD_GAP_MAX + 1 : most - 1);
    }
}

/* Two lines that lose and reorder 5 %, and a server that answers: each message comes once, in order. */
TEST(random_loss_and_reorder_change_nothing)
{
    enum { TOTAL = 20000, WINDOW = 8 };
    random_seed(7);
    uint64_t starts[WINDOW];
    uint32_t counts[WINDOW], held = 0;
    uint64_t next = 1, sequence;
    while (taken < TOTAL) {
        now_ns += 20000;
        if (next <= TOTAL && held < WINDOW) {
            starts[held] = next;
            counts[held] = 1 + (uint32_t)random_below(5);
            next += counts[held++];
        }
        uint32_t at = random_chance(&random_state, 9500) ? 0 : (uint32_t)random_below(held + 1);
        if (at < held) {
            for (int line = MOLD_A; line <= MOLD_B; line++)
                if (!random_chance(&random_state, 500))
                    send((enum mold_line)line, starts[at], counts[at]);
            memmove(&starts[at], &starts[at + 1], (held - at - 1) * sizeof starts[0]);
            memmove(&counts[at], &counts[at + 1], (held - at - 1) * sizeof counts[0]);
            held--;
        } else if (next > TOTAL) {
            send(MOLD_B, next, 0);
        }
        uint32_t count = requested(&sequence);
        if (count > 0 && !random_chance(&random_state, 1000))
            send(MOLD_REREQUEST, sequence, min_u32(count, 40));
        assert_false(mold_is_lost());
    }
    assert_true(mold_counters.requests > 0 && mold_counters.stored > 0);
}

/* Bad days: 100,000 messages in a tenth of a second, lines and requests that lose, in percent, a server that answers
 * after 0.1 ms with some messages at most. All is there within a second. */
TEST(floods_on_lines_that_lose_heal_within_a_second)
{
    enum { TOTAL = 100000, EACH = 10, STEP_NS = 100000, ANSWERS = 4096 };
    static const struct {
        uint32_t lost[MOLD_LINE_COUNT], most;
    } days[] = { { { 1, 1, 0 }, 40 }, { { 5, 5, 10 }, 40 }, { { 5, 5, 5 }, 20 }, { { 100, 10, 10 }, 40 } };
    static struct {
        uint64_t due_ns, sequence;
        uint32_t count;
    } answers[ANSWERS];
    random_seed(20261128);
    for (size_t day = 0; day < ARRAY_COUNT(days); day++) {
        test_before_each();
        uint64_t next = 1, first = 0, last = 0, sequence, lost[2] = { 0 }, missed[2] = { 0 }, answered = 0;
        bool heard[2] = { false, false };
        const uint64_t until_ns = now_ns + NS_PER_S;
        while (taken < TOTAL) {
            now_ns += STEP_NS / 10;
            for (enum mold_line line = MOLD_A; line <= MOLD_B; line++)
                if (random_below(100) >= days[day].lost[line]) {
                    send(line, next, next <= TOTAL ? EACH : 0);
                    missed[line] += heard[line] ? lost[line] : 0;
                    lost[line] = 0;
                    heard[line] = true;
                } else {
                    lost[line] += next <= TOTAL ? EACH : 0;
                }
            next += next <= TOTAL ? EACH : 0;
            for (uint32_t i = 0, count; i < 16 && (count = requested(&sequence)) > 0; i++) {
                const uint32_t sent = min_u32(count, days[day].most);
                if (random_below(100) >= days[day].lost[MOLD_REREQUEST])
                    answers[last++ % ANSWERS] = (typeof(answers[0])){ now_ns + STEP_NS, sequence, sent };
            }
            for (; first < last && answers[first % ANSWERS].due_ns <= now_ns; first++, answered++)
                send(MOLD_REREQUEST, answers[first % ANSWERS].sequence, answers[first % ANSWERS].count);
            assert_true(last - first < ANSWERS && !mold_is_lost() && now_ns < until_ns);
        }
        assert_int_equal(mold_counters.missed_a, missed[MOLD_A]);
        assert_int_equal(mold_counters.missed_b, missed[MOLD_B]);
        assert_int_equal(mold_counters.datagrams_rerequested, answered);
        assert_true(mold_counters.requests >= answered && mold_counters.gaps > 0 && mold_counters.stored > 0);
        assert_int_equal(mold_counters.messages, TOTAL);
        assert_in_range(mold_counters.first_rerequested, 1, answered);
    }
}
