/* The composition root of the image: the order in which the machine comes up, and the one loop. */
#include "drivers/uart.h"
#include "kernel/base/log.h"
#include "kernel/boot_info.h"
#include "kernel/memory.h"
#include "kernel/memory_init.h"
#include "kernel/reset.h"

static struct boot_info boot;

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information);

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information)
{
    if (uart_init()) {
        log_add_sink(uart_write);
    }
    log_line("peregrine, started by %s", protocol == BOOT_PVH ? "PVH" : "Multiboot2");
    if (!boot_info_parse(&boot, protocol, information, UINT64_C(1) << 32)) {
        reset_machine("the loader's information is broken");
    }
    log_line("settings: %s", boot.command_line);
    log_line("module: %s", boot.module);
    memory_init(&boot);
    memory_seal();
    reset_machine("nothing to do yet");
}
