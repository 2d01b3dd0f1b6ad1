/* Reads the timer's register by a port or in memory. Knows nobody who measures by it. */
#include "kernel/time/pm_timer.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"

static struct acpi_register timer;

uint32_t pm_timer_open(void)
{
    uint32_t bits;
    timer = acpi_pm_timer(&bits);
    if (timer.space == ACPI_SPACE_NONE)
        return 0;
    ASSERT(bits == 24 || bits == 32);
    if (timer.space == ACPI_SPACE_MEMORY)
        memory_map_device(timer.address, 4);
    return (uint32_t)(BIT(bits) - 1);
}

uint32_t pm_timer_read(void)
{
    return timer.space == ACPI_SPACE_PORT ? port_in32((uint16_t)timer.address) : *(volatile uint32_t *)timer.address;
}
