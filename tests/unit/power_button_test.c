/* kernel/rescue/power_button.c against made-up PM1 registers, in ports and in memory. */
#include "tests/lib/fake_ports.h"

/* The state of the one button starts again with each test. */
#include "kernel/rescue/power_button.c"
#include "tests/lib/test.h"

enum { EVENT_A = 0x600, CONTROL = 0x604, SMI = 0xb2, ENABLE_VALUE = 0xf1, PRESSED = 1 << 8, TIMER = 1 };

static struct acpi_power_button table;
static bool has_button, firmware_obeys;
static uint16_t memory_block[2]; /* PM1b: status, enable; keeps each written value */
static unsigned waited_us;

bool acpi_power_button(struct acpi_power_button *out)
{
    *out = table;
    return has_button;
}

volatile void *memory_map_device(uint64_t physical, size_t bytes)
{
    assert_int_equal(physical, (uintptr_t)memory_block);
    assert_int_equal(bytes, sizeof memory_block);
    return memory_block;
}

void clock_spin_us(uint32_t us) { waited_us += us; }

/* Status bits are cleared by writing 1. */
static uint16_t status_a;
static uint32_t port_value(uint16_t port, uint32_t bytes, uint32_t kept)
{
    (void)bytes;
    return port == EVENT_A ? status_a : kept;
}

static void port_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    (void)bytes;
    if (port == EVENT_A)
        status_a &= (uint16_t)~value;
    if (port == SMI && value == ENABLE_VALUE && firmware_obeys)
        fake_ports[CONTROL] |= 1;
}

BEFORE_EACH()
{
    fake_ports_reset(0);
    fake_ports_read = port_value;
    fake_ports_written = port_written;
    memset(&button, 0, sizeof button);
    memset(memory_block, 0, sizeof memory_block);
    table = (struct acpi_power_button){
        .event = { { ACPI_SPACE_PORT, EVENT_A } },
        .enable_offset = 2,
        .control = { ACPI_SPACE_PORT, CONTROL },
        .smi_port = SMI,
        .acpi_enable = ENABLE_VALUE,
    };
    has_button = firmware_obeys = true;
    status_a = 0;
    waited_us = 0;
}

TEST(press_is_seen_once)
{
    power_button_init();
    assert_int_equal(fake_ports[EVENT_A + 2] | fake_ports[EVENT_A + 3] << 8, PRESSED);
    assert_int_equal(fake_ports[CONTROL] & 1, 1);
    assert_false(power_button_pressed());
    status_a = PRESSED | TIMER;
    assert_true(power_button_pressed());
    assert_int_equal(status_a, TIMER);
    assert_false(power_button_pressed());
}

TEST(press_from_before_the_kernel_is_forgotten)
{
    status_a = PRESSED;
    power_button_init();
    assert_false(power_button_pressed());
}

TEST(machine_in_acpi_mode_is_not_put_there_again)
{
    fake_ports[CONTROL] = 1;
    firmware_obeys = false;
    power_button_init();
    assert_int_equal(fake_ports[SMI], 0);
    assert_int_equal(waited_us, 0);
    status_a = PRESSED;
    assert_true(power_button_pressed());
}

TEST(machine_without_a_legacy_mode_needs_no_command)
{
    table.smi_port = 0;
    firmware_obeys = false;
    power_button_init();
    status_a = PRESSED;
    assert_true(power_button_pressed());
}

TEST(firmware_that_keeps_the_button_is_left_alone)
{
    firmware_obeys = false;
    power_button_init();
    assert_in_range(waited_us, 1000000, 4000000);
    assert_int_equal(fake_ports[EVENT_A + 3], 0);
    status_a = PRESSED;
    assert_false(power_button_pressed());
}

TEST(second_block_in_memory_counts)
{
    table.event[1] = (struct acpi_register){ ACPI_SPACE_MEMORY, (uintptr_t)memory_block };
    power_button_init();
    assert_int_equal(memory_block[1], PRESSED);
    memory_block[0] = PRESSED;
    assert_true(power_button_pressed());
}

TEST(machine_without_a_button_reads_no_port)
{
    has_button = false;
    table = (struct acpi_power_button){ 0 };
    power_button_init();
    status_a = PRESSED;
    assert_false(power_button_pressed());
}
