/* The failures that test.trap= can name, except the CPU's own exceptions, which have a file of their own. */
#include "kernel/rescue/selftest.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/workers.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/memory/memory.h"
#include "kernel/panic.h"
#include "kernel/rescue/failure.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/time/clock.h"

/* Each fails inside a function of its own, so that the backtrace can be checked by name; volatile hides the mistake
 * from the compiler. */

static __attribute__((noinline)) void trap_divide(void)
{
    volatile int zero = 0, hundred = 100;
    hundred = hundred / zero;
}

static __attribute__((noinline)) void trap_null(void)
{
    int *volatile pointer = NULL;
    *(volatile int *)pointer;
}

static __attribute__((noinline)) void trap_text(void)
{
    volatile uint8_t *volatile code = (uint8_t *)(uintptr_t)trap_divide;
    *code = 0x90;
}

static __attribute__((noinline)) void trap_rodata(void)
{
    static const uint64_t constant = 1;
    volatile uint64_t *volatile at = (uint64_t *)(uintptr_t)&constant;
    *at = 2;
}

static __attribute__((noinline)) void trap_execute(void)
{
    static uint8_t data[16] = { 0xc3 }; /* ret */
    void (*volatile function)(void) = (void (*)(void))(uintptr_t)data;
    function();
}

static __attribute__((noinline)) void trap_execute_stack(void)
{
    volatile uint8_t data[16] = { 0xc3 };
    void (*volatile function)(void) = (void (*)(void))(uintptr_t)data;
    function();
}

static __attribute__((noinline)) uint64_t trap_stack_deeper(volatile uint64_t depth)
{
    volatile uint8_t room[256];
    room[depth % sizeof room] = (uint8_t)depth;
    return depth == UINT64_MAX ? 0 : trap_stack_deeper(depth + 1) + room[depth % sizeof room];
}

static __attribute__((noinline)) void trap_stack(void) { trap_stack_deeper(0); }

/* Causes a page fault that finds no gate, whose general protection fault finds none either: a double fault, SDM vol. 3,
 * "Interrupt 8". A bad RSP would not do, because every gate brings its own stack. */
static __attribute__((noinline)) void trap_double(void)
{
    struct descriptor_table idt;
    __asm__ volatile("sidt %0" : "=m"(idt));
    idt.limit = (VECTOR_DF + 1) * sizeof(struct idt_gate) - 1; /* #GP and #PF lie beyond */
    __asm__ volatile("lidt %0" : : "m"(idt));
    trap_null();
}

static __attribute__((noinline)) void trap_opcode(void) { __asm__ volatile("ud2"); }

static __attribute__((noinline)) void trap_chain(void)
{
    __asm__ volatile("mov $0x123456789abcdef0, %%rax\n\tmov %%rax, %%rbp\n\tud2" : : : "rax");
}

/* Waits for failures that only the host can cause: an NMI, a machine check. */
static __attribute__((noinline)) void trap_wait(void)
{
    for (unsigned left_s = 60; left_s > 0; left_s--) {
        log_clock_ns = clock_now_ns();
        watchdog_beat();
        log_line("test.trap: waiting for the host to do something, %u s left", left_s);
        clock_spin_us(1000000);
    }
}

/* Loops until an NMI or a reset from outside. */
static __attribute__((noinline)) void trap_hang(void)
{
    log_line("test.trap: a loop with interrupts off");
    for (;;)
        __asm__ volatile("cli\n\tpause");
}

/* Hangs in the dump after the watchdog's NMI. */
static size_t sink_that_hangs(const char *text, size_t bytes)
{
    (void)text;
    while (watchdog_has_fired())
        cpu_pause();
    return bytes;
}

static __attribute__((noinline)) void trap_hang_deaf(void)
{
    log_add_sink(sink_that_hangs);
    trap_hang();
}

/* Traps while the dump of another trap is being printed. */
static size_t sink_that_traps(const char *text, size_t bytes)
{
    if (strnlen(text, bytes) > 20 && memcmp(text + 15, "trap: invalid opcode", 20) == 0)
        trap_divide();
    return bytes;
}

static __attribute__((noinline)) void trap_nested(void)
{
    log_add_sink(sink_that_traps);
    trap_opcode();
}

static __attribute__((noinline)) void trap_assert(void)
{
    volatile int one = 1;
    ASSERT(one == 2);
}

static __attribute__((noinline)) void trap_panic(void) { panic("test.trap=panic"); }

static __attribute__((noinline)) void trap_sealed(void)
{
    memory_seal();
    memory_take(1, 1, "test.trap=sealed");
}

static __attribute__((noinline)) void trap_memory(void)
{
    for (;;)
        memory_take(16 << 20, 4096, "test.trap=memory");
}

/* Fails on the last worker, with cpus=2 or more; the first CPU reports it. */
static __attribute__((noinline)) bool worker_null(void)
{
    trap_null();
    return true;
}

static __attribute__((noinline)) bool worker_assert(void)
{
    trap_assert();
    return true;
}

static __attribute__((noinline)) bool worker_stack(void)
{
    trap_stack();
    return true;
}

static __attribute__((noinline)) bool worker_hang(void)
{
    for (;;)
        __asm__ volatile("cli\n\tpause");
    return true;
}

static void wait_for_worker(worker_function *work)
{
    uint64_t now_ns = clock_now_ns(), check_ns = now_ns;
    const uint64_t end_ns = now_ns + 5 * NS_PER_S;
    ASSERT(work != NULL);
    workers_give(workers_count(), work);
    for (; now_ns < end_ns; now_ns = clock_now_ns()) {
        clock_spin_us(1000);
        watchdog_beat();
        if (now_ns >= check_ns) {
            watchdog_check_workers();
            check_ns = now_ns + NS_PER_S;
        }
        failure_of_workers();
    }
}

static void trap_worker_null(void) { wait_for_worker(worker_null); }
static void trap_worker_assert(void) { wait_for_worker(worker_assert); }
static void trap_worker_stack(void) { wait_for_worker(worker_stack); }
static void trap_worker_hang(void) { wait_for_worker(worker_hang); }

static const struct {
    const char *word;
    void (*fail)(void);
} tests[] = {
    { "divide", trap_divide },
    { "null", trap_null },
    { "text", trap_text },
    { "rodata", trap_rodata },
    { "execute", trap_execute },
    { "execute-stack", trap_execute_stack },
    { "stack", trap_stack },
    { "opcode", trap_opcode },
    { "double", trap_double },
    { "nested", trap_nested },
    { "chain", trap_chain },
    { "wait", trap_wait },
    { "hang", trap_hang },
    { "hang-deaf", trap_hang_deaf },
    { "assert", trap_assert },
    { "panic", trap_panic },
    { "worker-null", trap_worker_null },
    { "worker-assert", trap_worker_assert },
    { "worker-stack", trap_worker_stack },
    { "worker-hang", trap_worker_hang },
    { "sealed", trap_sealed },
    { "memory", trap_memory },
};

bool selftest_trap(const char *word)
{
    ASSERT(word[0] != '\0');
    for (size_t i = 0; i < ARRAY_COUNT(tests); i++) {
        if (strcmp(word, tests[i].word) == 0) {
            tests[i].fail();
            panic("test.trap=%s did not trap", word);
        }
    }
    if (selftest_exception(word))
        panic("test.trap=%s did not trap", word);
    return false;
}
