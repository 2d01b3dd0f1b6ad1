#include "kernel/nmi_timer.h"

#include "kernel/acpi.h"
#include "kernel/apic.h"
#include "kernel/base/bytes.h"
#include "kernel/clock.h"
#include "kernel/ioapic_spec.h"
#include "kernel/memory.h"
#include "kernel/ports.h"

enum {
    /* Intel 8254 data sheet */
    PIT_CHANNEL0 = 0x40,
    PIT_CONTROL = 0x43,
    PIT_CHANNEL0_MODE0 = 0x30,          /* channel 0, low then high byte, interrupt on terminal count: one edge */

    TRIAL_COUNT = 1193,                 /* 1 ms */
    TRIAL_WAIT_US = 50000,              /* a host may have other things to do */
    PC_PIN = 2,
    LONGEST_COUNT = 0,                  /* 65536: 54.925 ms */
};
#define PERIOD_NS UINT64_C(54925000)
#define EARLY_NS UINT64_C(5000000)      /* the PIT and the TSC are not that far apart */

static volatile uint8_t *ioapic;
static uint64_t due_ns;                 /* 0: not set up */

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

/* On trial: the handler sees an NMI that is due, and takes `due_ns` on by arming the next one. Edge triggered: nothing
 * has to be acknowledged. */
static bool pin_try(uint32_t pin, bool active_low)
{
    if (pin > (ioapic_read(IOAPIC_VERSION) >> IOAPIC_VERSION_LAST_BIT & 0xff)) {
        return false;
    }
    uint8_t low = (uint8_t)(IOAPIC_REDIRECTION + 2 * pin);
    ioapic_write(low, (uint32_t)BIT(IOAPIC_MASKED_BIT));
    ioapic_write((uint8_t)(low + 1), apic_id() << IOAPIC_DESTINATION_BIT);
    ioapic_write(low, IOAPIC_DELIVERY_NMI | (active_low ? (uint32_t)BIT(IOAPIC_ACTIVE_LOW_BIT) : 0));

    uint64_t trial_ns = clock_now_ns() + EARLY_NS;
    __atomic_store_n(&due_ns, trial_ns, __ATOMIC_RELEASE);
    pit_load(TRIAL_COUNT);
    for (int us = 0; us < TRIAL_WAIT_US && __atomic_load_n(&due_ns, __ATOMIC_ACQUIRE) == trial_ns; us += 100) {
        clock_spin_us(100);
    }
    if (__atomic_load_n(&due_ns, __ATOMIC_ACQUIRE) != trial_ns) {
        return true;
    }
    due_ns = 0;
    ioapic_write(low, (uint32_t)BIT(IOAPIC_MASKED_BIT));
    return false;
}

/* Where the tables say, or where PCs have it: QEMU's microvm does not mention that its line 0 is pin 2. */
bool nmi_timer_start(void)
{
    struct acpi_timer_line line;
    if (!apic_present() || apic_id() > 0xff || !acpi_timer_line(&line)) {
        return false;
    }
    ioapic = memory_map_device(line.ioapic, IOAPIC_BYTES);
    return pin_try(line.pin, line.active_low) || pin_try(line.pin == 0 ? PC_PIN : 0, false);
}

void nmi_timer_arm(void)
{
    __atomic_store_n(&due_ns, clock_now_ns() + PERIOD_NS, __ATOMIC_RELEASE);
    pit_load(LONGEST_COUNT);
}

bool nmi_timer_is_due(uint64_t now_ns)
{
    uint64_t due = __atomic_load_n(&due_ns, __ATOMIC_ACQUIRE);
    return due != 0 && now_ns + EARLY_NS >= due;
}
