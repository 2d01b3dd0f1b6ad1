/* The reset methods. Each is a few port accesses; none needs memory, a clock or an interrupt. */
#include "kernel/rescue/reset.h"

#include <stddef.h>

#include "base/bytes.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/ports.h"
#include "kernel/firmware/acpi.h"
#include "kernel/memory/memory.h"

enum {
    PORT_RESET_CONTROL = 0xcf9,  /* Intel ICH9 data sheet §13.7.5 "RST_CNT"; QEMU's PIIX3 has it as well */
    RESET_CONTROL_SYSTEM = 0x02, /* SYS_RST: a hard reset instead of INIT */
    RESET_CONTROL_GO = 0x04,     /* RST_CPU: its rising edge starts the reset */

    PORT_8042_COMMAND = 0x64,
    I8042_INPUT_FULL = 0x02,
    I8042_PULSE_RESET = 0xfe,
    I8042_POLLS_MAX = 10000,

    PORT_POST = 0x80, /* a write takes about 1 us anywhere: a clock of last resort */
};

static struct acpi_register acpi_register;
static uint8_t acpi_value;
static void (*last_step)(void);
static uint32_t methods = UINT32_MAX; /* a bit each, enum reset_method */

void reset_arm(void)
{
    acpi_register = acpi_reset_register(&acpi_value);
    if (acpi_register.space == ACPI_SPACE_MEMORY)
        memory_map_device(acpi_register.address, 1);
}

void reset_pause_us(uint32_t us)
{
    while (us-- > 0)
        port_out8(PORT_POST, 0);
}

static void by_acpi(void)
{
    if (acpi_register.space == ACPI_SPACE_PORT)
        port_out8((uint16_t)acpi_register.address, acpi_value);
    else if (acpi_register.space == ACPI_SPACE_MEMORY)
        *(volatile uint8_t *)acpi_register.address = acpi_value;
}

static void by_reset_control(void)
{
    port_out8(PORT_RESET_CONTROL, RESET_CONTROL_SYSTEM);
    reset_pause_us(50);
    port_out8(PORT_RESET_CONTROL, RESET_CONTROL_SYSTEM | RESET_CONTROL_GO);
}

static void by_8042(void)
{
    for (int polls = 0; polls < I8042_POLLS_MAX && (port_in8(PORT_8042_COMMAND) & I8042_INPUT_FULL); polls++)
        reset_pause_us(1);
    port_out8(PORT_8042_COMMAND, I8042_PULSE_RESET);
}

_Noreturn void reset_now(void)
{
    void (*const step)(void) = last_step;
    last_step = NULL; /* a failure in it leads here again */
    if (step != NULL)
        step();
    static void (*const reset[RESET_METHOD_COUNT])(void) = {
        [RESET_METHOD_ACPI] = by_acpi,
        [RESET_METHOD_CONTROL] = by_reset_control,
        [RESET_METHOD_8042] = by_8042,
        [RESET_METHOD_TRIPLE_FAULT] = cpu_triple_fault,
    };
    /* A failure in a method leads here again as well: to the next one. */
    static unsigned next;
    while (next < RESET_METHOD_COUNT) {
        const unsigned method = next++;
        if (methods & BIT(method))
            reset[method]();
        reset_pause_us(RESET_PAUSE_US);
    }
    cpu_stop(); /* only with the last method taken away */
}

void reset_set_last_step(void (*step)(void)) { last_step = step; }

void reset_use_methods(uint32_t mask) { methods = mask; }
