/* Starts another CPU and runs its loop. Knows neither clock nor tables: what it needs of them is handed to it. */
#include "kernel/cpu/workers.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/stacks.h"
#include "kernel/cpu/x86_spec.h"

enum {
    START_PAGE = 0x8000, /* the CPU's first instructions; a SIPI names a page below 1 MiB */
    START_PAGE_BYTES = 4096,
    INIT_WAIT_US = 10000,
    START_WAIT_US = 100000,
    START_POLL_US = 100,
    NAP_TICKS = 300000, /* APIC timer ticks, divided by 16 */
};

extern const char cpu_start_begin[], cpu_start_end[]; /* boot/worker.asm */
_Noreturn void second_cpu_main(void);

static struct second_cpu_config config;
static uint64_t first_cr4, x2apic_bit;
static uint32_t first_apic_id;
static bool running;
static bool (*given_work)(void);

/* `has_failed` is stored last. */
static bool has_failed;
static struct second_cpu_failure failure;

/* ---- on the second CPU ---- */

void second_cpu_nap(void)
{
    apic_write(APIC_TIMER_INITIAL, NAP_TICKS);
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}

_Noreturn void second_cpu_main(void)
{
    config.enter();
    cpu_init_second(first_cr4);
    traps_init_second();
    ASSERT(((uintptr_t)__builtin_frame_address(0) & 15) == 0); /* System V ABI §3.2.2: vectors may lie on the stack */
    ASSERT(second_cpu_is_me());
    msr_write(IA32_APIC_BASE, (msr_read(IA32_APIC_BASE) & ~BIT(APIC_BASE_EXTD_BIT)) | x2apic_bit);
    apic_write(APIC_SVR, BIT(APIC_SVR_ENABLE_BIT) | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_16);
    apic_write(APIC_LVT_TIMER, VECTOR_WAKE);
    __atomic_store_n(&running, true, __ATOMIC_RELEASE);
    for (;;) {
        bool (*work)(void) = __atomic_load_n(&given_work, __ATOMIC_ACQUIRE);
        if (work == NULL)
            second_cpu_nap();
        else if (!work())
            cpu_pause();
        config.watch();
    }
}

bool second_cpu_is_me(void)
{
    enum stack_id id = stack_with_body((uint64_t)__builtin_frame_address(0));
    return id == STACK_SECOND || id == STACK_SECOND_TRAP;
}

_Noreturn void second_cpu_trapped(const struct trap_frame *frame)
{
    if (!has_failed) {
        failure.frame = *frame;
        failure.cr2 = cr2_read();
        __atomic_store_n(&has_failed, true, __ATOMIC_RELEASE);
    }
    cpu_stop();
}

_Noreturn void second_cpu_panicked(const char *message)
{
    failure.message = message;
    __builtin_trap();
}

/* ---- on the first CPU ---- */

/* Sends INIT, waits 10 ms, sends SIPI, and once more if the CPU is not up. SDM vol. 3, "Typical BSP Initialization
 * Sequence". */
static bool cpu_start(uint32_t apic)
{
    ASSERT(apic != first_apic_id);
    apic_send(apic, APIC_ICR_INIT);
    config.wait_us(INIT_WAIT_US);
    for (int tries = 0; tries < 2 && !__atomic_load_n(&running, __ATOMIC_ACQUIRE); tries++) {
        apic_send(apic, APIC_ICR_STARTUP | START_PAGE / START_PAGE_BYTES);
        for (int us = 0; us < START_WAIT_US && !__atomic_load_n(&running, __ATOMIC_ACQUIRE); us += START_POLL_US)
            config.wait_us(START_POLL_US);
    }
    return __atomic_load_n(&running, __ATOMIC_ACQUIRE);
}

static bool is_of_first_core(uint32_t apic) { return (apic ^ first_apic_id) >> cpu.thread_bits == 0; }

/* Finds a CPU that shares no core with the first, if there is any: a hyperthread takes from its sibling when it runs.
 * Returns false if the first CPU is the only one. */
static bool other_cpu(uint32_t *apic)
{
    ASSERT(config.cpu_count > 0);
    bool any = false;
    for (size_t i = 0; i < config.cpu_count; i++) {
        uint32_t id = config.cpu_apic_id(i);
        if (id == first_apic_id || (any && is_of_first_core(id)))
            continue;
        *apic = id;
        if (!is_of_first_core(id))
            return true;
        any = true;
    }
    return any;
}

bool second_cpu_start(const struct second_cpu_config *from)
{
    ASSERT(!running);
    uint32_t apic = 0;
    config = *from;
    first_apic_id = apic_present() ? apic_id() : 0;
    if (!apic_present() || !other_cpu(&apic)) {
        log_line("second CPU: there is none");
        return false;
    }
    void *page = config.claim(START_PAGE, START_PAGE_BYTES);
    if (page == NULL) {
        log_line("second CPU: not started, the memory at 0x%x is not free", START_PAGE);
        return false;
    }
    size_t code_bytes = (uintptr_t)cpu_start_end - (uintptr_t)cpu_start_begin;
    ASSERT(code_bytes <= START_PAGE_BYTES);
    memcpy(page, cpu_start_begin, code_bytes);
    first_cr4 = cr4_read();
    x2apic_bit = msr_read(IA32_APIC_BASE) & BIT(APIC_BASE_EXTD_BIT);
    bool up = cpu_start(apic);
    log_line("second CPU: %u %s%s", apic, up ? "is up" : "did not start",
             is_of_first_core(apic) ? ", a hyperthread of the first one's core" : "");
    return up;
}

bool second_cpu_is_up(void) { return __atomic_load_n(&running, __ATOMIC_ACQUIRE); }

void second_cpu_give(bool (*work)(void)) { __atomic_store_n(&given_work, work, __ATOMIC_RELEASE); }

const struct second_cpu_failure *second_cpu_failed(void)
{
    return __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE) ? &failure : NULL;
}

uint32_t second_cpu_first_apic_id(void) { return first_apic_id; }
