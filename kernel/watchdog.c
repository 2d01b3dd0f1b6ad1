#include "kernel/watchdog.h"

#include <string.h>

#include "kernel/acpi.h"
#include "kernel/apic.h"
#include "kernel/apic_spec.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/blackbox.h"
#include "kernel/clock.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/reset.h"
#include "kernel/segments.h"
#include "kernel/stacks.h"
#include "kernel/x86_spec.h"

enum {
    START_PAGE = 0x8000,            /* where the CPU's first instructions go: SIPI names a page below 1 MiB */
    START_PAGE_BYTES = 4096,
    START_WAIT_US = 100000,
    /* Ticks of a sixteenth of the APIC timer's clock between two looks: 16 ms under KVM (1 GHz), 0.7 s at 24 MHz. */
    LOOK_TICKS = 1000000,
};

/* How long the NMI's dump may go without a beat before the second CPU resets the machine: a full log at 115200 baud takes
 * 5.7 s. */
#define DUMP_NS UINT64_C(8000000000)

extern const char cpu_start_begin[], cpu_start_end[];       /* boot/second.asm */
extern const uint64_t trap_stubs[VECTOR_COUNT];
_Noreturn void watchdog_cpu_main(void);

uint8_t watchdog_stack[16384] __attribute__((aligned(16)));
uint64_t watchdog_stack_end = (uintptr_t)watchdog_stack + sizeof watchdog_stack;
volatile uint64_t watchdog_beats;

static uint64_t timeout;
static uint64_t kernel_cr3, apic_base;
static uint32_t loop_apic_id;
static volatile bool running, fired;
static struct idt_gate idt[VECTOR_WAKE + 1];

bool watchdog_has_fired(void) { return fired; }

/* ------------------------------------------------------------------------------------------------ the second CPU */

/* A gate without IST, for this CPU has no TSS; any exception here is a triple fault, and so a reset. */
static void gate_set(void)
{
    uint64_t stub = trap_stubs[VECTOR_WAKE];
    idt[VECTOR_WAKE] = (struct idt_gate){
        .offset_low = (uint16_t)stub,
        .offset_middle = (uint16_t)(stub >> 16),
        .offset_high = (uint32_t)(stub >> 32),
        .selector = SELECTOR_CODE,
        .type = IDT_TYPE_INTERRUPT_GATE,
    };
}

static void nap(void)
{
    apic_write(APIC_TIMER_INITIAL, LOOK_TICKS);
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
}

static _Noreturn void fire(void)
{
    fired = true;
    apic_send(loop_apic_id, APIC_ICR_NMI);
    uint64_t seen = watchdog_beats, seen_ns = clock_now_ns();
    while (clock_now_ns() - seen_ns < DUMP_NS) {
        nap();
        if (watchdog_beats != seen) {
            seen = watchdog_beats;
            seen_ns = clock_now_ns();
        }
    }
    blackbox_write(BLACKBOX_FAILED, "watchdog: the loop stood still and did not answer an NMI");
    reset_now();
}

_Noreturn void watchdog_cpu_main(void)
{
    cr3_write(kernel_cr3);
    msr_write(IA32_APIC_BASE, (msr_read(IA32_APIC_BASE) & ~BIT(APIC_BASE_EXTD_BIT)) | apic_base);
    struct descriptor_table pointer = { sizeof idt - 1, (uintptr_t)idt };
    __asm__ volatile("lidt %0" : : "m"(pointer));
    apic_write(APIC_SVR, BIT(APIC_SVR_ENABLE_BIT) | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_16);
    apic_write(APIC_LVT_TIMER, VECTOR_WAKE);
    running = true;
    uint64_t seen = watchdog_beats, seen_ns = clock_now_ns();
    for (;;) {
        nap();
        uint64_t now_ns = clock_now_ns(), beats = watchdog_beats;
        if (beats != seen) {
            seen = beats;
            seen_ns = now_ns;
        } else if (now_ns > seen_ns && now_ns - seen_ns >= timeout) {
            fire();
        }
    }
}

/* ------------------------------------------------------------------------------------------------ starting it */

/* SDM vol. 3 §8.4.4.1, "Typical BSP Initialization Sequence": INIT, 10 ms, SIPI, and once more if it has to be. */
static bool cpu_start(uint32_t apic)
{
    apic_send(apic, APIC_ICR_INIT);
    clock_spin_us(10000);
    for (int tries = 0; tries < 2 && !running; tries++) {
        apic_send(apic, APIC_ICR_STARTUP | START_PAGE / START_PAGE_BYTES);
        for (int us = 0; us < START_WAIT_US && !running; us += 100) {
            clock_spin_us(100);
        }
    }
    return running;
}

static bool other_cpu(uint32_t *apic)
{
    for (size_t i = 0; i < acpi_cpu_count(); i++) {
        if (acpi_cpu_apic_id(i) != loop_apic_id) {
            *apic = acpi_cpu_apic_id(i);
            return true;
        }
    }
    return false;
}

bool watchdog_start(uint64_t timeout_ns)
{
    uint32_t apic;
    loop_apic_id = apic_present() ? apic_id() : 0;
    if (!apic_present() || !other_cpu(&apic)) {
        log_line("watchdog: no second CPU, so none");
        return false;
    }
    void *page = memory_claim(START_PAGE, START_PAGE_BYTES);
    if (page == NULL) {
        log_line("watchdog: none, the memory at 0x%x is not free", START_PAGE);
        return false;
    }
    memcpy(page, cpu_start_begin, (size_t)(cpu_start_end - cpu_start_begin));
    timeout = timeout_ns;
    kernel_cr3 = cr3_read();
    apic_base = msr_read(IA32_APIC_BASE) & BIT(APIC_BASE_EXTD_BIT);
    gate_set();
    bool up = cpu_start(apic);
    log_line("watchdog: CPU %u %s, after %u ms without a turn", apic, up ? "looks after the loop" : "did not start; none",
             (unsigned)(timeout_ns / 1000000));
    return up;
}
