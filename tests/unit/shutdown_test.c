/* kernel/rescue/shutdown.c in virtual time: the order of the steps, and how long the final flush and the pause last. */

/* The state of the one shutdown starts again with each test. */
#include "kernel/rescue/shutdown.c"
#include "tests/lib/test.h"

volatile uint64_t watchdog_beats;

static uint64_t time_ns, khz;
static uint64_t step_ns; /* the time of a step of the flush */
static unsigned left;    /* steps that have something to send */
static unsigned steps;   /* steps taken */
static char order[16];   /* a letter for each call */
static jmp_buf at_reset;

static void note(char letter)
{
    size_t length = strlen(order);
    if (length == 0 || order[length - 1] != letter)
        order[length] = letter;
    assert_true(length + 1 < sizeof order);
}

uint64_t clock_now_ns(void) { return time_ns; }
uint64_t clock_tsc_khz(void) { return khz; }
void console_take_back(void) { note('c'); }

void blackbox_write(enum blackbox_state state, const char *cause)
{
    assert_int_equal(state, BLACKBOX_REQUESTED);
    assert_string_equal(cause, "gg");
    note('r');
}

void reset_pause_us(uint32_t us)
{
    time_ns += us * NS_PER_US;
    note('p');
}

_Noreturn void reset_now(void) { longjmp(at_reset, 1); }

static bool flush_step(void)
{
    note('f');
    steps++;
    time_ns += step_ns;
    left -= left > 0;
    return left > 0;
}

static size_t sink(const char *text, size_t bytes)
{
    assert_non_null(text);
    note('l');
    return bytes;
}

BEFORE_ALL() { log_add_sink(sink); }

BEFORE_EACH()
{
    log_flush();
    log_defer(true);
    memset(order, 0, sizeof order);
    flushing = false;
    final_flush_step = flush_step;
    time_ns = NS_PER_S;
    khz = 1000000;
    step_ns = NS_PER_US;
    left = steps = 0;
}

static void shut_down(void)
{
    if (setjmp(at_reset) == 0)
        shutdown("gg");
}

TEST(record_is_written_before_the_flush_and_the_pause)
{
    shut_down();
    assert_string_equal(order, "crlfp");
    assert_true(shutdown_is_flushing());
}

/* Lets steps be left over. In the last row the host stops the machine in each step, for longer than the flush waits for
 * a device that takes nothing. */
TEST(flush_ends_when_nothing_has_been_left_for_a_while_or_after_a_second)
{
    static const struct {
        unsigned left;
        uint64_t step_ns, pause_ms; /* from the beginning to the end; 0: any */
    } rows[] = {
        { 100, NS_PER_US, 150 }, /* 50 ms, and the FIFO's 100 */
        { UINT32_MAX, NS_PER_US, 1100 },
        { 10, 60 * NS_PER_MS, 0 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        test_before_each();
        left = rows[i].left;
        step_ns = rows[i].step_ns;
        shut_down();
        assert_true(left == 0 || rows[i].left == UINT32_MAX);
        if (rows[i].pause_ms != 0)
            assert_in_range(time_ns - NS_PER_S, rows[i].pause_ms * NS_PER_MS, (rows[i].pause_ms + 1) * NS_PER_MS);
    }
}

TEST(machine_without_a_clock_does_not_flush)
{
    khz = 0;
    shut_down();
    assert_int_equal(steps, 0);
    assert_string_equal(order, "crlp");
}
