#include "tests/lib/fake_cpu.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"

enum { FAKE_COUNT_MAX = 32 };

static struct {
    uint32_t leaf;
    struct cpuid value;
} leaves[FAKE_COUNT_MAX];
static struct {
    uint32_t msr;
    uint64_t value;
} msrs[FAKE_COUNT_MAX];
static size_t leaf_count, msr_count;
void (*fake_cpu_msr_written)(uint32_t msr, uint64_t value);
struct fake_cpu fake_cpu;

void fake_cpu_reset(void)
{
    leaf_count = msr_count = 0;
    fake_cpu_msr_written = NULL;
    fake_cpu = (struct fake_cpu){ 0 };
}

void fake_cpu_leaf(uint32_t leaf, struct cpuid value)
{
    ASSERT(leaf_count < FAKE_COUNT_MAX);
    leaves[leaf_count].leaf = leaf;
    leaves[leaf_count++].value = value;
}

void fake_cpu_msr(uint32_t msr, uint64_t value)
{
    ASSERT(msr_count < FAKE_COUNT_MAX);
    msrs[msr_count].msr = msr;
    msrs[msr_count++].value = value;
}

struct cpuid cpuid(uint32_t leaf, uint32_t subleaf)
{
    for (size_t i = 0; i < leaf_count && subleaf == 0; i++)
        if (leaves[i].leaf == leaf)
            return leaves[i].value;
    return (struct cpuid){ 0 };
}

uint64_t msr_read(uint32_t msr)
{
    size_t i = 0;
    while (i < msr_count && msrs[i].msr != msr)
        i++;
    ASSERT(i < msr_count);
    return msrs[i].value;
}

void msr_write(uint32_t msr, uint64_t value)
{
    if (fake_cpu_msr_written != NULL)
        fake_cpu_msr_written(msr, value);
}

uint64_t cr4_read(void) { return fake_cpu.cr4; }
void cr4_write(uint64_t value) { fake_cpu.cr4 = value; }
void cr3_write(uint64_t value) { fake_cpu.cr3 = value; }
void xcr0_write(uint64_t value) { fake_cpu.xcr0 = value; }
void idt_load(const struct descriptor_table *table) { fake_cpu.idt = *table; }
bool rdrand(uint64_t *word) { return fake_cpu.draw(false, word); }
bool rdseed(uint64_t *word) { return fake_cpu.draw(true, word); }
