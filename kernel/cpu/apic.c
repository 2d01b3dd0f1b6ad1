/* Registers of the local APIC. Knows no interrupt's meaning: the timer, the NMI and the workers belong to others. */
#include "kernel/cpu/apic.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "kernel/cpu/apic_spec.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/x86_spec.h"

enum { SEND_POLLS_MAX = 100000 }; /* an interrupt is delivered within microseconds */

static volatile uint32_t *registers; /* NULL: none, off, or x2APIC */
static bool x2apic;

void apic_init(apic_map *map)
{
    static const uint16_t entries[] = { APIC_LVT_TIMER, APIC_LVT_THERMAL, APIC_LVT_PERFORMANCE, APIC_LVT_LINT0,
                                        APIC_LVT_ERROR }; /* LINT1 stays: it is the NMI */
    uint64_t base = msr_read(IA32_APIC_BASE);
    if (!(base & BIT(APIC_BASE_EN_BIT)))
        return;
    x2apic = base & BIT(APIC_BASE_EXTD_BIT);
    if (!x2apic)
        registers = map(base & PAGE_ADDRESS_MASK, APIC_BYTES);
    ASSERT(apic_present());
    for (size_t i = 0; i < ARRAY_COUNT(entries); i++)
        apic_write(entries[i], apic_read(entries[i]) | (uint32_t)BIT(APIC_LVT_MASKED_BIT));
}

bool apic_present(void) { return x2apic || registers != NULL; }

uint32_t apic_read(uint16_t offset)
{
    ASSERT(apic_present());
    return x2apic ? (uint32_t)msr_read(APIC_X2APIC_MSR + offset / 16u) : registers[offset / 4];
}

void apic_write(uint16_t offset, uint32_t value)
{
    ASSERT(apic_present());
    if (x2apic)
        msr_write(APIC_X2APIC_MSR + offset / 16u, value);
    else
        registers[offset / 4] = value;
}

uint32_t apic_id(void)
{
    uint32_t id = apic_read(APIC_ID);
    return x2apic ? id : id >> 24;
}

bool apic_reaches(uint32_t to_apic_id) { return to_apic_id < (x2apic ? UINT32_MAX : UINT8_MAX); }

void apic_send(uint32_t to_apic_id, uint32_t command)
{
    if (x2apic) {
        /* SDM vol. 3, "MSR Access in x2APIC Mode": this WRMSR does not wait for earlier stores, and the other CPU
         * must find them made. */
        __asm__ volatile("mfence\n\tlfence" : : : "memory");
        msr_write(APIC_X2APIC_MSR + APIC_ICR_LOW / 16u, (uint64_t)to_apic_id << 32 | command);
        return;
    }
    ASSERT(apic_reaches(to_apic_id));
    for (int polls = 0; polls < SEND_POLLS_MAX && (apic_read(APIC_ICR_LOW) & BIT(APIC_ICR_PENDING_BIT)); polls++)
        cpu_pause();
    apic_write(APIC_ICR_HIGH, to_apic_id << 24);
    apic_write(APIC_ICR_LOW, command);
}

void apic_end_interrupt(void)
{
    if (apic_present())
        apic_write(APIC_EOI, 0);
}
