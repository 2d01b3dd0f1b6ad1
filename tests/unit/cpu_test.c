/* kernel/cpu/cpu.c, random.c and traps.c over a CPU of made-up leaves, registers and random words. The instructions
 * themselves are executed by tests/guest/test_machine.py, and segments.c is tested there alone. */
#include "kernel/cpu/cpu.h"

#include "base/cycles.h"
#include "base/log.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/hypervisor.h"
#include "kernel/cpu/segments.h"
#include "kernel/cpu/traps.h"
#include "tests/lib/fake_cpu.h"
#include "tests/lib/fake_ports.h"
#include "tests/lib/test.h"

/* No two timings differ, so that all that differs comes from the other sources. */
#define cycles_now() tsc
static uint64_t tsc;
#include "kernel/cpu/random.c"

static struct {
    uint16_t port;
    uint32_t value;
} writes[4 * JITTER_SAMPLES];
static size_t write_count;
static int segments_count, ended_count;
static uint32_t segments_worker;
static uint64_t log_begin;
uint64_t trap_stubs[VECTOR_COUNT]; /* boot/traps.asm */

void segments_init(void) { segments_count++; }
void segments_init_worker(uint32_t worker) { segments_worker = worker; }
void apic_end_interrupt(void) { ended_count++; }

static void port_written(uint16_t port, uint32_t bytes, uint32_t value)
{
    assert_int_equal(bytes, 1);
    assert_true(write_count < ARRAY_COUNT(writes));
    writes[write_count].port = port;
    writes[write_count++].value = value;
}

BEFORE_EACH()
{
    fake_cpu_reset();
    fake_ports_reset(0);
    fake_ports_written = port_written;
    write_count = 0;
    memset(&cpu, 0, sizeof cpu);
    memset(&hypervisor, 0, sizeof hypervisor);
    segments_count = ended_count = 0;
    log_begin = log_end();
}

static void assert_logged(const char *text)
{
    char line[LOG_LINE_BYTES_MAX + 1] = "";
    line[log_read(&log_begin, line)] = '\0';
    if (strstr(line, text) == NULL)
        fail_msg("%s, not: %s", text, line);
}

/* ---- cpu.c ---- */

enum { EAX, EBX, ECX, EDX };

/* Returns a letter for each thing that the kernel finds and switches on. The CPU has all, but one register of one leaf
 * holds `value`. */
static const char *found(uint32_t leaf, int place, uint32_t value, bool plain)
{
    struct {
        uint32_t leaf, registers[4];
    } leaves[] = {
        { 0, { 0xd, 0x756e6547, 0x6c65746e, 0x49656e69 } },
        { 1, { 0, 0, BIT(26) | BIT(30) | BIT(31), BIT(7) } },
        { 7, { 0, BIT(5) | BIT(7) | BIT(8) | BIT(16) | BIT(17) | BIT(18) | BIT(20) | BIT(30) | BIT(31), BIT(2), 0 } },
        { 0xb, { 0xffffffe1, 2, 0xffff01ff, 0 } },
        { 0xd, { 0xe7, 0, 0, 0 } },
        { 0x40000000, { 0x40000001, 0x4b4d564b, 0x564b4d56, 0x4d } },
        { 0x80000000, { 0x80000008, 0, 0, 0 } },
        { 0x80000001, { 0, 0, 0, BIT(26) } },
        { 0x80000002, { 0x65646f4d, 0x2020206c, 0, 0 } },
        { 0x80000007, { 0, 0, 0, BIT(8) } },
        { 0x80000008, { 0xff30, 0, 0, 0 } },
    };
    static char letters[16];
    test_before_each();
    for (size_t i = 0; i < ARRAY_COUNT(leaves); i++) {
        uint32_t *r = leaves[i].registers;
        if (leaves[i].leaf == leaf)
            r[place] = value;
        fake_cpu_leaf(leaves[i].leaf, (struct cpuid){ r[0], r[1], r[2], r[3] });
    }
    fake_cpu.cr4 = BIT(5);
    cpu_init(plain);
    assert_true((fake_cpu.cr4 & ~(BIT(6) | BIT(11) | BIT(18) | BIT(20) | BIT(21))) == BIT(5));
    assert_int_equal(fake_cpu.xcr0, cpu.xcr0);
    snprintf(letters, sizeof letters, "%s%s%s%s%s%s%s%s%s%s%s%s", cpu.gib_pages ? "G" : "",
             cpu.tsc_invariant ? "T" : "", cpu.rdrand ? "R" : "", cpu.rdseed ? "S" : "", cpu.avx2 ? "2" : "",
             cpu.avx512 ? "5" : "", fake_cpu.cr4 & BIT(6) ? "M" : "", fake_cpu.cr4 & BIT(11) ? "U" : "",
             fake_cpu.cr4 & BIT(18) ? "X" : "", fake_cpu.cr4 & BIT(20) ? "P" : "", fake_cpu.cr4 & BIT(21) ? "A" : "",
             hypervisor.name[0] ? "H" : "");
    return letters;
}

TEST(each_bit_of_cpuid_switches_its_own_feature_on)
{
    static const struct {
        uint32_t leaf;
        int place;
        uint32_t value;
        const char *found;
        uint64_t xcr0;
    } rows[] = {
        { 1, ECX, BIT(30) | BIT(31), "GTRSMUPAH", 0 },
        { 1, ECX, BIT(26) | BIT(31), "GTS25MUXPAH", 0xe7 },
        { 1, ECX, BIT(26) | BIT(30), "GTRS25MUXPA", 0xe7 },
        { 1, EDX, ~BIT(7) & UINT32_MAX, "GTRS25UXPAH", 0xe7 },
        { 7, EBX, BIT(5) | BIT(8), "GTR2MUXH", 0xe7 },
        { 7, EBX, BIT(5), "GTRMUXH", 0xe7 },
        { 7, EBX, BIT(8), "GTRMUXH", 0xe7 },
        { 7, EBX, BIT(18), "GTRSMUXH", 0xe7 },
        { 7, EBX, BIT(7), "GTRMUXPH", 0xe7 },
        { 7, EBX, BIT(20), "GTRMUXAH", 0xe7 },
        { 7, EBX, ~BIT(16) & UINT32_MAX, "GTRS2MUXPAH", 0xe7 },
        { 7, EBX, ~BIT(17) & UINT32_MAX, "GTRS2MUXPAH", 0xe7 },
        { 7, EBX, ~BIT(30) & UINT32_MAX, "GTRS2MUXPAH", 0xe7 },
        { 7, EBX, ~BIT(31) & UINT32_MAX, "GTRS2MUXPAH", 0xe7 },
        { 7, ECX, 0, "GTRS25MXPAH", 0xe7 },
        { 0xd, EAX, 0xe3, "GTRSMUXPAH", 3 },
        { 0xd, EAX, 0xc7, "GTRS2MUXPAH", 7 },
        { 0xd, EAX, 0xa7, "GTRS2MUXPAH", 7 },
        { 0xd, EAX, 0x67, "GTRS2MUXPAH", 7 },
        { 0, EAX, 0xd, "GTRS25MUXPAH", 0xe7 },
        { 0, EAX, 0xc, "GTRSMUPAH", 0 },
        { 0, EAX, 7, "GTRSMUPAH", 0 },
        { 0, EAX, 6, "GTRMH", 0 },
        { 0x80000001, EDX, ~BIT(26) & UINT32_MAX, "TRS25MUXPAH", 0xe7 },
        { 0x80000007, EDX, ~BIT(8) & UINT32_MAX, "GRS25MUXPAH", 0xe7 },
        { 0x80000000, EAX, 0x80000007, "GTRS25MUXPAH", 0xe7 },
        { 0x80000000, EAX, 0x80000006, "GRS25MUXPAH", 0xe7 },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(found(rows[i].leaf, rows[i].place, rows[i].value, false), rows[i].found);
        assert_int_equal(cpu.xcr0, rows[i].xcr0);
    }
    assert_string_equal(found(0, EAX, 0xd, true), "GTMUPAH"); /* simd=scalar */
}

TEST(numbers_and_names_are_those_of_the_leaves)
{
    found(0, EAX, 0xd, false);
    assert_string_equal(cpu.vendor, "GenuineIntel");
    assert_int_equal(cpu.address_bits, 0x30);
    assert_int_equal(cpu.thread_bits, 1);
    cpu_report();
    assert_logged("cpu: Model   , hypervisor KVMKVMKVM, xcr0 0xe7, avx2, avx512, 1 GiB pages, rdseed, rdrand");
    cpu_init_worker(0x1234);
    assert_int_equal(fake_cpu.cr4, 0x1234);
    fake_cpu.xcr0 = 0;
    cpu_init_worker(0x1234);
    assert_int_equal(fake_cpu.xcr0, 0xe7);
    found(0x80000008, EAX, 53, false); /* more than an entry of a page table holds */
    assert_int_equal(cpu.address_bits, 52);
    found(0x80000000, EAX, 0x80000007, false);
    assert_int_equal(cpu.address_bits, 36);
    found(0x80000000, EAX, 0x80000003, false);
    cpu_report();
    assert_logged("cpu: GenuineIntel, ");
    static const uint32_t no_threads[][2] = { { EBX, 0xffff0000 }, { ECX, 0x200 }, { ECX, 0 } };
    for (size_t i = 0; i < ARRAY_COUNT(no_threads); i++) {
        found(0xb, (int)no_threads[i][0], no_threads[i][1], false);
        assert_int_equal(cpu.thread_bits, 0);
    }
    found(0, EAX, 0xa, false);
    assert_int_equal(cpu.thread_bits, 0);
    found(0, EAX, 0xb, false);
    assert_int_equal(cpu.thread_bits, 1);
    fake_cpu.xcr0 = 0x55;
    cpu_init_worker(0); /* without XSAVE */
    assert_int_equal(fake_cpu.xcr0, 0x55);
}

/* ---- random.c ---- */

static uint64_t words[HARDWARE_WORDS];
static unsigned drawn, refused, refusals, seeds;

static bool draw(bool seed, uint64_t *word)
{
    seeds += seed;
    if (refused < refusals) {
        refused++;
        return false;
    }
    refused = 0;
    *word = words[drawn++ % HARDWARE_WORDS];
    return true;
}

/* Seeds, and draws 48 bytes. */
static void seed_and_draw(const char *boot, uint8_t out[48])
{
    test_before_each();
    fake_cpu.draw = draw;
    drawn = refused = seeds = 0;
    cpu.rdrand = cpu.rdseed = true;
    random_init(boot, strlen(boot));
    random_bytes(out, 48);
}

TEST(each_source_changes_the_bytes)
{
    uint8_t plain[48], other[48];
    for (uint64_t i = 0; i < HARDWARE_WORDS; i++)
        words[i] = 100 + i;
    refusals = 0;
    seed_and_draw("boot", plain);
    assert_int_equal(drawn, 2 * HARDWARE_WORDS);
    assert_int_equal(seeds, HARDWARE_WORDS);
    assert_int_equal(write_count, JITTER_SAMPLES);
    assert_logged("seeded by rdseed, rdrand, timing jitter");
    seed_and_draw("boot", other);
    assert_memory_equal(plain, other, 48);
    seed_and_draw("Boot", other);
    assert_memory_not_equal(plain, other, 48);
    words[7]++;
    seed_and_draw("boot", other);
    assert_memory_not_equal(plain, other, 48);
    words[7]--;
    tsc++;
    seed_and_draw("boot", other);
    assert_memory_not_equal(plain, other, 48);
    assert_logged("seeded by rdseed, rdrand, timing");
    cpu.rdrand = false;
    random_init("boot", 4);
    assert_logged("seeded by rdseed, timing");
    cpu.rdseed = false;
    random_init("boot", 4);
    assert_logged("seeded by timing");
}

TEST(words_that_repeat_are_no_seed)
{
    static const struct {
        uint64_t words[HARDWARE_WORDS];
        const char *seeded;
    } rows[] = {
        { { 1, 2, 3, 4, 4, 4, 4, 4 }, "seeded by rdseed, rdrand, timing" },
        { { 1, 2, 3, 3, 3, 3, 3, 3 }, "seeded by timing" },
        { { 0, 1, 0, 2, 0, 3, 0, 4 }, "seeded by rdseed, rdrand, timing" },
        { { 0, 1, 0, 2, 0, 3, 0, 0 }, "seeded by timing" },
        { { UINT64_MAX, 1, UINT64_MAX, 2, UINT64_MAX, 3, UINT64_MAX, UINT64_MAX }, "seeded by timing" },
    };
    uint8_t out[48];
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        memcpy(words, rows[i].words, sizeof words);
        seed_and_draw("boot", out);
        assert_logged(rows[i].seeded);
    }
    refusals = HARDWARE_TRIES - 1; /* a generator that is nearly dry */
    seed_and_draw("boot", out);
    assert_int_equal(drawn, 2 * HARDWARE_WORDS);
    refusals = UINT32_MAX; /* one that is dry: an end comes all the same */
    seed_and_draw("boot", out);
    assert_logged("seeded by timing");
}

/* Bytes are SHA-256(key, counter), and the key after them is that of counter 0, which nobody gets. */
TEST(key_is_replaced_after_each_output)
{
    uint8_t first[SHA256_BYTES + 1], second[SHA256_BYTES + 1], digest[SHA256_BYTES], before[SHA256_BYTES];
    random_init("boot", 4);
    memcpy(before, key, sizeof key);
    random_bytes(first, sizeof first);
    struct sha256 hash;
    for (uint64_t counter = 0; counter <= 2; counter++) {
        sha256_begin(&hash);
        sha256_add(&hash, before, sizeof before);
        sha256_add(&hash, &counter, sizeof counter);
        sha256_finish(&hash, digest);
        assert_memory_equal(counter == 0 ? key : first + (counter - 1) * SHA256_BYTES, digest, counter == 2 ? 1 : 32);
    }
    random_bytes(second, sizeof second);
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_not_equal(before, key, sizeof key);
}

/* ---- traps.c ---- */

static const struct trap_frame *handled;
static void handle(const struct trap_frame *frame) { handled = frame; }

TEST(each_vector_has_its_gate_and_its_stack)
{
    for (uint64_t i = 0; i < VECTOR_COUNT; i++)
        trap_stubs[i] = UINT64_C(0x123456789abc0000) + i;
    traps_init(handle);
    assert_int_equal(segments_count, 1);
    assert_int_equal(fake_cpu.idt.limit, VECTOR_COUNT * sizeof(struct idt_gate) - 1);
    const struct idt_gate *gates = (const struct idt_gate *)fake_cpu.idt.base; /* NOLINT(performance-no-int-to-ptr) */
    for (uint32_t i = 0; i < VECTOR_COUNT; i++) {
        int ist = i == 8 ? IST_DOUBLE_FAULT : i == 2 ? IST_NMI : i == 18 ? IST_MACHINE_CHECK : IST_TRAP;
        struct idt_gate gate = { (uint16_t)i, SELECTOR_CODE, (uint8_t)ist, 0x8e, 0x9abc, 0x12345678, 0 };
        assert_memory_equal(&gates[i], &gate, sizeof gate);
    }
    memset(&fake_cpu.idt, 0, sizeof fake_cpu.idt);
    traps_init_worker(3);
    assert_int_equal(segments_worker, 3);
    assert_ptr_equal(fake_cpu.idt.base, gates);

    static const uint16_t pic[][2] = { { 0x20, 0x11 }, { 0xa0, 0x11 }, { 0x21, 0x20 }, { 0xa1, 0x28 }, { 0x21, 4 },
                                       { 0xa1, 2 },    { 0x21, 1 },    { 0xa1, 1 },    { 0x21, 255 },  { 0xa1, 255 } };
    assert_int_equal(write_count, ARRAY_COUNT(pic)); /* 8259A data sheet, "Initialization Command Words" */
    for (size_t i = 0; i < write_count; i++)
        assert_true(writes[i].port == pic[i][0] && writes[i].value == pic[i][1]);
}

TEST(exceptions_are_handled_and_interrupts_dismissed)
{
    traps_init(handle);
    write_count = 0;
    uint64_t unexpected = traps_unexpected_count;
    for (uint64_t vector = 0; vector < VECTOR_COUNT; vector++) {
        const struct trap_frame frame = { .vector = vector };
        handled = NULL;
        trap_handle(&frame);
        assert_ptr_equal(handled, vector < VECTOR_EXCEPTION_COUNT ? &frame : NULL);
    }
    assert_int_equal(ended_count, VECTOR_COUNT - VECTOR_EXCEPTION_COUNT);
    assert_int_equal(traps_unexpected_count - unexpected, ended_count - 1); /* VECTOR_WAKE is expected */
    assert_int_equal(write_count, 2 * (ended_count - 1));
    assert_true(writes[0].port == 0xa0 && writes[0].value == 0x20 && writes[1].port == 0x20 && writes[1].value == 0x20);
    assert_string_equal(trap_name(VECTOR_PF), "page fault");
    assert_string_equal(trap_name(VECTOR_EXCEPTION_COUNT - 1), "reserved");
}
