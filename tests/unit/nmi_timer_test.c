/* kernel/rescue/nmi_timer.c against a PIT, one pin of an I/O APIC, and a host that stops the machine. */
#include "tests/lib/fake_ports.h"

/* The state of the one timer starts again with each test. */
#include "kernel/rescue/nmi_timer.c"
#include "tests/lib/test.h"

enum { WIRED_PIN = 2, APIC = 7 };

static uint32_t ioapic_page[8]; /* a select register, and the window after it: the latest write */
static unsigned wired_pin;      /* the pin that the PIT's line leads to */
static uint32_t stop_us;        /* the host stops the machine for so long after each count */
static unsigned bytes_written;  /* bytes of a count since the control word */
static uint16_t count;
static bool counts;
static uint32_t left_us; /* until the count has run out */
static bool out;         /* the PIT's output */
static bool reads_status;
static unsigned nmi_count, foreign_count, spun_us;

bool apic_present(void) { return true; }
uint32_t apic_id(void) { return APIC; }
volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_int_equal(physical, 0xfec00000);
    assert_int_equal(bytes, sizeof ioapic_page);
    return ioapic_page;
}

bool acpi_timer_line(struct acpi_timer_line *line)
{
    *line = (struct acpi_timer_line){ .ioapic = 0xfec00000, .pin = WIRED_PIN };
    return true;
}

/* Raises the output. If the pin lets the edge through, the NMI's handler runs, as kernel/rescue/watchdog.c has it. */
static void run_out(void)
{
    bool selected = ioapic_page[0] == IOAPIC_REDIRECTION + 2 * wired_pin;
    counts = false;
    out = true;
    if (!selected || ioapic_page[IOAPIC_IOWIN / 4] != IOAPIC_DELIVERY_NMI)
        return;
    nmi_count++;
    if (nmi_timer_has_fired())
        nmi_timer_arm();
    else
        foreign_count++;
}

static void time_passes(uint32_t us)
{
    if (counts && us >= left_us)
        run_out();
    else if (counts)
        left_us -= us;
}

void clock_spin_us(uint32_t us)
{
    spun_us += us;
    time_passes(us);
}

static void pit_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    assert_int_equal(bytes, 1);
    if (port == PIT_CONTROL && value == PIT_CHANNEL0_MODE0) {
        bytes_written = 0;
        counts = out = false;
        reads_status = false;
    } else if (port == PIT_CONTROL) {
        reads_status = value == PIT_READ_STATUS0;
    } else if (port == PIT_CHANNEL0) {
        count = (uint16_t)(bytes_written == 0 ? value : count | value << 8);
        if (++bytes_written == 2) {
            counts = true;
            left_us = (uint32_t)((count == 0 ? 65536 : count) * UINT64_C(1000000) / 1193182);
            time_passes(stop_us);
        }
    }
}

static uint32_t pit_read(uint16_t port, uint32_t bytes, uint32_t kept)
{
    assert_int_equal(bytes, 1);
    return port == PIT_CHANNEL0 ? (uint32_t)(out && reads_status) << PIT_STATUS_OUT_BIT : kept;
}

BEFORE_EACH()
{
    memset(ioapic_page, 0, sizeof ioapic_page);
    ioapic_page[IOAPIC_IOWIN / 4] = 23 << IOAPIC_VERSION_LAST_BIT;
    ioapic = NULL;
    in_use = counts = out = false;
    armed_count = 0;
    wired_pin = WIRED_PIN;
    stop_us = spun_us = nmi_count = foreign_count = bytes_written = 0;
    fake_ports_reset(0);
    fake_ports_written = pit_written;
    fake_ports_read = pit_read;
}

TEST(timer_ticks_from_its_start_on)
{
    assert_true(nmi_timer_start());
    assert_int_equal(nmi_count, 1);
    assert_in_range(left_us, 54900, 54930);
    time_passes(54930);
    assert_int_equal(nmi_count, 2);
    assert_true(counts);
    assert_int_equal(foreign_count, 0);
}

/* Counts NMIs that nobody expects: each would be the machine's end. */
TEST(host_that_stops_the_machine_in_the_trial_does_no_harm)
{
    stop_us = 5000;
    bool started = nmi_timer_start();
    assert_int_equal(foreign_count, 0);
    assert_true(started);
    assert_int_equal(nmi_count, 1);
    time_passes(54930);
    assert_int_equal(nmi_count, 2);
}

TEST(line_that_leads_to_pin_0_is_found)
{
    wired_pin = 0;
    assert_true(nmi_timer_start());
    assert_int_equal(foreign_count, 0);
}

TEST(timer_that_leads_nowhere_is_left_alone)
{
    wired_pin = 9;
    assert_false(nmi_timer_start());
    assert_int_equal(spun_us, 2 * TRIAL_WAIT_US);
    assert_true(ioapic_page[IOAPIC_IOWIN / 4] & BIT(IOAPIC_MASKED_BIT));
    assert_false(nmi_timer_has_fired());
}

TEST(nmi_before_the_count_has_run_out_is_from_elsewhere)
{
    assert_true(nmi_timer_start());
    assert_false(nmi_timer_has_fired());
}
