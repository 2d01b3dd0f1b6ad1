/* kernel/cpu/workers.c: which CPUs are chosen and started, on machines with holes in their APIC ids, with CPUs that do
 * not come up, or come too late. */
#include "kernel/cpu/cpu.h"
#include "tests/lib/fake_cpu.h"
#include "tests/lib/test.h"

/* The state of the one module starts again with each test. */
#include "kernel/cpu/workers.c"

enum { CPU_COUNT_MAX = 66, X2APIC_ICR = APIC_X2APIC_MSR + APIC_ICR_LOW / 16 };

enum fate {
    COMES_UP,
    DEAD,
    LATE,     /* has its stack at once, and comes up 50 ms later */
    TOO_LATE, /* comes when the next one is started */
    LOST,     /* has its stack, and never comes up */
};

static struct {
    uint32_t ids[CPU_COUNT_MAX];
    enum fate fates[CPU_COUNT_MAX];
    size_t count;
    uint32_t started[CPU_COUNT_MAX]; /* SIPIs that each got */
    uint32_t late;                   /* a worker that comes up at `late_us`; 0: none */
    uint64_t us, late_us;
} machine;

struct cpu cpu;
__asm__(".pushsection .rodata\n.globl cpu_start_begin, cpu_start_end\n"
        "cpu_start_begin: .byte 0xf4\ncpu_start_end: .byte 0\n.popsection");
static uint8_t start_page[START_PAGE_BYTES];
static uint32_t registers[APIC_BYTES / sizeof(uint32_t)];
static int map_count;

void cpu_init_worker(uint64_t cr4) { (void)cr4; }
void traps_init_worker(uint32_t worker) { (void)worker; }

static uint32_t id_of(size_t index) { return machine.ids[index]; }
static void *claim(uint64_t address, size_t bytes)
{
    assert_int_equal(address, START_PAGE);
    assert_int_equal(bytes, sizeof start_page);
    return start_page;
}

static void wait_us(uint32_t us)
{
    machine.us += us;
    if (machine.late != 0 && machine.us >= machine.late_us)
        workers[machine.late].is_up = true;
}

/* Takes the stack, as boot/worker.asm does. Returns the worker; 0: there is none for this CPU. */
static uint32_t take_stack(uint32_t id)
{
    uint64_t top = worker_stack_top;
    worker_stack_top = 0;
    uint32_t worker = top != 0 ? stack_worker(top - 1) : 0;
    workers[worker].apic_id = id;
    return worker;
}

static void come_up(uint32_t id)
{
    uint32_t worker = take_stack(id);
    if (worker != 0)
        workers[worker].is_up = true;
}

static void sipi(size_t index)
{
    machine.started[index]++;
    for (size_t i = 0; i < index; i++)
        if (machine.fates[i] == TOO_LATE)
            come_up(machine.ids[i]);
    if (machine.fates[index] == COMES_UP)
        come_up(machine.ids[index]);
    else if (machine.fates[index] == LOST)
        take_stack(machine.ids[index]);
    else if (machine.fates[index] == LATE && machine.late == 0) {
        machine.late = take_stack(machine.ids[index]);
        machine.late_us = machine.us + START_WAIT_US * 2 + 50000;
    }
}

static void msr_written(uint32_t msr, uint64_t value)
{
    if (msr != X2APIC_ICR || ((uint32_t)value & APIC_ICR_STARTUP) != APIC_ICR_STARTUP)
        return;
    for (size_t i = 0; i < machine.count; i++)
        if (machine.ids[i] == value >> 32)
            sipi(i);
}

static volatile void *map(uint64_t physical, size_t bytes)
{
    (void)physical;
    assert_true(bytes <= sizeof registers);
    map_count++;
    return registers;
}

static void apic_begin(bool is_x2apic)
{
    static const uint16_t offsets[] = { APIC_ID,        APIC_LVT_TIMER, APIC_LVT_THERMAL, APIC_LVT_PERFORMANCE,
                                        APIC_LVT_LINT0, APIC_LVT_ERROR };
    fake_cpu_reset();
    fake_cpu_msr(IA32_APIC_BASE, BIT(APIC_BASE_EN_BIT) | (is_x2apic ? BIT(APIC_BASE_EXTD_BIT) : 0));
    for (size_t i = 0; i < ARRAY_COUNT(offsets); i++)
        fake_cpu_msr(APIC_X2APIC_MSR + offsets[i] / 16u, 0);
    map_count = 0;
    apic_init(map);
    assert_int_equal(map_count, is_x2apic ? 0 : 1);
    fake_cpu_msr_written = msr_written;
}

BEFORE_EACH()
{
    memset(&machine, 0, sizeof machine);
    memset(workers, 0, sizeof workers);
    count = 0;
    cpu.thread_bits = 0;
    apic_begin(true);
}

static void cpus_are(size_t cpu_count, const uint32_t *ids)
{
    machine.count = cpu_count;
    memcpy(machine.ids, ids, cpu_count * sizeof ids[0]);
}
#define CPUS(...) cpus_are(sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), (const uint32_t[]){ __VA_ARGS__ })

static uint32_t start(size_t wanted)
{
    return workers_start(&(struct workers_config){
        .wanted = wanted, .cpu_count = machine.count, .cpu_apic_id = id_of, .claim = claim, .wait_us = wait_us });
}

TEST(apic_ids_have_holes_and_more_than_8_bits)
{
    CPUS(0, 2, 255, 300, 70000, 1, UINT32_MAX); /* the last means all of them */
    assert_int_equal(start(WORKER_COUNT_MAX), 5);
    for (uint32_t i = 1; i <= 5; i++)
        assert_int_equal(workers[i].apic_id, machine.ids[i]);
}

TEST(ids_of_more_than_8_bits_need_x2apic)
{
    static uint32_t chosen[WORKER_COUNT_MAX];
    apic_begin(false);
    CPUS(0, 1, 254, 255, 256, 70000);
    config = (struct workers_config){ .cpu_count = machine.count, .cpu_apic_id = id_of };
    assert_int_equal(choose(chosen, WORKER_COUNT_MAX), 2);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 254);
}

TEST(without_x2apic_the_registers_lie_in_memory)
{
    memset(registers, 0, sizeof registers);
    apic_begin(false);
    assert_int_equal(registers[APIC_LVT_LINT0 / 4], BIT(16)); /* masked */
    registers[APIC_ID / 4] = UINT32_C(5) << 24;
    assert_int_equal(apic_id(), 5);
    apic_send(7, APIC_ICR_NMI);
    assert_int_equal(registers[APIC_ICR_HIGH / 4], UINT32_C(7) << 24);
    assert_int_equal(registers[APIC_ICR_LOW / 4], APIC_ICR_NMI);
}

TEST(at_most_63_of_many_are_started)
{
    machine.count = CPU_COUNT_MAX;
    for (uint32_t i = 0; i < CPU_COUNT_MAX; i++)
        machine.ids[i] = i;
    assert_int_equal(start(WORKER_COUNT_MAX), WORKER_COUNT_MAX);
    assert_int_equal(machine.started[WORKER_COUNT_MAX + 1], 0);
}

TEST(hyperthreads_come_after_all_cores)
{
    cpu.thread_bits = 1;
    CPUS(0, 1, 2, 3, 4, 5);
    assert_int_equal(start(4), 4);
    static const uint32_t expected[] = { 2, 4, 1, 3 };
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++)
        assert_int_equal(workers[i + 1].apic_id, expected[i]);
}

/* Starts two CPUs, the first of which does not come up at once. A dead one's number goes to the next. A late one that
 * has its stack is waited for, and no other CPU gets the stack of one that is lost. */
TEST(no_two_cpus_ever_have_one_stack)
{
    static const struct {
        enum fate fate;
        uint32_t workers, sipis[2], ids[2];
    } rows[] = {
        { DEAD, 1, { 2, 1 }, { 2, 0 } },
        { LATE, 2, { 2, 1 }, { 1, 2 } },
        { TOO_LATE, 1, { 2, 1 }, { 1, 0 } }, /* by the stack that was laid out for CPU 2 */
        { LOST, 0, { 2, 0 }, { 0, 0 } },
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        test_before_each();
        CPUS(0, 1, 2);
        machine.fates[1] = rows[i].fate;
        assert_int_equal(start(2), rows[i].workers);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(machine.started[1 + k], rows[i].sipis[k]);
            if (k < rows[i].workers)
                assert_int_equal(workers[1 + k].apic_id, rows[i].ids[k]);
        }
    }
}

TEST(worker_that_does_not_hear_an_nmi_is_deaf_after_the_wait)
{
    CPUS(0, 5);
    assert_int_equal(start(1), 1);
    uint64_t begin_us = machine.us;
    failing = has_failed = false;
    assert_null(workers_failed());
    workers_stop(1);
    assert_int_equal(machine.us - begin_us, DEAF_WAIT_US);
    assert_non_null(workers_failed());
    assert_true(workers_failed()->is_deaf);
    assert_int_equal(workers_failed()->apic_id, 5);
    workers_stop(1); /* the worker has failed already */
    assert_int_equal(machine.us - begin_us, DEAF_WAIT_US);
    has_failed = false; /* another worker is about to write its failure */
    workers_stop(1);
    assert_null(workers_failed());
    failing = false;
}

static uint32_t worker_registers[0x40];
static void worker_register_written(uint32_t msr, uint64_t value)
{
    if (msr >= APIC_X2APIC_MSR)
        worker_registers[msr - APIC_X2APIC_MSR] = (uint32_t)value;
}
static void enter(void) {}

TEST(worker_takes_every_interrupt_and_wakes_by_its_timer)
{
    memset(worker_registers, 0xff, sizeof worker_registers);
    fake_cpu_msr_written = worker_register_written;
    config.enter = enter;
    registers_init(1);
    assert_int_equal(worker_registers[APIC_SVR / 16], 0x1ff); /* SDM vol. 3, "Spurious Interrupt": enabled */
    assert_int_equal(worker_registers[APIC_TPR / 16], 0);
    assert_int_equal(worker_registers[APIC_TIMER_DIVIDE / 16], 3);
    assert_int_equal(worker_registers[APIC_LVT_TIMER / 16], VECTOR_WAKE);
}
