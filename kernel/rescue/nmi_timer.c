/* Drives the PIT and one pin of the I/O APIC. Does not know what the NMI is for. */
#include "kernel/rescue/nmi_timer.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/ioapic_spec.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"

enum {
    /* Intel 8254 data sheet */
    PIT_CHANNEL0 = 0x40,
    PIT_CONTROL = 0x43,
    PIT_CHANNEL0_MODE0 = 0x30, /* channel 0, low then high byte, interrupt on terminal count: one edge */
    PIT_READ_STATUS0 = 0xe2,   /* read-back command: the status of channel 0, not its count */
    PIT_STATUS_OUT_BIT = 7,    /* in mode 0: the terminal count is reached */

    TRIAL_COUNT = 1193,    /* 1 ms */
    TRIAL_WAIT_US = 50000, /* a host may have other things to do */
    PC_PIN = 2,
    LONGEST_COUNT = 0, /* 65536: 54.925 ms */
};

static volatile uint8_t *ioapic;
static bool in_use;
static uint32_t armed_count; /* calls of nmi_timer_arm */

static uint32_t ioapic_read(uint8_t index)
{
    *(volatile uint32_t *)(ioapic + IOAPIC_IOREGSEL) = index;
    return *(volatile uint32_t *)(ioapic + IOAPIC_IOWIN);
}

static void ioapic_write(uint8_t index, uint32_t value)
{
    *(volatile uint32_t *)(ioapic + IOAPIC_IOREGSEL) = index;
    *(volatile uint32_t *)(ioapic + IOAPIC_IOWIN) = value;
}

static void pit_load(uint16_t count)
{
    port_out8(PIT_CONTROL, PIT_CHANNEL0_MODE0);
    port_out8(PIT_CHANNEL0, (uint8_t)count);
    port_out8(PIT_CHANNEL0, (uint8_t)(count >> 8));
}

static bool is_armed(void) { return __atomic_load_n(&armed_count, __ATOMIC_ACQUIRE) != 0; }

/* Tries the pin: if an NMI comes, its handler arms the next one. Edge triggered: nothing has to be acknowledged.
 *
 * The first count ends the firmware's ticks while the pin is masked. Otherwise one of them could bring an NMI between
 * two bytes of the second count, and its handler would load the PIT as well. */
static bool pin_try(uint32_t pin, bool active_low)
{
    ASSERT(ioapic != NULL && !in_use);
    if (pin > (ioapic_read(IOAPIC_VERSION) >> IOAPIC_VERSION_LAST_BIT & 0xff))
        return false;
    uint8_t low = (uint8_t)(IOAPIC_REDIRECTION + 2 * pin);
    ioapic_write(low, (uint32_t)BIT(IOAPIC_MASKED_BIT));
    ioapic_write((uint8_t)(low + 1), apic_id() << IOAPIC_DESTINATION_BIT);
    pit_load(LONGEST_COUNT);
    __atomic_store_n(&in_use, true, __ATOMIC_RELEASE);
    ioapic_write(low, IOAPIC_DELIVERY_NMI | (active_low ? (uint32_t)BIT(IOAPIC_ACTIVE_LOW_BIT) : 0));

    pit_load(TRIAL_COUNT);
    for (int us = 0; us < TRIAL_WAIT_US && !is_armed(); us += 100)
        clock_spin_us(100);
    if (is_armed())
        return true;
    ioapic_write(low, (uint32_t)BIT(IOAPIC_MASKED_BIT));
    __atomic_store_n(&in_use, false, __ATOMIC_RELEASE);
    return false;
}

/* Tries the pin of the tables, then the pin of PCs: QEMU's microvm does not mention that its line 0 is pin 2. */
bool nmi_timer_start(void)
{
    struct acpi_timer_line line;
    if (!apic_present() || apic_id() > 0xff || !acpi_timer_line(&line))
        return false;
    ioapic = memory_map_device(line.ioapic, IOAPIC_BYTES);
    return pin_try(line.pin, line.active_low) || pin_try(line.pin == 0 ? PC_PIN : 0, false);
}

void nmi_timer_arm(void)
{
    ASSERT(in_use);
    pit_load(LONGEST_COUNT);
    __atomic_store_n(&armed_count, armed_count + 1, __ATOMIC_RELEASE);
}

bool nmi_timer_has_fired(void)
{
    if (!__atomic_load_n(&in_use, __ATOMIC_ACQUIRE))
        return false;
    port_out8(PIT_CONTROL, PIT_READ_STATUS0);
    return port_in8(PIT_CHANNEL0) & BIT(PIT_STATUS_OUT_BIT);
}
