#include "kernel/reset.h"

#include "kernel/acpi.h"
#include "kernel/base/log.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/ports.h"

enum {
    PORT_RESET_CONTROL = 0xcf9,         /* Intel ICH9 data sheet §13.7.5 "RST_CNT"; QEMU's PIIX3 has it as well */
    RESET_CONTROL_SYSTEM = 0x02,        /* SYS_RST: a hard reset instead of INIT */
    RESET_CONTROL_GO = 0x04,            /* RST_CPU: its rising edge starts the reset */

    PORT_8042_COMMAND = 0x64,
    I8042_INPUT_FULL = 0x02,
    I8042_PULSE_RESET = 0xfe,

    PORT_POST = 0x80,                   /* a write takes about a microsecond wherever it goes: a clock of last resort */
    RUNG_PAUSE_US = 100000,
};

static struct acpi_register acpi_register;
static uint8_t acpi_value;

void reset_arm(void)
{
    acpi_register = acpi_reset_register(&acpi_value);
    if (acpi_register.space == ACPI_SPACE_MEMORY) {
        memory_map_device(acpi_register.address, 1);
    }
}

/* Not the TSC: the clock may be what failed, or not be there yet. */
static void pause_us(uint32_t us)
{
    while (us-- > 0) {
        port_out8(PORT_POST, 0);
    }
}

static void rung_acpi(void)
{
    if (acpi_register.space == ACPI_SPACE_PORT) {
        port_out8((uint16_t)acpi_register.address, acpi_value);
    } else if (acpi_register.space == ACPI_SPACE_MEMORY) {
        *(volatile uint8_t *)acpi_register.address = acpi_value;
    }
}

static void rung_reset_control(void)
{
    port_out8(PORT_RESET_CONTROL, RESET_CONTROL_SYSTEM);
    pause_us(50);
    port_out8(PORT_RESET_CONTROL, RESET_CONTROL_SYSTEM | RESET_CONTROL_GO);
}

static void rung_8042(void)
{
    for (int polls = 0; polls < 10000 && (port_in8(PORT_8042_COMMAND) & I8042_INPUT_FULL); polls++) {
        pause_us(1);
    }
    port_out8(PORT_8042_COMMAND, I8042_PULSE_RESET);
}

_Noreturn void reset_now(void)
{
    rung_acpi();
    pause_us(RUNG_PAUSE_US);
    rung_reset_control();
    pause_us(RUNG_PAUSE_US);
    rung_8042();
    pause_us(RUNG_PAUSE_US);
    cpu_triple_fault();
}

_Noreturn void reset_machine(const char *cause)
{
    log_defer(false);
    log_line("back to Linux: %s", cause);
    log_flush();
    pause_us(RUNG_PAUSE_US);            /* a serial line empties its FIFO, a viewer its queue */
    reset_now();
}
