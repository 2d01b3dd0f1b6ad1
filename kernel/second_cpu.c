#include "kernel/second_cpu.h"

#include <string.h>

#include "kernel/acpi.h"
#include "kernel/apic.h"
#include "kernel/apic_spec.h"
#include "kernel/base/assert.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/clock.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/paging.h"
#include "kernel/segments.h"
#include "kernel/stacks.h"
#include "kernel/watchdog.h"
#include "kernel/x86_spec.h"

enum {
    START_PAGE = 0x8000,            /* where the CPU's first instructions go: SIPI names a page below 1 MiB */
    START_PAGE_BYTES = 4096,
    START_WAIT_US = 100000,
    NAP_TICKS = 1000000,            /* of a sixteenth of the APIC timer's clock */
};

extern const char cpu_start_begin[], cpu_start_end[];       /* boot/second.asm */
_Noreturn void second_cpu_main(void);

static uint64_t first_cr4, apic_base;
static uint32_t first_apic_id;
static bool running;
static bool (*given_work)(void);

/* What it failed of. `failed` is stored last. */
static bool failed;
static struct trap_frame failed_frame;
static uint64_t failed_address;         /* CR2 */
static const char *failed_message;

/* ------------------------------------------------------------------------------------------------ on the second CPU */

void second_cpu_nap(void)
{
    apic_write(APIC_TIMER_INITIAL, NAP_TICKS);
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}

_Noreturn void second_cpu_main(void)
{
    paging_init_second();
    cpu_init_second(first_cr4);
    traps_init_second();
    ASSERT(((uintptr_t)__builtin_frame_address(0) & 15) == 0);     /* System V ABI §3.2.2: vectors may lie on the stack */
    msr_write(IA32_APIC_BASE, (msr_read(IA32_APIC_BASE) & ~BIT(APIC_BASE_EXTD_BIT)) | apic_base);
    apic_write(APIC_SVR, BIT(APIC_SVR_ENABLE_BIT) | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_16);
    apic_write(APIC_LVT_TIMER, VECTOR_WAKE);
    __atomic_store_n(&running, true, __ATOMIC_RELEASE);
    for (;;) {
        bool (*work)(void) = __atomic_load_n(&given_work, __ATOMIC_ACQUIRE);
        if (work == NULL) {
            second_cpu_nap();
        } else if (!work()) {
            cpu_pause();
        }
        watchdog_look();
    }
}

bool second_cpu_is_me(void)
{
    enum stack_id id = stack_with_body((uint64_t)__builtin_frame_address(0));
    return id == STACK_SECOND || id == STACK_SECOND_TRAP;
}

_Noreturn void second_cpu_trapped(const struct trap_frame *frame)
{
    if (!failed) {
        failed_frame = *frame;
        failed_address = cr2_read();
        __atomic_store_n(&failed, true, __ATOMIC_RELEASE);
    }
    cpu_stop();
}

_Noreturn void second_cpu_panicked(const char *message)
{
    failed_message = message;
    __builtin_trap();
}

/* ------------------------------------------------------------------------------------------------ on the first CPU */

/* SDM vol. 3 §8.4.4.1, "Typical BSP Initialization Sequence": INIT, 10 ms, SIPI, and once more if it has to be. */
static bool cpu_start(uint32_t apic)
{
    apic_send(apic, APIC_ICR_INIT);
    clock_spin_us(10000);
    for (int tries = 0; tries < 2 && !__atomic_load_n(&running, __ATOMIC_ACQUIRE); tries++) {
        apic_send(apic, APIC_ICR_STARTUP | START_PAGE / START_PAGE_BYTES);
        for (int us = 0; us < START_WAIT_US && !__atomic_load_n(&running, __ATOMIC_ACQUIRE); us += 100) {
            clock_spin_us(100);
        }
    }
    return __atomic_load_n(&running, __ATOMIC_ACQUIRE);
}

static bool is_of_first_core(uint32_t apic) { return (apic ^ first_apic_id) >> cpu.thread_bits == 0; }

/* One that shares no core with the first, if there is any: a hyperthread takes from its sibling whenever it runs. */
static bool other_cpu(uint32_t *apic)
{
    bool any = false;
    for (size_t i = 0; i < acpi_cpu_count(); i++) {
        uint32_t id = acpi_cpu_apic_id(i);
        if (id == first_apic_id || (any && is_of_first_core(id))) {
            continue;
        }
        *apic = id;
        if (!is_of_first_core(id)) {
            return true;
        }
        any = true;
    }
    return any;
}

bool second_cpu_start(void)
{
    uint32_t apic;
    first_apic_id = apic_present() ? apic_id() : 0;
    if (!apic_present() || !other_cpu(&apic)) {
        log_line("second CPU: there is none");
        return false;
    }
    void *page = memory_claim(START_PAGE, START_PAGE_BYTES);
    if (page == NULL) {
        log_line("second CPU: not started, the memory at 0x%x is not free", START_PAGE);
        return false;
    }
    memcpy(page, cpu_start_begin, (size_t)(cpu_start_end - cpu_start_begin));
    first_cr4 = cr4_read();
    apic_base = msr_read(IA32_APIC_BASE) & BIT(APIC_BASE_EXTD_BIT);
    bool up = cpu_start(apic);
    log_line("second CPU: %u %s%s", apic, up ? "is up" : "did not start",
             is_of_first_core(apic) ? ", a hyperthread of the first one's core" : "");
    return up;
}

void second_cpu_give(bool (*work)(void))
{
    __atomic_store_n(&given_work, work, __ATOMIC_RELEASE);
}

void second_cpu_check(void)
{
    if (!__atomic_load_n(&failed, __ATOMIC_ACQUIRE)) {
        return;
    }
    console_take_back();
    log_line("second CPU: %s", failed_message != NULL ? failed_message : "a trap");
    trap_of_second(&failed_frame, failed_address, failed_message != NULL);
}

uint32_t second_cpu_first_apic_id(void) { return first_apic_id; }
