/* kernel/rescue/watchdog.c: both ways to check the loop, in virtual time. The host may stop the machine. */

/* The state of the one watchdog starts again with each test. */
#include "kernel/rescue/watchdog.c"
#include "tests/lib/test.h"

#define TIMEOUT_NS (30 * NS_PER_S)
#define TICK_NS    (55 * NS_PER_MS)

static uint64_t time_ns, pause_ns;         /* `pause_ns` passes within the next nap: the host stops the machine */
static uint64_t dump_beats;                /* naps of worker 1 in which the dump is alive */
static uint32_t me, worker_count, stopped; /* `stopped`: the worker that got an NMI */
static uint64_t beats[WORKER_COUNT_MAX + 1];
static bool has_timer, timer_is_out;
static unsigned arm_count, nmi_count, nap_count;
static const char *record; /* the cause in the crash record; NULL: none was written */
static jmp_buf at_reset;

uint64_t clock_now_ns(void) { return time_ns; }
uint32_t worker_me(void) { return me; }
uint32_t workers_count(void) { return worker_count; }
uint64_t workers_beats(uint32_t worker) { return beats[worker]; }
void workers_stop(uint32_t worker) { stopped = worker; }
uint32_t workers_first_apic_id(void) { return 3; }
bool nmi_timer_start(void) { return has_timer; }
void nmi_timer_arm(void) { arm_count++; }
bool nmi_timer_has_fired(void) { return timer_is_out; }
void segments_unblock_nmi(void) {}

void apic_send(uint32_t to_apic_id, uint32_t command)
{
    assert_int_equal(to_apic_id, 3);
    assert_int_equal(command, APIC_ICR_NMI);
    assert_true(watchdog_has_fired());
    nmi_count++;
}

void worker_nap(void)
{
    time_ns += 5 * NS_PER_MS + pause_ns;
    pause_ns = 0;
    if (nap_count++ < dump_beats)
        watchdog_beat();
}

void blackbox_write(enum blackbox_state state, const char *cause)
{
    assert_int_equal(state, BLACKBOX_FAILED);
    record = cause;
}

_Noreturn void reset_now(void) { longjmp(at_reset, 1); }

BEFORE_EACH()
{
    static const uint64_t nothing;
    time_ns += 1000 * NS_PER_S;
    pause_ns = dump_beats = 0;
    has_timer = timer_is_out = true;
    arm_count = nmi_count = nap_count = 0;
    record = NULL;
    me = 1;
    worker_count = stopped = 0;
    fired = false;
    progress = &nothing;
    memset(&watchdog_counters, 0, sizeof watchdog_counters);
    watchdog_beat();
    age();
}

/* Lets worker 1 poll every 10 ms until it resets the machine, or for so long. Returns the time that passed. */
static uint64_t poll_for(uint64_t limit_ns)
{
    volatile uint64_t begun_ns = time_ns;
    if (setjmp(at_reset) == 0) {
        while (time_ns - begun_ns < limit_ns) {
            time_ns += 10 * NS_PER_MS;
            watchdog_poll();
        }
    }
    return time_ns - begun_ns;
}

/* Lets the timer tick until a tick begins the dump, or resets the machine, or for so long. Returns the time. */
static uint64_t tick_for(uint64_t limit_ns)
{
    volatile uint64_t begun_ns = time_ns;
    volatile bool goes_on = true;
    if (setjmp(at_reset) == 0) {
        while (goes_on && time_ns - begun_ns < limit_ns) {
            time_ns += TICK_NS;
            goes_on = watchdog_tick();
        }
    }
    return time_ns - begun_ns;
}

static void expect_about(uint64_t ns, uint64_t expected_ns)
{
    assert_in_range(ns, expected_ns - 2 * CHECK_GAP_NS_MAX, expected_ns + 2 * CHECK_GAP_NS_MAX);
}

TEST(loop_that_turns_is_left_alone)
{
    static uint64_t frames;
    assert_true(watchdog_arm(NS_PER_S, true));
    watchdog_watch(&frames);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(poll_for(900 * NS_PER_MS) >= 900 * NS_PER_MS);
        if (i % 2 == 0)
            watchdog_beat();
        else
            frames++;
    }
    assert_int_equal(nmi_count, 0);
    assert_true(watchdog_counters.checks > 100);
}

TEST(loop_without_anybody_to_check_it_is_reported)
{
    has_timer = false;
    assert_false(watchdog_arm(TIMEOUT_NS, false));
    assert_true(watchdog_arm(TIMEOUT_NS, true));
}

TEST(nmi_from_elsewhere_is_no_tick)
{
    assert_true(watchdog_arm(TIMEOUT_NS, false));
    timer_is_out = false;
    assert_false(watchdog_tick());
    assert_int_equal(arm_count, 0);
    assert_false(watchdog_has_fired());
}

TEST(worker_resets_a_loop_that_answers_no_nmi)
{
    assert_true(watchdog_arm(TIMEOUT_NS, true));
    poll_for(NS_PER_MS);
    time_ns -= 500 * NS_PER_S; /* the clock goes back */
    expect_about(poll_for(UINT64_MAX), TIMEOUT_NS + WATCHDOG_DUMP_NS);
    assert_int_equal(nmi_count, 1);
    assert_string_equal(record, "watchdog: the loop stood still and did not answer an NMI");
}

TEST(worker_waits_for_a_dump_that_shows_signs_of_life)
{
    assert_true(watchdog_arm(TIMEOUT_NS, true));
    dump_beats = 4000; /* 20 s */
    expect_about(poll_for(UINT64_MAX), TIMEOUT_NS + 20 * NS_PER_S + WATCHDOG_DUMP_NS);
}

/* Stops the machine for an hour in the loop, then for an hour in the dump. */
TEST(time_in_which_the_host_stops_the_machine_does_not_count)
{
    assert_true(watchdog_arm(TIMEOUT_NS, true));
    poll_for(NS_PER_S);
    time_ns += 3600 * NS_PER_S;
    assert_true(poll_for(20 * NS_PER_S) >= 20 * NS_PER_S);
    assert_int_equal(nmi_count, 0);
    pause_ns = 3600 * NS_PER_S;
    expect_about(poll_for(UINT64_MAX), 9 * NS_PER_S + 3600 * NS_PER_S + WATCHDOG_DUMP_NS);
}

TEST(tick_begins_the_dump_and_later_ones_watch_it)
{
    assert_true(watchdog_arm(TIMEOUT_NS, false));
    expect_about(tick_for(UINT64_MAX), TIMEOUT_NS);
    assert_true(watchdog_has_fired());
    assert_null(record);
    expect_about(tick_for(UINT64_MAX), WATCHDOG_DUMP_NS);
    assert_string_equal(record, "watchdog: the loop stood still and did not answer an NMI");
}

TEST(dump_that_hangs_after_a_sign_of_life_has_no_more_than_its_own_time)
{
    assert_true(watchdog_arm(TIMEOUT_NS, false));
    expect_about(tick_for(UINT64_MAX), TIMEOUT_NS);
    tick_for(NS_PER_S);
    watchdog_beat();
    expect_about(tick_for(UINT64_MAX), WATCHDOG_DUMP_NS);
    assert_non_null(record);
}

/* Checks the workers for a number of seconds; all but `still` turn. */
static void check_workers_for(unsigned seconds, uint32_t still)
{
    for (; seconds > 0; seconds--) {
        for (uint32_t worker = 1; worker <= worker_count; worker++)
            beats[worker] += worker != still;
        watchdog_check_workers();
    }
}

TEST(worker_that_stands_still_is_stopped_and_no_other)
{
    assert_true(watchdog_arm(TIMEOUT_NS, true));
    me = 0;
    worker_count = WORKER_COUNT_MAX;
    check_workers_for(100, 0);
    check_workers_for(30, WORKER_COUNT_MAX);
    assert_int_equal(stopped, 0);
    check_workers_for(1, WORKER_COUNT_MAX);
    assert_int_equal(stopped, WORKER_COUNT_MAX);
}

TEST(worker_that_stands_still_is_left_alone_without_a_watchdog)
{
    me = 0;
    worker_count = 2;
    check_workers_for(100, 1);
    assert_int_equal(stopped, 0);
}
