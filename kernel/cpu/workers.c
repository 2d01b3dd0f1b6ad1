/* Starts other CPUs and runs their loop. Knows neither clock nor tables: what it needs of them is handed to it. */
#include "kernel/cpu/workers.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/x86_spec.h"

enum {
    START_PAGE = 0x8000, /* a SIPI names a page below 1 MiB */
    START_PAGE_BYTES = 4096,
    INIT_WAIT_US = 10000,
    START_WAIT_US = 100000,
    LATE_WAIT_US = 2000000, /* for one that has taken its stack */
    START_POLL_US = 100,
    DEAF_WAIT_US = 100000,
    NAP_TICKS = 300000, /* APIC timer ticks, divided by 16 */
    LINE_BYTES = 64,
};

extern const char cpu_start_begin[], cpu_start_end[]; /* boot/worker.asm */
extern uint64_t worker_stack_top;
_Noreturn void worker_main(void);

/* A worker's lines: the first is its own, the second is the first CPU's. */
struct worker {
    _Alignas(LINE_BYTES) uint64_t beats;
    uint32_t apic_id;
    bool is_up;
    _Alignas(LINE_BYTES) worker_function *work;
};

static struct workers_config config;
static struct worker workers[WORKER_COUNT_MAX + 1]; /* by number; the first CPU has none */
static uint32_t count;
static uint64_t first_cr4, x2apic_bit;
static uint32_t first_apic_id;

uint64_t worker_stack_top; /* for the worker that is being started; 0: taken */

/* `failing` is set by the first that fails, `has_failed` when `failure` is complete. */
static bool failing, has_failed;
static struct worker_failure failure;
static const char *panic_messages[WORKER_COUNT_MAX + 1];

/* ---- on a worker ---- */

uint32_t worker_me(void) { return stack_worker((uint64_t)__builtin_frame_address(0)); }

void worker_nap(void)
{
    apic_write(APIC_TIMER_INITIAL, NAP_TICKS);
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}

static void registers_init(uint32_t me)
{
    config.enter();
    cpu_init_worker(first_cr4);
    traps_init_worker(me);
    msr_write(IA32_APIC_BASE, (msr_read(IA32_APIC_BASE) & ~BIT(APIC_BASE_EXTD_BIT)) | x2apic_bit);
    apic_write(APIC_SVR, BIT(APIC_SVR_ENABLE_BIT) | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_16);
    apic_write(APIC_LVT_TIMER, VECTOR_WAKE);
}

_Noreturn void worker_main(void)
{
    const uint32_t me = worker_me();
    struct worker *w = &workers[me];
    registers_init(me);
    ASSERT(((uintptr_t)__builtin_frame_address(0) & 15) == 0); /* System V ABI §3.2.2: vectors may lie on the stack */
    ASSERT(me >= 1 && me <= WORKER_COUNT_MAX);
    w->apic_id = apic_id();
    __atomic_store_n(&w->is_up, true, __ATOMIC_RELEASE);
    for (;;) {
        worker_function *work = __atomic_load_n(&w->work, __ATOMIC_ACQUIRE);
        if (work == NULL)
            worker_nap();
        else if (!work())
            cpu_pause();
        __atomic_store_n(&w->beats, w->beats + 1, __ATOMIC_RELAXED);
        if (me == 1)
            config.watch();
    }
}

_Noreturn void worker_trapped(const struct trap_frame *frame)
{
    const uint32_t me = worker_me();
    if (!__atomic_exchange_n(&failing, true, __ATOMIC_ACQ_REL)) {
        failure = (struct worker_failure){ .worker = me,
                                           .apic_id = workers[me].apic_id,
                                           .frame = *frame,
                                           .cr2 = cr2_read(),
                                           .message = panic_messages[me] };
        __atomic_store_n(&has_failed, true, __ATOMIC_RELEASE);
    }
    cpu_stop();
}

_Noreturn void worker_panicked(const char *message)
{
    panic_messages[worker_me()] = message;
    __builtin_trap();
}

/* ---- on the first CPU ---- */

static bool is_up(uint32_t worker) { return __atomic_load_n(&workers[worker].is_up, __ATOMIC_ACQUIRE); }

static bool comes_up(uint32_t worker, int wait_us)
{
    for (int us = 0; us < wait_us && !is_up(worker); us += START_POLL_US)
        config.wait_us(START_POLL_US);
    return is_up(worker);
}

/* Sends SIPI, and once more if the CPU is not up. SDM vol. 3, "Typical BSP Initialization Sequence", of which all
 * have had the INIT. Takes the stack back from one that has not come for it: it may come yet, and then finds none.
 * Returns false if the stack is in use and the worker is not up: no other may have it. */
static bool cpu_start(uint32_t worker, uint32_t apic)
{
    ASSERT(apic != first_apic_id && apic_reaches(apic));
    __atomic_store_n(&worker_stack_top, stack_top_of_worker(worker), __ATOMIC_RELEASE);
    for (int tries = 0; tries < 2 && !is_up(worker); tries++) {
        apic_send(apic, APIC_ICR_STARTUP | START_PAGE / START_PAGE_BYTES);
        comes_up(worker, START_WAIT_US);
    }
    if (__atomic_exchange_n(&worker_stack_top, 0, __ATOMIC_ACQ_REL) != 0)
        return true;
    return comes_up(worker, LATE_WAIT_US);
}

static bool is_of_core(uint32_t apic, uint32_t other) { return (apic ^ other) >> cpu.thread_bits == 0; }

/* Returns how many of the first `count` chosen CPUs, and of the first CPU, are threads of this one's core. */
static uint32_t siblings(uint32_t apic, const uint32_t *chosen, uint32_t chosen_count)
{
    uint32_t found = is_of_core(apic, first_apic_id);
    for (uint32_t i = 0; i < chosen_count; i++)
        found += is_of_core(apic, chosen[i]);
    return found;
}

/* Chooses CPUs so that cores are shared as late as can be: a hyperthread takes from its sibling when it runs. */
static uint32_t choose(uint32_t *chosen, uint32_t most)
{
    uint32_t n = 0;
    ASSERT(config.cpu_count > 0);
    for (uint32_t share = 0; share <= n + 1 && n < most; share++) {
        for (size_t i = 0; i < config.cpu_count && n < most; i++) {
            uint32_t apic = config.cpu_apic_id(i);
            bool taken = apic == first_apic_id;
            for (uint32_t k = 0; k < n && !taken; k++)
                taken = chosen[k] == apic;
            if (!taken && apic_reaches(apic) && siblings(apic, chosen, n) <= share)
                chosen[n++] = apic;
        }
    }
    return n;
}

static bool start_page_write(void)
{
    void *page = config.claim(START_PAGE, START_PAGE_BYTES);
    size_t code_bytes = (uintptr_t)cpu_start_end - (uintptr_t)cpu_start_begin;
    ASSERT(code_bytes <= START_PAGE_BYTES);
    if (page != NULL)
        memcpy(page, cpu_start_begin, code_bytes);
    else
        log_line("workers: none, the memory at 0x%x is not free", START_PAGE);
    return page != NULL;
}

uint32_t workers_start(const struct workers_config *from)
{
    static uint32_t chosen[WORKER_COUNT_MAX];
    ASSERT(count == 0 && from->wanted >= 1 && from->wanted <= WORKER_COUNT_MAX);
    config = *from;
    first_apic_id = apic_present() ? apic_id() : 0;
    uint32_t n = apic_present() ? choose(chosen, (uint32_t)config.wanted) : 0;
    if (n < config.wanted)
        log_line("workers: %u wanted, CPUs besides the first: %u", (unsigned)config.wanted, n);
    if (n == 0 || !start_page_write())
        return 0;
    first_cr4 = cr4_read();
    x2apic_bit = msr_read(IA32_APIC_BASE) & BIT(APIC_BASE_EXTD_BIT);
    for (uint32_t i = 0; i < n; i++)
        apic_send(chosen[i], APIC_ICR_INIT);
    config.wait_us(INIT_WAIT_US);
    bool is_stack_free = true;
    for (uint32_t i = 0; i < n && is_stack_free; i++) {
        is_stack_free = cpu_start(count + 1, chosen[i]);
        bool up = is_up(count + 1);
        log_line("worker %u: APIC id %u %s%s", count + 1, chosen[i], up ? "is up" : "did not start",
                 siblings(chosen[i], chosen, i) > 0 ? ", a hyperthread of a core that is in use" : "");
        count += up;
    }
    return count;
}

uint32_t workers_count(void) { return count; }

void workers_give(uint32_t worker, worker_function *work)
{
    ASSERT(worker >= 1 && worker <= count);
    __atomic_store_n(&workers[worker].work, work, __ATOMIC_RELEASE);
}

const struct worker_failure *workers_failed(void)
{
    return __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE) ? &failure : NULL;
}

uint64_t workers_beats(uint32_t worker)
{
    ASSERT(worker >= 1 && worker <= count);
    return __atomic_load_n(&workers[worker].beats, __ATOMIC_RELAXED);
}

void workers_stop(uint32_t worker)
{
    ASSERT(worker >= 1 && worker <= count);
    apic_send(workers[worker].apic_id, APIC_ICR_NMI);
    for (int us = 0; us < DEAF_WAIT_US && workers_failed() == NULL; us += START_POLL_US)
        config.wait_us(START_POLL_US);
    if (workers_failed() != NULL || __atomic_exchange_n(&failing, true, __ATOMIC_ACQ_REL))
        return;
    failure = (struct worker_failure){ .worker = worker, .apic_id = workers[worker].apic_id, .is_deaf = true };
    __atomic_store_n(&has_failed, true, __ATOMIC_RELEASE);
}

uint32_t workers_first_apic_id(void) { return first_apic_id; }
