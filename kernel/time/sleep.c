/* Halts the CPU until the APIC's timer or a device's message. Knows no device. */
#include "kernel/time/sleep.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/x86_spec.h"
#include "kernel/time/clock.h"

/* With it the number of ticks fits into 64 bits for any timer; after the division, into 32 for those up to 400 MHz. */
#define SLEEP_NS_MAX (10 * NS_PER_S)

enum {
    CALIBRATION_US = 2000,
    TICKS_PER_MS_MIN = 100, /* a timer slower than 100 kHz is not believed */
};

static uint32_t ticks_per_ms;

bool sleep_init(void)
{
    if (!apic_present() || apic_id() > 0xff) /* a message's destination has 8 bits */
        return false;
    /* SDM vol. 3, "Local APIC State After Power-Up or Reset": deliver; "Task and Processor Priorities": of every
     * priority; "APIC Timer": one shot, with our vector. */
    apic_write(APIC_SVR, BIT(APIC_SVR_ENABLE_BIT) | VECTOR_SPURIOUS);
    apic_write(APIC_TPR, 0);
    apic_write(APIC_TIMER_DIVIDE, APIC_TIMER_DIVIDE_BY_16);
    apic_write(APIC_LVT_TIMER, VECTOR_WAKE);
    uint64_t begin_ns = clock_now_ns();
    apic_write(APIC_TIMER_INITIAL, UINT32_MAX);
    clock_spin_us(CALIBRATION_US);
    uint64_t ticks = UINT32_MAX - apic_read(APIC_TIMER_CURRENT);
    uint64_t end_ns = clock_now_ns();
    ASSERT(end_ns > begin_ns);
    apic_write(APIC_TIMER_INITIAL, 0);
    ticks_per_ms = (uint32_t)(ticks * NS_PER_MS / (end_ns - begin_ns));
    log_line("sleep: APIC timer %u kHz", ticks_per_ms);
    return ticks_per_ms >= TICKS_PER_MS_MIN;
}

uint64_t sleep_message_address(void)
{
    if (!apic_present())
        return 0;
    return APIC_MSI_ADDRESS | apic_id() << APIC_MSI_DESTINATION_BIT;
}

uint32_t sleep_message_data(void) { return VECTOR_WAKE; /* fixed delivery, edge */ }

void sleep_until_ns(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns <= now_ns)
        return;
    ASSERT(ticks_per_ms >= TICKS_PER_MS_MIN);
    uint64_t sleep_ns = min_size(deadline_ns - now_ns, SLEEP_NS_MAX);
    uint64_t ticks = sleep_ns * ticks_per_ms / NS_PER_MS;
    apic_write(APIC_TIMER_INITIAL, ticks == 0 ? 1 : (uint32_t)min_u64(ticks, UINT32_MAX));
    /* SDM vol. 2, STI: interrupts are recognised only after the next instruction. So one that is already pending, or
     * comes between the two, ends the HLT; none is lost in front of it. */
    __asm__ volatile("sti\n\thlt\n\tcli" : : : "memory");
    /* The timer is not stopped: that would be one more exit before the frame is seen. If it runs out later, it ends the
     * next sleep early. */
}
