/* The fixed power button: bits of ACPI's PM1 event registers, ACPI 6.5 §4.8.2.2.1.1. They are polled; the interrupt
 * (SCI) that comes with them is masked like all others. */
#include "kernel/rescue/power_button.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/firmware/acpi_spec.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"

enum {
    EVENT_BLOCKS = 2,
    ACPI_MODE_POLLS_MAX = 3000, /* Linux waits for three seconds, too */
    ACPI_MODE_POLL_US = 1000,
};

static struct acpi_power_button button; /* no event register: there is no button */

static uint16_t read16(struct acpi_register at, uint32_t offset)
{
    ASSERT(at.space != ACPI_SPACE_NONE);
    uint64_t address = at.address + offset;
    return at.space == ACPI_SPACE_PORT ? port_in16((uint16_t)address) : *(volatile uint16_t *)address;
}

static void write16(struct acpi_register at, uint32_t offset, uint16_t value)
{
    ASSERT(at.space != ACPI_SPACE_NONE);
    uint64_t address = at.address + offset;
    if (at.space == ACPI_SPACE_PORT)
        port_out16((uint16_t)address, value);
    else
        *(volatile uint16_t *)address = value;
}

/* ACPI 6.5 §16.3.1, §4.8.2.5: Takes the registers over from the firmware, which else acts on the button by itself. */
static bool acpi_mode_enter(void)
{
    if (button.control.space == ACPI_SPACE_NONE || button.smi_port == 0 || button.acpi_enable == 0)
        return true; /* there is no other mode */
    if (read16(button.control, 0) & BIT(PM1_CNT_SCI_EN_BIT))
        return true;
    port_out8(button.smi_port, button.acpi_enable);
    for (int polls = 0; polls < ACPI_MODE_POLLS_MAX; polls++) {
        if (read16(button.control, 0) & BIT(PM1_CNT_SCI_EN_BIT))
            return true;
        clock_spin_us(ACPI_MODE_POLL_US);
    }
    return false;
}

void power_button_init(void)
{
    if (!acpi_power_button(&button))
        return;
    ASSERT(button.enable_offset >= 2);
    if (button.control.space == ACPI_SPACE_MEMORY)
        memory_map_device(button.control.address, 2);
    if (!acpi_mode_enter()) {
        log_line("power button: left to the firmware, which does not enter ACPI mode");
        button = (struct acpi_power_button){ 0 };
        return;
    }
    for (int i = 0; i < EVENT_BLOCKS; i++) {
        struct acpi_register event = button.event[i];
        if (event.space == ACPI_SPACE_NONE)
            continue;
        if (event.space == ACPI_SPACE_MEMORY)
            memory_map_device(event.address, 2 * button.enable_offset);
        write16(event, 0, BIT(PM1_PWRBTN_BIT));
        write16(event, button.enable_offset, BIT(PM1_PWRBTN_BIT));
    }
}

bool power_button_pressed(void)
{
    bool pressed = false;
    for (int i = 0; i < EVENT_BLOCKS; i++) {
        if (button.event[i].space == ACPI_SPACE_NONE || !(read16(button.event[i], 0) & BIT(PM1_PWRBTN_BIT)))
            continue;
        write16(button.event[i], 0, BIT(PM1_PWRBTN_BIT));
        pressed = true;
    }
    return pressed;
}
