/* The composition root of the image: the order in which the machine comes up, and the one loop. */
#include <string.h>

#include "drivers/uart.h"
#include "kernel/acpi.h"
#include "kernel/base/log.h"
#include "kernel/boot_info.h"
#include "kernel/clock.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/memory_init.h"
#include "kernel/random.h"
#include "kernel/reset.h"
#include "kernel/selftest.h"
#include "kernel/traps.h"

static struct boot_info boot;

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information);

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information)
{
    if (uart_init()) {
        log_add_sink(uart_write);
    }
    log_line("peregrine, started by %s", protocol == BOOT_PVH ? "PVH" : "Multiboot2");
    if (!boot_info_parse(&boot, protocol, information, BOOT_MAPPED_END)) {
        reset_machine("the loader's information is broken");
    }
    log_line("settings: %s", boot.command_line);
    log_line("module: %s", boot.module);
    cpu_init();
    traps_init();
    memory_init(&boot);
    traps_mask_apic();
    cpu_report();
    acpi_init(&boot);
    reset_arm();
    if (!clock_init()) {
        reset_machine("no clock");
    }
    log_clock_ns = clock_now_ns();
    random_init(&boot);
    const char *word = strstr(boot.command_line, "test.trap=");
    if (word != NULL) {
        selftest_trap(word + strlen("test.trap="));
    }
    memory_seal();
    reset_machine("nothing to do yet");
}
