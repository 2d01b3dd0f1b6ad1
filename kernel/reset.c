#include "kernel/reset.h"

#include <stdbool.h>

#include "kernel/acpi.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/blackbox.h"
#include "kernel/clock.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/ports.h"
#include "kernel/watchdog.h"

enum {
    PORT_RESET_CONTROL = 0xcf9,         /* Intel ICH9 data sheet §13.7.5 "RST_CNT"; QEMU's PIIX3 has it as well */
    RESET_CONTROL_SYSTEM = 0x02,        /* SYS_RST: a hard reset instead of INIT */
    RESET_CONTROL_GO = 0x04,            /* RST_CPU: its rising edge starts the reset */

    PORT_8042_COMMAND = 0x64,
    I8042_INPUT_FULL = 0x02,
    I8042_PULSE_RESET = 0xfe,

    PORT_POST = 0x80,                   /* a write takes about a microsecond wherever it goes: a clock of last resort */
    RUNG_PAUSE_US = 100000,

    LAST_WORDS_MS = 1000,
    LAST_WORDS_QUIET_MS = 50,           /* nothing left, or nothing that the device would take, for so long */
};

#define NS_PER_MS UINT64_C(1000000)

static struct acpi_register acpi_register;
static uint8_t acpi_value;
static uint32_t reading_pause_ms;
static bool (*last_words_step)(void);
static bool last_words;                 /* they are being said */
static uint32_t rungs = UINT32_MAX;     /* a bit each, enum reset_rung */

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
    static void (*const ladder[RESET_RUNG_COUNT])(void) = {
        [RESET_RUNG_ACPI] = rung_acpi,
        [RESET_RUNG_CONTROL] = rung_reset_control,
        [RESET_RUNG_8042] = rung_8042,
        [RESET_RUNG_TRIPLE_FAULT] = cpu_triple_fault,
    };
    for (unsigned rung = 0; rung < RESET_RUNG_COUNT; rung++) {
        if (rungs & BIT(rung)) {
            ladder[rung]();
        }
        pause_us(RUNG_PAUSE_US);
    }
    cpu_stop();                         /* only with the last rung taken away */
}

void reset_use_rungs(uint32_t mask) { rungs = mask; }

/* By the clock where there is one, because a port access takes from 0.2 us (QEMU's TCG) to 30 us (nested
 * virtualisation); the count ends it should the TSC stand still. */
static void reading_pause(uint32_t ms)
{
    bool timed = clock_tsc_khz() != 0;
    uint64_t until_ns = timed ? clock_now_ns() + (uint64_t)ms * 1000000 : UINT64_MAX;
    for (uint32_t i = 0; i < (timed ? ms * 100 : ms) && !(timed && clock_now_ns() >= until_ns); i++) {
        pause_us(1000);
        watchdog_beat();
    }
}

static void last_words_say(void)
{
    if (last_words_step == NULL || clock_tsc_khz() == 0) {
        return;
    }
    last_words = true;
    uint64_t begin_ns = clock_now_ns(), heard_ns = begin_ns, now_ns = begin_ns;
    while (now_ns - begin_ns < LAST_WORDS_MS * NS_PER_MS && now_ns - heard_ns < LAST_WORDS_QUIET_MS * NS_PER_MS) {
        if (last_words_step()) {
            heard_ns = now_ns;
        }
        now_ns = clock_now_ns();
    }
}

static _Noreturn void reset_logged(const char *cause, enum blackbox_state state, uint32_t pause_ms)
{
    console_take_back();
    watchdog_beat();
    log_line("back to Linux: %s", cause);
    blackbox_write(state, cause);
    log_flush();
    last_words_say();
    pause_us(RUNG_PAUSE_US);            /* a serial line empties its FIFO */
    reading_pause(pause_ms);
    reset_now();
}

_Noreturn void reset_machine(const char *cause) { reset_logged(cause, BLACKBOX_TOLD, 0); }

_Noreturn void reset_after_failure(const char *cause)
{
    reset_logged(cause, BLACKBOX_FAILED, reading_pause_ms);
}

void reset_set_last_words(bool (*step)(void)) { last_words_step = step; }

bool reset_speaks_last(void) { return last_words; }

void reset_set_reading_pause(uint32_t ms) { reading_pause_ms = ms; }
